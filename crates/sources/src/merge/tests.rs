use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use seams::{Host as _, SharedClock};
use testkit::clock::TokioClock;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::{TestHost, pod};

fn named(uid: &str, name: &str) -> Pod {
    pod(&format!(
        "metadata: {{name: {name}, namespace: default, uid: '{uid}'}}\nspec: {{containers: [{{name: a, image: a}}]}}"
    ))
}

fn changed(mut pod: Pod, change: impl FnOnce(&mut Pod)) -> Pod {
    change(&mut pod);
    pod
}

fn mirror(uid: &str, name: &str, hash: &str) -> Pod {
    changed(named(uid, name), |pod| annotate(pod, MIRROR, hash))
}

fn annotate(pod: &mut Pod, key: &str, value: &str) {
    let notes = pod.metadata.annotations.get_or_insert_default();
    notes.insert(key.to_owned(), value.to_owned());
}

fn delivery(source: Source, pods: impl IntoIterator<Item = Pod>) -> Delivery {
    Delivery::of(source, pods.into_iter().map(Arc::new).collect())
}

fn uids(pods: &[Arc<Pod>]) -> String {
    let uids: Vec<_> = pods.iter().map(|pod| uid_of(pod).to_string()).collect();
    uids.join(" ")
}

/// In short: `+added ~updated !deleted =reconciled -removed`.
fn summary(changes: &Changes) -> String {
    let lists = [
        ('+', &changes.added),
        ('~', &changes.updated),
        ('!', &changes.deleted),
        ('=', &changes.reconciled),
        ('-', &changes.removed),
    ];
    let there = lists.iter().filter(|(_, pods)| !pods.is_empty());
    let words: Vec<_> = there
        .map(|(sign, pods)| format!("{sign}{}", uids(pods)))
        .collect();
    words.join(" ")
}

#[test]
fn each_change_of_a_pod_is_told_by_its_kind() {
    type Change = fn(&mut Pod);
    let cases: [(&str, Change); 10] = [
        ("~1", |pod| {
            pod.spec.get_or_insert_default().hostname = Some("h".to_owned());
        }),
        ("~1", |pod| {
            pod.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        }),
        ("~1", |pod| annotate(pod, "a", "b")),
        ("~1", |pod| {
            pod.metadata.deletion_grace_period_seconds = Some(1);
        }),
        ("!1", |pod| {
            pod.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        }),
        ("=1", |pod| {
            pod.status.get_or_insert_default().message = Some("m".to_owned());
        }),
        ("", |pod| {
            pod.metadata.resource_version = Some("2".to_owned());
        }),
        ("", |pod| annotate(pod, SEEN, "then")),
        ("", |pod| annotate(pod, SOURCE, "file")),
        ("", |pod| pod.metadata.labels = Some(BTreeMap::new())),
    ];
    for (number, (expected, change)) in cases.into_iter().enumerate() {
        let mut merge = Merge::new([Source::Api]);
        let first = merge.take(&delivery(Source::Api, [named("1", "a")]), UNIX_EPOCH);
        assert_eq!(summary(&first), "+1");
        let next = delivery(Source::Api, [changed(named("1", "a"), change)]);
        assert_eq!(
            summary(&merge.take(&next, UNIX_EPOCH)),
            expected,
            "case {number}"
        );
        assert!(
            merge.take(&next, UNIX_EPOCH).is_empty(),
            "case {number} again"
        );
        let held = &merge.desired().pods[&PodUid::new("1")].pod;
        assert_eq!(
            held.metadata.resource_version,
            next.pods[0].metadata.resource_version
        );
    }
    let mut merge = Merge::new([Source::Api]);
    merge.take(
        &delivery(Source::Api, [named("1", "a"), named("2", "b")]),
        UNIX_EPOCH,
    );
    let changes = merge.take(
        &delivery(Source::Api, [named("2", "b"), named("3", "a")]),
        UNIX_EPOCH,
    );
    assert_eq!(summary(&changes), "+3 -1");
}

#[test]
fn a_pod_bears_its_source_and_when_it_was_first_seen() {
    let mut merge = Merge::new([Source::File]);
    let note = |merge: &Merge, key: &str| {
        let desired = merge.desired();
        let pod = &desired.pods[&PodUid::new("1")].pod;
        annotations::annotation(pod, key).unwrap().to_owned()
    };
    merge.take(
        &delivery(Source::File, [named("1", "a")]),
        UNIX_EPOCH + Duration::from_millis(1500),
    );
    assert_eq!(note(&merge, SOURCE), "file");
    assert_eq!(note(&merge, SEEN), "1970-01-01T00:00:01.500000000Z");
    let updated = changed(named("1", "a"), |pod| annotate(pod, "a", "b"));
    merge.take(
        &delivery(Source::File, [updated]),
        UNIX_EPOCH + Duration::from_secs(9),
    );
    assert_eq!(note(&merge, SEEN), "1970-01-01T00:00:01.500000000Z");
    assert_eq!(note(&merge, "a"), "b");
}

#[test]
fn only_a_pod_of_the_api_that_bears_it_already_is_taken_as_it_is() {
    for (source, wanted) in [(Source::Api, true), (Source::File, false)] {
        let mut pod = named("u1", "web");
        stamp(&mut pod, source, "then".to_owned());
        let delivery = delivery(source, [pod]);
        let mut merge = Merge::new([source]);
        let changes = merge.take(&delivery, UNIX_EPOCH);
        let shared = Arc::ptr_eq(&changes.added[0], &delivery.pods[0]);
        assert_eq!(shared, wanted, "{source}");
    }
}

#[test]
fn of_two_pods_of_one_name_the_later_is_refused_once() {
    let mut merge = Merge::new([Source::File]);
    let both = delivery(Source::File, [named("1", "a"), named("2", "a")]);
    let changes = merge.take(&both, UNIX_EPOCH);
    assert_eq!(summary(&changes), "+1");
    assert_eq!(
        changes.refused[0].message,
        "Error validating pod a_default(2) from file due to duplicate pod name \"a\", ignoring"
    );
    assert!(merge.take(&both, UNIX_EPOCH).is_empty());
    merge.take(&delivery(Source::File, [named("1", "a")]), UNIX_EPOCH);
    assert_eq!(merge.take(&both, UNIX_EPOCH).refused.len(), 1);
}

#[test]
fn the_set_is_ready_when_every_configured_source_has_delivered() {
    let mut merge = Merge::new([Source::File, Source::Api]);
    assert!(!merge.desired().ready);
    let changes = merge.take(&delivery(Source::File, []), UNIX_EPOCH);
    assert!(changes.first && !merge.desired().ready);
    merge.take(&delivery(Source::Api, []), UNIX_EPOCH);
    assert!(merge.desired().ready);
    assert!(Merge::new([]).desired().ready);
}

#[test]
fn a_mirror_is_found_by_its_name_and_one_without_a_static_pod_is_an_orphan() {
    let mut merge = Merge::new([Source::File, Source::Api]);
    let pods = [
        mirror("m1", "a", "1"),
        mirror("m2", "gone", "x"),
        named("3", "c"),
    ];
    merge.take(&delivery(Source::Api, pods), UNIX_EPOCH);
    merge.take(
        &delivery(Source::File, [named("1", "a"), named("2", "b")]),
        UNIX_EPOCH,
    );
    let desired = merge.desired();
    let found: Vec<_> = desired
        .pods
        .iter()
        .map(|(uid, pod)| {
            let mirror = pod.mirror.as_ref().map(|mirror| uid_of(mirror).to_string());
            (uid.as_str(), pod.source, mirror)
        })
        .collect();
    let expected = [
        ("1", Source::File, Some("m1".to_owned())),
        ("2", Source::File, None),
        ("3", Source::Api, None),
    ];
    assert_eq!(found, expected);
    assert_eq!(uids(&desired.orphan_mirrors), "m2");
}

/// A pod of few names and uids, so that they meet.
fn some_pod() -> impl Strategy<Value = Pod> {
    (0..6_u8, 0..4_u8, 0..3_u8, any::<bool>(), any::<bool>()).prop_map(
        |(uid, name, version, mirror, deleted)| {
            changed(named(&uid.to_string(), &format!("n{name}")), |pod| {
                pod.metadata.resource_version = Some(version.to_string());
                pod.metadata.deletion_timestamp = deleted.then_some(Time(Timestamp::UNIX_EPOCH));
                if mirror {
                    annotate(pod, MIRROR, &version.to_string());
                }
            })
        },
    )
}

fn some_delivery() -> impl Strategy<Value = Delivery> {
    let sources = [Source::File, Source::Http, Source::Api];
    (
        prop::sample::select(sources.to_vec()),
        prop::collection::vec(some_pod(), 0..5),
    )
        .prop_map(|(source, pods)| delivery(source, pods))
}

fn merged<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> Desired {
    let mut merge = Merge::new([Source::File, Source::Http, Source::Api]);
    for delivery in deliveries {
        merge.take(delivery, UNIX_EPOCH);
    }
    merge.desired()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_last_delivery_of_each_source_counts_in_any_order_and_number(
        deliveries in prop::collection::vec(some_delivery(), 0..12),
        repeats in prop::collection::vec(1..3_usize, 12),
    ) {
        let all = merged(&deliveries);
        let doubled = deliveries.iter().zip(&repeats).flat_map(|(one, times)| vec![one; *times]);
        prop_assert_eq!(&merged(doubled), &all);
        let last: BTreeMap<Source, &Delivery> =
            deliveries.iter().map(|delivery| (delivery.source, delivery)).collect();
        prop_assert_eq!(&merged(last.values().copied()), &all);
        prop_assert_eq!(&merged(last.values().rev().copied()), &all);
    }

    #[test]
    fn what_changed_leads_from_the_one_set_to_the_other(
        deliveries in prop::collection::vec(some_delivery(), 1..8),
    ) {
        let mut merge = Merge::new([]);
        let mut held: BTreeMap<(Source, PodUid), Arc<Pod>> = BTreeMap::new();
        for delivery in deliveries {
            let source = delivery.source;
            let changes = merge.take(&delivery, UNIX_EPOCH);
            for pod in &changes.removed {
                prop_assert!(held.remove(&(source, uid_of(pod))).is_some());
            }
            for pod in &changes.added {
                prop_assert!(held.insert((source, uid_of(pod)), Arc::clone(pod)).is_none());
            }
            for pod in changes.updated.iter().chain(&changes.deleted).chain(&changes.reconciled) {
                prop_assert!(held.insert((source, uid_of(pod)), Arc::clone(pod)).is_some());
            }
            let known: Vec<_> = merge.known.iter()
                .flat_map(|(source, pods)| pods.keys().map(|uid| (*source, uid.clone())))
                .collect();
            prop_assert_eq!(known, held.keys().cloned().collect::<Vec<_>>());
        }
    }
}

fn adopted_file(host: Arc<TestHost>) -> AdoptedFile {
    AdoptedFile {
        host,
        path: "/adopted".into(),
    }
}

#[test]
fn adopted_uids_are_read_as_they_were_written_and_what_is_broken_is_left_alone() {
    let host = Arc::<TestHost>::default();
    let file = adopted_file(host.clone());
    assert!(file.read().is_empty());
    let uids = BTreeMap::from([(PodUid::new("own"), PodUid::new("kept"))]);
    file.write(&uids);
    assert_eq!(file.read(), uids);
    host.write(&file.path, b"{\"own\": 7}", 0o600).unwrap();
    assert!(file.read().is_empty());
}

#[tokio::test]
async fn the_task_publishes_what_sources_deliver_before_and_after_it_starts() {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let (file, from_file) = watch::channel(Some(delivery(
        Source::File,
        [named("1", "a"), named("9", "a")],
    )));
    let (api, from_api) = watch::channel(None);
    let (desired, mut seen) = watch::channel(Desired::default());
    let (refused, mut told) = mpsc::channel(1);
    let merging = Merging {
        file: Some(from_file),
        http: None,
        api: Some(from_api),
        running: watch::channel(Some(Arc::default())).1,
        adopted: adopted_file(Arc::default()),
        clock,
        desired,
        refused,
    };
    let shutdown = CancellationToken::new();
    let story = async {
        seen.wait_for(|desired| desired.pods.len() == 1 && !desired.ready)
            .await
            .unwrap();
        assert_eq!(uid_of(&told.recv().await.unwrap().pod).as_str(), "9");
        api.send_replace(Some(delivery(Source::Api, [named("2", "b")])));
        seen.wait_for(|desired| desired.pods.len() == 2 && desired.ready)
            .await
            .unwrap();
        // A source that ends takes nothing with it.
        drop(file);
        api.send_replace(Some(delivery(Source::Api, [])));
        seen.wait_for(|desired| desired.pods.len() == 1)
            .await
            .unwrap();
        shutdown.cancel();
    };
    tokio::join!(merging.run(shutdown.clone()), story);
}

#[test]
fn how_long_those_were_given_that_the_api_took_away_is_passed_on() {
    let mut merge = Merge::new([Source::File, Source::Api]);
    let departed = |merge: &Merge| merge.desired().departed;
    let mut delivery = delivery(Source::Api, []);
    delivery.departed = vec![(PodUid::new("a"), 0), (PodUid::new("b"), 7)];
    merge.take(&delivery, UNIX_EPOCH);
    let expected = BTreeMap::from([
        (PodUid::new("a"), Duration::ZERO),
        (PodUid::new("b"), Duration::from_secs(7)),
    ]);
    assert_eq!(departed(&merge), expected);
    merge.take(&Delivery::of(Source::File, Vec::new()), UNIX_EPOCH);
    assert_eq!(departed(&merge), expected);
}
