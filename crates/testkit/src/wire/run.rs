//! A run: all specs at once on both nodes, from their making to their end.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::normal::Words;
use super::objects;
use super::progress::{has_come, items};
use super::recording::{self, PodCalls};
use super::rules::Asked;
use super::spec::{Change, FROM_FILE, Source, Spec, Until};
use super::verdict::{Pages, Verdict};
use super::wires::{WiredNode, Wires};
use crate::compare::api::Api;
use crate::wait;

/// How long a step may take, and after how long without any progress nothing more
/// is waited for. Every pod gets there in the end: only a slow machine, or a fault, needs
/// that long.
const PATIENCE: Duration = Duration::from_secs(180);
const STILL: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(400);

/// So many are played beside each other the second time.
const FEW: usize = 50;

/// Which specs on which nodes.
#[derive(Debug)]
pub struct Run<'a> {
    pub wires: &'a Wires,
}

impl Run<'_> {
    /// Plays them, and those that differ once more with few beside them: what is told in
    /// whole seconds (how long a container has left after its hook) depends on how busy the
    /// machine is. What differs in the second take, too, is a difference.
    pub fn play(&self, specs: &[Spec]) -> Result<Verdict> {
        let mut verdict = self.take(1, specs)?;
        let failed = verdict.take_failed();
        let is_doubtful = |spec: &&Spec| failed.contains(&spec.name);
        let doubtful: Vec<Spec> = specs.iter().filter(is_doubtful).cloned().collect();
        for (number, few) in (2..).zip(doubtful.chunks(FEW)) {
            verdict.add(self.take(number, few)?);
        }
        Ok(verdict)
    }

    fn take(&self, number: u8, specs: &[Spec]) -> Result<Verdict> {
        let start = Instant::now();
        let api = Api::open(&self.wires.lab, "wire")?;
        let [first, second] = &self.wires.nodes;
        let stage = Stage {
            wires: self.wires,
            api: &api,
            specs,
            sides: [
                Side::new(first, "a", number),
                Side::new(second, "b", number),
            ],
        };
        stage.make_objects()?;
        let mut seen = State::default();
        stage.make_pods()?;
        stage.wait(&mut seen, Step::Made, |side, spec, state| {
            state.has_come(side, spec, &spec.until)
        })?;
        stage.change()?;
        stage.wait(&mut seen, Step::Changed, |side, spec, state| {
            let change = spec.change.as_ref();
            change.is_none_or(|(_, until)| state.has_come(side, spec, until))
        })?;
        stage.delete()?;
        stage.wait(&mut seen, Step::Deleted, |side, spec, state| {
            !state.pods[side.index].contains_key(&side.pod_name(spec))
        })?;
        stage.wait(&mut seen, Step::Stopped, |side, spec, state| {
            let calls = state.calls[side.index].get(&side.pod_name(spec));
            calls.is_none_or(PodCalls::sandboxes_are_stopped)
        })?;
        let pages = stage.pages(&seen)?;
        stage.clear()?;
        Ok(Verdict::new(pages, start.elapsed()))
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Made,
    Changed,
    /// From the API.
    Deleted,
    /// At the runtime.
    Stopped,
}

struct Stage<'a> {
    wires: &'a Wires,
    api: &'a Api,
    specs: &'a [Spec],
    sides: [Side<'a>; 2],
}

/// One node and its namespace.
struct Side<'a> {
    index: usize,
    wired: &'a WiredNode,
    namespace: String,
}

/// What was seen so far, of both sides.
#[derive(Default)]
struct State {
    /// By side and name, as last seen.
    pods: [BTreeMap<String, Value>; 2],
    /// All addresses that a pod ever had.
    addresses: [BTreeMap<String, BTreeSet<String>>; 2],
    calls: [BTreeMap<String, PodCalls>; 2],
    /// What did not come: side, spec, and which step it was.
    missed: BTreeSet<(usize, &'static str, Step)>,
}

impl State {
    fn has_come(&self, side: &Side<'_>, spec: &Spec, until: &Until) -> bool {
        let pod = self.pods[side.index].get(&side.pod_name(spec));
        pod.is_some_and(|pod| has_come(pod, until))
    }

    fn see(&mut self, side: &Side<'_>, list: &Value) {
        let pods = items(&list["items"]);
        let named = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
        for pod in pods {
            let Some(name) = named(pod) else { continue };
            let known = self.addresses[side.index].entry(name).or_default();
            let told = items(&pod["status"]["podIPs"]).iter();
            known.extend(told.filter_map(|address| Some(address["ip"].as_str()?.to_owned())));
        }
        let pods = pods
            .iter()
            .filter_map(|pod| Some((named(pod)?, pod.clone())));
        self.pods[side.index] = pods.collect();
    }
}

impl<'a> Side<'a> {
    /// Of a take by its number: the namespaces of an earlier one may not be gone yet.
    fn new(wired: &'a WiredNode, letter: &str, take: u8) -> Self {
        Self {
            index: usize::from(letter == "b"),
            wired,
            namespace: format!("wire-{letter}-{}-{take}", std::process::id()),
        }
    }

    fn pod_name(&self, spec: &Spec) -> String {
        spec.pod_name(self.wired.node.name())
    }

    fn path(&self, what: &str) -> String {
        format!("/api/v1/namespaces/{}/{what}", self.namespace)
    }

    /// The calls for each pod of this run, by name.
    fn calls(&self, specs: &[Spec]) -> Result<BTreeMap<String, PodCalls>> {
        let calls = recording::calls(&self.wired.recording()?)?;
        let lives: BTreeMap<String, u64> = specs
            .iter()
            .map(|spec| (self.pod_name(spec), spec.lives))
            .collect();
        let pods = recording::by_pod(&calls, |(_, name)| {
            lives.get(name).copied().unwrap_or(u64::MAX)
        });
        let ours = pods
            .into_iter()
            .filter(|((namespace, _), _)| *namespace == self.namespace);
        Ok(ours.map(|((_, name), calls)| (name, calls)).collect())
    }
}

impl Stage<'_> {
    fn make_objects(&self) -> Result<()> {
        let kubectl = self.wires.lab.kubectl();
        kubectl.apply(&list(&objects::in_cluster()).to_string())?;
        for side in &self.sides {
            let name = &side.namespace;
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.api.post("/api/v1/namespaces", &namespace)?;
            let mut objects = objects::in_namespace(name);
            for object in &mut objects {
                object["metadata"]["namespace"] = json!(name);
            }
            objects.push(objects::volume(name));
            kubectl.apply(&list(&objects).to_string())?;
            for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
                wait::until(&format!("{object} in {name}"), PATIENCE, || {
                    self.api.get(&side.path(object))
                })?;
            }
        }
        for side in &self.sides {
            let claim = side.path(&format!("persistentvolumeclaims/{}", objects::CLAIM));
            wait::until(&format!("{claim} to be bound"), PATIENCE, || {
                let claim = self.api.get(&claim)?;
                ensure!(claim["status"]["phase"] == "Bound", "{}", claim["status"]);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// All at once, on both nodes.
    fn make_pods(&self) -> Result<()> {
        let make = |side: &Side<'_>| -> Result<()> {
            let node = side.wired.node.name();
            let (mut told, mut laid_down) = (Vec::new(), Vec::new());
            for spec in self.specs {
                let manifest = spec.manifest(node, &side.namespace);
                match spec.source {
                    Source::Api => told.push(manifest),
                    Source::Static => laid_down.push((spec.name, manifest)),
                }
            }
            for (name, manifest) in laid_down {
                side.wired.lay_down(name, &manifest.to_string())?;
            }
            if told.is_empty() {
                return Ok(());
            }
            let mut kubectl = self.wires.lab.kubectl().command();
            kubectl.args(["create", "--validate=false", "-f", "-"]);
            let list = list(&told).to_string();
            crate::command::run_with_input(&mut kubectl, list.as_bytes())
                .context("the API server does not take all pods")?;
            Ok(())
        };
        let [first, second] = &self.sides;
        thread::scope(|scope| {
            let other = scope.spawn(|| make(second));
            let one = make(first);
            let other = other.join().map_err(|_| anyhow!("a thread has panicked"))?;
            one.and(other)
        })
    }

    /// Lays down what containers would have written.
    fn write_files(&self, state: &State) -> Result<()> {
        for side in &self.sides {
            for spec in self.specs {
                let pod = state.pods[side.index].get(&side.pod_name(spec));
                let uid = pod.and_then(|pod| pod["metadata"]["uid"].as_str());
                if let (Some(written), Some(uid)) = (&spec.written, uid) {
                    side.wired.write_into_volume(uid, written)?;
                }
            }
        }
        Ok(())
    }

    /// Looks until all are there, or nothing moves any more.
    fn wait(
        &self,
        state: &mut State,
        step: Step,
        done: impl Fn(&Side<'_>, &Spec, &State) -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        let pairs = || {
            let sides = self.sides.iter();
            sides.flat_map(|side| self.specs.iter().map(move |spec| (side, spec)))
        };
        // Who has come counts as there, though he may go on: a container that waits
        // between two pulls does not wait for the same reason all the time.
        let mut wanting: BTreeSet<_> = pairs()
            .map(|(side, spec)| (side.index, spec.name, step))
            .collect();
        let mut moved = Instant::now();
        loop {
            for side in &self.sides {
                // A recording is long: it is read only where nothing else tells.
                if step == Step::Stopped {
                    state.calls[side.index] = side.calls(self.specs)?;
                } else {
                    state.see(side, &self.api.get(&side.path("pods"))?);
                }
            }
            self.write_files(state)?;
            let before = wanting.len();
            for (side, spec) in pairs().filter(|(side, spec)| done(side, spec, state)) {
                wanting.remove(&(side.index, spec.name, step));
            }
            if wanting.len() < before {
                moved = Instant::now();
            }
            if wanting.is_empty() || moved.elapsed() > STILL || start.elapsed() > PATIENCE {
                println!(
                    "{step:?} after {:.1} s, {} wanting",
                    start.elapsed().as_secs_f64(),
                    wanting.len()
                );
                state.missed.extend(wanting);
                return Ok(());
            }
            thread::sleep(LOOK);
        }
    }

    fn change(&self) -> Result<()> {
        for side in &self.sides {
            let calls = side.calls(self.specs)?;
            for spec in self.specs {
                let Some((change, _)) = &spec.change else {
                    continue;
                };
                let name = side.pod_name(spec);
                match change {
                    Change::Patch { part, change } => {
                        let path = side.path(&format!("pods/{name}{part}"));
                        self.api
                            .patch(&path, change)
                            .with_context(|| format!("cannot change {}", spec.name))?;
                    }
                    Change::StopSandbox => {
                        let sandbox = calls.get(&name).and_then(PodCalls::sandbox);
                        // Without one the wait that follows will tell.
                        if let Some(sandbox) = sandbox {
                            side.wired.stop_sandbox(sandbox)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn delete(&self) -> Result<()> {
        for side in &self.sides {
            for spec in self.specs {
                if spec.source == Source::Static {
                    side.wired.take_away(spec.name)?;
                } else if let Some(seconds) = spec.grace {
                    let path = side.path(&format!("pods/{}", spec.name));
                    self.api
                        .delete(&path, &json!({"gracePeriodSeconds": seconds}))?;
                }
            }
            let others = side.path(&format!("pods?labelSelector=%21{FROM_FILE}"));
            self.api.delete(&others, &json!({}))?;
        }
        Ok(())
    }

    /// What was asked for each spec, in words.
    fn pages(&self, state: &State) -> Result<Vec<Pages>> {
        let mut places = Vec::new();
        for side in &self.sides {
            places.push(self.place(side)?);
        }
        let page = |side: &Side<'_>, spec: &Spec| {
            let name = side.pod_name(spec);
            let calls = state.calls[side.index].get(&name).cloned();
            let calls = calls.unwrap_or_default();
            let addresses = state.addresses[side.index].get(&name);
            let words = places[side.index].words(&calls, addresses.into_iter().flatten());
            let said = calls.said.into_iter();
            said.map(|said| Asked {
                label: words.label(&said.label),
                request: words.request(&said.request),
            })
            .collect()
        };
        let missed = |side: &Side<'_>, spec: &Spec| {
            let missed = state.missed.iter();
            let steps: Vec<String> = missed
                .filter(|(index, name, _)| (*index, *name) == (side.index, spec.name))
                .map(|(_, _, step)| format!("{step:?}"))
                .collect();
            steps.join(", ")
        };
        let pages = self.specs.iter().map(|spec| Pages {
            spec: spec.name,
            asked: self.sides.each_ref().map(|side| page(side, spec)),
            missed: self.sides.each_ref().map(|side| missed(side, spec)),
        });
        Ok(pages.collect())
    }

    fn place(&self, side: &Side<'_>) -> Result<Place> {
        let services = self.api.get(&side.path("services"))?;
        let services = items(&services["items"]).iter().filter_map(|service| {
            let address = service["spec"]["clusterIP"].as_str()?;
            let name = service["metadata"]["name"].as_str()?;
            (address != "None").then(|| (address.to_owned(), format!("IP of {name}")))
        });
        Ok(Place {
            node: side.wired.node.name().to_owned(),
            address: side.wired.node.address().to_owned(),
            namespace: side.namespace.clone(),
            services: services.collect(),
        })
    }

    fn clear(&self) -> Result<()> {
        for side in &self.sides {
            // The volume is in no namespace, and goes when its claim has gone.
            for kind in ["namespaces", "persistentvolumes"] {
                let path = format!("/api/v1/{kind}/{}", side.namespace);
                self.api.delete(&path, &json!({}))?;
            }
        }
        Ok(())
    }
}

/// What all pods of one side have in common.
struct Place {
    node: String,
    address: String,
    namespace: String,
    services: Vec<(String, String)>,
}

impl Place {
    fn words<'s>(&self, calls: &PodCalls, addresses: impl Iterator<Item = &'s String>) -> Words {
        let word = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let mut unique = calls.ids.clone();
        unique.push(word(&self.namespace, "NAMESPACE"));
        unique.push(word(&self.node, "NODE"));
        if !calls.uid.is_empty() {
            unique.push(word(&calls.uid, "UID"));
        }
        let mut bounded = vec![word(&self.address, "NODE_IP")];
        let addresses = addresses.filter(|address| **address != self.address);
        bounded.extend(addresses.map(|address| word(address, "POD_IP")));
        bounded.extend(self.services.iter().cloned());
        Words { unique, bounded }
    }
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
