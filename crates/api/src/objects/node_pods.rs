//! The pods of a node: all that the API server has bound to it, as one set that
//! changes. One node follows its own; a fleet follows all by one watch and hands
//! to each node its own.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use types::PodUid;
use types::desired::{SEEN, Source, seen, stamp};

use super::{Following, Selection, Told};

/// So many that went are remembered.
const DEPARTED: usize = 128;

/// The pods of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSet {
    pub pods: BTreeMap<PodUid, Arc<Pod>>,
    /// Those that went last, and how many seconds they were given to end. A deletion
    /// that does not wait is told and over in one moment: who looks after it would
    /// never know.
    pub departed: VecDeque<(PodUid, i64)>,
}

impl PodSet {
    fn depart(&mut self, uid: PodUid, pod: &Pod) {
        let Some(grace) = pod.metadata.deletion_grace_period_seconds else {
            return;
        };
        if self.departed.len() == DEPARTED {
            self.departed.pop_front();
        }
        self.departed.push_back((uid, grace));
    }
}

/// `None` until the API server has told once which there are.
type Seen = watch::Sender<Option<Arc<PodSet>>>;

/// The pods that are bound to one node.
pub struct Pods {
    pub node: String,
    pub client: Client,
    pub clock: SharedClock,
    /// `None` until the API server has told once which there are.
    pub seen: watch::Sender<Option<Arc<PodSet>>>,
}

impl fmt::Debug for Pods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pods").finish_non_exhaustive()
    }
}

impl Pods {
    /// Follows the pods until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let own = Selection::Fields(format!("spec.nodeName={}", self.node));
        let following = Following::new(&self.client, &self.clock, own, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }
}

impl Told<Pod> for Pods {
    fn all(&self, pods: Vec<Pod>) {
        let pods = entries(self.seen.borrow().as_deref(), pods, self.clock.now());
        self.seen.send_modify(|seen| own(seen).pods = pods);
    }

    fn changed(&self, pod: Pod) {
        put(&self.seen, pod, self.clock.now());
    }

    fn gone(&self, pod: Pod) {
        take(&self.seen, &pod);
    }
}

/// The pods of many nodes. Clones share them.
#[derive(Clone)]
pub struct PodsByNode {
    client: Client,
    clock: SharedClock,
    /// Pods of other nodes are not kept.
    is_ours: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Held for one access.
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// By node: those that have pods, and those that somebody follows.
    nodes: BTreeMap<String, Seen>,
    /// The API server has told once which there are.
    listed: bool,
}

impl fmt::Debug for PodsByNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PodsByNode").finish_non_exhaustive()
    }
}

impl PodsByNode {
    pub fn new(
        client: Client,
        clock: SharedClock,
        is_ours: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    ) -> Self {
        Self {
            client,
            clock,
            is_ours,
            known: Arc::default(),
        }
    }

    /// The pods of one node, which must be ours.
    pub fn follow(&self, node: &str) -> watch::Receiver<Option<Arc<PodSet>>> {
        self.with(|known| known.node(node).subscribe())
    }

    /// Follows the pods until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        let bound = Selection::Fields("spec.nodeName!=".to_owned());
        let following = Following::new(&self.client, &self.clock, bound, &self);
        shutdown.run_until_cancelled(following.run()).await;
    }

    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name of the pod's node, if it is ours.
    fn node_of(&self, pod: &Pod) -> Option<String> {
        let node = pod.spec.as_ref()?.node_name.as_ref()?;
        (self.is_ours)(node).then(|| node.clone())
    }
}

impl Known {
    fn node(&mut self, name: &str) -> &Seen {
        let listed = self.listed;
        self.nodes
            .entry(name.to_owned())
            .or_insert_with(|| watch::channel(listed.then(Arc::default)).0)
    }

    /// Who has no pods and is not followed is not kept.
    fn forget_idle(&mut self) {
        self.nodes.retain(|_, seen| {
            let empty = seen
                .borrow()
                .as_ref()
                .is_none_or(|seen| seen.pods.is_empty());
            !empty || seen.receiver_count() > 0
        });
    }
}

impl Told<Pod> for PodsByNode {
    fn all(&self, pods: Vec<Pod>) {
        let now = self.clock.now();
        let mut sets: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in pods {
            if let Some(node) = self.node_of(&pod) {
                sets.entry(node).or_default().push(pod);
            }
        }
        self.with(|known| {
            known.listed = true;
            for name in sets.keys() {
                known.node(name);
            }
            for (name, seen) in &known.nodes {
                let pods = sets.remove(name).unwrap_or_default();
                let pods = entries(seen.borrow().as_deref(), pods, now);
                // A node whose pods are as they were is not woken.
                seen.send_if_modified(|seen| {
                    let before = seen.as_deref().map(|seen| &seen.pods);
                    let changed = before != Some(&pods);
                    if changed {
                        own(seen).pods = pods;
                    }
                    changed
                });
            }
            known.forget_idle();
        });
    }

    fn changed(&self, pod: Pod) {
        if let Some(node) = self.node_of(&pod) {
            let now = self.clock.now();
            self.with(|known| put(known.node(&node), pod, now));
        }
    }

    fn gone(&self, pod: Pod) {
        let Some(node) = self.node_of(&pod) else {
            return;
        };
        self.with(|known| {
            let seen = known.node(&node);
            take(seen, &pod);
            let empty = seen
                .borrow()
                .as_ref()
                .is_none_or(|seen| seen.pods.is_empty());
            if empty && seen.receiver_count() == 0 {
                known.nodes.remove(&node);
            }
        });
    }
}

/// Pods as they are kept, after those that were there before.
fn entries(before: Option<&PodSet>, pods: Vec<Pod>, now: SystemTime) -> BTreeMap<PodUid, Arc<Pod>> {
    let pods = pods.into_iter();
    let entries = pods.filter_map(|pod| entry(before, pod, now));
    entries.collect()
}

/// A pod as it is kept: with what a node writes on it, so that nobody needs a copy for
/// that, and without room to grow.
fn entry(before: Option<&PodSet>, mut pod: Pod, now: SystemTime) -> Option<(PodUid, Arc<Pod>)> {
    let uid = PodUid::new(pod.metadata.uid.as_deref()?);
    let before = before.and_then(|before| before.pods.get(&uid));
    let notes = before.and_then(|before| before.metadata.annotations.as_ref());
    let first_seen = notes.and_then(|notes| notes.get(SEEN)).cloned();
    stamp(
        &mut pod,
        Source::Api,
        first_seen.unwrap_or_else(|| seen(now)),
    );
    slim(&mut pod);
    Some((uid, Arc::new(pod)))
}

/// A list has room for four when one was read into it, and a pod is made of lists.
fn slim(pod: &mut Pod) {
    fn list<T>(list: &mut Option<Vec<T>>) {
        list.iter_mut().for_each(Vec::shrink_to_fit);
    }
    if let Some(spec) = &mut pod.spec {
        list(&mut spec.volumes);
        list(&mut spec.tolerations);
        list(&mut spec.init_containers);
        spec.containers.shrink_to_fit();
        let first = spec.init_containers.iter_mut().flatten();
        for container in first.chain(&mut spec.containers) {
            list(&mut container.args);
            list(&mut container.command);
            list(&mut container.env);
            list(&mut container.ports);
            list(&mut container.volume_mounts);
        }
        for volume in spec.volumes.iter_mut().flatten() {
            let projected = volume.projected.as_mut();
            list(projected.map_or(&mut None, |projected| &mut projected.sources));
        }
    }
    if let Some(status) = &mut pod.status {
        list(&mut status.conditions);
        list(&mut status.container_statuses);
        list(&mut status.init_container_statuses);
        list(&mut status.pod_ips);
        list(&mut status.host_ips);
    }
}

/// To be changed. A reader who still holds the former set keeps it.
fn own(seen: &mut Option<Arc<PodSet>>) -> &mut PodSet {
    Arc::make_mut(seen.get_or_insert_default())
}

fn put(seen: &Seen, pod: Pod, now: SystemTime) {
    seen.send_modify(|seen| {
        let seen = own(seen);
        let entry = entry(Some(seen), pod, now);
        seen.pods.extend(entry);
    });
}

fn take(seen: &Seen, pod: &Pod) {
    let uid = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default());
    seen.send_if_modified(|seen| {
        let there = seen
            .as_ref()
            .is_some_and(|seen| seen.pods.contains_key(&uid));
        if there {
            let seen = own(seen);
            seen.pods.remove(&uid);
            seen.depart(uid, pod);
        }
        there
    });
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::PodSpec;
    use kube::client::Body;
    use testkit::clock::TokioClock;

    use super::*;
    use crate::objects::nodes::nobody;

    fn pod(uid: &str, node: &str) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec {
                node_name: Some(node.to_owned()),
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    fn uids(seen: &watch::Receiver<Option<Arc<PodSet>>>) -> Option<String> {
        let seen = seen.borrow();
        let uids: Vec<&str> = seen.as_ref()?.pods.keys().map(PodUid::as_str).collect();
        Some(uids.join(" "))
    }

    fn by_node() -> PodsByNode {
        let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        PodsByNode::new(nobody(), clock, Arc::new(|node| node != "theirs"))
    }

    #[tokio::test]
    async fn each_node_sees_its_own_pods_come_and_go() {
        let pods = by_node();
        let (a, b) = (pods.follow("a"), pods.follow("b"));
        assert_eq!((uids(&a), uids(&b)), (None, None));
        pods.all(vec![pod("1", "a"), pod("2", "c"), pod("3", "theirs")]);
        assert_eq!(uids(&a).as_deref(), Some("1"));
        assert_eq!(uids(&b).as_deref(), Some(""));
        pods.changed(pod("4", "b"));
        pods.changed(pod("5", "a"));
        pods.gone(pod("1", "a"));
        assert_eq!(uids(&a).as_deref(), Some("5"));
        assert_eq!(uids(&b).as_deref(), Some("4"));
        pods.all(vec![pod("4", "b")]);
        assert_eq!(uids(&a).as_deref(), Some(""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_says_where_it_is_from_and_when_it_was_first_seen() {
        let pods = by_node();
        let seen = pods.follow("a");
        let notes = |uid: &str| {
            let seen = seen.borrow();
            let pod = &seen.as_ref().unwrap().pods[&PodUid::new(uid)];
            let notes = pod.metadata.annotations.as_ref().unwrap();
            format!("{} {}", notes[types::desired::SOURCE], notes[SEEN])
        };
        let mut first = pod("1", "a");
        stamp(&mut first, Source::File, "what a user wrote".to_owned());
        pods.all(vec![first.clone()]);
        let at_first = "api 1970-01-01T00:00:00.000000000Z";
        assert_eq!(notes("1"), at_first);
        tokio::time::advance(Duration::from_secs(5)).await;
        pods.changed(first.clone());
        assert_eq!(notes("1"), at_first);
        pods.all(vec![first, pod("2", "a")]);
        assert_eq!(notes("1"), at_first);
        assert_eq!(notes("2"), "api 1970-01-01T00:00:05.000000000Z");
    }

    #[test]
    fn a_pod_is_kept_without_room_to_grow() {
        let mut large = pod("1", "a");
        let spec = large.spec.as_mut().unwrap();
        spec.volumes = Some(Vec::with_capacity(4));
        spec.volumes
            .as_mut()
            .unwrap()
            .resize_with(1, Default::default);
        spec.containers = Vec::with_capacity(4);
        spec.containers.push(k8s_openapi::api::core::v1::Container {
            env: Some(Vec::with_capacity(4)),
            ..Default::default()
        });
        let (_, kept) = entry(None, large, UNIX_EPOCH).unwrap();
        let spec = kept.spec.as_ref().unwrap();
        assert_eq!(spec.volumes.as_ref().unwrap().capacity(), 1);
        assert_eq!(spec.containers.capacity(), 1);
        assert_eq!(spec.containers[0].env.as_ref().unwrap().capacity(), 0);
    }

    #[tokio::test]
    async fn how_long_those_were_given_that_went_is_known_of_the_last_of_them() {
        let pods = by_node();
        let seen = pods.follow("a");
        let departed = || seen.borrow().as_ref().map(|seen| seen.departed.clone());
        pods.all(vec![pod("0", "a")]);
        pods.gone(pod("0", "a"));
        assert_eq!(departed(), Some(VecDeque::new()));
        for number in 0..=DEPARTED {
            let mut deleted = pod(&format!("u{number}"), "a");
            pods.changed(deleted.clone());
            deleted.metadata.deletion_grace_period_seconds = i64::try_from(number).ok();
            pods.gone(deleted);
        }
        pods.all(vec![pod("1", "a")]);
        let departed = departed().unwrap();
        assert_eq!(departed.len(), DEPARTED);
        assert_eq!(departed[0], (PodUid::new("u1"), 1));
    }

    #[tokio::test]
    async fn who_comes_late_sees_what_was_there_and_nobodys_pods_are_not_kept() {
        let pods = by_node();
        pods.all(vec![pod("1", "a"), pod("2", "theirs")]);
        assert_eq!(uids(&pods.follow("a")).as_deref(), Some("1"));
        assert_eq!(uids(&pods.follow("b")).as_deref(), Some(""));
        pods.gone(pod("1", "a"));
        pods.all(Vec::new());
        assert!(pods.with(|known| known.nodes.is_empty()));
    }

    #[tokio::test]
    async fn a_node_whose_pods_are_as_they_were_is_not_woken_by_a_look() {
        let pods = by_node();
        let mut a = pods.follow("a");
        pods.all(vec![pod("1", "a")]);
        a.mark_unchanged();
        pods.all(vec![pod("1", "a"), pod("2", "b")]);
        assert!(!a.has_changed().unwrap());
    }

    /// What the server was asked, and what it answers next.
    type Script = Arc<Mutex<(Vec<String>, Vec<&'static str>)>>;

    fn server(script: &Script) -> Client {
        let script = Arc::clone(script);
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut script = script.lock().unwrap();
            script
                .0
                .push(request.uri().query().unwrap_or_default().to_owned());
            let answer = (!script.1.is_empty()).then(|| script.1.remove(0));
            async move {
                // After its last answer the server is silent.
                let Some(answer) = answer else {
                    return std::future::pending().await;
                };
                Ok::<_, std::io::Error>(Response::new(Body::from(answer.as_bytes().to_vec())))
            }
        });
        Client::new(service, "default")
    }

    const LIST: &str = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"uid": "1"}}]}"#;
    const ADDED: &str = r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"2","resourceVersion":"7"}}}
{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}
"#;
    const TOO_OLD: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old"}}
"#;
    const LATER: &str = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "20"},
        "items": [{"metadata": {"uid": "3"}}]}"#;

    /// The queries until the third pod is seen, which is in the last list.
    async fn queries(answers: Vec<&'static str>) -> Vec<String> {
        let script: Script = Arc::new(Mutex::new((Vec::new(), answers)));
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let (seen, mut pods) = watch::channel(None);
        let following = Pods {
            node: "n".to_owned(),
            client: server(&script),
            clock: clock.clone(),
            seen,
        };
        let third = PodUid::new("3");
        tokio::select! {
            () = following.run(CancellationToken::new()) => unreachable!("nobody has ended it"),
            () = clock.sleep(Duration::from_secs(20)) => panic!("{:?}", script.lock().unwrap().0),
            found = pods.wait_for(|pods: &Option<Arc<PodSet>>| {
                pods.as_ref().is_some_and(|seen| seen.pods.contains_key(&third))
            }) => assert_eq!(found.unwrap().as_ref().unwrap().pods.len(), 1),
        }
        let asked = script.lock().unwrap().0.clone();
        let short = asked.into_iter().map(|query| {
            assert!(query.contains("spec.nodeName%3Dn"), "{query}");
            let pairs = query.split('&');
            let version = pairs.filter_map(|pair| pair.strip_prefix("resourceVersion="));
            if query.contains("watch=true") {
                format!("watch {}", version.collect::<String>())
            } else {
                "list".to_owned()
            }
        });
        // The watch after the last list may have begun.
        short.filter(|query| query != "watch 20").collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_from_its_last_bookmark_and_one_too_old_leads_to_a_look() {
        let asked = queries(vec![LIST, ADDED, TOO_OLD, LATER]).await;
        assert_eq!(asked, ["list", "watch 5", "watch 9", "list"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_broke_is_resumed_once_and_then_all_is_looked_at() {
        const BROKEN: &str = "nonsense\n";
        let asked = queries(vec![LIST, ADDED, BROKEN, BROKEN, LATER]).await;
        assert_eq!(asked, ["list", "watch 5", "watch 9", "watch 9", "list"]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_some_watches_all_is_looked_at_anew() {
        const WATCHES: usize = super::super::WATCHES_PER_LOOK as usize;
        let mut answers = vec![ADDED; WATCHES];
        answers.insert(0, LIST);
        answers.push(LATER);
        let asked = queries(answers).await;
        let lists: Vec<_> = (0..asked.len())
            .filter(|place| asked[*place] == "list")
            .collect();
        assert_eq!(lists, [0, WATCHES + 1]);
    }
}
