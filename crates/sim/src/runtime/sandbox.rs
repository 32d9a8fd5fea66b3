//! A sandbox: what the containers of a pod share.

use std::net::IpAddr;

use seams::cri;
use seams::cri::{NamespaceMode, PodSandboxState};

use super::ids::Id;
use super::labels::Labels;
use super::moment::Moment;
use super::story::Stories;

#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: Id,
    pub(super) metadata: cri::PodSandboxMetadata,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) log_directory: Box<str>,
    pub(super) stories: Stories,
    runtime_handler: Box<str>,
    namespaces: Option<Box<cri::NamespaceOption>>,
    /// Wall time.
    created: i64,
    ready: bool,
    /// None for a pod in the network of its host, nor for one that has ended.
    addresses: Box<[IpAddr]>,
}

impl Sandbox {
    pub(super) fn new(
        id: Id,
        metadata: cri::PodSandboxMetadata,
        config: cri::PodSandboxConfig,
        stories: Stories,
        now: Moment,
    ) -> Self {
        let namespaces = config
            .linux
            .and_then(|linux| linux.security_context)
            .and_then(|context| context.namespace_options);
        Self {
            id,
            metadata,
            labels: config.labels.into(),
            annotations: config.annotations.into(),
            log_directory: config.log_directory.into(),
            stories,
            runtime_handler: Box::default(),
            namespaces: namespaces.map(Box::new),
            created: now.wall,
            ready: true,
            addresses: Box::default(),
        }
    }

    pub(super) fn with_handler(mut self, handler: String) -> Self {
        self.runtime_handler = handler.into();
        self
    }

    pub(super) fn with_addresses(mut self, addresses: Box<[IpAddr]>) -> Self {
        self.addresses = addresses;
        self
    }

    pub(super) fn in_host_network(&self) -> bool {
        let network = self.namespaces.as_ref().map(|options| options.network);
        network == Some(i32::from(NamespaceMode::Node))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Its network goes with it.
    pub(super) fn end(&mut self) {
        self.ready = false;
        self.addresses = Box::default();
    }

    pub(super) fn state(&self) -> PodSandboxState {
        if self.ready {
            PodSandboxState::SandboxReady
        } else {
            PodSandboxState::SandboxNotready
        }
    }

    pub(super) fn to_cri(&self) -> cri::PodSandbox {
        cri::PodSandbox {
            id: self.id.to_string(),
            metadata: Some(self.metadata.clone()),
            state: self.state().into(),
            created_at: self.created,
            labels: self.labels.to_map(),
            annotations: self.annotations.to_map(),
            runtime_handler: self.runtime_handler.to_string(),
        }
    }

    pub(super) fn status(&self) -> cri::PodSandboxStatus {
        let mut addresses = self.addresses.iter().map(ToString::to_string);
        let network = cri::PodSandboxNetworkStatus {
            ip: addresses.next().unwrap_or_default(),
            additional_ips: addresses.map(|ip| cri::PodIp { ip }).collect(),
        };
        let options = self.namespaces.as_ref();
        cri::PodSandboxStatus {
            id: self.id.to_string(),
            metadata: Some(self.metadata.clone()),
            state: self.state().into(),
            created_at: self.created,
            network: Some(network),
            linux: Some(cri::LinuxPodSandboxStatus {
                namespaces: Some(cri::Namespace {
                    options: options.map(|options| cri::NamespaceOption::clone(options)),
                }),
            }),
            labels: self.labels.to_map(),
            annotations: self.annotations.to_map(),
            runtime_handler: self.runtime_handler.to_string(),
        }
    }
}
