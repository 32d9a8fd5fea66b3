//! What a spec is: a pod, how far it shall come, and what is then done to it.

use serde_json::{Value, json};

use crate::compare::manifest::merge;

/// Where images of specs come from. Each container has one of its own: whether a
/// pod finds one that another has pulled would be chance.
const REGISTRY: &str = "registry.example";

/// By this label pods of files are told from others.
pub(super) const FROM_FILE: &str = "told-by-file";

/// One pod, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The pod's name, too.
    pub name: &'static str,
    pub(super) pod: Value,
    pub(super) source: Source,
    pub(super) until: Until,
    /// No container runs, so none writes: what one would have.
    pub(super) written: Option<Written>,
    /// What is then changed, and what shall come of it.
    pub(super) change: Option<(Change, Until)>,
    /// The grace that it is deleted with; its own if nothing is said.
    pub(super) grace: Option<u32>,
    /// So many lives of each container count: how many more there are when the
    /// pod is deleted is a matter of time.
    pub(super) lives: u64,
}

/// Who tells a node of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Api,
    /// A file on the node.
    Static,
}

/// How far a pod shall come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// All that shall go on running runs.
    Running,
    /// It has ended, well or badly.
    Ended,
    /// A container has been started so often again.
    Restarted(&'static str, u64),
    /// A container waits for this reason.
    Waiting(&'static str, &'static str),
    /// A container (also an ephemeral one) runs.
    Runs(&'static str),
    /// A container has ended for good.
    Stopped(&'static str),
    /// A container's resources are told to be these.
    Resized(&'static str, Value),
}

/// A file in an emptyDir. It is written as soon as the volume is there.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) volume: &'static str,
    pub(super) name: &'static str,
    pub(super) content: &'static str,
}

/// What is done to a pod that came so far.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Of the pod, or of a part of it that has an address of its own.
    Patch { part: &'static str, change: Value },
    /// Its sandbox ends without the kubelet's doing.
    StopSandbox,
}

/// A pod with one container `main` that runs until it is stopped. It has no token
/// and no variables of services, unless it is changed: they are the same for all.
pub(super) fn spec(name: &'static str) -> Spec {
    Spec {
        name,
        pod: json!({
            "apiVersion": "v1",
            "kind": "Pod",
            // Pulls are there to be asked for, not to be waited for.
            "metadata": {"name": name, "annotations": {"sim.ferrolet.dev/pull-delay": "0s"}},
            "spec": {
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "containers": [container(name, "main")],
                "tolerations": [{"operator": "Exists"}],
            },
        }),
        source: Source::Api,
        until: Until::Running,
        written: None,
        change: None,
        grace: None,
        lives: 1,
    }
}

fn container(spec: &str, name: &str) -> Value {
    json!({"name": name, "image": format!("{REGISTRY}/{spec}/{name}:1")})
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "manifests are written in place"
)]
impl Spec {
    /// Changes the pod's spec: objects are merged, all else is replaced.
    #[must_use]
    pub(super) fn pod(mut self, change: Value) -> Self {
        merge(&mut self.pod["spec"], &change);
        self
    }

    /// Changes its container `main`.
    #[must_use]
    pub(super) fn main(mut self, change: Value) -> Self {
        merge(&mut self.pod["spec"]["containers"][0], &change);
        self
    }

    #[must_use]
    pub(super) fn metadata(mut self, change: Value) -> Self {
        merge(&mut self.pod["metadata"], &change);
        self
    }

    /// One more container.
    #[must_use]
    pub(super) fn and(self, name: &str, change: Value) -> Self {
        self.more("containers", name, change)
    }

    /// One more init container.
    #[must_use]
    pub(super) fn init(self, name: &str, change: Value) -> Self {
        self.more("initContainers", name, change)
    }

    /// One more init container, which goes on running.
    #[must_use]
    pub(super) fn sidecar(self, name: &str, change: Value) -> Self {
        let mut sidecar = json!({"restartPolicy": "Always"});
        merge(&mut sidecar, &change);
        self.more("initContainers", name, sidecar)
    }

    fn more(mut self, list: &str, name: &str, change: Value) -> Self {
        let mut container = container(self.name, name);
        merge(&mut container, &change);
        push(&mut self.pod["spec"][list], container);
        // Who is stopped beside whom, and who after whom, shows only if it takes
        // a moment.
        if list == "containers" || container_goes_on(&change) {
            return self.story("stop-delay", "1s");
        }
        self
    }

    /// One more volume, mounted into `main`; the mount can be changed.
    #[must_use]
    pub(super) fn volume(mut self, source: Value, mount: Value) -> Self {
        let spec = &mut self.pod["spec"];
        let name = format!("v{}", spec["volumes"].as_array().map_or(0, Vec::len));
        let mut volume = source;
        volume["name"] = json!(name);
        push(&mut spec["volumes"], volume);
        let mut mounted = json!({"name": name, "mountPath": format!("/{name}")});
        merge(&mut mounted, &mount);
        push(&mut spec["containers"][0]["volumeMounts"], mounted);
        self
    }

    /// What the simulated runtime makes of it.
    #[must_use]
    pub(super) fn story(self, key: &str, value: &str) -> Self {
        let key = format!("sim.ferrolet.dev/{key}");
        self.metadata(json!({"annotations": {key: value}}))
    }

    #[must_use]
    pub(super) fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// It is not started again, and ends by itself.
    #[must_use]
    pub(super) fn ends(self) -> Self {
        self.pod(json!({"restartPolicy": "Never"}))
            .story("run-time", "300ms")
            .until(Until::Ended)
    }

    #[must_use]
    pub(super) fn then(mut self, part: &'static str, change: Value, until: Until) -> Self {
        self.change = Some((Change::Patch { part, change }, until));
        self
    }

    /// A container has written a file into an emptyDir.
    #[must_use]
    pub(super) fn written(mut self, written: Written) -> Self {
        self.written = Some(written);
        self
    }

    /// Its sandbox ends by an accident.
    #[must_use]
    pub(super) fn loses_sandbox(mut self, until: Until) -> Self {
        self.change = Some((Change::StopSandbox, until));
        self
    }

    #[must_use]
    pub(super) fn lives(mut self, lives: u64) -> Self {
        self.lives = lives;
        self
    }

    #[must_use]
    pub(super) fn grace(mut self, seconds: u32) -> Self {
        self.grace = Some(seconds);
        self
    }

    /// Told by a file on the node.
    #[must_use]
    pub(super) fn told_by_file(mut self) -> Self {
        self.source = Source::Static;
        self.pod(json!({"automountServiceAccountToken": null}))
            .metadata(json!({"labels": {FROM_FILE: "yes"}}))
    }

    /// The pod's name as a node of that name has it.
    pub(super) fn pod_name(&self, node: &str) -> String {
        match self.source {
            Source::Api => self.name.to_owned(),
            Source::Static => format!("{}-{node}", self.name),
        }
    }

    /// What is told of the pod to a node, in a namespace.
    pub(super) fn manifest(&self, node: &str, namespace: &str) -> Value {
        let mut pod = self.pod.clone();
        pod["metadata"]["namespace"] = json!(namespace);
        if self.source == Source::Api {
            pod["spec"]["nodeName"] = json!(node);
        }
        pod
    }
}

fn container_goes_on(change: &Value) -> bool {
    change["restartPolicy"] == "Always"
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_written_in_a_few_words() {
        let spec = spec("s")
            .main(json!({"tty": true}))
            .volume(json!({"emptyDir": {}}), json!({"readOnly": true}))
            .sidecar("helper", json!({}))
            .story("run-time", "1s");
        let pod = spec.manifest("n", "space");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["namespace"], "space");
        let main = &pod["spec"]["containers"][0];
        assert_eq!(main["image"], "registry.example/s/main:1");
        assert_eq!(main["tty"], true);
        let mount = json!({"name": "v0", "mountPath": "/v0", "readOnly": true});
        assert_eq!(main["volumeMounts"], json!([mount]));
        assert_eq!(pod["spec"]["initContainers"][0]["restartPolicy"], "Always");
        let notes = json!({
            "sim.ferrolet.dev/pull-delay": "0s", "sim.ferrolet.dev/run-time": "1s",
            "sim.ferrolet.dev/stop-delay": "1s",
        });
        assert_eq!(pod["metadata"]["annotations"], notes);
    }

    #[test]
    fn a_pod_of_a_file_is_named_by_its_node_and_needs_nothing_of_the_api() {
        let spec = spec("s").told_by_file();
        assert_eq!(spec.pod_name("n"), "s-n");
        let pod = spec.manifest("n", "space");
        assert_eq!(pod["spec"].get("nodeName"), None);
        assert_eq!(pod["spec"].get("automountServiceAccountToken"), None);
    }
}
