//! How a row is written down: what is not said is the common case.

use crate::schema::{Default, Field, Kind, Presence, Stage};

/// A plain, stable field without a default, a flag or a limit.
pub(super) const fn row(path: &'static str, kind: Kind) -> Field {
    Field {
        path,
        kind,
        presence: Presence::Plain,
        default: Default::None,
        flag: None,
        stage: Stage::Stable,
        allowed: "",
        about: "",
    }
}

impl Field {
    pub(super) const fn optional(mut self) -> Self {
        self.presence = Presence::Optional;
        self
    }

    pub(super) const fn printed(mut self) -> Self {
        self.presence = Presence::Printed;
        self
    }

    pub(super) const fn emptiable(mut self) -> Self {
        self.presence = Presence::Emptiable;
        self
    }

    pub(super) const fn json(mut self, value: &'static str) -> Self {
        self.default = Default::Json(value);
        self
    }

    pub(super) const fn depends(mut self, how: &'static str) -> Self {
        self.default = Default::Depends(how);
        self
    }

    pub(super) const fn flag(mut self, name: &'static str) -> Self {
        self.flag = Some(name);
        self
    }

    pub(super) const fn deprecated(mut self, what_became_of_it: &'static str) -> Self {
        self.stage = Stage::Deprecated(what_became_of_it);
        self
    }

    pub(super) const fn gated(mut self, gate: &'static str) -> Self {
        self.stage = Stage::Gated(gate);
        self
    }

    pub(super) const fn allowed(mut self, values: &'static str) -> Self {
        self.allowed = values;
        self
    }

    pub(super) const fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }
}

/// The rows of all topics, one after the other. `N` is the sum of their
/// lengths; a wrong one does not compile.
pub(super) const fn concat<const N: usize>(topics: &[&[Field]]) -> [Field; N] {
    let mut all = [row("", Kind::Object); N];
    let mut filled = 0;
    let mut topic = 0;
    while topic < topics.len() {
        let mut index = 0;
        while index < topics[topic].len() {
            all[filled] = topics[topic][index];
            filled += 1;
            index += 1;
        }
        topic += 1;
    }
    assert!(filled == N, "N is not the number of rows");
    all
}
