//! Pods whose whole life is told beforehand, and what has to come of them.

use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use types::desired::{DesiredPod, Source};

/// A pod, as it will go if nobody meddles.
#[derive(Clone, Debug)]
pub(crate) struct Story {
    pub(crate) policy: Policy,
    pub(crate) source: Source,
    pub(crate) init: Vec<Init>,
    pub(crate) containers: Vec<Life>,
    pub(crate) pull_fails: bool,
    /// Seconds.
    pub(crate) start_delay: u8,
    pub(crate) stop_delay: u8,
    /// When it comes, in seconds.
    pub(crate) comes: u64,
    /// Of all containers but those that run once before the others.
    pub(crate) post_start: Hook,
    pub(crate) pre_stop: Hook,
}

/// What a container is given to do after it began, or before it ends; seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    Nothing,
    Sleeps(u8),
    /// The same, by a command in the container.
    Runs(u8),
    /// A command that fails.
    Fails,
    /// A request to the pod.
    Asks,
}

impl Hook {
    fn told(self) -> Option<Value> {
        let command = |words: &[&str]| json!({ "exec": { "command": words } });
        match self {
            Self::Nothing => None,
            Self::Sleeps(seconds) => Some(json!({ "sleep": { "seconds": seconds } })),
            Self::Runs(seconds) => Some(command(&["sleep", &seconds.to_string()])),
            Self::Fails => Some(command(&["false"])),
            Self::Asks => Some(json!({ "httpGet": { "port": 80, "path": "/" } })),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Always,
    OnFailure,
    Never,
}

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    RunsOn,
    Ends { after: u8, code: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    Once { after: u8, code: u8 },
    Sidecar(Life),
}

/// What a pod has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has no image, and so no container.
    Stuck,
    /// It never gets past this init container, which is tried for ever.
    InitLoops(usize),
    Alive,
    Over,
}

impl Life {
    /// Whether it is started again and again.
    fn loops(self, policy: Policy) -> bool {
        match (self, policy) {
            (Self::RunsOn, _) | (_, Policy::Never) => false,
            (Self::Ends { .. }, Policy::Always) => true,
            (Self::Ends { code, .. }, Policy::OnFailure) => code != 0,
        }
    }
}

impl Story {
    pub(crate) fn outcome(&self) -> Outcome {
        if self.pull_fails {
            return Outcome::Stuck;
        }
        let fails = |init: &Init| matches!(init, Init::Once { code, .. } if *code != 0);
        if let Some(index) = self.init.iter().position(fails) {
            return match self.policy {
                Policy::Never => Outcome::Over,
                _ => Outcome::InitLoops(index),
            };
        }
        let lasts = |life: &Life| *life == Life::RunsOn || life.loops(self.policy);
        if self.containers.iter().any(lasts) {
            Outcome::Alive
        } else {
            Outcome::Over
        }
    }

    /// Containers that are started again and again, as long as the pod is.
    pub(crate) fn looping(&self) -> Vec<String> {
        let outcome = self.outcome();
        let mut names = Vec::new();
        for (index, init) in self.init.iter().enumerate() {
            let reached = match outcome {
                Outcome::InitLoops(last) => index <= last,
                Outcome::Alive => true,
                Outcome::Stuck | Outcome::Over => false,
            };
            let loops = match init {
                Init::Once { .. } => outcome == Outcome::InitLoops(index),
                Init::Sidecar(life) => *life != Life::RunsOn,
            };
            if reached && loops {
                names.push(init_name(index));
            }
        }
        if outcome == Outcome::Alive {
            let loops = |(_, life): &(usize, &Life)| life.loops(self.policy);
            let regular = self.containers.iter().enumerate().filter(loops);
            names.extend(regular.map(|(index, _)| name(index)));
        }
        names
    }

    /// Containers that run on at the end.
    pub(crate) fn running(&self) -> Vec<String> {
        let outcome = self.outcome();
        let mut names = Vec::new();
        for (index, init) in self.init.iter().enumerate() {
            let reached = match outcome {
                Outcome::InitLoops(last) => index < last,
                Outcome::Alive => true,
                Outcome::Stuck | Outcome::Over => false,
            };
            if reached && *init == Init::Sidecar(Life::RunsOn) {
                names.push(init_name(index));
            }
        }
        if outcome == Outcome::Alive {
            let lasts = |(_, life): &(usize, &Life)| **life == Life::RunsOn;
            let regular = self.containers.iter().enumerate().filter(lasts);
            names.extend(regular.map(|(index, _)| name(index)));
        }
        names
    }

    /// Containers that are started once and never again.
    pub(crate) fn once(&self) -> Vec<String> {
        let outcome = self.outcome();
        let mut names = self.running();
        if outcome == Outcome::Alive || outcome == Outcome::Over {
            let works = |(_, init): &(usize, &Init)| matches!(init, Init::Once { code: 0, .. });
            let fails = |init: &Init| matches!(init, Init::Once { code, .. } if *code != 0);
            let until = self.init.iter().position(fails).unwrap_or(self.init.len());
            let init = self.init[..until].iter().enumerate().filter(works);
            names.extend(init.map(|(index, _)| init_name(index)));
            if until == self.init.len() {
                let ends =
                    |(_, life): &(usize, &Life)| **life != Life::RunsOn && !life.loops(self.policy);
                let regular = self.containers.iter().enumerate().filter(ends);
                names.extend(regular.map(|(index, _)| name(index)));
            }
        }
        names
    }

    /// As a source has it.
    pub(crate) fn pod(&self, name: &str, uid: &str, version: u32) -> DesiredPod {
        let mut notes = Map::new();
        let mut note = |key: &str, value: String| {
            notes.insert(format!("sim.ferrolet.dev/{key}"), json!(value));
        };
        note("start-delay", format!("{}s", self.start_delay));
        note("stop-delay", format!("{}s", self.stop_delay));
        if self.pull_fails {
            note("pull-failure", "no such tag".to_owned());
        }
        let lives = self.containers.iter().copied().enumerate();
        let lives = lives.map(|(index, life)| (self::name(index), life));
        let init = self.init.iter().copied().enumerate();
        let init = init.map(|(index, init)| match init {
            Init::Once { after, code } => (init_name(index), Life::Ends { after, code }),
            Init::Sidecar(life) => (init_name(index), life),
        });
        for (name, life) in lives.chain(init) {
            if let Life::Ends { after, code } = life {
                note(&format!("run-time.{name}"), format!("{after}s"));
                note(&format!("exit-code.{name}"), code.to_string());
            }
        }
        let pod = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": uid,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": notes,
            },
            "spec": {
                "restartPolicy": match self.policy {
                    Policy::Always => "Always",
                    Policy::OnFailure => "OnFailure",
                    Policy::Never => "Never",
                },
                "terminationGracePeriodSeconds": 5,
                "enableServiceLinks": true,
                "initContainers": self.init_containers(uid),
                "containers": self.regular_containers(uid, version),
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        DesiredPod {
            pod: Arc::new(pod),
            source: self.source,
            mirror: None,
        }
    }

    fn init_containers(&self, uid: &str) -> Vec<Value> {
        let containers = self.init.iter().enumerate().map(|(index, init)| {
            let mut one = json!({ "name": init_name(index), "image": image(uid, 1), "imagePullPolicy": "IfNotPresent" });
            if let Init::Sidecar(life) = init {
                one["restartPolicy"] = json!("Always");
                one["lifecycle"] = self.lifecycle();
                // One that ends while its hook runs is never seen running, and the
                // next ones wait for that.
                if *life != Life::RunsOn {
                    one["lifecycle"]["postStart"].take();
                }
            }
            one
        });
        containers.collect()
    }

    fn regular_containers(&self, uid: &str, version: u32) -> Vec<Value> {
        let containers = (0..self.containers.len()).map(|index| {
            json!({
                "name": name(index), "image": image(uid, version), "lifecycle": self.lifecycle(),
            })
        });
        containers.collect()
    }

    fn lifecycle(&self) -> Value {
        json!({ "postStart": self.post_start.told(), "preStop": self.pre_stop.told() })
    }
}

pub(crate) fn image(uid: &str, version: u32) -> String {
    let mut image = "registry.example/".to_owned();
    write!(image, "{uid}:v{version}").unwrap();
    image
}

pub(crate) fn name(index: usize) -> String {
    format!("c{index}")
}

pub(crate) fn init_name(index: usize) -> String {
    format!("i{index}")
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        2 => Just(Life::RunsOn),
        // Nothing that is made in the same moment has an order: they last a while.
        1 => (1..20_u8, prop_oneof![Just(0_u8), Just(3)])
            .prop_map(|(after, code)| Life::Ends { after, code }),
    ]
}

fn init() -> impl Strategy<Value = Init> {
    prop_oneof![
        3 => (1..4_u8).prop_map(|after| Init::Once { after, code: 0 }),
        1 => (1..4_u8).prop_map(|after| Init::Once { after, code: 3 }),
        2 => life().prop_map(Init::Sidecar),
    ]
}

/// What never fails by itself: else a pod would not go as its story says.
fn post_start() -> impl Strategy<Value = Hook> {
    prop_oneof![
        4 => Just(Hook::Nothing),
        1 => (0..4_u8).prop_map(Hook::Sleeps),
        1 => Just(Hook::Asks),
    ]
}

fn pre_stop() -> impl Strategy<Value = Hook> {
    prop_oneof![
        3 => Just(Hook::Nothing),
        1 => (0..8_u8).prop_map(Hook::Sleeps),
        1 => (0..8_u8).prop_map(Hook::Runs),
        1 => Just(Hook::Fails),
        1 => Just(Hook::Asks),
    ]
}

pub(crate) fn story() -> impl Strategy<Value = Story> {
    let policy = prop_oneof![
        Just(Policy::Always),
        Just(Policy::OnFailure),
        Just(Policy::Never)
    ];
    let source = prop_oneof![Just(Source::Api), Just(Source::File)];
    let init = proptest::collection::vec(init(), 0..3);
    let containers = proptest::collection::vec(life(), 1..4);
    let delays = (prop_oneof![3 => Just(0_u8), 1 => 1..4_u8], 0..8_u8);
    let pull_fails = proptest::bool::weighted(0.1);
    let hooks = (post_start(), pre_stop());
    let comes = 0..40_u64;
    (
        policy, source, init, containers, pull_fails, delays, hooks, comes,
    )
        .prop_map(
            |(policy, source, init, containers, pull_fails, delays, hooks, comes)| {
                let (start_delay, stop_delay) = delays;
                let (post_start, pre_stop) = hooks;
                Story {
                    policy,
                    source,
                    init,
                    containers,
                    pull_fails,
                    start_delay,
                    stop_delay,
                    comes,
                    post_start,
                    pre_stop,
                }
            },
        )
}
