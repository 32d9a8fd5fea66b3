//! `/pods` and `/runningpods/`: what the node is to run, and what the runtime has.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};
use types::served::ServedPod;
use types::{PodBook, PodUid};

use crate::body::Body;

const HEAD: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#;
const TAIL: &str = "]}\n";

/// So much of a list is sent at once.
const PIECE: usize = 64 << 10;

#[derive(Clone, Debug)]
pub struct PodLists {
    book: PodBook,
    /// Locked for one pod at a time.
    kept: Arc<Mutex<Kept>>,
}

/// Pods as they were written for the last who asked: to write them costs more than to send
/// them, and few of them change between two questions.
#[derive(Debug, Default)]
struct Kept(HashMap<PodUid, (Weak<Pod>, Bytes)>);

impl Kept {
    /// As it was written, if it is still the same object.
    fn of(&self, pod: &ServedPod) -> Option<Bytes> {
        let (object, written) = self.0.get(&pod.uid)?;
        // As long as the place is remembered nobody else gets it.
        let same = std::ptr::eq(object.as_ptr(), Arc::as_ptr(&pod.pod.pod));
        same.then(|| written.clone())
    }

    fn keep(&mut self, pod: &ServedPod, written: &Bytes) {
        let object = Arc::downgrade(&pod.pod.pod);
        self.0.insert(pod.uid.clone(), (object, written.clone()));
    }

    fn keep_only(&mut self, pods: &[ServedPod]) {
        let there: HashSet<&PodUid> = pods.iter().map(|pod| &pod.uid).collect();
        self.0.retain(|uid, _| there.contains(uid));
    }

    /// Of objects that nobody has any more.
    fn forget_gone(&mut self) {
        self.0.retain(|_, (object, _)| object.strong_count() > 0);
    }
}

/// A pod in a list, which says what they are.
#[derive(Serialize)]
struct Item<'a> {
    metadata: &'a ObjectMeta,
    spec: Option<&'a PodSpec>,
    status: Option<&'a PodStatus>,
}

impl PodLists {
    pub fn new(book: PodBook) -> Self {
        Self {
            book,
            kept: Arc::default(),
        }
    }

    pub(crate) fn all(&self) -> Response<Body> {
        let (pods, kept) = (self.book.all(), Arc::clone(&self.kept));
        lock(&kept).keep_only(&pods);
        list(pods.into_iter().map(move |pod| item(&pod, &kept)))
    }

    /// Lets go of what was written of pods that have gone or changed. Called whatever is
    /// asked, for nobody may ask for lists again.
    pub(crate) fn forget_gone(&self) {
        lock(&self.kept).forget_gone();
    }

    /// What runs, as far as the runtime tells.
    pub(crate) fn running(&self) -> Response<Body> {
        let book = self.book.clone();
        let pods = book.known().into_iter();
        let observed = pods.filter_map(move |pod| book.observed(&pod.uid));
        list(observed.filter_map(|pod| sparse(&pod)))
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As it was written before, or anew. How a static pod is, its object does not say.
fn item(pod: &ServedPod, kept: &Mutex<Kept>) -> Bytes {
    if pod.is_static() {
        return written(pod).into();
    }
    if let Some(written) = lock(kept).of(pod) {
        return written;
    }
    let written = written(pod).into();
    lock(kept).keep(pod, &written);
    written
}

fn list(items: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = pieces(items).map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let body = StreamBody::new(stream::iter(frames));
    let mut answer = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// The whole list. Each piece is packed up and sent for itself, which costs as much as to
/// write some pods: many of them are one piece.
fn pieces(items: impl Iterator<Item = Bytes>) -> impl Iterator<Item = Bytes> {
    let comma = |number: usize| Bytes::from_static(if number == 0 { b"" } else { b"," });
    let items = items.enumerate();
    let items = items.flat_map(move |(number, item)| [comma(number), item]);
    let end = |text: &'static str| std::iter::once(Bytes::from_static(text.as_bytes()));
    let mut parts = end(HEAD).chain(items).chain(end(TAIL)).peekable();
    std::iter::from_fn(move || {
        let first = parts.next()?;
        let mut piece = Vec::with_capacity(PIECE.max(first.len()));
        piece.extend_from_slice(&first);
        while let Some(part) = parts.next_if(|part| piece.len() + part.len() <= PIECE) {
            piece.extend_from_slice(&part);
        }
        Some(Bytes::from(piece))
    })
}

/// As its source has it; a static pod has no source that would know how it is.
fn written(pod: &ServedPod) -> Vec<u8> {
    let object = &pod.pod.pod;
    let is_static = pod.is_static();
    let own_spec = object.spec.as_ref().filter(|_| is_static).map(whole_spec);
    let own_status = is_static.then(|| whole_status(pod.status()));
    let empty = PodStatus::default();
    let status = own_status.as_ref().or(object.status.as_ref());
    let item = Item {
        metadata: &object.metadata,
        spec: own_spec.as_ref().or(object.spec.as_ref()),
        status: Some(status.unwrap_or(&empty)),
    };
    // What came from JSON goes back to it.
    serde_json::to_vec(&item).unwrap_or_default()
}

/// With what Go writes, whatever is in it: what comes from the API has it already.
fn whole_spec(spec: &PodSpec) -> PodSpec {
    let mut spec = spec.clone();
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        container.resources.get_or_insert_default();
    }
    spec
}

fn whole_status(mut status: PodStatus) -> PodStatus {
    let of = [
        &mut status.init_container_statuses,
        &mut status.container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for container in of.into_iter().flatten().flatten() {
        container.state.get_or_insert_default();
        container.last_state.get_or_insert_default();
    }
    status
}

/// By the image's id, as far as the status of a container tells it: containerd says it where
/// the image has no digest of a registry.
fn made_of(container: &ObservedContainer) -> String {
    let id = Some(&container.image_id).filter(|id| !id.is_empty());
    let reference = Some(&container.image_ref).filter(|reference| reference.starts_with("sha256:"));
    id.or(reference).unwrap_or(&container.image).clone()
}

/// Names and images; nothing of a pod that does not run.
fn sparse(pod: &Arc<ObservedPod>) -> Option<Bytes> {
    if !pod.is_running() {
        return None;
    }
    let running = pod
        .containers
        .iter()
        .filter(|container| container.state == ContainerState::Running);
    let containers = running.map(|container| Container {
        name: container.name.clone(),
        image: Some(made_of(container)),
        // Go writes it, whatever is in it.
        resources: Some(ResourceRequirements::default()),
        ..Container::default()
    });
    let spec = PodSpec {
        containers: containers.collect(),
        ..PodSpec::default()
    };
    let name = &pod.pod.name;
    let metadata = ObjectMeta {
        name: Some(name.name.clone()),
        namespace: Some(name.namespace.clone()),
        uid: Some(pod.pod.uid.as_str().to_owned()),
        ..ObjectMeta::default()
    };
    let item = Item {
        metadata: &metadata,
        spec: Some(&spec),
        status: Some(&PodStatus::default()),
    };
    serde_json::to_vec(&item).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use types::desired::{DesiredPod, Source};
    use types::served::{Fixed, FixedPod};

    use super::*;

    fn served(name: &str, source: Source) -> ServedPod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        let fixed = FixedPod {
            uid: PodUid::new("u-1"),
            pod: DesiredPod {
                pod: Arc::new(pod),
                source,
                mirror: None,
            },
            status: None,
            observed: None,
        };
        PodBook::new(Fixed(vec![fixed])).all().remove(0)
    }

    #[test]
    fn a_pod_is_written_once_until_it_changes_or_goes() {
        let kept = Mutex::default();
        let pod = served("first", Source::Api);
        let first = item(&pod, &kept);
        assert_eq!(item(&pod, &kept).as_ptr(), first.as_ptr());
        let changed = item(&served("second", Source::Api), &kept);
        assert!(String::from_utf8_lossy(&changed).contains("second"));
        lock(&kept).keep_only(&[]);
        assert!(lock(&kept).0.is_empty());
    }

    #[test]
    fn what_was_written_of_a_pod_goes_with_it_whoever_asks_next() {
        let lists = PodLists::new(PodBook::new(Fixed(Vec::new())));
        let pod = served("first", Source::Api);
        item(&pod, &lists.kept);
        lists.forget_gone();
        assert_eq!(lock(&lists.kept).0.len(), 1);
        drop(pod);
        lists.forget_gone();
        assert!(lock(&lists.kept).0.is_empty());
    }

    #[test]
    fn how_a_static_pod_is_is_told_anew() {
        let kept = Mutex::default();
        let pod = served("static", Source::File);
        assert_eq!(item(&pod, &kept), written(&pod));
        assert!(lock(&kept).0.is_empty());
    }

    #[test]
    fn a_list_is_whole_however_many_pieces_it_is() {
        for (count, length, wanted) in [(0, 0, 1), (3, 10, 1), (100, 4096, 7), (3, 100_000, 7)] {
            let item = format!("{{\"{}\":0}}", "x".repeat(length));
            let pieces: Vec<Bytes> = pieces(vec![item.into(); count].into_iter()).collect();
            assert_eq!(pieces.len(), wanted, "{count} of {length}");
            let whole: serde_json::Value = serde_json::from_slice(&pieces.concat()).unwrap();
            assert_eq!(whole["items"].as_array().map(Vec::len), Some(count));
        }
    }
}
