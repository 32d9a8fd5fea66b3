use std::future::Future;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::kinds::{CONFIG_MAPS, EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS};
use crate::store::{Expect, Key, Selector, Store, Window};

async fn with_objects<F: Future>(window: Window, work: impl FnOnce(Objects) -> F) -> F::Output {
    let (store, writer) = Store::open(None, window).unwrap();
    let shutdown = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(writer.run(shutdown.clone()));
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let objects = Objects::new(store, Clock::starting_at(start));
    let namespace = json!({"metadata": {"name": "x"}});
    objects.create(&NAMESPACES, "", namespace).await.unwrap();
    let account = json!({"metadata": {"name": "default"}});
    objects
        .create(&SERVICE_ACCOUNTS, "x", account)
        .await
        .unwrap();
    let output = work(objects).await;
    shutdown.cancel();
    running.join_all().await;
    output
}

async fn in_namespace<F: Future>(work: impl FnOnce(Objects) -> F) -> F::Output {
    with_objects(Window::default(), work).await
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "nodeName": node,
        "containers": [{"name": "main", "image": "example.com/a:1"}],
    }})
}

fn key(name: &str) -> Key {
    Key::new(&CONFIG_MAPS, "x", name)
}

fn pod_key(name: &str) -> Key {
    Key::new(&PODS, "x", name)
}

fn with_grace(seconds: i64) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(seconds),
        ..DeleteOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_object_has_an_identity_and_one_of_the_same_name_is_refused() {
    in_namespace(async |objects: Objects| {
        let made = objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap()
            .value();
        let metadata = &made["metadata"];
        assert_eq!(metadata["uid"].as_str().map(str::len), Some(36));
        assert_eq!(
            metadata["uid"].as_str().and_then(|uid| uid.chars().nth(14)),
            Some('4')
        );
        assert_eq!(metadata["creationTimestamp"], "2027-01-15T08:00:00Z");
        assert_eq!(metadata["namespace"], "x");
        assert_eq!(
            (&made["apiVersion"], &made["kind"]),
            (&json!("v1"), &json!("ConfigMap"))
        );
        let again = objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap_err();
        assert_eq!(again.reason, "AlreadyExists");
        assert_eq!(again.message, "configmaps \"a\" already exists");
        let lost = objects
            .create(&CONFIG_MAPS, "y", config_map("a"))
            .await
            .unwrap_err();
        assert_eq!(lost.message, "namespaces \"y\" not found");
        let mut elsewhere = config_map("b");
        elsewhere["metadata"]["namespace"] = "z".into();
        let refused = objects
            .create(&CONFIG_MAPS, "x", elsewhere)
            .await
            .unwrap_err();
        assert_eq!(refused.code, StatusCode::BAD_REQUEST);
    })
    .await;
}

#[tokio::test]
async fn no_event_is_kept_without_a_name_that_can_be_in_a_path() {
    in_namespace(async |objects: Objects| {
        let event =
            |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "x"}});
        for (name, field) in [
            ("", "metadata.name: Required"),
            ("a/b", "may not contain '/'"),
        ] {
            let refused = objects.create(&EVENTS, "x", event(name)).await.unwrap_err();
            assert_eq!(refused.code, StatusCode::UNPROCESSABLE_ENTITY, "{name:?}");
            assert!(refused.message.contains(field), "{refused}");
        }
        let made = objects.create(&EVENTS, "x", event("Pod.17f_a")).await;
        assert!(made.is_ok(), "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn what_could_not_be_read_again_is_not_written() {
    in_namespace(async |objects: Objects| {
        let deep = (0..bounds::DEEPEST).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let fields = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": deep}]);
        let mut object = config_map("a");
        object["metadata"]["managedFields"] = fields.clone();
        let refused = objects.create(&CONFIG_MAPS, "x", object).await.unwrap_err();
        assert_eq!(refused.code, StatusCode::BAD_REQUEST, "{refused}");
        objects.create(&CONFIG_MAPS, "x", config_map("a")).await.unwrap();
        let deepen = |object: &mut Value| {
            object["metadata"]["managedFields"] = fields.clone();
            true
        };
        let refused = objects.modify(&key("a"), Part::Main, deepen).await.unwrap_err();
        assert_eq!(refused.code, StatusCode::BAD_REQUEST, "{refused}");
    })
    .await;
}

#[tokio::test]
async fn names_are_made_from_a_beginning() {
    in_namespace(async |objects: Objects| {
        let base = "l".repeat(70);
        for beginning in ["web-", base.as_str()] {
            let object = json!({"metadata": {"generateName": beginning}});
            let made = objects.create(&CONFIG_MAPS, "x", object).await.unwrap();
            let kept = &beginning[..beginning.len().min(58)];
            assert!(made.name().starts_with(kept), "{}", made.name());
            assert_eq!(made.name().len(), kept.len() + 5);
            assert_eq!(made.value()["metadata"]["generateName"], beginning);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_node_has_waits_for_it_and_its_grace_only_shrinks() {
    in_namespace(async |objects: Objects| {
        objects.create(&PODS, "x", pod("a", "n")).await.unwrap();
        let marked = objects
            .delete(&pod_key("a"), DeleteOptions::default())
            .await
            .unwrap();
        let metadata = marked.value()["metadata"].clone();
        assert_eq!(metadata["deletionGracePeriodSeconds"], 30);
        assert_eq!(metadata["deletionTimestamp"], "2027-01-15T08:00:30Z");
        assert_eq!(metadata["generation"], 2);
        // More is not given, and less counts from the beginning.
        let same = objects.delete(&pod_key("a"), with_grace(60)).await.unwrap();
        assert_eq!(same.revision(), marked.revision());
        let less = objects
            .delete(&pod_key("a"), with_grace(10))
            .await
            .unwrap()
            .value();
        assert_eq!(
            less["metadata"]["deletionTimestamp"],
            "2027-01-15T08:00:10Z"
        );
        tokio::time::advance(Duration::from_secs(20)).await;
        let late = objects
            .delete(&pod_key("a"), with_grace(5))
            .await
            .unwrap()
            .value();
        assert_eq!(
            late["metadata"]["deletionTimestamp"],
            "2027-01-15T08:00:20Z"
        );
        assert_eq!(late["metadata"]["deletionGracePeriodSeconds"], 1);
        objects.delete(&pod_key("a"), with_grace(0)).await.unwrap();
        assert!(objects.get(&pod_key("a")).is_err());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_grace_without_end_ends_with_time_and_can_be_shortened() {
    in_namespace(async |objects: Objects| {
        let mut patient = pod("own", "n");
        patient["spec"]["terminationGracePeriodSeconds"] = i64::MAX.into();
        objects.create(&PODS, "x", patient).await.unwrap();
        objects.create(&PODS, "x", pod("asked", "n")).await.unwrap();
        for (name, options) in [
            ("own", DeleteOptions::default()),
            ("asked", with_grace(i64::MAX)),
        ] {
            let marked = objects.delete(&pod_key(name), options).await.unwrap();
            let end = marked.value()["metadata"]["deletionTimestamp"].clone();
            assert_eq!(end, "9999-12-30T22:00:00Z", "{name}");
            let less = objects.delete(&pod_key(name), with_grace(10)).await;
            let end = less.unwrap().value()["metadata"]["deletionTimestamp"].clone();
            assert_eq!(end, "2027-01-15T08:00:10Z", "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_nobody_runs_goes_at_once() {
    in_namespace(async |objects: Objects| {
        objects.create(&PODS, "x", pod("a", "")).await.unwrap();
        objects
            .delete(&pod_key("a"), DeleteOptions::default())
            .await
            .unwrap();
        assert!(objects.get(&pod_key("a")).is_err());
        objects.create(&PODS, "x", pod("b", "n")).await.unwrap();
        let ended = |pod: &mut Value| {
            pod["status"]["phase"] = "Succeeded".into();
            true
        };
        objects
            .modify(&pod_key("b"), Part::Status, ended)
            .await
            .unwrap();
        objects
            .delete(&pod_key("b"), DeleteOptions::default())
            .await
            .unwrap();
        assert!(objects.get(&pod_key("b")).is_err());
    })
    .await;
}

#[tokio::test]
async fn a_finalizer_holds_and_its_end_is_the_end() {
    in_namespace(async |objects: Objects| {
        let mut held = config_map("a");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        objects.create(&CONFIG_MAPS, "x", held).await.unwrap();
        let marked = objects
            .delete(&key("a"), DeleteOptions::default())
            .await
            .unwrap();
        assert!(marked.value()["metadata"]["deletionTimestamp"].is_string());
        let again = objects
            .delete(&key("a"), DeleteOptions::default())
            .await
            .unwrap();
        assert_eq!(again.revision(), marked.revision());
        let release = |object: &mut Value| {
            object["metadata"]["finalizers"] = json!([]);
            true
        };
        objects
            .modify(&key("a"), Part::Main, release)
            .await
            .unwrap();
        assert!(objects.get(&key("a")).is_err());
    })
    .await;
}

#[tokio::test]
async fn a_deletion_that_expects_another_object_is_a_conflict() {
    in_namespace(async |objects: Objects| {
        objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap();
        let other = DeleteOptions {
            uid: Some("other".to_owned()),
            ..DeleteOptions::default()
        };
        let refused = objects.delete(&key("a"), other).await.unwrap_err();
        assert_eq!(refused.reason, "Conflict");
        assert!(
            refused
                .message
                .contains("the UID in the precondition (other)"),
            "{refused}"
        );
        let older = DeleteOptions {
            resource_version: Some("1".to_owned()),
            ..DeleteOptions::default()
        };
        assert_eq!(
            objects.delete(&key("a"), older).await.unwrap_err().reason,
            "Conflict"
        );
    })
    .await;
}

#[tokio::test]
async fn one_of_the_same_name_that_comes_meanwhile_is_not_deleted() {
    in_namespace(async |objects: Objects| {
        let first = objects.create(&PODS, "x", pod("a", "")).await.unwrap();
        let mut second = first.value();
        second["metadata"]["uid"] = "second".into();
        // All three are carried out together, in this order: between its mark and its end the
        // pod goes by another hand, and comes again.
        let key = pod_key("a");
        let (deleted, gone, made) = tokio::join!(
            objects.delete(&key, with_grace(0)),
            objects.store().delete(pod_key("a"), Expect::Any),
            objects.store().create(pod_key("a"), second),
        );
        assert!(gone.is_ok() && made.is_ok(), "{gone:?} {made:?}");
        assert_eq!(deleted.unwrap_err().reason, "NotFound");
        let found = objects.get(&pod_key("a")).unwrap().value();
        assert_eq!(found["metadata"]["uid"], "second");
        assert!(found["metadata"]["deletionTimestamp"].is_null());
    })
    .await;
}

async fn replace(objects: &Objects, object: Value) -> Result<Written, Failure> {
    let options = UpdateOptions::default();
    let change = |_: &Value| Ok(object.clone());
    objects
        .update_with(&key("a"), Part::Main, change, &options)
        .await
}

#[tokio::test]
async fn an_update_is_of_what_was_read() {
    in_namespace(async |objects: Objects| {
        let first = objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap();
        let mut object = first.value();
        // Nothing to write is nothing written.
        let same = replace(&objects, object.clone()).await.unwrap();
        assert_eq!(same.value(), object);
        object["data"]["a"] = "2".into();
        object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
        let second = replace(&objects, object.clone()).await.unwrap().value();
        assert_eq!(
            second["metadata"]["creationTimestamp"],
            first.value()["metadata"]["creationTimestamp"]
        );
        let stale = replace(&objects, object.clone()).await.unwrap_err();
        assert_eq!(stale.reason, "Conflict");
        // Without a revision it is whatever there is; with another uid it is another object.
        object["metadata"]["resourceVersion"] = Value::Null;
        object["data"]["a"] = "3".into();
        assert!(replace(&objects, object.clone()).await.is_ok());
        object["metadata"]["uid"] = "other".into();
        assert_eq!(
            replace(&objects, object).await.unwrap_err().reason,
            "Conflict"
        );
    })
    .await;
}

#[tokio::test]
async fn changes_made_at_once_are_all_made() {
    in_namespace(async |objects: Objects| {
        objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap();
        let mut changing = JoinSet::new();
        for index in 0..20 {
            let objects = objects.clone();
            changing.spawn(async move {
                let add = move |object: &mut Value| {
                    object["data"][format!("k{index}")] = "1".into();
                    true
                };
                objects.modify(&key("a"), Part::Main, add).await.map(drop)
            });
        }
        assert!(changing.join_all().await.iter().all(Result::is_ok));
        let data = objects.get(&key("a")).unwrap().value()["data"].clone();
        assert_eq!(data.as_object().map(serde_json::Map::len), Some(21));
    })
    .await;
}

#[tokio::test]
async fn nothing_begins_in_a_namespace_that_is_going() {
    in_namespace(async |objects: Objects| {
        let namespace = Key::global(&NAMESPACES, "x");
        let marked = objects
            .delete(&namespace, DeleteOptions::default())
            .await
            .unwrap();
        assert_eq!(marked.value()["status"]["phase"], "Terminating");
        let refused = objects
            .create(&CONFIG_MAPS, "x", config_map("a"))
            .await
            .unwrap_err();
        assert_eq!(refused.code, StatusCode::FORBIDDEN);
        assert_eq!(
            refused.details["causes"][0]["reason"],
            "NamespaceTerminating"
        );
    })
    .await;
}

#[tokio::test]
async fn the_namespaces_of_every_cluster_stay() {
    in_namespace(async |objects: Objects| {
        for name in ["default", "kube-system", "kube-public"] {
            let namespace = json!({"metadata": {"name": name}});
            objects.create(&NAMESPACES, "", namespace).await.unwrap();
            let key = Key::global(&NAMESPACES, name);
            let refused = objects.delete(&key, with_grace(0)).await.unwrap_err();
            let words =
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            assert_eq!(
                (refused.code, refused.message),
                (StatusCode::FORBIDDEN, words)
            );
        }
    })
    .await;
}

fn page(limit: usize, continued: Option<String>) -> ListOptions {
    ListOptions {
        selector: Selector::in_namespace(Some("x")),
        limit: Some(limit),
        continued,
        ..ListOptions::default()
    }
}

#[tokio::test]
async fn the_pages_of_a_list_are_of_one_moment() {
    in_namespace(async |objects: Objects| {
        for name in ["a", "b", "c", "d", "e"] {
            objects
                .create(&CONFIG_MAPS, "x", config_map(name))
                .await
                .unwrap();
        }
        let first = objects.list(&CONFIG_MAPS, &page(2, None)).unwrap();
        assert_eq!(first.remaining, Some(3));
        objects
            .delete(&key("c"), DeleteOptions::default())
            .await
            .unwrap();
        objects
            .create(&CONFIG_MAPS, "x", config_map("bb"))
            .await
            .unwrap();
        let second = objects
            .list(&CONFIG_MAPS, &page(2, first.continued.clone()))
            .unwrap();
        let third = objects
            .list(&CONFIG_MAPS, &page(2, second.continued.clone()))
            .unwrap();
        let pages = [&first, &second, &third];
        let names = pages
            .iter()
            .flat_map(|page| page.items.iter().map(|item| item.name().to_owned()));
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
        assert!(pages.iter().all(|page| page.revision == first.revision));
        assert_eq!(third.continued, None);
        assert!(
            objects
                .list(&CONFIG_MAPS, &page(2, Some("?".to_owned())))
                .is_err()
        );
    })
    .await;
}

#[tokio::test]
async fn a_list_that_took_too_long_can_go_on_as_things_are_now() {
    let window = Window {
        changes: 1,
        ..Window::default()
    };
    with_objects(window, async |objects: Objects| {
        for name in ["a", "b", "c"] {
            objects
                .create(&CONFIG_MAPS, "x", config_map(name))
                .await
                .unwrap();
        }
        let first = objects.list(&CONFIG_MAPS, &page(1, None)).unwrap();
        for name in ["d", "e", "f"] {
            objects
                .create(&CONFIG_MAPS, "x", config_map(name))
                .await
                .unwrap();
        }
        let expired = objects
            .list(&CONFIG_MAPS, &page(9, first.continued))
            .unwrap_err();
        assert_eq!(
            (expired.code, expired.reason),
            (StatusCode::GONE, "Expired")
        );
        let rest = objects
            .list(&CONFIG_MAPS, &page(9, expired.continued.map(String::from)))
            .unwrap();
        assert_eq!(rest.items.len(), 5);
        // A token of the future is from before somebody went back to older data.
        let token = URL_SAFE_NO_PAD.encode(json!([1_000_000, "x/a"]).to_string());
        for ahead in [
            ListOptions {
                resource_version: Some(1_000_000),
                ..page(1, None)
            },
            page(1, Some(token)),
        ] {
            assert_eq!(
                objects.list(&CONFIG_MAPS, &ahead).unwrap_err().code,
                StatusCode::GATEWAY_TIMEOUT
            );
        }
    })
    .await;
}
