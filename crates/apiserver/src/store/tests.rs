use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::disk::tests::{FULL, HEALTHY, TORN};
use super::*;
use crate::kinds::{CONFIG_MAPS, NODES, PODS};

fn key(name: &str) -> Key {
    Key::new(&CONFIG_MAPS, "x", name)
}

fn object(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "x"}, "data": {"value": value}})
}

fn pod(name: &str, node: &str) -> (Key, Value) {
    let object = json!({"metadata": {"name": name, "namespace": "x"}, "spec": {"nodeName": node}});
    (Key::new(&PODS, "x", name), object)
}

/// A store whose writer runs as long as the work does.
async fn with_store<F: Future>(
    directory: Option<&Path>,
    window: Window,
    work: impl FnOnce(Store) -> F,
) -> F::Output {
    let (store, writer) = Store::open(directory, window).unwrap();
    let shutdown = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(writer.run(shutdown.clone()));
    let output = work(store).await;
    shutdown.cancel();
    running.join_all().await;
    output
}

async fn in_memory<F: Future>(work: impl FnOnce(Store) -> F) -> F::Output {
    with_store(None, Window::default(), work).await
}

fn names(listing: &Listing) -> Vec<String> {
    listing
        .items
        .iter()
        .map(|item| item.name().to_owned())
        .collect()
}

#[tokio::test]
async fn a_write_expects_what_it_has_read() {
    in_memory(async |store: Store| {
        let first = store.create(key("a"), object("a", "1")).await.unwrap();
        assert_eq!(
            first.value()["metadata"]["resourceVersion"],
            first.revision().to_string()
        );
        assert_eq!(
            store.create(key("a"), object("a", "2")).await.unwrap_err(),
            WriteError::Exists
        );
        let expect = Expect::At(first.revision());
        let second = store
            .update(key("a"), expect.clone(), object("a", "2"))
            .await
            .unwrap();
        assert!(second.revision() > first.revision());
        let changed = WriteError::Changed(second.revision());
        assert_eq!(
            store
                .update(key("a"), expect.clone(), object("a", "3"))
                .await
                .unwrap_err(),
            changed
        );
        assert_eq!(store.delete(key("a"), expect).await.unwrap_err(), changed);
        let gone = store
            .delete(key("a"), Expect::At(second.revision()))
            .await
            .unwrap();
        assert_eq!(gone.value()["data"]["value"], "2");
        assert_eq!(gone.revision(), store.revision());
        assert_eq!(
            store.delete(key("a"), Expect::Any).await.unwrap_err(),
            WriteError::Missing
        );
        assert!(store.get(&key("a")).is_none());
    })
    .await;
}

#[tokio::test]
async fn of_writes_that_expect_the_same_one_takes_place() {
    in_memory(async |store: Store| {
        let first = store.create(key("a"), object("a", "0")).await.unwrap();
        let mut writing = JoinSet::new();
        for index in 0..100 {
            let (store, expect) = (store.clone(), Expect::At(first.revision()));
            let object = object("a", &index.to_string());
            writing.spawn(async move { store.update(key("a"), expect, object).await.is_ok() });
        }
        let done = writing.join_all().await;
        assert_eq!(done.into_iter().filter(|done| *done).count(), 1);
        assert_eq!(store.revision(), first.revision() + 1);
    })
    .await;
}

#[tokio::test]
async fn lists_are_in_the_order_of_keys_and_stay_in_their_namespace() {
    in_memory(async |store: Store| {
        for (namespace, name) in [("a", "y"), ("a-b", "z"), ("a", "x"), ("b", "w")] {
            let object = json!({"metadata": {"name": name, "namespace": namespace}});
            store
                .create(Key::new(&CONFIG_MAPS, namespace, name), object)
                .await
                .unwrap();
        }
        // A hyphen comes before the slash behind a namespace, in etcd as well.
        assert_eq!(names(&store.list(&CONFIG_MAPS, None)), ["z", "x", "y", "w"]);
        assert_eq!(names(&store.list(&CONFIG_MAPS, Some("a"))), ["x", "y"]);
        assert!(store.list(&PODS, None).items.is_empty());
        assert_eq!(store.list(&PODS, None).revision, store.revision());
    })
    .await;
}

#[tokio::test]
async fn a_watch_tells_each_change_once_and_in_order() {
    in_memory(async |store: Store| {
        let first = store.create(key("a"), object("a", "1")).await.unwrap();
        store
            .update(key("a"), Expect::Any, object("a", "2"))
            .await
            .unwrap();
        let mut watch = store
            .watch(&CONFIG_MAPS, Some("x"), first.revision())
            .unwrap();
        store.create(key("b"), object("b", "1")).await.unwrap();
        store.delete(key("a"), Expect::Any).await.unwrap();
        let mut told = Vec::new();
        for _ in 0..3 {
            let change = watch.next().await.unwrap();
            told.push((
                change.object.name().to_owned(),
                change.deleted,
                change.previous.is_some(),
            ));
        }
        let expected = [("a", false, true), ("b", false, false), ("a", true, true)];
        let expected = expected.map(|(name, deleted, before)| (name.to_owned(), deleted, before));
        assert_eq!(told, expected);
        assert_eq!(watch.settled(), Some(store.revision()));
    })
    .await;
}

#[tokio::test]
async fn a_watch_with_a_selector_hears_of_what_enters_and_leaves_it() {
    in_memory(async |store: Store| {
        let selector = Selector::parse(&PODS, None, "", "spec.nodeName=n").unwrap();
        let (listing, mut watch) = store.list_and_watch(&PODS, selector);
        assert!(listing.items.is_empty());
        let (key, unbound) = pod("a", "");
        store.create(key.clone(), unbound).await.unwrap();
        store
            .update(key.clone(), Expect::Any, pod("a", "n").1)
            .await
            .unwrap();
        store
            .create(pod("b", "m").0, pod("b", "m").1)
            .await
            .unwrap();
        store
            .update(key.clone(), Expect::Any, pod("a", "m").1)
            .await
            .unwrap();
        store.delete(key, Expect::Any).await.unwrap();
        let entered = watch.next().await.unwrap();
        assert_eq!(entered.object.field("spec.nodeName"), Some("n"));
        let left = watch.next().await.unwrap();
        assert_eq!(left.object.field("spec.nodeName"), Some("m"));
        assert_eq!(
            left.previous.as_ref().unwrap().field("spec.nodeName"),
            Some("n")
        );
        assert_eq!(watch.settled(), Some(store.revision()));
    })
    .await;
}

#[tokio::test]
async fn who_falls_behind_is_ended_and_the_others_are_not() {
    let window = Window {
        behind: 4,
        ..Window::default()
    };
    with_store(None, window, async |store: Store| {
        let mut slow = store.watch(&CONFIG_MAPS, None, store.revision()).unwrap();
        let mut fast = store.watch(&CONFIG_MAPS, None, store.revision()).unwrap();
        for index in 0..6 {
            let name = index.to_string();
            store.create(key(&name), object(&name, "")).await.unwrap();
            assert_eq!(fast.next().await.unwrap().object.name(), name);
        }
        let mut heard = 0;
        while slow.next().await.is_some() {
            heard += 1;
        }
        assert_eq!(heard, 4);
        assert_eq!(slow.settled(), None);
    })
    .await;
}

#[tokio::test]
async fn what_is_older_than_the_window_is_gone() {
    let window = Window {
        changes: 3,
        ..Window::default()
    };
    with_store(None, window, async |store: Store| {
        let before = store.revision();
        for index in 0..5 {
            let name = index.to_string();
            store.create(key(&name), object(&name, "")).await.unwrap();
        }
        let oldest = before + 2;
        assert_eq!(
            store.watch(&CONFIG_MAPS, None, before + 1).unwrap_err(),
            Compacted(oldest)
        );
        assert!(store.list_at(&CONFIG_MAPS, None, before + 1).is_err());
        assert!(store.watch(&CONFIG_MAPS, None, oldest).is_ok());
        assert_eq!(
            names(&store.list_at(&CONFIG_MAPS, None, oldest).unwrap()),
            ["0", "1"]
        );
        // Other kinds have windows of their own.
        assert!(store.watch(&NODES, None, before).is_ok());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_window_is_also_one_of_time() {
    in_memory(async |store: Store| {
        let first = store.create(key("a"), object("a", "")).await.unwrap();
        tokio::time::advance(Duration::from_secs(301)).await;
        store.create(key("b"), object("b", "")).await.unwrap();
        assert!(
            store
                .watch(&CONFIG_MAPS, None, first.revision() - 1)
                .is_err()
        );
        assert!(store.watch(&CONFIG_MAPS, None, first.revision()).is_ok());
    })
    .await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_an_end_without_warning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (store, writer) = Store::open(Some(path), Window::default()).unwrap();
    let mut running = JoinSet::new();
    running.spawn(writer.run(CancellationToken::new()));
    let mut writing = JoinSet::new();
    for index in 0..200 {
        let store = store.clone();
        let name = format!("{index:03}");
        writing.spawn(async move { store.create(key(&name), object(&name, "1")).await });
    }
    let written = writing.join_all().await;
    store.delete(key("007"), Expect::Any).await.unwrap();
    store
        .update(key("008"), Expect::Any, object("008", "2"))
        .await
        .unwrap();
    let revision = store.revision();
    assert!(written.iter().all(Result::is_ok));
    // Nothing is closed in order: the writer is dropped where it stands.
    running.shutdown().await;
    drop(store);

    let (store, _writer) = Store::open(Some(path), Window::default()).unwrap();
    assert_eq!(store.revision(), revision);
    assert_eq!(store.list(&CONFIG_MAPS, None).items.len(), 199);
    assert!(store.get(&key("007")).is_none());
    let kept = store.get(&key("008")).unwrap();
    assert_eq!(kept.value()["data"]["value"], "2");
    assert_eq!(kept.revision(), revision);
    // Nothing happened since, but what was before is not known any more.
    assert!(store.watch(&CONFIG_MAPS, None, revision).is_ok());
    assert_eq!(
        store.watch(&CONFIG_MAPS, None, revision - 1).unwrap_err(),
        Compacted(revision)
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(path.join("store.redb"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

/// A store on a disk that can fail, with one object in it.
async fn brittle<F: Future>(
    directory: &Path,
    work: impl FnOnce(Store, Arc<AtomicU8>) -> F,
) -> F::Output {
    let state = Arc::new(AtomicU8::new(HEALTHY));
    let disk = Disk::brittle(directory, &state);
    let (store, writer) = Store::of(Collections::new(Window::default()), Some(disk));
    let shutdown = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(writer.run(shutdown.clone()));
    store.create(key("a"), object("a", "1")).await.unwrap();
    let output = work(store, state).await;
    shutdown.cancel();
    running.join_all().await;
    output
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_was_full_is_written_again_when_there_is_space() {
    let directory = tempfile::tempdir().unwrap();
    let revision = brittle(directory.path(), async |store: Store, state| {
        let before = store.revision();
        state.store(FULL, Ordering::Relaxed);
        let large = "x".repeat(1 << 20);
        let lost = store.create(key("b"), object("b", &large)).await;
        let words = lost.unwrap_err().to_string();
        assert!(words.contains("free disk space"), "{words}");
        assert!(store.is_failing());
        assert_eq!(
            (store.get(&key("b")).is_none(), store.revision()),
            (true, before)
        );
        state.store(HEALTHY, Ordering::Relaxed);
        // The disk is not asked at once again, however many write.
        assert!(store.create(key("b"), object("b", "1")).await.is_err());
        tokio::time::advance(Duration::from_secs(1)).await;
        let kept = store.create(key("b"), object("b", "2")).await.unwrap();
        assert_eq!(kept.revision(), before + 1);
        assert!(!store.is_failing());
        kept.revision()
    })
    .await;
    let (store, _writer) = Store::open(Some(directory.path()), Window::default()).unwrap();
    assert_eq!(store.revision(), revision);
    let kept = store.get(&key("b")).unwrap();
    assert_eq!(kept.value()["data"]["value"], "2");
    assert!(store.get(&key("a")).is_some());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_built_on_a_write_of_which_nobody_knows_whether_it_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let revision = brittle(directory.path(), async |store: Store, state| {
        state.store(TORN, Ordering::Relaxed);
        assert!(store.create(key("b"), object("b", "1")).await.is_err());
        state.store(HEALTHY, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(1)).await;
        let refused = store.create(key("c"), object("c", "1")).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("start the server again"), "{words}");
        assert!(store.is_failing());
        assert!(store.get(&key("a")).is_some(), "reads are answered");
        store.revision()
    })
    .await;
    let (store, _writer) = Store::open(Some(directory.path()), Window::default()).unwrap();
    assert!(store.revision() >= revision);
    assert!(store.get(&key("a")).is_some());
    assert!(store.get(&key("c")).is_none());
}

#[tokio::test]
async fn a_store_that_was_killed_while_it_was_made_is_made_anew() {
    let open = |directory: &Path| Store::open(Some(directory), Window::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // redb makes room first, and writes last what it knows its files by.
    for left in [vec![], vec![0; 8192], vec![7; 100]] {
        let _ = std::fs::remove_file(path.join("store.redb"));
        std::fs::write(path.join("store.redb.new"), left).unwrap();
        let (store, _writer) = open(path).unwrap();
        assert_eq!(store.list(&CONFIG_MAPS, None).items.len(), 0);
        assert!(!path.join("store.redb.new").exists());
        assert!(matches!(open(path), Err(OpenError::InUse { .. })));
    }
    // One that was finished is never made anew, whatever lies beside it.
    with_store(Some(path), Window::default(), async |store: Store| {
        store.create(key("a"), object("a", "1")).await.unwrap();
    })
    .await;
    std::fs::write(path.join("store.redb.new"), "").unwrap();
    let (store, _writer) = open(path).unwrap();
    assert!(store.get(&key("a")).is_some());
}

#[tokio::test]
async fn a_store_that_another_is_making_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let made = std::fs::File::create(directory.path().join("store.redb.new")).unwrap();
    made.lock().unwrap();
    let second = Store::open(Some(directory.path()), Window::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let _first = Store::open(Some(directory.path()), Window::default()).unwrap();
    let second = Store::open(Some(directory.path()), Window::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
}

#[tokio::test]
async fn writes_after_the_end_are_refused_and_those_before_it_are_kept() {
    let (store, writer) = Store::open(None, Window::default()).unwrap();
    let shutdown = CancellationToken::new();
    let mut running = JoinSet::new();
    let before_the_end = {
        let store = store.clone();
        async move { store.create(key("a"), object("a", "")).await }
    };
    let mut writing = JoinSet::new();
    writing.spawn(before_the_end);
    tokio::task::yield_now().await;
    shutdown.cancel();
    running.spawn(writer.run(shutdown));
    running.join_all().await;
    assert!(writing.join_next().await.unwrap().unwrap().is_ok());
    let late = store.create(key("b"), object("b", "")).await;
    assert!(matches!(late, Err(WriteError::Lost(_))));
}

/// What a client does, and a model of what comes of it.
#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Update(u8, u8),
    /// With a revision that is right, or one that is not.
    Swap(u8, u8, bool),
    Delete(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..5_u8;
    let step = prop_oneof![
        (name.clone(), any::<u8>()).prop_map(|(name, value)| Step::Create(name, value)),
        (name.clone(), any::<u8>()).prop_map(|(name, value)| Step::Update(name, value)),
        (name.clone(), any::<u8>(), any::<bool>())
            .prop_map(|(name, value, right)| Step::Swap(name, value, right)),
        name.prop_map(Step::Delete),
    ];
    proptest::collection::vec(step, 1..60)
}

type Model = BTreeMap<String, (String, Revision)>;

async fn take(store: &Store, step: &Step, model: &mut Model) {
    let (name, outcome) = match step {
        Step::Create(name, value) => {
            let name = name.to_string();
            let outcome = store
                .create(key(&name), object(&name, &value.to_string()))
                .await;
            assert_eq!(outcome.is_ok(), !model.contains_key(&name));
            (name, outcome)
        }
        Step::Update(name, value) => {
            let name = name.to_string();
            let object = object(&name, &value.to_string());
            let outcome = store.update(key(&name), Expect::Any, object).await;
            assert_eq!(outcome.is_ok(), model.contains_key(&name));
            (name, outcome)
        }
        Step::Swap(name, value, right) => {
            let name = name.to_string();
            let revision = model.get(&name).map_or(0, |(_, revision)| *revision);
            let expect = Expect::At(revision + u64::from(!right));
            let object = object(&name, &value.to_string());
            let outcome = store.update(key(&name), expect, object).await;
            assert_eq!(outcome.is_ok(), *right && model.contains_key(&name));
            (name, outcome)
        }
        Step::Delete(name) => {
            let name = name.to_string();
            let outcome = store.delete(key(&name), Expect::Any).await;
            assert_eq!(outcome.is_ok(), model.remove(&name).is_some());
            return;
        }
    };
    if let Ok(stored) = outcome {
        let value = stored.value()["data"]["value"].as_str().unwrap().to_owned();
        model.insert(name, (value, stored.revision()));
    }
}

fn seen(listing: &Listing) -> Model {
    let items = listing.items.iter();
    items
        .map(|item| {
            let value = item.value()["data"]["value"].as_str().unwrap().to_owned();
            (item.name().to_owned(), (value, item.revision()))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At every revision, a list of the past and a watch from there lead to the present.
    #[test]
    fn the_past_and_what_came_after_it_make_the_present(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(in_memory(async |store: Store| {
            let mut model = Model::new();
            let mut pasts = vec![(store.revision(), model.clone())];
            for step in &steps {
                take(&store, step, &mut model).await;
                pasts.push((store.revision(), model.clone()));
            }
            assert_eq!(seen(&store.list(&CONFIG_MAPS, None)), model);
            for (revision, past) in pasts {
                let listing = store.list_at(&CONFIG_MAPS, None, revision).unwrap();
                assert_eq!(seen(&listing), past);
                let mut watch = store.watch(&CONFIG_MAPS, None, revision).unwrap();
                let mut replayed = past;
                while watch.settled().is_none() {
                    let change = watch.next().await.unwrap();
                    let name = change.object.name().to_owned();
                    if change.deleted {
                        replayed.remove(&name);
                    } else {
                        let value = change.object.value()["data"]["value"].as_str().unwrap().to_owned();
                        replayed.insert(name, (value, change.revision));
                    }
                }
                assert_eq!(replayed, model);
            }
        }));
    }

    /// What is on disk is what is in memory, however the writes fell into batches.
    #[test]
    fn the_disk_has_what_memory_has(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let work = async |store: Store| {
            let mut writing = JoinSet::new();
            for step in steps.clone() {
                let store = store.clone();
                writing.spawn(async move {
                    let name = match &step {
                        Step::Create(name, _) | Step::Update(name, _) | Step::Swap(name, _, _) | Step::Delete(name) => name.to_string(),
                    };
                    let object = object(&name, "1");
                    let _ = match step {
                        Step::Create(..) => store.create(key(&name), object).await,
                        Step::Delete(_) => store.delete(key(&name), Expect::Any).await,
                        _ => store.update(key(&name), Expect::Any, object).await,
                    };
                });
            }
            writing.join_all().await;
            (store.revision(), seen(&store.list(&CONFIG_MAPS, None)))
        };
        let before = runtime.block_on(with_store(Some(directory.path()), Window::default(), work));
        let (store, _writer) = Store::open(Some(directory.path()), Window::default()).unwrap();
        assert_eq!((store.revision(), seen(&store.list(&CONFIG_MAPS, None))), before);
    }
}
