//! The pod loop, whole: the crew of a node over the simulated runtime and machine,
//! in time that passes at once.
//!
//! In: pods whose lives are told beforehand, what happens to them, and what ails the
//! runtime, all at random. Out: verdicts. Whatever happened, it ends as the stories
//! say, then nothing more is done than they ask for; and at no moment is there
//! anything twice.
//!
//! `PROPTEST_CASES=2000` asks for more than the few cases of every day.

#![allow(
    clippy::unwrap_used,
    reason = "what a test stands on works, or the test fails"
)]

mod downward;
mod evictions;
mod figures;
mod hooks;
mod node;
mod probes;
mod resizes;
mod runtime;
mod scenes;
mod script;
mod story;
mod told;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use seams::Clock as _;

use runtime::{Act, Meddling, Snapshot, name_of};
use script::{Event, Played, Script, Tracked, any_script, lagging, lagging_script};
use story::{Hook, Life, Outcome, Policy, Story, image};
use types::desired::Source;

/// So long nothing may be done that no story asks for.
const QUIET: Duration = Duration::from_secs(600);
/// How often a container that crashes at once is started in that time, at most.
const MOST_LOOPS: usize = 8;

/// A few, if nobody asks for more.
fn config() -> Config {
    const USUAL: u32 = 256;
    const EVERY_DAY: u32 = 48;
    let mut config = Config::default();
    if config.cases == USUAL {
        config.cases = EVERY_DAY;
    }
    config.failure_persistence = None;
    config.max_shrink_iters = config.max_shrink_iters.min(200);
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_pods_come_to_their_ends_and_then_all_is_quiet(script in any_script()) {
        check(&script)?;
    }

    #[test]
    fn nothing_is_made_twice_by_one_who_sees_late(script in lagging_script()) {
        check(&script)?;
    }
}

/// One pod that runs on, with one container.
fn one(start_delay: u8, events: Vec<(u64, Event)>) -> Script {
    let story = Story {
        policy: Policy::Always,
        source: Source::Api,
        init: Vec::new(),
        containers: vec![Life::RunsOn],
        pull_fails: false,
        start_delay,
        stop_delay: 0,
        comes: 10,
        post_start: Hook::Nothing,
        pre_stop: Hook::Nothing,
    };
    Script {
        stories: vec![story],
        events,
        troubles: Vec::new(),
    }
}

#[test]
fn a_pod_that_went_while_no_agent_ran_is_ended_once_all_sources_were_heard() {
    let restart = Event::Restart { away: 10, late: 5 };
    check(&one(0, vec![(50, restart), (55, Event::Vanish(0))])).unwrap();
}

#[test]
fn a_container_that_was_being_started_when_the_agent_died_is_not_started_twice() {
    let restart = Event::Restart { away: 1, late: 0 };
    check(&one(3, vec![(12, restart)])).unwrap();
}

#[test]
fn a_sandbox_that_is_seen_late_is_not_made_twice() {
    let events = vec![(15, Event::Edit(0)), (29, Event::Return(0, 4))];
    let mut script = one(0, events);
    script.stories[0].comes = 0;
    script.stories[0].stop_delay = 1;
    script.troubles = lagging(Meddling::Stale(Duration::from_millis(1393)));
    check(&script).unwrap();
}

fn check(script: &Script) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let played = script.play().await;
        settled(&played)?;
        quiet(&played).await?;
        settled(&played)
    })
}

/// Everything is as it has to be.
fn settled(played: &Played) -> Result<(), TestCaseError> {
    let violations = played.node.runtime.violations();
    prop_assert!(violations.is_empty(), "{violations:#?}");
    let snapshot = played.node.runtime.look().unwrap();
    for (uid, pod) in &played.pods {
        let verdict = if pod.wanted {
            as_told(played, &snapshot, uid, pod)
        } else {
            gone(played, &snapshot, uid)
        };
        if let Err(problem) = verdict {
            let has = snapshot.told(uid);
            prop_assert!(false, "{uid}: {problem}; {pod:#?}\n{has}");
        }
    }
    Ok(())
}

fn gone(played: &Played, snapshot: &Snapshot, uid: &str) -> Result<(), String> {
    if snapshot.has(uid) {
        return Err("it is still in the runtime".to_owned());
    }
    let traces = played.node.traces(uid);
    if traces.is_empty() {
        return Ok(());
    }
    Err(format!("it has left {traces:?}"))
}

fn as_told(played: &Played, snapshot: &Snapshot, uid: &str, pod: &Tracked) -> Result<(), String> {
    let alive = snapshot.is_running(uid);
    let outcome = pod.story.outcome();
    // What was killed and is not to be started again may have been all of it.
    let may_be_over = pod.touched && pod.story.policy == Policy::Never;
    if outcome == Outcome::Over || (may_be_over && !alive) {
        if alive {
            return Err("it is over, and runs".to_owned());
        }
        if !pod.touched {
            return once(snapshot, uid, pod);
        }
        return Ok(());
    }
    if snapshot.ready_sandboxes(uid).len() != 1 {
        return Err("it has no sandbox".to_owned());
    }
    if !played.node.has_cgroup(uid) {
        return Err("it has no cgroup".to_owned());
    }
    let made = snapshot.containers_of(uid);
    let regular = made.iter().any(|one| name_of(one).starts_with('c'));
    match outcome {
        Outcome::Stuck if !made.is_empty() => {
            return Err("it has no image, but a container".to_owned());
        }
        Outcome::InitLoops(_) if regular => {
            return Err("it was never initialized, and has begun".to_owned());
        }
        _ => {}
    }
    for name in pod.story.running() {
        let running = snapshot.running(uid, &name);
        let [one] = running.as_slice() else {
            return Err(format!("of {name} {} run", running.len()));
        };
        let version = if name.starts_with('c') {
            pod.version
        } else {
            1
        };
        let has = one
            .image
            .as_ref()
            .map(|image| image.user_specified_image.clone());
        if has != Some(image(uid, version)) {
            return Err(format!("{name} is of {has:?}, not of version {version}"));
        }
    }
    for name in pod.story.looping() {
        if snapshot.starts(uid, &name) < 2 {
            return Err(format!("{name} was not started again"));
        }
    }
    if pod.touched {
        Ok(())
    } else {
        once(snapshot, uid, pod)
    }
}

/// What has no reason to be started again was not, whoever died meanwhile.
fn once(snapshot: &Snapshot, uid: &str, pod: &Tracked) -> Result<(), String> {
    for name in pod.story.once() {
        let starts = snapshot.starts(uid, &name);
        if starts != 1 {
            return Err(format!("{name} was started {starts} times"));
        }
    }
    Ok(())
}

/// For some time nothing happens but what stories ask for.
async fn quiet(played: &Played) -> Result<(), TestCaseError> {
    let node = &played.node;
    let since = node.clock.uptime();
    node.pass(QUIET).await;
    let mut calls = node.runtime.calls();
    calls.retain(|call| call.at >= since);
    for (uid, pod) in &played.pods {
        let looping = if pod.wanted {
            pod.story.looping()
        } else {
            Vec::new()
        };
        let loops = |act: Act, name: &str| {
            // The dead before the last go with each start.
            let fits = matches!(act, Act::Create | Act::Start | Act::Remove);
            fits && looping.iter().any(|one| one == name)
        };
        let mut own: Vec<_> = calls.iter().filter(|call| call.uid == *uid).collect();
        for name in &looping {
            let created =
                |call: &&&runtime::Call| call.act == Act::Create && call.container == *name;
            let count = own.iter().filter(created).count();
            prop_assert!(count <= MOST_LOOPS, "{uid}: {name} was made {count} times");
        }
        own.retain(|call| !loops(call.act, &call.container));
        prop_assert!(own.is_empty(), "{uid}: for no reason {own:#?}; {pod:#?}");
    }
    Ok(())
}
