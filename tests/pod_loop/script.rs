//! What happens on a node, and how it is played.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use seams::Clock as _;
use sim::RuntimeFault;
use types::PodUid;
use types::desired::{Desired, Source};

use crate::node::Node;
use crate::runtime::Meddling;
use crate::story::{Story, story};

/// All that happens.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) stories: Vec<Story>,
    /// With the second that it happens in.
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) troubles: Vec<Trouble>,
}

/// Numbers choose among the pods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// As the API does it: it is told to end, and goes when nothing of it runs.
    Delete(usize),
    /// What was told to end is told to end sooner.
    Hurry(usize),
    /// It is not there any more.
    Vanish(usize),
    /// Another image.
    Edit(usize),
    /// Another pod of its name takes its place.
    Replace(usize),
    /// It goes, and the same comes back after so many seconds.
    Return(usize, u64),
    /// Its sandbox ends, as after an accident.
    LoseSandbox(usize),
    /// The agent dies, is away, and then hears from its sources late; seconds.
    Restart { away: u64, late: u64 },
}

/// What ails the runtime for some time; seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    at: u64,
    lasts: u64,
    what: Ailment,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ailment {
    Runtime(RuntimeFault),
    Answers(Meddling),
}

/// The last second in which anything happens.
const LAST: u64 = 150;
/// After it what was begun gets to its end, step by step: pods that were deleted.
const ENDS: u64 = 60;
/// Then everything gets where it belongs: waits are five minutes at most.
const SETTLES: Duration = Duration::from_secs(600);

/// A pod as it went.
#[derive(Clone, Debug)]
pub(crate) struct Tracked {
    pub(crate) story: Story,
    name: String,
    pub(crate) version: u32,
    pub(crate) wanted: bool,
    /// It was changed, or something was done to it.
    pub(crate) touched: bool,
    deleted: Option<Deletion>,
    returns: Option<u64>,
}

/// How a pod was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deletion {
    Usual,
    Hurried,
}

/// A node on which a script was played.
pub(crate) struct Played {
    pub(crate) node: Node,
    /// By uid.
    pub(crate) pods: BTreeMap<String, Tracked>,
}

impl Script {
    /// Plays it until all should be settled.
    pub(crate) async fn play(&self) -> Played {
        let mut stage = Stage::new(self);
        for second in 0..=LAST + ENDS {
            stage.play(second).await;
            stage.node.pass(Duration::from_secs(1)).await;
        }
        stage.node.pass(SETTLES).await;
        stage.node.runtime.watch();
        Played {
            node: stage.node,
            pods: stage.pods,
        }
    }

    fn restarts(&self) -> bool {
        let mut events = self.events.iter();
        events.any(|(_, event)| matches!(event, Event::Restart { .. }))
    }
}

/// A script that is being played.
struct Stage<'a> {
    script: &'a Script,
    node: Node,
    pods: BTreeMap<String, Tracked>,
    /// The uid of each story's pod of now.
    cast: Vec<String>,
    /// When the agent comes back, and when its sources are heard.
    back: Option<u64>,
    heard: u64,
    /// Uids with what was last told of them; `None`: nobody was told anything.
    told: Option<Vec<(String, u32, Option<Deletion>)>>,
    /// Whether static pods of one name are looked for that are there at once.
    doubled: bool,
}

impl<'a> Stage<'a> {
    fn new(script: &'a Script) -> Self {
        let mut node = Node::new();
        node.begin();
        Self {
            script,
            node,
            pods: BTreeMap::new(),
            cast: Vec::new(),
            back: None,
            heard: 0,
            told: None,
            doubled: !script.restarts(),
        }
    }

    async fn play(&mut self, second: u64) {
        let script = self.script;
        if self.cast.is_empty() {
            self.cast = (0..script.stories.len())
                .map(|index| uid(index, 0))
                .collect();
        }
        for (index, story) in script.stories.iter().enumerate() {
            if story.comes == second {
                self.come(uid(index, 0), &format!("p{index}"), story);
            }
        }
        for (_, event) in script.events.iter().filter(|(at, _)| *at == second) {
            self.happen(*event, second).await;
        }
        for pod in self.pods.values_mut() {
            if pod.returns == Some(second) {
                pod.returns = None;
                pod.wanted = true;
            }
        }
        self.ail(second);
        self.forget_deleted();
        if self.back == Some(second) {
            self.back = None;
            self.told = None;
            self.node.begin();
        }
        if second >= self.heard {
            self.tell();
        }
        self.node.runtime.watch();
        self.check_names();
    }

    /// What is wanted, if the agent was not told that already.
    fn tell(&mut self) {
        let wanted = self.pods.iter().filter(|(_, pod)| pod.wanted);
        let wanted = wanted.map(|(uid, pod)| (uid.clone(), pod.version, pod.deleted));
        let wanted = Some(wanted.collect());
        if self.told != wanted {
            self.node.tell(self.desired());
            self.told = wanted;
        }
    }

    fn come(&mut self, uid: String, name: &str, story: &Story) {
        let tracked = Tracked {
            story: story.clone(),
            name: name.to_owned(),
            version: 1,
            wanted: true,
            touched: false,
            deleted: None,
            returns: None,
        };
        self.pods.insert(uid, tracked);
    }

    async fn happen(&mut self, event: Event, second: u64) {
        let which = match event {
            Event::Delete(which)
            | Event::Hurry(which)
            | Event::Vanish(which)
            | Event::Edit(which)
            | Event::Replace(which)
            | Event::Return(which, _)
            | Event::LoseSandbox(which) => which % self.cast.len(),
            Event::Restart { away, late } => {
                self.node.end().await;
                self.back = Some(second + away);
                self.heard = second + away + late;
                return;
            }
        };
        let uid = self.cast[which].clone();
        let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.wanted) else {
            return;
        };
        if let (Event::Hurry(_), Some(deletion)) = (event, &mut pod.deleted) {
            *deletion = Deletion::Hurried;
        }
        if pod.deleted.is_some() || matches!(event, Event::Hurry(_)) {
            return;
        }
        pod.touched = true;
        match event {
            Event::Delete(_) if pod.story.source == Source::Api => {
                pod.deleted = Some(Deletion::Usual);
            }
            Event::Delete(_) | Event::Vanish(_) => pod.wanted = false,
            // The uid of a static pod is made of what is in it.
            Event::Edit(_) if pod.story.source == Source::Api => pod.version += 1,
            Event::Edit(_) | Event::Replace(_) => {
                pod.wanted = false;
                let (story, name) = (pod.story.clone(), pod.name.clone());
                let next = format!("{uid}x");
                self.cast[which].clone_from(&next);
                self.come(next, &name, &story);
            }
            Event::Return(_, after) => {
                pod.wanted = false;
                pod.returns = Some(second + after);
            }
            Event::LoseSandbox(_) => self.node.runtime.lose_sandbox(&uid),
            Event::Hurry(_) | Event::Restart { .. } => {}
        }
    }

    fn ail(&mut self, second: u64) {
        let mut runtime = RuntimeFault::None;
        let mut answers = Meddling::None;
        for trouble in &self.script.troubles {
            if (trouble.at..trouble.at + trouble.lasts).contains(&second) {
                match trouble.what {
                    Ailment::Runtime(fault) => runtime = fault,
                    Ailment::Answers(meddling) => answers = meddling,
                }
            }
        }
        self.node.runtime.meddle(answers);
        self.node.faults.send_if_modified(|faults| {
            let news = faults.runtime != runtime;
            faults.runtime = runtime;
            news
        });
    }

    /// The API server's part: a pod that was deleted goes when nothing of it runs.
    fn forget_deleted(&mut self) {
        let Some(snapshot) = self.node.runtime.look() else {
            return;
        };
        for (uid, pod) in &mut self.pods {
            if pod.deleted.is_some() && !snapshot.is_running(uid) {
                pod.wanted = false;
            }
        }
    }

    fn desired(&self) -> Desired {
        let wanted = self.pods.iter().filter(|(_, pod)| pod.wanted);
        let pods = wanted.map(|(uid, tracked)| {
            let mut pod = tracked.story.pod(&tracked.name, uid, tracked.version);
            if let Some(deletion) = tracked.deleted {
                let mut object = (*pod.pod).clone();
                let when = self.node.clock.now().try_into().unwrap();
                let metadata = &mut object.metadata;
                metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(when));
                metadata.deletion_grace_period_seconds = Some(match deletion {
                    Deletion::Usual => 3,
                    Deletion::Hurried => 1,
                });
                pod.pod = object.into();
            }
            (PodUid::new(uid), pod)
        });
        Desired {
            pods: pods.collect(),
            ready: true,
            ..Desired::default()
        }
    }

    /// Static pods of one name follow each other; but one that was edited while no
    /// agent ran is nobody's until all sources were heard.
    fn check_names(&mut self) {
        let Some(snapshot) = self.node.runtime.look().filter(|_| self.doubled) else {
            return;
        };
        let statics = self
            .pods
            .values()
            .filter(|pod| pod.story.source == Source::File);
        let names: Vec<&String> = statics.map(|pod| &pod.name).collect();
        let doubled = snapshot.doubled_names();
        let doubled: Vec<&String> = doubled.iter().filter(|name| names.contains(name)).collect();
        assert!(doubled.is_empty(), "two at once of {doubled:?}");
    }
}

fn uid(index: usize, generation: u32) -> String {
    format!("u{index}-{generation}")
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..4_usize;
    prop_oneof![
        2 => which.clone().prop_map(Event::Delete),
        2 => which.clone().prop_map(Event::Hurry),
        1 => which.clone().prop_map(Event::Vanish),
        2 => which.clone().prop_map(Event::Edit),
        2 => which.clone().prop_map(Event::Replace),
        1 => (which.clone(), 1..20_u64).prop_map(|(which, after)| Event::Return(which, after)),
        1 => which.prop_map(Event::LoseSandbox),
        3 => (1..10_u64, 0..6_u64).prop_map(|(away, late)| Event::Restart { away, late }),
    ]
}

fn ailment() -> impl Strategy<Value = Ailment> {
    let millis = (1..4000_u64).prop_map(Duration::from_millis);
    prop_oneof![
        Just(Ailment::Runtime(RuntimeFault::Down)),
        Just(Ailment::Runtime(RuntimeFault::Hanging)),
        millis
            .clone()
            .prop_map(|delay| Ailment::Runtime(RuntimeFault::Slow(delay))),
        (1..4_u64).prop_map(|one_in| Ailment::Answers(Meddling::FailsBefore(one_in))),
        (1..4_u64).prop_map(|one_in| Ailment::Answers(Meddling::FailsAfter(one_in))),
        millis
            .clone()
            .prop_map(|delay| Ailment::Answers(Meddling::Late(delay))),
        millis.prop_map(|lag| Ailment::Answers(Meddling::Stale(lag))),
    ]
}

fn trouble(ailment: impl Strategy<Value = Ailment>) -> impl Strategy<Value = Trouble> {
    (0..LAST - 50, 1..50_u64, ailment).prop_map(|(at, lasts, what)| Trouble { at, lasts, what })
}

fn scripts(troubles: impl Strategy<Value = Vec<Trouble>>) -> impl Strategy<Value = Script> {
    let stories = proptest::collection::vec(story(), 1..4);
    let events = proptest::collection::vec((0..LAST - 20, event()), 0..6);
    (stories, events, troubles).prop_map(|(stories, events, troubles)| Script {
        stories,
        events,
        troubles,
    })
}

/// Anything that can happen.
pub(crate) fn any_script() -> impl Strategy<Value = Script> {
    scripts(proptest::collection::vec(trouble(ailment()), 0..4))
}

/// An observation that lags behind from the beginning to the end, by no more than
/// what an agent waits before it tries again.
pub(crate) fn lagging_script() -> impl Strategy<Value = Script> {
    let lag = (1..4000_u64).prop_map(Duration::from_millis);
    let lags = prop_oneof![
        lag.clone().prop_map(Meddling::Stale),
        lag.prop_map(Meddling::Late)
    ];
    scripts(lags.prop_map(lagging))
}

/// That, all the time.
pub(crate) fn lagging(lags: Meddling) -> Vec<Trouble> {
    vec![Trouble {
        at: 0,
        lasts: LAST,
        what: Ailment::Answers(lags),
    }]
}
