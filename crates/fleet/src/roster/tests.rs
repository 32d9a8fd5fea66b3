use std::sync::Mutex;
use std::time::SystemTime;

use testkit::clock::TokioClock;
use tokio::task::JoinSet;

use super::*;
use crate::spec::FleetFile;

/// What the roster did, in order: `+n` a start, `-n` an end, `xn` a removed object.
type Story = Arc<Mutex<Vec<String>>>;

const PACE: Duration = Duration::from_secs(1);
/// How long a node takes to end, and an object to go.
const SLOW: Duration = Duration::from_secs(10);

struct Stage {
    story: Story,
    wanting: watch::Sender<Arc<Fleet>>,
    seats: Seats,
    clock: SharedClock,
    shutdown: CancellationToken,
    _running: JoinSet<()>,
}

fn fleet(groups: &str) -> Arc<Fleet> {
    let head = "apiVersion: ferrolet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\n";
    let file = FleetFile::read(&format!("{head}groups: [{groups}]")).unwrap();
    Arc::new(file.fleet().unwrap())
}

fn nodes(count: usize, more: &str) -> Arc<Fleet> {
    fleet(&format!(
        "{{name: g, count: {count}, namePattern: 'n{{}}'{more}}}"
    ))
}

impl Stage {
    fn set(first: Arc<Fleet>) -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let story = Story::default();
        let (told, slow) = (story.clone(), clock.clone());
        let launch: Launch = Box::new(move |launched| {
            let (told, slow) = (told.clone(), slow.clone());
            let name = launched.spec.name.clone();
            told.lock().unwrap().push(format!("+{name}"));
            Box::pin(async move {
                launched.end.cancelled().await;
                slow.sleep(SLOW).await;
                told.lock().unwrap().push(format!("-{name}"));
                Outcome::Ended
            })
        });
        let (told, slow) = (story.clone(), clock.clone());
        let remove: Remove = Box::new(move |name| {
            let (told, slow) = (told.clone(), slow.clone());
            Box::pin(async move {
                slow.sleep(SLOW).await;
                told.lock().unwrap().push(format!("x{name}"));
            })
        });
        let roster = Roster::with(launch, remove, Addresses::new(None), clock.clone(), PACE);
        let (wanting, wanted) = watch::channel(first);
        let seats = roster.seats();
        let shutdown = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(roster.run(wanted, shutdown.clone()));
        Self {
            story,
            wanting,
            seats,
            clock,
            shutdown,
            _running: running,
        }
    }

    async fn after(&self, seconds: u64) -> Vec<String> {
        self.clock.sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut *self.story.lock().unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.seats.all().into_iter().map(|(name, _)| name).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_start_one_after_the_other_and_take_their_objects_with_them() {
    let stage = Stage::set(nodes(3, ""));
    assert_eq!(stage.after(1).await[..1], ["+n0"]);
    assert_eq!(stage.after(5).await.last().unwrap(), "+n2");
    stage.wanting.send_replace(nodes(1, ""));
    assert_eq!(stage.after(15).await, ["-n1", "-n2"]);
    assert_eq!(stage.after(10).await, ["xn1", "xn2"]);
    assert_eq!(stage.names(), ["n0"]);
    stage.wanting.send_replace(nodes(2, ""));
    assert_eq!(stage.after(5).await, ["+n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_while_it_goes_is_whole_again() {
    // While its agent ends: the object stays.
    let stage = Stage::set(nodes(1, ""));
    stage.after(3).await;
    stage.wanting.send_replace(nodes(0, ""));
    stage.after(3).await;
    stage.wanting.send_replace(nodes(1, ""));
    assert_eq!(stage.after(60).await, ["-n0", "+n0"]);
    assert_eq!(stage.names(), ["n0"]);
    // While its object goes: it waits for that.
    stage.wanting.send_replace(nodes(0, ""));
    assert_eq!(stage.after(13).await, ["-n0"]);
    stage.wanting.send_replace(nodes(1, ""));
    assert_eq!(stage.after(60).await, ["xn0", "+n0"]);
    assert_eq!(stage.names(), ["n0"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_comes_to_each_node_in_its_turn() {
    let stage = Stage::set(nodes(2, ""));
    stage.after(10).await;
    stage.wanting.send_replace(nodes(2, ", capacity: {cpu: 1}"));
    assert_eq!(stage.after(60).await, ["-n0", "+n0", "-n1", "+n1"]);
    // Other marks need another object.
    stage.wanting.send_replace(nodes(1, ", labels: {a: b}"));
    let story = stage.after(60).await;
    assert_eq!(
        story.iter().filter(|step| *step == "xn0").count(),
        1,
        "{story:?}"
    );
    assert_eq!(story.last().unwrap(), "+n0", "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_node_keeps_its_object_and_starts_when_it_may() {
    let stage = Stage::set(nodes(1, ", faults: [{stopped: true}]"));
    assert!(stage.after(10).await.is_empty());
    stage.wanting.send_replace(nodes(1, ""));
    assert_eq!(stage.after(10).await, ["+n0"]);
    stage
        .wanting
        .send_replace(nodes(1, ", faults: [{stopped: true}]"));
    assert_eq!(stage.after(60).await, ["-n0"]);
    assert_eq!(stage.names(), ["n0"]);
    // Told to run again before it has ended.
    stage.wanting.send_replace(nodes(1, ""));
    stage.after(5).await;
    stage
        .wanting
        .send_replace(nodes(1, ", faults: [{stopped: true}]"));
    stage.after(2).await;
    stage.wanting.send_replace(nodes(1, ""));
    assert_eq!(stage.after(60).await, ["-n0", "+n0"]);
}

#[tokio::test(start_paused = true)]
async fn other_ailments_do_not_touch_the_agent() {
    let stage = Stage::set(nodes(1, ""));
    stage.after(5).await;
    stage
        .wanting
        .send_replace(nodes(1, ", faults: [{runtime: down}]"));
    assert!(stage.after(30).await.is_empty());
    let seat = &stage.seats.all()[0].1;
    assert_ne!(*seat.ailment.borrow(), Ailment::default());
}

#[tokio::test(start_paused = true)]
async fn at_the_end_all_nodes_end_and_their_objects_stay() {
    let stage = Stage::set(nodes(2, ""));
    stage.after(5).await;
    stage.shutdown.cancel();
    let story = stage.after(30).await;
    assert!(!story.iter().any(|step| step.starts_with('x')), "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_port_is_taken_is_started_at_another_while_there_is_one() {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let ports = Arc::new(Mutex::new(Vec::new()));
    let (tried, again) = (ports.clone(), clock.clone());
    let launch: Launch = Box::new(move |launched| {
        let (tried, again) = (tried.clone(), again.clone());
        Box::pin(async move {
            let port = launched.address.map(|address| address.port());
            tried.lock().unwrap().push(port.unwrap());
            again.sleep(SLOW).await;
            Outcome::PortTaken
        })
    });
    let remove: Remove = Box::new(|_| Box::pin(async {}));
    let machine = std::net::IpAddr::from([192, 0, 2, 7]);
    let addresses = Addresses::new(Some((machine, 20_000..=20_001)));
    let roster = Roster::with(launch, remove, addresses, clock.clone(), PACE);
    let (_wanting, wanted) = watch::channel(nodes(1, ""));
    let mut running = JoinSet::new();
    running.spawn(roster.run(wanted, CancellationToken::new()));
    clock.sleep(SLOW * 3).await;
    assert_eq!(*ports.lock().unwrap(), [20_000, 20_001, 20_001]);
}
