//! A sandbox for a pod.

use std::path::Path;
use std::sync::Arc;

use api::objects::RuntimeClassError;
use seams::cri;
use seams::storage::perform;
use tracing::info;

use super::{Outcome, RETRY, grpc};
use crate::slot::Slot;
use crate::spec::dns::{PodDns, ResolvConf};
use crate::spec::sandbox::{SandboxSources, config, log_directory};
use crate::spec::security::PodSecurity;
use crate::spec::{About, spec_of};
use crate::task::Worker;
use crate::unseen::Made;

/// The logs of a pod, and the directory of all of them.
const LOGS: u32 = 0o755;
const ALL_LOGS: u32 = 0o750;

impl Worker {
    pub(super) async fn make_sandbox(&mut self, slot: &Slot, attempt: u32) -> Outcome {
        // Nothing of the one before may be left to be ended.
        if attempt > 0 && !std::mem::take(&mut self.told_of_change) {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.on.telling.normal(&slot.pod, "SandboxChanged", message);
        }
        let own_users = spec_of(&slot.pod).host_users == Some(false);
        self.on.metrics.sandboxes.inc();
        if own_users {
            self.on.metrics.user_namespaced.inc();
        }
        match self.try_sandbox(slot, attempt).await {
            Ok(()) => Outcome::Done,
            Err(None) => Outcome::Cut,
            Err(Some(problem)) => {
                self.on.metrics.sandbox_failures.inc();
                if own_users {
                    self.on.metrics.user_namespaced_failures.inc();
                }
                let message = format!("Failed to create pod sandbox: {problem}");
                let telling = &self.on.telling;
                telling.warning(&slot.pod, "FailedCreatePodSandBox", message);
                Outcome::Failed(self.on.spread(RETRY))
            }
        }
    }

    /// Without a problem: it was cut short.
    async fn try_sandbox(&mut self, slot: &Slot, attempt: u32) -> Result<(), Option<String>> {
        let on = Arc::clone(&self.on);
        let security = self.security(slot).await?;
        let config = self.sandbox_config(slot, attempt, &security)?;
        let directory = log_directory(&on.settings.logs, &slot.pod);
        make_log_directory(&on.storage, &directory).await?;
        let runtime_handler = self.runtime_handler(slot).await;
        let runtime_handler = runtime_handler.map_err(|error| Some(error.to_string()))?;
        let cut = self.cut(slot);
        tokio::pin!(cut);
        let turn = tokio::select! {
            turn = on.turns.take(self.rank(slot)) => turn,
            () = &mut cut => return Err(None),
        };
        let request = cri::RunPodSandboxRequest {
            config: Some(config),
            runtime_handler,
        };
        // The runtime undoes one that nobody waits for any more.
        let made = tokio::select! {
            made = turn.spend(&*on.clock, on.runtime.run_pod_sandbox(request)) => made,
            () = &mut cut => return Err(None),
        };
        let made = made.map_err(|error| Some(grpc(&error)))?;
        let id = made.pod_sandbox_id;
        info!(pod = %self.pod, sandbox = id, "a sandbox was made");
        self.unseen.add(Made::Sandbox(id), on.clock.uptime());
        Ok(())
    }

    /// What the runtime is told of the pod's class; nothing for a pod without one. Without
    /// an API server nobody knows any class.
    pub(crate) async fn runtime_handler(&self, slot: &Slot) -> Result<String, RuntimeClassError> {
        let spec = spec_of(&slot.pod);
        let class = spec.runtime_class_name.as_deref();
        let class = class.filter(|class| !class.is_empty());
        match (class, &self.on.objects) {
            (Some(class), Some(objects)) => objects.runtime_classes.handler(class).await,
            _ => Ok(String::new()),
        }
    }

    /// The same for a sandbox and for the containers in it.
    pub(super) fn sandbox_config(
        &self,
        slot: &Slot,
        attempt: u32,
        security: &PodSecurity,
    ) -> Result<cri::PodSandboxConfig, Option<String>> {
        let on = &self.on;
        let dns = self.dns(slot)?;
        let parent = on
            .cgroups
            .as_ref()
            .map(|groups| groups.parent_of(&slot.pod));
        let sources = SandboxSources {
            logs: &on.settings.logs,
            names: &on.settings.dns,
            dns: &dns,
            cgroup_parent: parent.as_deref().unwrap_or_default(),
            enforcement: &on.enforcement,
            security,
        };
        config(&slot.pod, attempt, &sources).map_err(|error| Some(error.to_string()))
    }

    fn dns(&self, slot: &Slot) -> Result<cri::DnsConfig, Option<String>> {
        let on = &self.on;
        let file = match &on.settings.resolv_conf {
            None => None,
            Some(path) => Some(read_resolv_conf(&on.host, path)?),
        };
        let mut settings = on.settings.dns.clone();
        settings.node_ips.clone_from(&on.node.borrow().host_ips);
        let PodDns { config, notices } = PodDns::of(&slot.pod, &settings, file.as_ref());
        for notice in notices {
            match notice.about {
                About::Pod => on.telling.warning(&slot.pod, notice.reason, notice.message),
                About::Node => on.warn_of_node(notice),
            }
        }
        Ok(config)
    }
}

fn read_resolv_conf(host: &seams::SharedHost, path: &Path) -> Result<ResolvConf, Option<String>> {
    let shown = path.display();
    let content = host.read(path).map_err(|error| Some(error.to_string()))?;
    let content = content.ok_or_else(|| {
        Some(format!(
            "open {shown}: no such file or directory: set resolvConf to the file with the node's name servers"
        ))
    })?;
    let text = String::from_utf8_lossy(&content);
    ResolvConf::parse(&text).map_err(|error| {
        Some(format!(
            "Encountered error while parsing resolv conf file. Error: {error}"
        ))
    })
}

async fn make_log_directory(
    storage: &seams::SharedStorage,
    directory: &Path,
) -> Result<(), Option<String>> {
    let directory = directory.to_owned();
    let made = perform(storage, move |storage| {
        storage.make_directory(&directory, LOGS, ALL_LOGS)
    });
    let made = made.await.and_then(|made| made);
    made.map(drop).map_err(|error| Some(error.to_string()))
}
