//! What is asked next. It follows from the seed and from how many writes were answered, never
//! from what only one server said.

use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::asked::{Asked, Body, KINDS, Kind, Own};
use crate::normal::GIVEN_YEAR;
use crate::objects::{Called, FINALIZER, template};
use crate::place::Answer;

const NAMES: usize = 3;

/// So many requests, at first, only make something.
const BEGINNING: usize = 6;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

const LABELS: [&str; 6] = [
    "tier=front",
    "tier in (front,back)",
    "tier!=back",
    "app",
    "!app",
    "tier notin (front),app=x",
];

/// Which the objects of others do not have.
const OWN_LABELS: [&str; 3] = ["tier=front", "tier in (front,back)", "app"];

pub(crate) struct Story {
    random: Rng,
    node: String,
    /// Writes that have left a revision.
    past: usize,
    /// The last list has more.
    goes_on: bool,
    asked: usize,
    /// Names that it makes up.
    left_to_server: usize,
}

impl Story {
    /// `node` is one that neither cluster has, and that no other sequence names: controllers
    /// remember for a while that it is gone, and then act at once.
    pub(crate) fn new(seed: u64, node: String) -> Self {
        Self {
            random: Rng::with_seed(seed),
            node,
            past: 0,
            goes_on: false,
            asked: 0,
            left_to_server: 0,
        }
    }

    pub(crate) fn heard(&mut self, asked: &Asked, answer: &Answer) {
        let metadata = &answer.body["metadata"];
        let dry = asked.query.iter().any(|(key, _)| *key == "dryRun");
        if answer.code >= 400 || dry {
            return;
        }
        if asked.method == Method::GET && asked.path.is_empty() {
            self.goes_on = metadata["continue"].is_string();
        } else if asked.writes()
            && metadata["name"].is_string()
            && metadata["resourceVersion"].is_string()
        {
            self.past += 1;
        }
    }

    pub(crate) fn next(&mut self) -> Asked {
        self.asked += 1;
        let kind = self.one_of(&KINDS);
        let name = self.name(kind);
        if self.asked <= BEGINNING {
            return self.create(kind, &name);
        }
        let mut asked = match self.random.u8(..100) {
            0..28 => self.create(kind, &name),
            28..42 => self.update(kind, &name),
            42..62 => self.patch(kind, &name),
            62..72 => self.delete(kind, &name),
            72..75 => self.delete_collection(kind),
            75..80 => self.get(kind, &name),
            80..90 => self.list(kind),
            _ => self.of_pods(),
        };
        if asked.writes() {
            if self.chance(8) {
                asked = asked.with("dryRun", "All");
            }
            if self.chance(15) {
                let how = self.one_of(&["Strict", "Warn", "Ignore"]);
                asked = asked.with("fieldValidation", how);
            }
        }
        asked
    }

    /// From several moments of the past, and some that select.
    pub(crate) fn watches(&mut self) -> Vec<Asked> {
        let mut watches = Vec::new();
        for kind in KINDS {
            for _ in 0..4 {
                let mut asked = Asked::new(Method::GET, kind, "")
                    .with("watch", "true")
                    .with("timeoutSeconds", "4");
                let streamed = self.chance(25);
                if self.past > 0 && !streamed {
                    let which = self.random.usize(..self.past);
                    asked = asked.with_own("resourceVersion", Own::Past(which));
                }
                if streamed {
                    asked = asked
                        .with("sendInitialEvents", "true")
                        .with("allowWatchBookmarks", "true")
                        .with("resourceVersionMatch", "NotOlderThan");
                }
                if self.chance(50) {
                    asked = self.selecting(asked, kind);
                }
                if self.chance(20) {
                    asked.accept = METADATA;
                }
                watches.push(asked);
            }
        }
        watches
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.random.usize(..list.len())].clone()
    }

    fn name(&mut self, kind: Kind) -> String {
        let number = self.random.usize(..NAMES);
        match kind {
            Kind::ConfigMap => format!("c{number}"),
            Kind::Pod => format!("p{number}"),
        }
    }

    fn word(&mut self) -> String {
        format!("v{}", self.random.u8(..8))
    }

    fn create(&mut self, kind: Kind, name: &str) -> Asked {
        let which = self.random.usize(..4);
        let called = if self.chance(15) {
            self.left_to_server += 1;
            Called::ByServer(self.left_to_server)
        } else {
            Called::Name(name)
        };
        let mut object = template(kind, which, &called, &self.node);
        if self.chance(6) {
            object["spec"]["surprise"] = json!({"a": 1});
        }
        if self.chance(4) {
            object["metadata"]["labels"] = json!({"not a label": "x"});
        }
        if self.chance(4) {
            object["metadata"]["name"] = "Not_A_Name".into();
        }
        if self.chance(3) {
            object["metadata"]["namespace"] = "elsewhere".into();
        }
        if self.chance(3) {
            object["metadata"]["resourceVersion"] = "7".into();
        }
        if self.chance(3) && kind == Kind::Pod {
            object["spec"]["containers"] = json!([]);
        }
        if self.chance(3) && kind == Kind::ConfigMap {
            object["data"] = json!({"no/key": "x"});
        }
        Asked::new(Method::POST, kind, "").body(Body::Json(object, Vec::new()))
    }

    fn update(&mut self, kind: Kind, name: &str) -> Asked {
        let mut changes = Vec::new();
        for _ in 0..=self.random.usize(..2) {
            changes.push(self.changed_place(kind));
        }
        let mut own = Vec::new();
        match self.random.u8(..10) {
            0 => changes.push(("/metadata/resourceVersion", Value::Null)),
            1 if self.past > 0 => {
                let which = self.random.usize(..self.past);
                own.push(("/metadata/resourceVersion", Own::Past(which)));
            }
            2 => changes.push((
                "/metadata/uid",
                "00000000-0000-4000-8000-000000000000".into(),
            )),
            3 => changes.push(("/metadata/name", "c9".into())),
            _ => {}
        }
        Asked::new(Method::PUT, kind, name).body(Body::Seen {
            kind,
            name: name.to_owned(),
            otherwise: template(kind, 0, &Called::Name(name), &self.node),
            changes,
            own,
        })
    }

    /// A place of an object, and what is to be there.
    fn changed_place(&mut self, kind: Kind) -> (&'static str, Value) {
        let word = self.word();
        let common: [(&'static str, Value); 6] = [
            ("/metadata/labels", json!({"tier": "back", "app": "x"})),
            ("/metadata/labels", json!({"tier": "front"})),
            ("/metadata/annotations", json!({"note": word})),
            ("/metadata/finalizers", Value::Null),
            ("/metadata/finalizers", json!([FINALIZER])),
            ("/metadata/generation", json!(40)),
        ];
        if self.chance(50) {
            return self.one_of(&common);
        }
        match kind {
            Kind::ConfigMap => self.one_of(&[
                ("/data", json!({"key": word})),
                ("/data", json!({"key": word, "more": "x"})),
                ("/data", Value::Null),
                ("/immutable", json!(true)),
                ("/immutable", Value::Null),
                ("/binaryData", json!({"bytes": "/w=="})),
                ("/data", json!({"..": "x"})),
            ]),
            Kind::Pod => self.one_of(&[
                ("/spec/containers/0/image", json!(format!("busybox:{word}"))),
                ("/spec/activeDeadlineSeconds", json!(100)),
                ("/spec/activeDeadlineSeconds", json!(50)),
                ("/spec/activeDeadlineSeconds", Value::Null),
                ("/spec/containers/0/command", json!(["true"])),
                ("/spec/nodeName", json!("other")),
                ("/spec/terminationGracePeriodSeconds", json!(1)),
                ("/status/phase", json!("Running")),
            ]),
        }
    }

    fn patch(&mut self, kind: Kind, name: &str) -> Asked {
        let mut asked = Asked::new(Method::PATCH, kind, name);
        let word = self.word();
        let (form, patch) = match self.random.u8(..3) {
            0 => (MERGE, self.merge_patch(kind, &word)),
            1 => (STRATEGIC, self.strategic_patch(kind, &word)),
            _ => (JSON_PATCH, self.json_patch(kind, &word)),
        };
        asked.content_type = form;
        let mut own = Vec::new();
        if form != JSON_PATCH && self.chance(15) && patch["metadata"].is_object() {
            let version = if self.chance(50) && self.past > 0 {
                Own::Past(self.random.usize(..self.past))
            } else {
                Own::Version(kind, name.to_owned())
            };
            own.push(("/metadata/resourceVersion", version));
        }
        asked.body(Body::Json(patch, own))
    }

    fn merge_patch(&mut self, kind: Kind, word: &str) -> Value {
        let mut all = vec![
            json!({"metadata": {"labels": {"app": word}}}),
            json!({"metadata": {"labels": null}}),
            json!({"metadata": {"annotations": {"note": word, "a": null}}}),
            json!({"metadata": {"finalizers": null}}),
            json!({"metadata": {"finalizers": [FINALIZER]}}),
            json!({"metadata": {"name": "other"}}),
            json!({"metadata": {"labels": {"app": 7}}}),
            json!({"metadata": {"labels": {"app": "not ok!"}}}),
            json!({"metadata": {}, "surprise": word}),
            json!({}),
        ];
        all.extend(match kind {
            Kind::ConfigMap => vec![
                json!({"data": {"key": word}}),
                json!({"data": {"key": null, "new": word}}),
                json!({"data": null}),
                json!({"immutable": true}),
                json!({"binaryData": {"bytes": "not base64!"}}),
            ],
            Kind::Pod => vec![
                json!({"spec": {"activeDeadlineSeconds": 30}}),
                json!({"spec": {"containers": [{"name": "main", "image": word}]}}),
                json!({"spec": {"hostNetwork": true}}),
                json!({"status": {"phase": "Running"}}),
                json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
            ],
        });
        self.one_of(&all)
    }

    fn strategic_patch(&mut self, kind: Kind, word: &str) -> Value {
        let mut all = vec![
            json!({"metadata": {"labels": {"tier": word}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "tier": "front"}}}),
            json!({"metadata": {"finalizers": ["test.ferrolet.dev/second"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}),
            json!({"metadata": {"annotations": null}}),
        ];
        all.extend(match kind {
            Kind::ConfigMap => vec![
                json!({"data": {"$patch": "replace", "only": word}}),
                json!({"data": {"$patch": "delete"}}),
                json!({"data": {"key": word}}),
            ],
            Kind::Pod => vec![
                json!({"spec": {"containers": [{"name": "main", "image": format!("busybox:{word}")}]}}),
                json!({"spec": {"containers": [{"name": "second", "image": "busybox"}]}}),
                json!({"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}),
                json!({"spec": {"$setElementOrder/containers": [{"name": "main"}],
                    "containers": [{"name": "main", "image": "busybox:ordered"}]}}),
                json!({"spec": {"$retainKeys": ["containers"], "containers": []}}),
                json!({"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}),
            ],
        });
        self.one_of(&all)
    }

    fn json_patch(&mut self, kind: Kind, word: &str) -> Value {
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
        let mut all = vec![
            json!([add("/metadata/labels/app", word.into())]),
            json!([
                test("/metadata/labels/tier", "front".into()),
                add("/metadata/labels/tier", "back".into())
            ]),
            json!([{"op": "remove", "path": "/metadata/labels/app"}]),
            json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
            json!([{"op": "replace", "path": "/metadata/annotations/note", "value": word}]),
            json!([{"op": "move", "from": "/metadata/labels/tier", "path": "/metadata/labels/moved"}]),
            json!([{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}]),
            json!([]),
        ];
        all.extend(match kind {
            Kind::ConfigMap => vec![
                json!([add("/data/key", word.into())]),
                json!([
                    add("/data", json!({"a~b": "1"})),
                    add("/data/c", word.into())
                ]),
                json!([{"op": "remove", "path": "/data"}]),
                json!([add("/immutable", json!("yes"))]),
            ],
            Kind::Pod => vec![
                json!([add(
                    "/spec/containers/0/image",
                    json!(format!("busybox:{word}"))
                )]),
                json!([add(
                    "/spec/tolerations/-",
                    json!({"key": "c", "operator": "Exists"})
                )]),
                json!([
                    test("/status/phase", "Running".into()),
                    add("/metadata/labels/app", "runs".into())
                ]),
                json!([add("/spec/containers/7/image", "x".into())]),
            ],
        });
        self.one_of(&all)
    }

    fn delete(&mut self, kind: Kind, name: &str) -> Asked {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        let mut own = Vec::new();
        if self.chance(10) {
            options["dryRun"] = json!(["All"]);
        }
        if self.chance(40) {
            options["gracePeriodSeconds"] = self.one_of(&[0, 0, 5, 60]).into();
        }
        match self.random.u8(..10) {
            0 => {
                options["preconditions"] = json!({"uid": "00000000-0000-4000-8000-000000000000"});
            }
            1 => {
                options["preconditions"] = json!({});
                own.push(("/preconditions/uid", Own::Uid(kind, name.to_owned())));
            }
            2 => {
                options["preconditions"] = json!({});
                own.push((
                    "/preconditions/resourceVersion",
                    Own::Version(kind, name.to_owned()),
                ));
            }
            _ => {}
        }
        let asked = Asked::new(Method::DELETE, kind, name);
        if self.chance(30) && own.is_empty() {
            return asked;
        }
        asked.body(Body::Json(options, own))
    }

    fn delete_collection(&mut self, kind: Kind) -> Asked {
        let asked = Asked::new(Method::DELETE, kind, "");
        let which = match kind {
            // What a controller has put there would come back, sooner or later.
            Kind::ConfigMap => self.one_of(&OWN_LABELS),
            Kind::Pod => self.one_of(&LABELS),
        };
        asked.with("labelSelector", which)
    }

    fn get(&mut self, kind: Kind, name: &str) -> Asked {
        let mut asked = Asked::new(Method::GET, kind, name);
        asked.accept = self.one_of(&[asked.accept, asked.accept, TABLE, METADATA]);
        asked
    }

    fn list(&mut self, kind: Kind) -> Asked {
        let mut asked = Asked::new(Method::GET, kind, "");
        if self.goes_on && self.chance(60) {
            // It may be of the other kind, which is refused.
            return asked.with("limit", "2").with_own("continue", Own::Continue);
        }
        if self.chance(50) {
            asked = self.selecting(asked, kind);
        }
        if self.chance(40) {
            asked = asked.with("limit", self.one_of(&["1", "2", "100"]));
        } else if self.past > 0 && self.chance(40) {
            let which = self.random.usize(..self.past);
            asked = asked
                .with_own("resourceVersion", Own::Past(which))
                .with("resourceVersionMatch", "Exact");
        }
        asked.accept = self.one_of(&[asked.accept, asked.accept, TABLE, METADATA_LIST]);
        asked
    }

    fn selecting(&mut self, asked: Asked, kind: Kind) -> Asked {
        if self.chance(60) {
            let which = self.one_of(&LABELS);
            return asked.with("labelSelector", which);
        }
        let on_node = format!("spec.nodeName={}", self.node);
        let fields = match kind {
            Kind::ConfigMap => vec!["metadata.name=c1", "metadata.name!=c0", "data.key=x"],
            Kind::Pod => vec![
                "metadata.name=p1",
                "status.phase=Running",
                "status.phase!=Pending",
                &on_node,
                "spec.nodeName=",
                "spec.restartPolicy=Never",
            ],
        };
        let which = self.one_of(&fields);
        asked.with("fieldSelector", which)
    }

    /// What only pods have.
    fn of_pods(&mut self) -> Asked {
        let name = self.name(Kind::Pod);
        let of = |part: &str| format!("{name}/{part}");
        match self.random.u8(..10) {
            0..2 => {
                let binding = json!({"apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": name, "annotations": {"bound": "yes"}},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": self.node}});
                Asked::new(Method::POST, Kind::Pod, of("binding"))
                    .body(Body::Json(binding, Vec::new()))
            }
            2 => {
                let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": name}});
                Asked::new(Method::POST, Kind::Pod, of("eviction"))
                    .body(Body::Json(eviction, Vec::new()))
            }
            3 => {
                let word = self.word();
                let mut asked = Asked::new(Method::PATCH, Kind::Pod, of("ephemeralcontainers"));
                asked.content_type = STRATEGIC;
                let patch = json!({"spec": {"ephemeralContainers": [
                    {"name": format!("debug-{word}"), "image": "busybox"},
                ]}});
                asked.body(Body::Json(patch, Vec::new()))
            }
            4 => Asked::new(Method::GET, Kind::Pod, of("status")),
            5..7 => {
                let phase = self.one_of(&["Running", "Succeeded", "Failed", "Pending"]);
                Asked::new(Method::PUT, Kind::Pod, of("status")).body(Body::Seen {
                    kind: Kind::Pod,
                    name: name.clone(),
                    otherwise: template(Kind::Pod, 0, &Called::Name(&name), &self.node),
                    changes: vec![
                        ("/status/phase", phase.into()),
                        ("/status/startTime", given(3).into()),
                        ("/metadata/labels", json!({"tier": "back"})),
                    ],
                    own: Vec::new(),
                })
            }
            _ => {
                let mut asked = Asked::new(Method::PATCH, Kind::Pod, of("status"));
                asked.content_type = STRATEGIC;
                let patch = self.status_patch(&name);
                asked.body(patch)
            }
        }
    }

    /// As kubelets write it.
    fn status_patch(&mut self, name: &str) -> Body {
        let ready = self.one_of(&["True", "False"]);
        let condition = json!({"type": "Ready", "status": ready, "lastProbeTime": null,
            "lastTransitionTime": given(self.random.u8(1..9))});
        let patch = match self.random.u8(..3) {
            0 => json!({"metadata": {}, "status": {"conditions": [condition]}}),
            1 => json!({"metadata": {}, "status": {
                "phase": "Running",
                "podIP": "10.0.0.7",
                "podIPs": [{"ip": "10.0.0.7"}],
                "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "x",
                    "ready": true, "restartCount": 1, "started": true,
                    "state": {"running": {"startedAt": given(1)}}, "lastState": {}}],
            }}),
            _ => json!({"metadata": {}, "status": {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "Own"}],
                "conditions": [condition, {"type": "Own", "status": "Unknown"}],
            }}),
        };
        // The kubelet says which pod it means.
        let mut own = Vec::new();
        if self.chance(60) {
            own.push(("/metadata/uid", Own::Uid(Kind::Pod, name.to_owned())));
        }
        Body::Json(patch, own)
    }
}

/// Asks for everything that is there.
pub(crate) fn lists() -> Vec<Asked> {
    let lists = KINDS.iter().map(|kind| Asked::new(Method::GET, *kind, ""));
    lists.collect()
}

/// A time that is compared.
fn given(day: u8) -> String {
    format!("{GIVEN_YEAR}01-0{day}T00:00:00Z")
}
