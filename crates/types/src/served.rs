//! The pods of a node as its server shows them: looked up when somebody asks, from
//! what others hold anyway. Nothing is copied for it while nobody asks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use crate::desired::{DesiredPod, Source};
use crate::observed::ObservedPod;
use crate::pod::{PodRef, PodUid};

/// Where pods are looked up. A node's is made of what its sources, its status and its
/// observation hold; [`Fixed`] is one that never changes.
pub trait Pages: fmt::Debug + Send + Sync + 'static {
    /// Every pod that the sources want, static ones included, mirrors not.
    fn all(&self) -> Vec<(PodUid, DesiredPod)>;

    /// The first for which `wanted` holds.
    fn find(
        &self,
        wanted: &mut dyn FnMut(&PodUid, &DesiredPod) -> bool,
    ) -> Option<(PodUid, DesiredPod)>;

    /// What the node says of a pod now; `None`: it has said nothing yet.
    fn status(&self, uid: &PodUid) -> Option<PodStatus>;

    /// What the runtime was last seen to hold of a pod.
    fn observed(&self, uid: &PodUid) -> Option<Arc<ObservedPod>>;

    /// Every pod of which the runtime holds anything.
    fn known(&self) -> Vec<PodRef>;
}

/// The pods of a node, for those who ask. Clones look into the same book.
#[derive(Clone, Debug)]
pub struct PodBook(Arc<dyn Pages>);

/// One pod that was asked for.
#[derive(Clone, Debug)]
pub struct ServedPod {
    /// As the node knows it; its mirror, if it is a static pod, has another.
    pub uid: PodUid,
    pub pod: DesiredPod,
    book: PodBook,
}

impl PodBook {
    pub fn new(pages: impl Pages) -> Self {
        Self(Arc::new(pages))
    }

    /// By its name; a static pod has that of its mirror.
    pub fn named(&self, namespace: &str, name: &str) -> Option<ServedPod> {
        self.find(&mut |_, pod| {
            let metadata = &pod.pod.metadata;
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(name)
        })
    }

    /// By its uid, or its mirror's.
    pub fn by_uid(&self, uid: &str) -> Option<ServedPod> {
        self.find(&mut |own, pod| has_uid(own, pod, uid))
    }

    /// Every pod, by uid.
    pub fn all(&self) -> Vec<ServedPod> {
        let pods = self.0.all().into_iter();
        pods.map(|pod| self.served(pod)).collect()
    }

    pub fn observed(&self, uid: &PodUid) -> Option<Arc<ObservedPod>> {
        self.0.observed(uid)
    }

    /// Every pod of which the runtime holds anything.
    pub fn known(&self) -> Vec<PodRef> {
        self.0.known()
    }

    fn find(&self, wanted: &mut dyn FnMut(&PodUid, &DesiredPod) -> bool) -> Option<ServedPod> {
        self.0.find(wanted).map(|pod| self.served(pod))
    }

    fn served(&self, (uid, pod): (PodUid, DesiredPod)) -> ServedPod {
        let book = self.clone();
        ServedPod { uid, pod, book }
    }
}

impl ServedPod {
    /// What the node says of it now; before it has said anything, what its object says.
    pub fn status(&self) -> PodStatus {
        let said = self.book.0.status(&self.uid);
        said.or_else(|| self.pod.pod.status.clone())
            .unwrap_or_default()
    }

    /// What the runtime was last seen to hold of it.
    pub fn observed(&self) -> Option<Arc<ObservedPod>> {
        self.book.observed(&self.uid)
    }

    /// Whether somebody who names this uid means it: its own, or its mirror's.
    pub fn has_uid(&self, uid: &str) -> bool {
        has_uid(&self.uid, &self.pod, uid)
    }

    pub fn is_static(&self) -> bool {
        self.pod.source != Source::Api
    }
}

fn has_uid(own: &PodUid, pod: &DesiredPod, uid: &str) -> bool {
    let mirror = pod.mirror.as_ref();
    let mirror = mirror.and_then(|mirror| mirror.metadata.uid.as_deref());
    own.as_str() == uid || mirror == Some(uid)
}

/// A sign of life of a loop, for those who ask whether it is stuck. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The loop has come round; by the clock's uptime.
    pub fn beat(&self, now: Duration) {
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis.max(1), Ordering::Relaxed);
    }

    /// How long ago that was; `None`: it has not begun.
    pub fn age(&self, now: Duration) -> Option<Duration> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis > 0).then(|| now.saturating_sub(Duration::from_millis(millis)))
    }
}

/// One pod of a book that never changes.
#[derive(Clone, Debug)]
pub struct FixedPod {
    pub uid: PodUid,
    pub pod: DesiredPod,
    pub status: Option<PodStatus>,
    pub observed: Option<Arc<ObservedPod>>,
}

/// Pods that never change: for a node without a runtime, and for tests.
#[derive(Clone, Debug, Default)]
pub struct Fixed(pub Vec<FixedPod>);

impl Pages for Fixed {
    fn all(&self) -> Vec<(PodUid, DesiredPod)> {
        let pods = self.0.iter();
        pods.map(|one| (one.uid.clone(), one.pod.clone())).collect()
    }

    fn find(
        &self,
        wanted: &mut dyn FnMut(&PodUid, &DesiredPod) -> bool,
    ) -> Option<(PodUid, DesiredPod)> {
        let one = self.0.iter().find(|one| wanted(&one.uid, &one.pod))?;
        Some((one.uid.clone(), one.pod.clone()))
    }

    fn status(&self, uid: &PodUid) -> Option<PodStatus> {
        let one = self.0.iter().find(|one| one.uid == *uid)?;
        one.status.clone()
    }

    fn observed(&self, uid: &PodUid) -> Option<Arc<ObservedPod>> {
        let one = self.0.iter().find(|one| one.uid == *uid)?;
        one.observed.clone()
    }

    fn known(&self) -> Vec<PodRef> {
        let observed = self.0.iter().filter_map(|one| one.observed.as_ref());
        observed.map(|observed| observed.pod.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn pod(name: &str, uid: &str) -> Arc<Pod> {
        Arc::new(Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("shop".to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectMeta::default()
            },
            ..Pod::default()
        })
    }

    fn book() -> PodBook {
        let plain = FixedPod {
            uid: PodUid::new("1"),
            pod: DesiredPod {
                pod: pod("web", "1"),
                source: Source::Api,
                mirror: None,
            },
            status: None,
            observed: None,
        };
        let of_file = FixedPod {
            uid: PodUid::new("2"),
            pod: DesiredPod {
                pod: pod("etcd-n1", "2"),
                source: Source::File,
                mirror: Some(pod("etcd-n1", "3")),
            },
            status: Some(PodStatus {
                phase: Some("Running".to_owned()),
                ..PodStatus::default()
            }),
            observed: None,
        };
        PodBook::new(Fixed(vec![plain, of_file]))
    }

    #[test]
    fn a_pod_is_found_by_its_name_its_uid_and_its_mirrors() {
        let book = book();
        let uid = |found: Option<ServedPod>| found.map(|pod| pod.uid.as_str().to_owned());
        for (found, wanted) in [
            (book.named("shop", "web"), Some("1")),
            (book.named("shop", "nope"), None),
            (book.named("other", "web"), None),
            (book.by_uid("1"), Some("1")),
            (book.by_uid("2"), Some("2")),
            (book.by_uid("3"), Some("2")),
            (book.by_uid("4"), None),
        ] {
            assert_eq!(uid(found).as_deref(), wanted);
        }
        assert_eq!(book.all().len(), 2);
    }

    #[test]
    fn a_pod_of_which_nothing_was_said_has_the_status_of_its_object() {
        let book = book();
        let status = |uid| book.by_uid(uid).map(|pod| pod.status().phase);
        assert_eq!(status("1"), Some(None));
        assert_eq!(status("2"), Some(Some("Running".to_owned())));
    }
}
