//! Rotation over a node in memory, whose containers write line after line.

use std::sync::Arc;

use testkit::clock::TokioClock;
use tokio::task::JoinSet;

use super::testing::{LINKS, Machine, Node, Reopens, log_of};
use super::*;

const PACKED: &str = ".gz";
const FULL: u64 = 1000;
const TICK: Duration = Duration::from_secs(10);

/// A node with a rotation that runs.
struct Rig {
    node: Arc<Node>,
    clock: SharedClock,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
    written: usize,
}

impl Rig {
    /// With the container `c`.
    fn new() -> Self {
        let node = Arc::new(Node::default());
        node.start("c");
        let mut rig = Self {
            node,
            clock: Arc::new(TokioClock::starting_at(UNIX_EPOCH)),
            shutdown: CancellationToken::new(),
            tasks: JoinSet::new(),
            written: 0,
        };
        rig.begin();
        rig
    }

    /// An agent begins.
    fn begin(&mut self) {
        self.shutdown = CancellationToken::new();
        let rotation = LogRotation {
            runtime: Arc::clone(&self.node) as SharedRuntime,
            storage: Arc::clone(&self.node) as SharedStorage,
            host: Arc::new(Machine(Arc::clone(&self.node))),
            clock: Arc::clone(&self.clock),
            policy: Policy {
                most_bytes: FULL,
                most_files: 4,
                workers: 1,
                interval: TICK,
            },
            zone: TimeZone::UTC,
            links: LINKS.into(),
        };
        self.tasks.spawn(rotation.run(self.shutdown.clone()));
    }

    /// It dies, wherever it was.
    async fn kill(&mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Lines of ten bytes.
    fn write(&mut self, lines: usize) {
        for _ in 0..lines {
            self.node.write("c", &format!("{:09}", self.written));
            self.written += 1;
        }
    }

    /// Whether the last of the lines are there, each once and in order, so many of
    /// them; with the names of the files.
    fn files(&self, least: usize) -> Vec<String> {
        let (names, text) = self.node.files("c");
        let lines: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        let first = self.written - lines.len();
        assert!(lines.len() >= least, "{} of {}", lines.len(), self.written);
        assert_eq!(lines, (first..self.written).collect::<Vec<_>>());
        names
    }

    fn current(&self) -> usize {
        let (names, _) = self.node.files("c");
        names.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_log_is_looked_at_by_the_clock_alone_and_its_place_is_asked_once() {
    let mut rig = Rig::new();
    rig.write(5);
    rig.pass(TICK).await;
    let looks = |rig: &Rig| {
        let state = rig.node.state();
        (state.sizes, state.lists)
    };
    let before = looks(&rig);
    rig.pass(TICK * 6).await;
    let after = looks(&rig);
    assert_eq!((after.0 - before.0, after.1 - before.1), (6, 6));
    assert_eq!(rig.node.state().asked, 1);
    assert_eq!(rig.files(5), ["0.log"]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_into_a_quiet_log_is_seen_within_a_second_or_so() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.pass(Duration::from_secs(2)).await;
    rig.write(150);
    rig.pass(ledger::PAUSE * 2).await;
    assert_eq!(
        rig.files(150).len(),
        2,
        "rotated before the next regular look"
    );
    assert_eq!(rig.node.state().reopened, 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_begins_with_a_burst_does_not_wait_for_the_clock() {
    let rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.pass(Duration::from_secs(2)).await;
    rig.node.start("d");
    for _ in 0..200 {
        rig.node.write("d", "another line");
    }
    rig.pass(ledger::PAUSE * 2).await;
    assert_eq!(rig.node.files("d").0.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn chatter_costs_one_look_in_a_second() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    let before = rig.node.state().sizes;
    // Half of what fits.
    for _ in 0..50 {
        rig.write(1);
        rig.pass(Duration::from_millis(200)).await;
    }
    let looks = rig.node.state().sizes - before;
    assert!(looks <= 20, "{looks} looks in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_is_rotated_when_it_is_full_and_only_the_newest_files_stay() {
    let mut rig = Rig::new();
    // Full in five seconds.
    for _ in 0..1200 {
        rig.write(1);
        rig.pass(Duration::from_millis(50)).await;
    }
    let names = rig.files(300);
    assert_eq!(names.len(), 4, "{names:?}");
    let packed = |name: &&String| name.ends_with(PACKED);
    assert_eq!(names.iter().filter(packed).count(), 2, "{names:?}");
    let (_, text) = rig.node.files("c");
    let most = 4 * usize::try_from(FULL).unwrap();
    assert!(text.len() < most + most / 4, "{} bytes", text.len());
}

#[tokio::test(start_paused = true)]
async fn two_rotations_in_one_second_do_not_take_each_others_name() {
    let mut rig = Rig::new();
    rig.pass(TICK).await;
    for _ in 0..100 {
        rig.write(101);
        rig.pass(Duration::from_millis(300)).await;
        rig.files(101);
    }
    assert_eq!(rig.current(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_gone_is_opened_anew() {
    let mut rig = Rig::new();
    rig.pass(TICK).await;
    rig.node.remove(&log_of("c"));
    rig.pass(TICK).await;
    assert_eq!(rig.node.state().reopened, 1);
    rig.write(1);
    let (names, text) = rig.node.files("c");
    assert_eq!((names.len(), text.as_str()), (1, "000000000\n"));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_opens_no_other_log_keeps_the_old_one_and_is_asked_again_by_the_clock() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.node.state().reopens = Reopens::Not;
    for _ in 0..TICK.as_secs() {
        rig.write(200);
        rig.pass(Duration::from_secs(1)).await;
        assert_eq!(rig.files(200), ["0.log"]);
    }
    let tried = rig.node.state().tried;
    assert!(tried <= 2, "asked {tried} times in one interval");
    rig.node.state().reopens = Reopens::Well;
    rig.pass(TICK).await;
    assert_eq!(rig.files(2000).len(), 2);
    assert_eq!(rig.node.state().reopened, 1);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_opened_another_and_says_otherwise_does_not_lose_it() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.node.state().reopens = Reopens::Secretly;
    rig.write(200);
    rig.pass(TICK).await;
    rig.write(5);
    assert_eq!(rig.files(205).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_between_the_two_names_leaves_a_log_that_the_next_one_sees_to() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.node.state().reopens = Reopens::Late;
    rig.write(200);
    rig.pass(TICK).await;
    assert_eq!(rig.node.state().reopening, 1);
    rig.kill().await;
    rig.write(200);
    assert!(!rig.files(400).contains(&"0.log".to_owned()));
    rig.node.state().reopens = Reopens::Well;
    rig.begin();
    rig.pass(TICK * 2).await;
    rig.write(3);
    assert_eq!(rig.files(403).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_end_waits_for_the_log_that_was_put_aside_to_have_a_successor() {
    let mut rig = Rig::new();
    rig.pass(TICK * 2).await;
    rig.node.state().reopens = Reopens::Late;
    rig.write(200);
    rig.pass(TICK).await;
    rig.shutdown.cancel();
    rig.pass(TICK).await;
    assert!(rig.tasks.try_join_next().is_none(), "it waits");
    rig.node.go_on.notify_one();
    rig.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(rig.files(200).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_logs_are_worked_on_at_once_than_there_are_workers() {
    let mut rig = Rig::new();
    rig.node.start("d");
    rig.pass(TICK * 2).await;
    rig.node.state().reopens = Reopens::Late;
    rig.write(200);
    for _ in 0..200 {
        rig.node.write("d", "another line");
    }
    rig.pass(TICK).await;
    assert_eq!(rig.node.state().reopening, 1);
    rig.node.go_on.notify_one();
    rig.pass(TICK).await;
    rig.node.go_on.notify_one();
    rig.pass(TICK).await;
    assert_eq!(rig.node.state().reopened, 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_keeps_no_log_from_being_rotated() {
    let mut rig = Rig::new();
    rig.node.state().full_disk = true;
    rig.pass(TICK).await;
    for _ in 0..3 {
        rig.write(150);
        rig.pass(TICK).await;
    }
    assert_eq!(rig.files(300).len(), 4);
    rig.node.state().full_disk = false;
    rig.write(150);
    rig.pass(TICK).await;
    let names = rig.files(300);
    let packed = |name: &&String| name.ends_with(PACKED);
    assert_eq!(names.iter().filter(packed).count(), 2, "{names:?}");
}
