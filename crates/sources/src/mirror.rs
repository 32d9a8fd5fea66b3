//! Mirror pods: by them the API server knows of static pods. What one needs is decided
//! by a pure function ([`decide`]); [`MirrorKeeper`] does it. A mirror that is deleted is
//! made again; nothing that happens to one touches its static pod.

mod failures;
mod keeper;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use types::{PodName, PodRef};

use crate::annotations::{HASH, MIRROR, annotation, name_of, ref_of};
use crate::delivery::Source;
use types::desired::{Desired, DesiredPod, StaticsAtWork};

pub use keeper::MirrorKeeper;

/// What to do about one mirror.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make the mirror of this static pod.
    Create(Arc<Pod>),
    /// Remove this one, and make that of this static pod in its place.
    Replace(PodRef, Arc<Pod>),
    /// Remove this one.
    Remove(PodRef),
}

/// What the mirrors need. Where a pod works that is to go, they are left alone: its
/// mirror still tells how it ends. Workers hear of what is wanted when they do, so that
/// one that is not wanted any more is in the way from the first, not only once it ends.
pub fn decide(desired: &Desired, node: Option<&Node>, at_work: &StaticsAtWork) -> Vec<Step> {
    // Before the API server has told which mirrors there are, each would seem missing.
    if !desired.delivered.contains(&Source::Api) {
        return Vec::new();
    }
    let lives = node.is_some_and(|node| {
        let metadata = &node.metadata;
        metadata.deletion_timestamp.is_none() && metadata.uid.is_some()
    });
    let of_static = statics(desired, at_work)
        .into_iter()
        .filter(|(name, found)| !at_work.is_busy(name, Some(&ref_of(&found.pod).uid)))
        .filter_map(|(_, found)| of_static_pod(found, lives));
    let orphans = desired.orphan_mirrors.iter();
    let orphans = orphans
        .filter(|mirror| desired.ready && !at_work.is_busy(&name_of(mirror), None))
        .map(|mirror| Step::Remove(ref_of(mirror)));
    of_static.chain(orphans).collect()
}

/// By name: should two sources give one name, the mirror is that of the pod that runs,
/// else that of the first source.
fn statics<'a>(desired: &'a Desired, at_work: &StaticsAtWork) -> BTreeMap<PodName, &'a DesiredPod> {
    let rank = |pod: &DesiredPod| (!at_work.has(&ref_of(&pod.pod)), pod.source);
    let mut statics: BTreeMap<PodName, &DesiredPod> = BTreeMap::new();
    for pod in desired
        .pods
        .values()
        .filter(|pod| pod.source != Source::Api)
    {
        let held = statics.entry(name_of(&pod.pod)).or_insert(pod);
        if rank(pod) < rank(held) {
            *held = pod;
        }
    }
    statics
}

fn of_static_pod(desired: &DesiredPod, lives: bool) -> Option<Step> {
    let pod = &desired.pod;
    let Some(mirror) = &desired.mirror else {
        return lives.then(|| Step::Create(Arc::clone(pod)));
    };
    let fits = mirror.metadata.deletion_timestamp.is_none() && is_mirror_of(mirror, pod);
    if fits {
        return None;
    }
    Some(if lives {
        Step::Replace(ref_of(mirror), Arc::clone(pod))
    } else {
        Step::Remove(ref_of(mirror))
    })
}

/// Whether a mirror stands for this version of a static pod.
pub fn is_mirror_of(mirror: &Pod, pod: &Pod) -> bool {
    let hash = annotation(mirror, MIRROR);
    name_of(mirror) == name_of(pod) && hash.is_some() && hash == annotation(pod, HASH)
}

/// The mirror of a static pod, which the node owns. `None` if the node is not known
/// well enough.
pub fn mirror_of(pod: &Pod, node: &Node) -> Option<Pod> {
    let mut mirror = pod.clone();
    let metadata = &mut mirror.metadata;
    // The API server gives it its own.
    metadata.uid = None;
    metadata.resource_version = None;
    let hash = annotation(pod, HASH).unwrap_or_default().to_owned();
    let notes = metadata.annotations.get_or_insert_default();
    notes.insert(MIRROR.to_owned(), hash);
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone()?,
        uid: node.metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    Some(mirror)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::delivery::Delivery;
    use crate::merge::Merge;
    use crate::testing::pod;

    pub(super) fn static_pod(name: &str, hash: &str) -> Pod {
        let note = format!("annotations: {{kubernetes.io/config.hash: '{hash}'}}");
        pod(&format!(
            "metadata: {{name: {name}, namespace: default, uid: '{hash}', {note}}}\nspec: {{containers: [{{name: a, image: a}}]}}"
        ))
    }

    pub(super) fn mirror_pod(name: &str, hash: &str) -> Pod {
        let mut pod = mirror_of(&static_pod(name, hash), &node()).unwrap();
        pod.metadata.uid = Some(format!("m-{hash}"));
        pod
    }

    pub(super) fn node() -> Node {
        let mut node = Node::default();
        node.metadata.name = Some("n".to_owned());
        node.metadata.uid = Some("node-uid".to_owned());
        node
    }

    pub(super) fn desired(statics: &[Pod], of_api: Option<&[Pod]>) -> Desired {
        let mut merge = Merge::new([Source::File, Source::Api]);
        let deliver = |source, pods: &[Pod]| {
            Delivery::of(source, pods.iter().cloned().map(Arc::new).collect())
        };
        merge.take(&deliver(Source::File, statics), UNIX_EPOCH);
        if let Some(pods) = of_api {
            merge.take(&deliver(Source::Api, pods), UNIX_EPOCH);
        }
        merge.desired()
    }

    fn words(steps: &[Step]) -> Vec<String> {
        let steps = steps.iter();
        steps
            .map(|step| match step {
                Step::Create(pod) => format!("create {}", ref_of(pod)),
                Step::Replace(mirror, pod) => format!("replace {mirror} by {}", ref_of(pod)),
                Step::Remove(mirror) => format!("remove {mirror}"),
            })
            .collect()
    }

    fn deleted(mut pod: Pod) -> Pod {
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        pod
    }

    #[test]
    fn a_mirror_is_made_replaced_or_removed_as_its_static_pod_needs() {
        let (a, new) = (static_pod("a", "1"), static_pod("a", "2"));
        let mirror = mirror_pod("a", "1");
        let mut leaving = node();
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let at_work = |ending| StaticsAtWork {
            pods: BTreeMap::from([(ref_of(&a), ending)]),
        };
        let (works, ending, none) = (at_work(false), at_work(true), StaticsAtWork::default());
        let (here, leaving) = (Some(&node()), Some(&leaving));
        let check = |statics: &[&Pod], of_api: Option<&[Pod]>, node, ending, expected: &[&str]| {
            let statics: Vec<Pod> = statics.iter().map(|pod| (*pod).clone()).collect();
            let desired = desired(&statics, of_api);
            assert_eq!(words(&decide(&desired, node, ending)), expected);
        };
        let (fit, dying) = ([mirror.clone()], [deleted(mirror)]);
        let (fit, dying): (Option<&[Pod]>, Option<&[Pod]>) = (Some(&fit), Some(&dying));
        let again = "replace a_default(m-1) by a_default(1)";
        let newer = "replace a_default(m-1) by a_default(2)";
        let remove = "remove a_default(m-1)";

        check(&[&a], None, here, &none, &[]);
        check(&[&a], Some(&[]), here, &none, &["create a_default(1)"]);
        check(&[&a], Some(&[]), None, &none, &[]);
        check(&[&a], Some(&[]), leaving, &none, &[]);
        check(&[&a], Some(&[]), here, &works, &["create a_default(1)"]);
        check(&[&a], Some(&[]), here, &ending, &[]);
        check(&[&a], fit, here, &none, &[]);
        check(&[&a], dying, here, &none, &[again]);
        check(&[&new], fit, here, &none, &[newer]);
        check(&[&new], fit, leaving, &none, &[remove]);
        // Its worker has not heard yet that another is wanted.
        check(&[&new], fit, here, &works, &[]);
        check(&[&new], fit, here, &ending, &[]);
        check(&[], fit, here, &none, &[remove]);
        check(&[], fit, None, &none, &[remove]);
        check(&[], fit, here, &works, &[]);
        check(&[], fit, here, &ending, &[]);
    }

    #[test]
    fn no_orphan_is_removed_before_all_sources_have_delivered() {
        let mut merge = Merge::new([Source::File, Source::Api]);
        let pods = vec![Arc::new(mirror_pod("a", "1"))];
        merge.take(&Delivery::of(Source::Api, pods), UNIX_EPOCH);
        assert_eq!(
            decide(&merge.desired(), Some(&node()), &StaticsAtWork::default()),
            []
        );
    }

    #[test]
    fn a_mirror_bears_the_hash_of_its_pod_and_belongs_to_the_node() {
        let pod = static_pod("a", "1");
        let mirror = mirror_of(&pod, &node()).unwrap();
        assert_eq!(annotation(&mirror, MIRROR), Some("1"));
        assert_eq!(mirror.metadata.uid, None);
        assert_eq!(mirror.spec, pod.spec);
        let owner = &mirror.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
            ("Node", "n", "node-uid")
        );
        assert_eq!(owner.controller, Some(true));
        assert!(is_mirror_of(&mirror, &pod));
        assert!(mirror_of(&pod, &Node::default()).is_none());
    }
}
