//! The node's own `resolv.conf`, looked at once: pods are to inherit it.

use crate::foundations::Foundations;
use crate::spec::Notice;
use crate::spec::dns::check_file;

impl Foundations {
    /// Tells people if pods cannot have all of it.
    pub(crate) fn check_resolv_conf(&self) {
        let Some(path) = &self.settings.resolv_conf else {
            return;
        };
        let content = self.host.read(path).map_err(|error| error.cause);
        if let Some(notice) = check_file(path, content, &self.settings.dns) {
            self.warn_of_node(notice);
        }
    }

    pub(crate) fn warn_of_node(&self, notice: Notice) {
        let view = self.node.borrow();
        let node = view
            .node
            .as_ref()
            .and_then(|node| node.metadata.name.as_deref());
        if let Some(node) = node {
            let Notice {
                reason, message, ..
            } = notice;
            self.telling.node_warning(node, reason, message);
        }
    }
}
