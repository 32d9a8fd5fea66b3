//! The controllers on a store in memory, with a clock that waits for nobody.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::access::certificate_request::tests::request_pem;
use crate::access::pki::tests_support::names;
use crate::clock::Clock;
use crate::kinds::{
    CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, EVENTS, Kind, LEASES, NAMESPACES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES,
};
use crate::rest::{DeleteOptions, Part};
use crate::store::{Key, Store, Window};

/// A cluster without a front: objects, and those who look after them.
struct Cluster {
    objects: Objects,
    tasks: JoinSet<&'static str>,
    shutdown: CancellationToken,
}

impl Cluster {
    async fn start() -> Self {
        let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let clock = Clock::starting_at(origin);
        let (store, writer) = Store::open(None, Window::default()).unwrap();
        let pki = Pki::open(None, &names(), clock.timestamp()).unwrap();
        let objects = Objects::new(store, clock);
        let mut tasks = JoinSet::new();
        let shutdown = CancellationToken::new();
        let ended = shutdown.clone();
        tasks.spawn(async move {
            writer.run(ended).await;
            "writer"
        });
        let controllers = Controllers {
            objects: objects.clone(),
            authorizer: Authorizer::default(),
            pki: Arc::new(pki),
            server: "https://192.0.2.1:6443".to_owned(),
            port: 6443,
            service_address: "10.96.0.1".parse().unwrap(),
        };
        controllers.furnish().await.unwrap();
        controllers.start(&mut tasks, &shutdown);
        Self {
            objects,
            tasks,
            shutdown,
        }
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }

    async fn create(&self, kind: &'static Kind, namespace: &str, object: Value) -> Value {
        self.objects
            .create(kind, namespace, object)
            .await
            .unwrap()
            .value()
    }

    fn get(&self, kind: &'static Kind, namespace: &str, name: &str) -> Value {
        let found = self.objects.store().get(&Key::new(kind, namespace, name));
        found.map(|found| found.value()).unwrap_or_default()
    }

    /// Waits until the object is as it should be.
    async fn until(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        for _ in 0..2000 {
            let object = self.get(kind, namespace, name);
            if holds(&object) {
                return object;
            }
            self.objects.clock().sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "{} {namespace}/{name} is still {}",
            kind.kind,
            self.get(kind, namespace, name)
        );
    }

    fn events(&self, namespace: &str, reason: &str) -> Vec<String> {
        let events = self.objects.store().list(&EVENTS, Some(namespace)).items;
        let events = events
            .iter()
            .map(crate::store::Stored::value)
            .filter(|event| event["reason"] == reason);
        events
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A node as a kubelet registers it, with a lease.
    async fn node(&self, name: &str) {
        let now = self.objects.clock().seconds();
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m", "lastHeartbeatTime": now, "lastTransitionTime": now}],
            },
        });
        self.create(&NODES, "", node).await;
        let lease = json!({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"holderIdentity": name, "renewTime": self.microseconds()}});
        self.create(&LEASES, "kube-node-lease", lease).await;
    }

    async fn renew(&self, name: &str) {
        let now = self.microseconds();
        let key = Key::new(&LEASES, "kube-node-lease", name);
        let renewed = self.objects.modify(&key, Part::Whole, |lease| {
            lease["spec"]["renewTime"] = json!(now);
            true
        });
        renewed.await.unwrap();
    }

    fn microseconds(&self) -> String {
        self.objects
            .clock()
            .timestamp()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string()
    }

    async fn pod(&self, name: &str, cpu: &str) -> Value {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}]},
        });
        self.create(&PODS, "default", pod).await
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key && taint["effect"] == effect)
}

#[tokio::test(start_paused = true)]
async fn every_namespace_is_furnished_and_goes_with_all_that_is_in_it() {
    let cluster = Cluster::start().await;
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        cluster
            .until(&SERVICE_ACCOUNTS, namespace, "default", |found| {
                !found.is_null()
            })
            .await;
        let ca = cluster
            .until(&CONFIG_MAPS, namespace, "kube-root-ca.crt", |found| {
                !found.is_null()
            })
            .await;
        assert!(
            ca["data"]["ca.crt"]
                .as_str()
                .unwrap()
                .starts_with("-----BEGIN CERTIFICATE-----")
        );
    }
    assert_eq!(
        cluster.get(&SERVICES, "default", "kubernetes")["spec"]["clusterIP"],
        "10.96.0.1"
    );

    cluster
        .create(&NAMESPACES, "", json!({"metadata": {"name": "team"}}))
        .await;
    cluster
        .until(&SERVICE_ACCOUNTS, "team", "default", |found| {
            !found.is_null()
        })
        .await;
    let held =
        json!({"metadata": {"name": "held", "namespace": "team", "finalizers": ["example.com/a"]}});
    cluster.create(&CONFIG_MAPS, "team", held).await;
    let key = Key::global(&NAMESPACES, "team");
    cluster
        .objects
        .delete(&key, DeleteOptions::default())
        .await
        .unwrap();
    let going = cluster
        .until(&NAMESPACES, "", "team", |found| {
            condition(found, "NamespaceFinalizersRemaining")["status"] == "True"
        })
        .await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let held = Key::new(&CONFIG_MAPS, "team", "held");
    let let_go = cluster.objects.modify(&held, Part::Whole, |object| {
        object["metadata"]["finalizers"] = json!([]);
        true
    });
    let_go.await.unwrap();
    cluster.until(&NAMESPACES, "", "team", Value::is_null).await;
    assert!(
        cluster
            .objects
            .store()
            .list(&CONFIG_MAPS, Some("team"))
            .items
            .is_empty()
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_furnished_while_another_is_emptied() {
    const MANY: usize = 2000;
    let cluster = Cluster::start().await;
    cluster
        .create(&NAMESPACES, "", json!({"metadata": {"name": "big"}}))
        .await;
    for index in 0..MANY {
        let map = json!({"metadata": {"name": format!("m{index}"), "namespace": "big"}});
        cluster.create(&CONFIG_MAPS, "big", map).await;
    }
    let store = cluster.objects.store();
    let left = || store.list(&CONFIG_MAPS, Some("big")).items.len();
    let key = Key::global(&NAMESPACES, "big");
    let going = cluster.objects.delete(&key, DeleteOptions::default());
    going.await.unwrap();
    // Time stands still: no wait is over before all is done.
    while left() >= MANY {
        tokio::task::yield_now().await;
    }
    let mut accounts = store
        .watch(&SERVICE_ACCOUNTS, Some("new"), store.revision())
        .unwrap();
    cluster
        .create(&NAMESPACES, "", json!({"metadata": {"name": "new"}}))
        .await;
    accounts.next().await.unwrap();
    assert!(left() > 0, "who is new has waited for the other's end");
    cluster.until(&NAMESPACES, "", "big", Value::is_null).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_find_places_and_say_why_not() {
    let cluster = Cluster::start().await;
    cluster.pod("first", "1").await;
    let waiting = cluster
        .until(&PODS, "default", "first", |pod| {
            condition(pod, "PodScheduled")["status"] == "False"
        })
        .await;
    assert_eq!(
        condition(&waiting, "PodScheduled")["message"],
        "no nodes available to schedule pods"
    );
    cluster.node("one").await;
    let placed = cluster
        .until(&PODS, "default", "first", |pod| {
            pod["spec"]["nodeName"] == "one"
        })
        .await;
    assert_eq!(condition(&placed, "PodScheduled")["status"], "True");
    assert_eq!(
        cluster.events("default", "Scheduled"),
        ["Successfully assigned default/first to one"]
    );

    cluster.pod("second", "1500m").await;
    let words = "0/1 nodes are available: 1 Insufficient cpu.";
    cluster
        .until(&PODS, "default", "second", |pod| {
            condition(pod, "PodScheduled")["message"] == words
        })
        .await;
    assert!(
        cluster
            .events("default", "FailedScheduling")
            .contains(&words.to_owned())
    );
    let now = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    cluster
        .objects
        .delete(&Key::new(&PODS, "default", "first"), now)
        .await
        .unwrap();
    cluster
        .until(&PODS, "default", "second", |pod| {
            pod["spec"]["nodeName"] == "one"
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_finds_its_place_as_soon_as_its_volume_is_there() {
    let cluster = Cluster::start().await;
    cluster.node("one").await;
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "busybox"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    });
    cluster.create(&PODS, "default", pod).await;
    let waits_for = async |words: &str| {
        cluster
            .until(&PODS, "default", "p", |pod| {
                let message = condition(pod, "PodScheduled")["message"].as_str();
                message.is_some_and(|message| message.contains(words))
            })
            .await;
    };
    waits_for("persistentvolumeclaim \"data\" not found").await;
    let claim = json!({"metadata": {"name": "data", "namespace": "default"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "volumeName": "disk",
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    cluster
        .create(&PERSISTENT_VOLUME_CLAIMS, "default", claim)
        .await;
    waits_for("bound to non-existent pv(s)").await;
    let volume = json!({"metadata": {"name": "disk"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
    }});
    cluster.create(&PERSISTENT_VOLUMES, "", volume).await;
    cluster
        .until(&PODS, "default", "p", |pod| {
            pod["spec"]["nodeName"] == "one"
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_is_marked_and_loses_its_pods() {
    let cluster = Cluster::start().await;
    cluster.node("silent").await;
    cluster.pod("p", "1").await;
    cluster
        .until(&PODS, "default", "p", |pod| {
            pod["spec"]["nodeName"] == "silent"
        })
        .await;
    cluster.node("alive").await;
    for _ in 0..5 {
        cluster.objects.clock().sleep(Duration::from_secs(10)).await;
        cluster.renew("alive").await;
        assert!(condition(&cluster.get(&NODES, "", "alive"), "Ready")["status"] == "True");
    }
    let node = cluster
        .until(&NODES, "", "silent", |node| {
            condition(node, "Ready")["status"] == "Unknown"
        })
        .await;
    assert_eq!(condition(&node, "Ready")["reason"], "NodeStatusUnknown");
    let unreachable = "node.kubernetes.io/unreachable";
    cluster.renew("alive").await;
    let node = cluster
        .until(&NODES, "", "silent", |node| {
            has_taint(node, unreachable, "NoExecute")
        })
        .await;
    assert!(has_taint(&node, unreachable, "NoSchedule"));
    assert_eq!(
        cluster
            .events("default", "NodeNotReady")
            .first()
            .map(String::as_str),
        Some("Node silent status is now: NodeNotReady")
    );
    // The default tolerations are five minutes long.
    for _ in 0..29 {
        cluster.objects.clock().sleep(Duration::from_secs(10)).await;
        cluster.renew("alive").await;
        assert!(cluster.get(&PODS, "default", "p")["metadata"]["deletionTimestamp"].is_null());
    }
    let gone = cluster
        .until(&PODS, "default", "p", |pod| {
            !pod["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    assert_eq!(
        condition(&gone, "DisruptionTarget")["reason"],
        "DeletionByTaintManager"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_renewed_while_others_were_written_is_not_silent() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open(Some(directory.path()), Window::default()).unwrap();
    let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let clock = Clock::starting_at(origin);
    let controller = |objects: &Objects| {
        nodes::Nodes::new(objects.clone(), nodes::health::Patience::default()).run()
    };
    let mut running = JoinSet::new();
    {
        let (store, writer) = open();
        running.spawn(writer.run(CancellationToken::new()));
        let objects = Objects::new(store, clock.clone());
        for name in ["a", "b"] {
            let node = json!({"metadata": {"name": name}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": clock.seconds()},
            ]}});
            objects.create(&NODES, "", node).await.unwrap();
        }
        running.spawn(controller(&objects));
        clock.sleep(Duration::from_secs(1)).await;
        running.shutdown().await;
    }
    // Nothing is written at first: who is to be marked keeps the controller waiting.
    let (store, writer) = open();
    let objects = Objects::new(store, clock.clone());
    running.spawn(controller(&objects));
    clock.sleep(Duration::from_secs(55)).await;
    let lease = json!({"metadata": {"name": "b", "namespace": "kube-node-lease"}, "spec": {"renewTime": clock.seconds()}});
    let renewing = objects.store().clone();
    running.spawn(async move {
        let key = Key::new(&LEASES, "kube-node-lease", "b");
        renewing.create(key, lease).await.unwrap();
    });
    clock.sleep(Duration::from_secs(1)).await;
    running.spawn(writer.run(CancellationToken::new()));
    clock.sleep(Duration::from_secs(1)).await;
    let ready = |name: &str| {
        let node = objects.store().get(&Key::global(&NODES, name)).unwrap();
        condition(&node.value(), "Ready")["status"].clone()
    };
    assert_eq!([ready("a"), ready("b")], ["Unknown", "True"]);
    running.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_go_too() {
    let cluster = Cluster::start().await;
    cluster.node("one").await;
    cluster.pod("p", "1").await;
    cluster
        .until(&PODS, "default", "p", |pod| {
            pod["spec"]["nodeName"] == "one"
        })
        .await;
    cluster
        .objects
        .delete(&Key::global(&NODES, "one"), DeleteOptions::default())
        .await
        .unwrap();
    cluster.until(&PODS, "default", "p", Value::is_null).await;
    cluster.stop().await;
}

#[test]
fn another_object_of_the_same_name_is_not_the_one_that_was_judged() {
    for (found, judged, same) in [
        (json!({"uid": "1"}), json!({"uid": "1"}), true),
        (json!({"uid": "2"}), json!({"uid": "1"}), false),
        (json!({}), json!({"uid": "1"}), false),
        (json!({}), json!({}), true),
    ] {
        let judged: ObjectMeta = serde_json::from_value(judged).unwrap();
        let found = json!({"metadata": found});
        assert_eq!(is_still(&found, &judged), same, "{found}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_nodes_request_is_approved_and_signed() {
    let cluster = Cluster::start().await;
    let request = |name: &str, user: &str, groups: &[&str]| {
        let text = STANDARD.encode(request_pem("system:node:one", "system:nodes", &[]));
        json!({"metadata": {"name": name}, "spec": {
            "request": text, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"], "username": user, "groups": groups}})
    };
    // Straight into the store: the front says who asks.
    for (name, user, groups) in [
        (
            "first",
            "system:bootstrap:abcdef",
            &["system:bootstrappers"][..],
        ),
        ("foreign", "mary", &["system:authenticated"]),
    ] {
        let key = Key::global(&CERTIFICATE_SIGNING_REQUESTS, name);
        cluster
            .objects
            .store()
            .create(key, request(name, user, groups))
            .await
            .unwrap();
    }
    let issued = cluster
        .until(&CERTIFICATE_SIGNING_REQUESTS, "", "first", |csr| {
            !csr["status"]["certificate"].is_null()
        })
        .await;
    assert_eq!(condition(&issued, "Approved")["reason"], "AutoApproved");
    let certificate = STANDARD
        .decode(issued["status"]["certificate"].as_str().unwrap())
        .unwrap();
    assert!(certificate.starts_with(b"-----BEGIN CERTIFICATE-----"));
    assert!(
        cluster.get(&CERTIFICATE_SIGNING_REQUESTS, "", "foreign")["status"]["conditions"].is_null()
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_info_is_signed_with_tokens_until_they_end() {
    let cluster = Cluster::start().await;
    let expiration =
        (cluster.objects.clock().timestamp() + SignedDuration::from_secs(60)).to_string();
    let text = |text: &str| STANDARD.encode(text);
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {"token-id": text("abcdef"), "token-secret": text("0123456789abcdef"),
            "usage-bootstrap-signing": text("true"), "expiration": text(&expiration)},
    });
    cluster.create(&SECRETS, "kube-system", secret).await;
    let signed = |object: &Value| object["data"]["jws-kubeconfig-abcdef"].is_string();
    cluster
        .until(&CONFIG_MAPS, "kube-public", "cluster-info", signed)
        .await;
    cluster
        .until(
            &SECRETS,
            "kube-system",
            "bootstrap-token-abcdef",
            Value::is_null,
        )
        .await;
    cluster
        .until(&CONFIG_MAPS, "kube-public", "cluster-info", |object| {
            !signed(object)
        })
        .await;
    cluster.stop().await;
}
