//! Whatever is called in whatever order: what must hold, holds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seams::cri::PodSandboxState;

use super::*;
use crate::runtime::moment::Moment;
use crate::runtime::state::State;

/// One step. Numbers choose among what was ever made, or name it.
#[derive(Clone, Debug)]
enum Step {
    Run { name: u8, story: u8 },
    StopPod(usize),
    RemovePod(usize),
    Create { pod: usize, name: u8 },
    Start(usize),
    Stop { container: usize, grace: u8 },
    Remove(usize),
    Pass(u16),
    SetClockBack(u16),
}

const STORIES: [&[(&str, &str)]; 7] = [
    &[],
    &[("run-time", "2s")],
    &[("crash-loop", "700ms")],
    &[("start-delay", "1s"), ("run-time", "0s")],
    &[("stop-delay", "3s")],
    &[("oom-after", "1500ms"), ("start-delay", "300ms")],
    &[("stop-delay", "1s"), ("run-time", "5s"), ("exit-code", "9")],
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = 0..8_usize;
    let step = prop_oneof![
        (0..4_u8, 0..7_u8).prop_map(|(name, story)| Step::Run { name, story }),
        place.clone().prop_map(Step::StopPod),
        place.clone().prop_map(Step::RemovePod),
        (place.clone(), 0..3_u8).prop_map(|(pod, name)| Step::Create { pod, name }),
        place.clone().prop_map(Step::Start),
        (place.clone(), 0..5_u8).prop_map(|(container, grace)| Step::Stop { container, grace }),
        place.prop_map(Step::Remove),
        (0..4000_u16).prop_map(Step::Pass),
        (0..9000_u16).prop_map(Step::SetClockBack),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The state, a clock for it, and all ids that there ever were.
struct World {
    state: State,
    now: Moment,
    pods: Vec<String>,
    containers: Vec<String>,
    removed: BTreeSet<String>,
    exited: BTreeMap<String, cri::ContainerStatus>,
}

impl World {
    fn new() -> Self {
        let mut state = State::new(7, "192.0.2.0/29".parse().ok());
        state
            .images
            .add(super::super::images::Name::parse(IMAGE).unwrap());
        let now = Moment {
            wall: START,
            uptime: Duration::ZERO,
        };
        Self {
            state,
            now,
            pods: Vec::new(),
            containers: Vec::new(),
            removed: BTreeSet::new(),
            exited: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        let now = self.now;
        let chosen = |ids: &[String], place: usize| {
            let count = ids.len().max(1);
            ids.get(place % count).cloned().unwrap_or_default()
        };
        match *step {
            Step::Run { name, story } => {
                let config = pod_config(&format!("pod-{name}"), STORIES[usize::from(story)]);
                let request = cri::RunPodSandboxRequest {
                    config: Some(config),
                    runtime_handler: String::new(),
                };
                self.pods.extend(self.state.run_sandbox(request, now));
            }
            Step::StopPod(pod) => self.state.stop_sandbox(&chosen(&self.pods, pod), now),
            Step::RemovePod(pod) => {
                let id = chosen(&self.pods, pod);
                let inside: Vec<_> = self
                    .state
                    .containers_of(&id)
                    .map(|one| one.id.to_string())
                    .collect();
                self.state.remove_sandbox(&id, now).unwrap();
                self.removed.extend(inside);
                self.removed.insert(id);
            }
            Step::Create { pod, name } => {
                let request = cri::CreateContainerRequest {
                    pod_sandbox_id: chosen(&self.pods, pod),
                    config: Some(container_config(&format!("container-{name}"))),
                    sandbox_config: None,
                };
                self.containers
                    .extend(self.state.create_container(request, now));
            }
            Step::Start(container) => {
                let _ = self
                    .state
                    .start_container(&chosen(&self.containers, container), now);
            }
            Step::Stop { container, grace } => {
                let id = chosen(&self.containers, container);
                let grace = Duration::from_secs(u64::from(grace));
                self.state.stop_container(&id, grace, now);
            }
            Step::Remove(container) => {
                let id = chosen(&self.containers, container);
                if self.state.remove_container(&id, now).is_ok() {
                    self.removed.insert(id);
                }
            }
            Step::Pass(millis) => self.now = now.plus(Duration::from_millis(u64::from(millis))),
            Step::SetClockBack(millis) => self.now.wall -= i64::from(millis) * 1_000_000,
        }
        self.state.settle(self.now);
    }

    fn check(&mut self) {
        for id in self.removed.iter().filter(|id| !id.is_empty()) {
            assert!(self.state.sandbox(id).is_err() && self.state.container(id).is_err());
        }
        let mut addresses = BTreeSet::new();
        for listed in self.state.list_sandboxes(None) {
            let sandbox = self.state.sandbox(&listed.id).unwrap();
            let status = sandbox.status();
            assert_eq!(
                (&status.metadata, status.state),
                (&listed.metadata, listed.state)
            );
            let ip = status.network.unwrap().ip;
            let ready = listed.state() == PodSandboxState::SandboxReady;
            assert_eq!(ready, !ip.is_empty());
            assert!(
                !ready || addresses.insert(ip.clone()),
                "{ip} is there twice"
            );
        }
        for listed in self.state.list_containers(None) {
            let container = self.state.container(&listed.id).unwrap();
            let status = container.status();
            assert_eq!(
                (&status.metadata, status.state),
                (&listed.metadata, listed.state)
            );
            self.check_container(&listed.pod_sandbox_id, &status);
        }
        let next = self.state.next_change();
        assert!(
            next.is_none_or(|next| next > self.now.uptime),
            "{next:?} is over"
        );
    }

    fn check_container(&mut self, pod: &str, status: &cri::ContainerStatus) {
        let sandbox = self.state.sandbox(pod).unwrap();
        let exited = status.state() == ContainerState::ContainerExited;
        let running = status.state() == ContainerState::ContainerRunning;
        assert!(sandbox.is_ready() || !running, "it runs in nothing");
        assert_eq!(exited, status.finished_at != 0);
        assert_eq!(exited, !status.reason.is_empty());
        assert!(!running || status.started_at != 0);
        match self.exited.get(&status.id) {
            Some(before) => assert_eq!(before, status, "what has ended changes"),
            None if exited => {
                self.exited.insert(status.id.clone(), status.clone());
            }
            None => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_order_of_calls_breaks_the_runtime(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check();
        }
    }
}
