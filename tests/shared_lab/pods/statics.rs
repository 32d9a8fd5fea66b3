//! Static pods: by file and by URL, with their mirrors.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Runtime, Spec};
use testkit::wait;

use super::stage::{SOON, Stage, is_ready, main_of, shell, sleeper};

const FILE: &str = "/etc/kubernetes/manifests/web.yaml";
const PAGES: &str = "/var/lib/pages";

#[test]
fn static_pods_follow_their_files_and_their_url() -> Result<()> {
    let url = "staticPodURL: http://127.0.0.1:8099/pods.json\nhttpCheckFrequency: 1s\n";
    let stage = Stage::bare("pods-static", Runtime::Containerd2)?;
    serve_pages(&stage)?;
    stage.node.start_ferrolet(url)?;
    stage.node.wait_ready(SOON)?;
    let statics = Statics { stage };
    let first = statics.appears()?;
    let first = statics.mirror_comes_back(&first)?;
    let second = statics.is_replaced(&first)?;
    statics.is_edited_and_edited_back(&second)?;
    statics.is_taken_away()?;
    statics.follows_its_page()?;
    statics.stage.end()
}

struct Statics {
    stage: Stage,
}

impl Statics {
    fn mirror(&self) -> String {
        format!("web-{}", self.stage.node.name())
    }

    /// As an editor does: whole, or not at all.
    fn write(&self, container: Value, grace: u32) -> Result<()> {
        let machine = self.stage.node.machine();
        let beside = "/etc/kubernetes/web.new";
        machine.write(beside, self.manifest("web", container, grace).to_string())?;
        fs::rename(machine.root(beside), machine.root(FILE))?;
        Ok(())
    }

    fn manifest(&self, name: &str, container: Value, grace: u32) -> Value {
        let namespace = self.stage.namespace();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "terminationGracePeriodSeconds": grace, "containers": Value::Array(vec![container]) },
        })
    }

    fn appears(&self) -> Result<Value> {
        self.write(sleeper(), 2)?;
        let pod = self.stage.wait_ready(&self.mirror())?;
        let owner = &pod["metadata"]["ownerReferences"][0];
        ensure!(owner["kind"] == "Node", "{owner}");
        ensure!(hash(&pod).is_string(), "{}", pod["metadata"]);
        Ok(pod)
    }

    fn mirror_comes_back(&self, before: &Value) -> Result<Value> {
        let name = self.mirror();
        let running = self.stage.running()?;
        let delete = ["delete", "pod", &name, "--wait=false"];
        self.stage.run(&delete)?;
        let uid = &before["metadata"]["uid"];
        let is_new = |pod: &Value| pod["metadata"]["uid"] != *uid && is_ready(pod);
        let pod = self.stage.wait_pod(&name, "there again", is_new)?;
        let (one, other) = (main_of(before), main_of(&pod));
        ensure!(one["containerID"] == other["containerID"], "{one} {other}");
        ensure!(self.stage.running()? == running, "a container was touched");
        Ok(pod)
    }

    fn is_replaced(&self, before: &Value) -> Result<Value> {
        // It takes its time to end, for what comes next.
        self.write(slow_to_end("one"), 6)?;
        let is_new = |pod: &Value| hash(pod) != hash(before) && is_ready(pod);
        let pod = self.stage.wait_pod(&self.mirror(), "replaced", is_new)?;
        let (one, other) = (main_of(before), main_of(&pod));
        ensure!(one["containerID"] != other["containerID"], "{one} {other}");
        self.runs_once()?;
        Ok(pod)
    }

    fn is_edited_and_edited_back(&self, before: &Value) -> Result<()> {
        self.write(slow_to_end("two"), 6)?;
        let old = main_of(before)["containerID"].clone();
        let old = old
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("containerd://");
        wait::until("the old one to be told to end", SOON, || {
            let said = self.stage.node.crictl(["logs", old])?;
            ensure!(said.contains("told to end"), "{said:?}");
            Ok(())
        })?;
        self.write(slow_to_end("one"), 6)?;
        // The same as before by its hash, and yet another container.
        let is_back = |pod: &Value| {
            hash(pod) == hash(before)
                && is_ready(pod)
                && main_of(pod)["containerID"] != main_of(before)["containerID"]
        };
        self.stage.wait_pod(&self.mirror(), "back", is_back)?;
        self.runs_once()
    }

    fn runs_once(&self) -> Result<()> {
        let name = self.mirror();
        wait::until("one container of the static pod", SOON, || {
            let running = self.stage.running()?;
            let own = running.get(&name).map_or(0, Vec::len);
            ensure!(own == 1, "{own} run: {running:?}");
            Ok(())
        })
    }

    fn is_taken_away(&self) -> Result<()> {
        fs::remove_file(self.stage.node.machine().root(FILE))?;
        self.stage.wait_gone(&self.mirror())?;
        self.stage.wait_nothing_left(&self.mirror())
    }

    fn follows_its_page(&self) -> Result<()> {
        let page = |names: &[&str]| {
            let pods = names.iter().map(|name| self.manifest(name, sleeper(), 2));
            let pods: Vec<Value> = pods.collect();
            json!({ "apiVersion": "v1", "kind": "PodList", "items": pods }).to_string()
        };
        let machine = self.stage.node.machine();
        let file = format!("{PAGES}/pods.json");
        machine.write(&file, page(&["a", "b"]))?;
        let [a, b] = ["a", "b"].map(|name| format!("{name}-{}", self.stage.node.name()));
        for name in [&a, &b] {
            self.stage.wait_ready(name)?;
        }
        let before = self.stage.running()?;
        machine.write(&file, page(&["b"]))?;
        self.stage.wait_gone(&a)?;
        self.stage.wait_nothing_left(&a)?;
        let after = self.stage.running()?;
        ensure!(before.get(&b) == after.get(&b), "{before:?} {after:?}");
        // Of two that have one name the first counts, and people are told.
        let twice = [2, 3].map(|grace| self.manifest("b", sleeper(), grace));
        let twice = json!({ "apiVersion": "v1", "kind": "PodList", "items": twice });
        machine.write(&file, twice.to_string())?;
        let words = "from http due to duplicate pod name";
        self.stage.wait_event(&b, "FailedValidation", words)?;
        // A page that is gone is no order to end anything; an empty list is.
        machine.write(&file, page(&[]))?;
        self.stage.wait_gone(&b)?;
        self.stage.wait_nothing_left(&b)
    }
}

fn hash(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"]["kubernetes.io/config.hash"]
}

fn slow_to_end(word: &str) -> Value {
    shell(&format!(
        "trap 'echo told to end' TERM; echo {word}; while :; do sleep 0.2; done"
    ))
}

fn serve_pages(stage: &Stage) -> Result<()> {
    let machine = stage.node.machine();
    let empty = json!({ "apiVersion": "v1", "kind": "PodList", "items": [] });
    machine.write(&format!("{PAGES}/pods.json"), empty.to_string())?;
    let words = ["httpd", "-f", "-p", "127.0.0.1:8099", "-h", PAGES];
    let pages = machine.daemon("pages");
    pages.start(&Spec {
        program: "busybox".to_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        ..Spec::default()
    })?;
    pages
        .is_running()
        .then_some(())
        .context("no pages: does busybox have httpd?")
}
