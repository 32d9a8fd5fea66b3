//! Keeps the index of who refers to what, by which nodes are authorized.

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};

use super::mirror::{Bare, Mirror, Name};
use crate::access::Authorizer;
use crate::access::references::References;
use crate::kinds::{PERSISTENT_VOLUMES, PODS};
use crate::store::{Key, Store};

pub(crate) struct Follower {
    pub(crate) store: Store,
    pub(crate) authorizer: Authorizer,
}

impl Follower {
    pub(crate) async fn run(self) {
        let mut pods: Mirror<Bare> = Mirror::new(&self.store, &PODS);
        let mut volumes: Mirror<Bare> = Mirror::new(&self.store, &PERSISTENT_VOLUMES);
        self.authorizer.update(References::clear);
        pods.names().iter().for_each(|name| self.pod(name));
        volumes.names().iter().for_each(|name| self.volume(name));
        loop {
            tokio::select! {
                names = pods.changed() => names.iter().for_each(|name| self.pod(name)),
                names = volumes.changed() => names.iter().for_each(|name| self.volume(name)),
            }
        }
    }

    /// As it is now: what the hint spoke of may have changed again.
    fn pod(&self, name: &Name) {
        let found = self.store.get(&Key::new(&PODS, &name.0, &name.1));
        let pod: Option<Pod> = found.and_then(|found| found.decode().ok());
        self.authorizer.update(|references| match &pod {
            Some(pod) => references.set_pod(pod),
            None => references.remove_pod(&name.0, &name.1),
        });
    }

    fn volume(&self, name: &Name) {
        let found = self.store.get(&Key::global(&PERSISTENT_VOLUMES, &name.1));
        let volume: Option<PersistentVolume> = found.and_then(|found| found.decode().ok());
        self.authorizer.update(|references| match &volume {
            Some(volume) => references.set_volume(volume),
            None => references.remove_volume(&name.1),
        });
    }
}
