//! All that a runtime remembers, and what its calls make of it.
//!
//! Nothing here waits. What happens by itself (a start that takes its time, a
//! program that ends) is made up for when somebody looks: [`State::settle`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use seams::cri;
use seams::cri::ContainerEventType as Kind;
use tokio::sync::Notify;

use super::container::{Container, Happening, MadeOf};
use super::events::Audience;
use super::ids::{Id, Ids, find};
use super::images::Images;
use super::moment::Moment;
use super::network::{NetworkError, PodNetwork};
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::story::Stories;
use super::streams::{Places, Wanted};

#[derive(Debug)]
pub(super) struct State {
    pub(super) images: Images,
    pub(super) audience: Audience,
    /// Rings at each change, for those who wait for one.
    pub(super) changed: Arc<Notify>,
    sandboxes: BTreeMap<Id, Sandbox>,
    containers: BTreeMap<Id, Container>,
    ids: Ids,
    network: Network,
    places: Places,
    /// The first of what will happen by itself; in uptime.
    next_change: Option<Duration>,
}

/// Where addresses come from.
#[derive(Debug)]
struct Network {
    /// Nothing until it was told, where it has to be.
    ranges: Option<PodNetwork>,
    last: u32,
}

impl State {
    /// `network` is for pods that come before the node has a range of its own.
    pub(super) fn new(seed: u64, network: Option<PodNetwork>) -> Self {
        Self {
            images: Images::default(),
            audience: Audience::default(),
            changed: Arc::default(),
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            ids: Ids::new(seed),
            network: Network {
                ranges: network,
                last: 0,
            },
            places: Places::default(),
            next_change: None,
        }
    }

    /// Makes up for what has happened by itself, in its order.
    pub(super) fn settle(&mut self, now: Moment) {
        while self.next_change.is_some_and(|next| next <= now.uptime) {
            let due = self.containers.values_mut().filter_map(|container| {
                let change = container.next_change()?;
                Some((change.uptime, container))
            });
            let first = due.min_by_key(|(change, _)| *change);
            if let Some((_, container)) = first
                && let Some(happening) = container.settle(now)
            {
                let id = Arc::clone(&container.id);
                let (kind, at) = match happening {
                    Happening::Started(at) => (Kind::ContainerStartedEvent, at),
                    Happening::Stopped(at) => (Kind::ContainerStoppedEvent, at),
                };
                self.tell_of_container(kind, &id, at);
            }
            self.foresee();
        }
    }

    /// After what a container will do has been changed.
    fn make_up(&mut self, now: Moment) {
        self.foresee();
        self.settle(now);
        self.changed.notify_waiters();
    }

    /// When something will happen by itself; in uptime.
    pub(super) fn next_change(&self) -> Option<Duration> {
        self.next_change
    }

    fn foresee(&mut self) {
        let changes = self.containers.values().filter_map(Container::next_change);
        self.next_change = changes.map(|change| change.uptime).min();
    }

    /// A name that nothing else has.
    pub(super) fn next_id(&mut self) -> Id {
        self.ids.next()
    }

    /// A token for streams that somebody is to come for.
    pub(super) fn keep_place(&mut self, wanted: Wanted, now: Moment) -> Result<String, Refusal> {
        const TOKEN: usize = 16;
        let id = self.ids.next();
        let token = id.get(..TOKEN).unwrap_or(&id);
        self.places.keep(token, wanted, now)?;
        Ok(token.to_owned())
    }

    /// What somebody has come for.
    pub(super) fn take_place(&mut self, path: &str, token: &str, now: Moment) -> Option<Wanted> {
        self.places.take(path, token, now)
    }

    pub(super) fn network_is_ready(&self) -> bool {
        self.network.ranges.is_some()
    }

    /// An empty one tells nothing, as with containerd. Pods keep what they have.
    pub(super) fn tell_pod_cidr(&mut self, text: &str) -> Result<(), Refusal> {
        if !text.is_empty() {
            let ranges: PodNetwork = text.parse().map_err(Refusal::PodCidr)?;
            // Told again, it does not start over.
            if self.network.ranges.as_ref() != Some(&ranges) {
                self.network = Network {
                    ranges: Some(ranges),
                    last: 0,
                };
            }
        }
        Ok(())
    }

    pub(super) fn sandbox(&self, id: &str) -> Result<&Sandbox, Refusal> {
        let found = find(&self.sandboxes, id);
        found
            .map(|(_, sandbox)| sandbox)
            .ok_or_else(|| Refusal::sandbox(id))
    }

    pub(super) fn container(&self, id: &str) -> Result<&Container, Refusal> {
        let found = find(&self.containers, id);
        found
            .map(|(_, container)| container)
            .ok_or_else(|| Refusal::container(id))
    }

    fn container_mut(&mut self, id: &str) -> Result<&mut Container, Refusal> {
        let whole = Arc::clone(&self.container(id)?.id);
        self.containers
            .get_mut(&whole)
            .ok_or_else(|| Refusal::container(id))
    }

    /// In the order of their ids.
    pub(super) fn sandboxes(&self) -> impl Iterator<Item = &Sandbox> {
        self.sandboxes.values()
    }

    /// In the order of their ids.
    pub(super) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values()
    }

    pub(super) fn containers_of<'a>(
        &'a self,
        sandbox: &'a str,
    ) -> impl Iterator<Item = &'a Container> {
        self.containers()
            .filter(move |container| *container.sandbox == *sandbox)
    }

    pub(super) fn run_sandbox(
        &mut self,
        request: cri::RunPodSandboxRequest,
        now: Moment,
    ) -> Result<String, Refusal> {
        let mut config = request
            .config
            .ok_or(Refusal::Incomplete("sandbox config"))?;
        let metadata = config.metadata.take();
        let metadata = metadata.ok_or(Refusal::Incomplete("sandbox metadata"))?;
        let stories = Stories::read(&config.annotations)?;
        if let Some(holder) = self
            .sandboxes()
            .find(|sandbox| sandbox.metadata == metadata)
        {
            return Err(Refusal::NameTaken {
                kind: "sandbox",
                name: sandbox_name(&metadata),
                holder: holder.id.to_string(),
            });
        }
        let sandbox = Sandbox::new(self.ids.next(), metadata, config, stories, now)
            .with_handler(request.runtime_handler);
        let addresses = if sandbox.in_host_network() {
            Box::default()
        } else {
            self.take_addresses().map_err(|source| Refusal::Network {
                sandbox: sandbox.id.to_string(),
                source,
            })?
        };
        let id = Arc::clone(&sandbox.id);
        let sandbox = sandbox.with_addresses(addresses);
        self.sandboxes.insert(Arc::clone(&id), sandbox);
        self.tell(Kind::ContainerCreatedEvent, &id, &id, now);
        self.tell(Kind::ContainerStartedEvent, &id, &id, now);
        Ok(id.to_string())
    }

    fn take_addresses(&mut self) -> Result<Box<[IpAddr]>, NetworkError> {
        let taken: BTreeSet<IpAddr> = self
            .sandboxes()
            .flat_map(|sandbox| sandbox.addresses().iter().copied())
            .collect();
        let Network { ranges, last } = &mut self.network;
        let ranges = ranges.as_ref().ok_or(NetworkError::NotReady)?;
        ranges.take(last, &taken)
    }

    /// Kills what runs in it. It is no error if there is none.
    pub(super) fn stop_sandbox(&mut self, id: &str, now: Moment) {
        let Ok(sandbox) = self.sandbox(id) else {
            return;
        };
        let id = Arc::clone(&sandbox.id);
        let inside: Vec<Id> = self
            .containers_of(&id)
            .map(|one| Arc::clone(&one.id))
            .collect();
        for container in inside {
            self.kill(&container, now);
        }
        let ended = self
            .sandboxes
            .get_mut(&id)
            .filter(|sandbox| sandbox.is_ready());
        if let Some(sandbox) = ended {
            sandbox.end();
            self.tell(Kind::ContainerStoppedEvent, &id, &id, now);
        }
    }

    /// With all that is in it. It is no error if there is none.
    pub(super) fn remove_sandbox(&mut self, id: &str, now: Moment) -> Result<(), Refusal> {
        let Ok(sandbox) = self.sandbox(id) else {
            return Ok(());
        };
        let id = Arc::clone(&sandbox.id);
        self.stop_sandbox(&id, now);
        let inside: Vec<Id> = self
            .containers_of(&id)
            .map(|one| Arc::clone(&one.id))
            .collect();
        for container in inside {
            self.remove_container(&container, now)?;
        }
        // While it is there: the event tells of it.
        self.tell(Kind::ContainerDeletedEvent, &id, &id, now);
        self.sandboxes.remove(&id);
        Ok(())
    }

    pub(super) fn create_container(
        &mut self,
        request: cri::CreateContainerRequest,
        now: Moment,
    ) -> Result<String, Refusal> {
        let mut config = request
            .config
            .ok_or(Refusal::Incomplete("container config"))?;
        let metadata = config.metadata.take();
        let metadata = metadata.ok_or(Refusal::Incomplete("container metadata"))?;
        let sandbox = self.ready_sandbox(&request.pod_sandbox_id)?;
        let alike = |one: &&Container| {
            *one.made_of.name == *metadata.name && one.made_of.attempt == metadata.attempt
        };
        if let Some(holder) = self.containers_of(&sandbox.id).find(alike) {
            return Err(Refusal::NameTaken {
                kind: "container",
                name: container_name(&metadata, &sandbox.metadata),
                holder: holder.id.to_string(),
            });
        }
        let wanted = config.image.as_ref().map_or("", |image| &image.image);
        let image = self
            .images
            .find(wanted)
            .ok_or_else(|| Refusal::image(wanted))?;
        let made_of = MadeOf::new(metadata, config, Arc::clone(image), sandbox);
        let sandbox_id = Arc::clone(&sandbox.id);
        let id = self.ids.next();
        let sandbox = self.sandbox(&sandbox_id)?;
        let container = Container::new(Arc::clone(&id), sandbox, made_of, now);
        self.containers.insert(Arc::clone(&id), container);
        self.tell(Kind::ContainerCreatedEvent, &id, &sandbox_id, now);
        Ok(id.to_string())
    }

    fn ready_sandbox(&self, id: &str) -> Result<&Sandbox, Refusal> {
        let sandbox = self.sandbox(id)?;
        if sandbox.is_ready() {
            Ok(sandbox)
        } else {
            Err(Refusal::SandboxNotReady(sandbox.id.to_string()))
        }
    }

    /// It begins when its story says, at once where that says nothing.
    pub(super) fn start_container(&mut self, id: &str, now: Moment) -> Result<(), Refusal> {
        let container = self.container(id)?;
        let state = container.state_name();
        self.ready_sandbox(&container.sandbox)?;
        let container = self.container_mut(id)?;
        if !container.start(now) {
            return Err(Refusal::WrongState {
                id: container.id.to_string(),
                state,
                wanted: "started",
            });
        }
        self.make_up(now);
        Ok(())
    }

    /// It may run on for as long as its grace. One that does not run is left as it
    /// is, and it is no error if there is none.
    pub(super) fn stop_container(&mut self, id: &str, grace: Duration, now: Moment) {
        if let Ok(container) = self.container_mut(id) {
            container.stop(grace, now);
            self.make_up(now);
        }
    }

    fn kill(&mut self, id: &str, now: Moment) {
        if let Ok(container) = self.container_mut(id) {
            container.kill(now);
            self.make_up(now);
        }
    }

    /// Kills it if it runs. It is no error if there is none.
    pub(super) fn remove_container(&mut self, id: &str, now: Moment) -> Result<(), Refusal> {
        let Ok(container) = self.container(id) else {
            return Ok(());
        };
        if container.is_starting() {
            return Err(Refusal::WrongState {
                id: container.id.to_string(),
                state: container.state_name(),
                wanted: "removed",
            });
        }
        let id = Arc::clone(&container.id);
        self.kill(&id, now);
        // While it is there: the event tells of it.
        self.tell_of_container(Kind::ContainerDeletedEvent, &id, now);
        self.containers.remove(&id);
        Ok(())
    }

    pub(super) fn limit_container(
        &mut self,
        id: &str,
        limits: Option<cri::LinuxContainerResources>,
    ) -> Result<(), Refusal> {
        let container = self.container_mut(id)?;
        container.made_of.details.limit(limits.unwrap_or_default());
        Ok(())
    }

    pub(super) fn list_sandboxes(
        &self,
        filter: Option<&cri::PodSandboxFilter>,
    ) -> Vec<cri::PodSandbox> {
        let every = cri::PodSandboxFilter::default();
        let filter = filter.unwrap_or(&every);
        let id = whole_id(&self.sandboxes, &filter.id);
        self.sandboxes()
            .filter(|sandbox| id.is_none_or(|id| *sandbox.id == *id))
            .filter(|sandbox| {
                let state = filter.state.as_ref().map(|wanted| wanted.state);
                state.is_none_or(|state| state == i32::from(sandbox.state()))
            })
            .filter(|sandbox| sandbox.labels.have(&filter.label_selector))
            .map(Sandbox::to_cri)
            .collect()
    }

    pub(super) fn list_containers(
        &self,
        filter: Option<&cri::ContainerFilter>,
    ) -> Vec<cri::Container> {
        let every = cri::ContainerFilter::default();
        let filter = filter.unwrap_or(&every);
        let id = whole_id(&self.containers, &filter.id);
        let sandbox = whole_id(&self.sandboxes, &filter.pod_sandbox_id);
        self.containers()
            .filter(|container| id.is_none_or(|id| *container.id == *id))
            .filter(|container| sandbox.is_none_or(|id| *container.sandbox == *id))
            .filter(|container| {
                let state = filter.state.as_ref().map(|wanted| wanted.state);
                state.is_none_or(|state| state == i32::from(container.state()))
            })
            .filter(|container| container.made_of.labels.have(&filter.label_selector))
            .map(Container::to_cri)
            .collect()
    }

    fn tell_of_container(&mut self, kind: Kind, id: &Id, at: Moment) {
        let sandbox = self.containers.get(id).map(|one| Arc::clone(&one.sandbox));
        if let Some(sandbox) = sandbox {
            self.tell(kind, id, &sandbox, at);
        }
    }

    fn tell(&mut self, kind: Kind, id: &Id, sandbox: &Id, at: Moment) {
        // What nobody hears need not be put into words.
        if !self.audience.is_empty() {
            let event = cri::ContainerEventResponse {
                container_id: id.to_string(),
                container_event_type: kind.into(),
                created_at: at.wall,
                pod_sandbox_status: self.sandboxes.get(sandbox).map(Sandbox::status),
                containers_statuses: self.containers_of(sandbox).map(Container::status).collect(),
            };
            self.audience.tell(&event);
        }
        self.changed.notify_waiters();
    }
}

/// What a filter's id stands for: nothing asked, the one that begins so, or as it
/// is, and then nobody has it.
pub(super) fn whole_id<'a, T>(all: &'a BTreeMap<Id, T>, asked: &'a str) -> Option<&'a str> {
    let whole = find(all, asked).map_or(asked, |(id, _)| id);
    (!asked.is_empty()).then_some(whole)
}

fn sandbox_name(pod: &cri::PodSandboxMetadata) -> String {
    let attempt = pod.attempt.to_string();
    [&pod.name, &pod.namespace, &pod.uid, &attempt]
        .map(String::as_str)
        .join("_")
}

fn container_name(container: &cri::ContainerMetadata, pod: &cri::PodSandboxMetadata) -> String {
    let attempt = container.attempt.to_string();
    let parts = [
        &container.name,
        &pod.name,
        &pod.namespace,
        &pod.uid,
        &attempt,
    ];
    parts.map(String::as_str).join("_")
}
