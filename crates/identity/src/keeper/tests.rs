use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use rustls::crypto::ring::default_provider;
use seams::{Clock, timeout};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use tokio::task::JoinHandle;

use super::*;
use crate::decide::state::State;
use crate::store::Location;
use crate::testapi::{Fate, Health, TestApi};
use crate::testdata::{at, pair};

const HOUR: Duration = Duration::from_secs(3_600);

/// A keeper that runs against a test API, and what it publishes.
struct Node {
    root: TempDir,
    api: TestApi,
    clock: Arc<TokioClock>,
    findings: Findings,
    templates: watch::Sender<Option<Template>>,
    running: JoinHandle<Result<(), GaveUp>>,
    shutdown: CancellationToken,
}

struct Setup {
    root: TempDir,
    clock: Arc<TokioClock>,
    api: TestApi,
    purpose: Purpose,
    template: Option<Template>,
    can_bootstrap: bool,
    embedded: Option<Pair>,
}

fn setup(fate: Fate) -> Setup {
    let clock = Arc::new(TokioClock::starting_at(at(1_800_000_000)));
    let shared: SharedClock = clock.clone();
    Setup {
        root: tempfile::tempdir().unwrap(),
        api: TestApi::new(shared, fate),
        clock,
        purpose: Purpose::Client,
        template: Some(Template::client("n1")),
        can_bootstrap: true,
        embedded: None,
    }
}

fn issued(life: Duration) -> Fate {
    Fate::Issued { life }
}

impl Setup {
    fn store(&self) -> PairStore {
        let location = Location {
            directory: self.root.path().join("pki"),
            prefix: self.purpose.store_prefix().to_owned(),
            fallback: None,
            zone: TimeZone::UTC,
        };
        PairStore::open(location).unwrap()
    }

    fn start(self) -> Node {
        let (outlet, findings) = Outlet::new(self.purpose);
        let (templates, wanted) = watch::channel(self.template.clone());
        let (certified, bootstrap) = (self.api.client("node"), self.api.client("bootstrap"));
        let can_bootstrap = self.can_bootstrap;
        let keeper = Keeper {
            purpose: self.purpose,
            store: self.store(),
            templates: wanted,
            access: Box::new(move |standing| match standing {
                Standing::Uncertified if can_bootstrap => Ok(Way {
                    client: bootstrap.clone(),
                    requester: Requester::Bootstrap,
                }),
                Standing::Uncertified => Ok(Way {
                    client: certified.clone(),
                    requester: Requester::Kubeconfig,
                }),
                Standing::Certified => Ok(Way {
                    client: certified.clone(),
                    requester: Requester::Node,
                }),
            }),
            embedded: self.embedded,
            clock: self.clock.clone(),
            provider: Arc::new(default_provider()),
            outlet,
            metrics: KeeperMetrics::new(self.purpose).unwrap(),
        };
        let shutdown = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test joins it")]
        let running = tokio::spawn(keeper.run(shutdown.clone()));
        Node {
            root: self.root,
            api: self.api,
            clock: self.clock,
            findings,
            templates,
            running,
            shutdown,
        }
    }
}

impl Node {
    async fn pass(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    fn state(&self) -> State {
        self.findings.state.borrow().clone()
    }

    fn has_certificate(&self) -> bool {
        self.findings.certificate.borrow().is_some()
    }

    async fn until(&mut self, name: &str) {
        self.until_state(name, |state| state.name() == name).await;
    }

    /// Within two hours: a paused clock would otherwise run for ever.
    async fn until_state(&mut self, what: &str, is: impl FnMut(&State) -> bool) {
        let arrived = self.findings.state.wait_for(is);
        let arrived = timeout(&*self.clock, HOUR * 2, arrived).await.is_ok();
        assert!(arrived, "not {what}: {:?}", self.state());
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("pki")
    }

    /// Ends it, and gives back what a restart would find.
    async fn stop(self) -> (TempDir, Arc<TokioClock>, TestApi) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        (self.root, self.clock, self.api)
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_anything_asks_as_bootstrap_and_is_issued() {
    let mut node = setup(issued(HOUR)).start();
    node.until("Issued").await;
    assert!(node.has_certificate());
    let creates = node.api.calls("create");
    assert_eq!(creates.len(), 1);
    assert_eq!(creates[0].as_whom, "bootstrap");
    let object = &node.api.objects()[0];
    assert_eq!(object["metadata"]["generateName"], "csr-");
    assert_eq!(object["spec"]["usages"][1], "client auth");
    let link = fs::read_link(node.directory().join("kubelet-client-current.pem")).unwrap();
    let mode = fs::metadata(link).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn certificates_are_replaced_in_time_as_the_node_itself_and_never_missing() {
    let mut node = setup(issued(HOUR)).start();
    node.until("Issued").await;
    let mut certificate = node.findings.certificate.clone();
    certificate.borrow_and_update();
    for _ in 0..10 {
        let State::Issued { until, .. } = node.state() else {
            panic!("{:?}", node.state())
        };
        timeout(&*node.clock, HOUR, certificate.changed())
            .await
            .unwrap()
            .unwrap();
        assert!(certificate.borrow_and_update().is_some());
        let left = until.duration_since(node.clock.now()).unwrap();
        // 3,900 s of life from five minutes before issue.
        assert!(
            left > Duration::from_secs(389) && left < Duration::from_secs(1_172),
            "{left:?}"
        );
        node.until("Issued").await;
    }
    let creates = node.api.calls("create");
    assert_eq!(creates.len(), 11);
    assert!(creates[1..].iter().all(|call| call.as_whom == "node"));
    let mut keys: Vec<String> = node
        .api
        .objects()
        .iter()
        .map(|csr| csr["spec"]["request"].to_string())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 11, "a fresh key every time");
    let files = fs::read_dir(node.directory()).unwrap().count();
    assert!(
        files <= 6,
        "current, its file, valid ones and three expired: {files}"
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_its_certificate_and_asks_for_nothing() {
    let mut node = setup(issued(HOUR)).start();
    node.until("Issued").await;
    let (root, clock, api) = node.stop().await;
    let again = Setup {
        root,
        clock,
        api,
        ..setup(Fate::Denied)
    };
    let node = again.start();
    node.pass(Duration::from_secs(600)).await;
    assert!(node.has_certificate());
    assert_eq!(node.api.calls("create").len(), 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_denied_or_failed_request_is_followed_by_a_new_one_at_a_measured_pace() {
    for (fate, cause) in [
        (Fate::Denied, "was denied"),
        (Fate::Failed, "the signer failed on"),
    ] {
        let mut node = setup(fate).start();
        node.pass(HOUR).await;
        let creates = node.api.calls("create").len();
        assert!(
            (100..=118).contains(&creates),
            "every 32 seconds: {creates}"
        );
        let advice = node.state().advice(Purpose::Client).to_string();
        assert!(
            advice.contains(cause) && advice.contains("kubectl get csr"),
            "{advice}"
        );
        node.api.set_fate(issued(HOUR));
        node.until("Issued").await;
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_answers_is_made_anew_every_quarter_of_an_hour() {
    for (fate, command) in [
        (Fate::Pending, "kubectl certificate approve csr-"),
        (Fate::ApprovedOnly, "kubectl describe csr csr-"),
    ] {
        let mut node = setup(fate).start();
        node.pass(Duration::from_secs(14 * 60)).await;
        assert_eq!(node.api.calls("create").len(), 1);
        let advice = node.state().advice(Purpose::Client).to_string();
        assert!(advice.contains(command), "{advice}");
        node.pass(HOUR).await;
        assert_eq!(node.api.calls("create").len(), 5);
        assert!(node.api.all_calls() < 80, "{}", node.api.all_calls());
        node.api.set_fate(issued(HOUR));
        node.api.decide();
        node.until("Issued").await;
        assert_eq!(
            node.api.calls("create").len(),
            5,
            "the one that waited was enough"
        );
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_deleted_while_waiting_is_made_anew() {
    let mut node = setup(Fate::Pending).start();
    node.until("WaitingForApproval").await;
    node.pass(Duration::from_secs(10)).await;
    node.api.set_fate(issued(HOUR));
    node.api.delete_all();
    node.until("Issued").await;
    assert_eq!(node.api.calls("create").len(), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_an_hour_at_any_step_loses_nothing() {
    for away in [Health::Down, Health::Hanging, Health::Refusing(503)] {
        // Before the request, and while it waits.
        for before in [true, false] {
            let mut node = setup(Fate::Pending).start();
            if !before {
                node.until("WaitingForApproval").await;
                node.pass(Duration::from_secs(5)).await;
            }
            node.api.set_health(away);
            node.pass(HOUR).await;
            let calls = node.api.all_calls();
            assert!(calls < 1_050, "{away:?} {before}: {calls}");
            assert!(!node.running.is_finished(), "{away:?} {before}");
            node.api.set_fate(issued(HOUR));
            node.api.set_health(Health::Up);
            node.until("Issued").await;
            node.stop().await;
        }
        // While a certificate is in use, until it has ended and beyond.
        let mut node = setup(issued(HOUR)).start();
        node.until("Issued").await;
        node.api.set_health(away);
        node.pass(Duration::from_secs(5_400)).await;
        assert_eq!(node.state().name(), "Expired", "{away:?}");
        assert!(!node.has_certificate());
        assert!(!node.running.is_finished(), "{away:?}: the server is away");
        node.api.set_health(Health::Up);
        node.until("Issued").await;
        let creates = node.api.calls("create");
        assert_eq!(
            creates.last().unwrap().as_whom,
            "bootstrap",
            "it had nothing else"
        );
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_bootstrap_credentials_a_living_server_that_refuses_ends_the_node() {
    for can_bootstrap in [false, true] {
        let mut begun = setup(issued(HOUR));
        begun.can_bootstrap = can_bootstrap;
        let store = begun.store();
        store
            .update(
                &pair("system:node:n1", at(1_700_000_000), 60),
                at(1_700_000_000),
            )
            .unwrap();
        begun.api.set_health(Health::Refusing(401));
        let mut node = begun.start();
        let gave_up = (&mut node.running).await.unwrap().unwrap_err();
        let minutes = node.clock.uptime().as_secs_f64() / 60.0;
        assert!((5.0..5.3).contains(&minutes), "{minutes}");
        let text = gave_up.to_string();
        assert!(
            text.contains("5 minutes") && text.contains("refused with 401"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_node_bootstraps_again_in_the_running_process() {
    let begun = setup(issued(HOUR));
    let store = begun.store();
    store
        .update(
            &pair("system:node:n1", at(1_700_000_000), 60),
            at(1_700_000_000),
        )
        .unwrap();
    let mut node = begun.start();
    node.until("Issued").await;
    assert_eq!(node.api.calls("create")[0].as_whom, "bootstrap");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pair_that_cannot_be_stored_is_used_and_stored_later() {
    let begun = setup(issued(HOUR));
    let mut node = begun.start();
    // A file where the directory must be.
    fs::write(node.directory(), "").unwrap();
    let unsaved = |state: &State| {
        matches!(
            state,
            State::Issued {
                unsaved: Some(_),
                ..
            }
        )
    };
    node.until_state("unsaved", unsaved).await;
    assert!(node.has_certificate());
    let advice = node.state().advice(Purpose::Client).to_string();
    assert!(advice.contains("move away the file"), "{advice}");
    node.pass(Duration::from_secs(600)).await;
    fs::remove_file(node.directory()).unwrap();
    let saved = |state: &State| matches!(state, State::Issued { unsaved: None, .. });
    node.until_state("saved", saved).await;
    assert!(node.directory().join("kubelet-client-current.pem").exists());
    assert_eq!(
        node.api.calls("create").len(),
        1,
        "nothing is asked for twice"
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_regular_file_in_the_links_place_is_left_alone_and_named() {
    let begun = setup(issued(HOUR));
    fs::create_dir(begun.root.path().join("pki")).unwrap();
    let current = begun.root.path().join("pki/kubelet-client-current.pem");
    fs::write(&current, "somebody's").unwrap();
    let mut node = begun.start();
    let unsaved = |state: &State| {
        matches!(
            state,
            State::Issued {
                unsaved: Some(_),
                ..
            }
        )
    };
    node.until_state("unsaved", unsaved).await;
    let advice = node.state().advice(Purpose::Client).to_string();
    assert!(
        advice.contains("must be a symlink") && advice.contains("mv "),
        "{advice}"
    );
    assert_eq!(fs::read_to_string(&current).unwrap(), "somebody's");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_a_day_ahead_is_named_and_causes_no_storm() {
    let begun = setup(issued(HOUR));
    begun.api.set_signer_ahead(-86_400);
    let mut node = begun.start();
    node.pass(HOUR).await;
    assert!(!node.has_certificate());
    let creates = node.api.calls("create").len();
    assert!((100..=118).contains(&creates), "{creates}");
    let advice = node.state().advice(Purpose::Client).to_string();
    assert!(
        advice.contains("clock is ahead") && advice.contains("timedatectl"),
        "{advice}"
    );
    node.clock.jump_back(Duration::from_secs(86_400));
    node.api.set_signer_ahead(0);
    node.until("Issued").await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn certificates_that_look_due_at_once_are_not_replaced_in_a_loop() {
    let begun = setup(issued(HOUR));
    // Of 3,900 seconds only 200 are left by this clock.
    begun.api.set_signer_ahead(-3_400);
    let node = begun.start();
    node.pass(Duration::from_secs(1_000)).await;
    let creates = node.api.calls("create").len();
    assert!(creates <= 32, "{creates}");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_a_day_behind_does_not_keep_a_node_out() {
    let begun = setup(issued(HOUR * 24 * 365));
    begun.api.set_signer_ahead(86_400);
    let mut node = begun.start();
    node.until("Issued").await;
    node.pass(HOUR).await;
    assert_eq!(node.api.calls("create").len(), 1);
    // Set right again, nothing is lost.
    node.clock.jump_ahead(Duration::from_secs(86_400));
    node.pass(HOUR).await;
    assert!(node.has_certificate());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_past_the_end_is_noticed_within_a_minute() {
    let mut node = setup(issued(HOUR * 24 * 365)).start();
    node.until("Issued").await;
    node.api.set_health(Health::Down);
    node.clock.jump_ahead(HOUR * 24 * 366);
    node.pass(Duration::from_secs(61)).await;
    assert_eq!(node.state().name(), "Expired");
    node.api.set_health(Health::Up);
    node.until("Issued").await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pair_inside_the_kubeconfig_is_used_stored_and_replaced() {
    let mut begun = setup(issued(HOUR));
    begun.embedded = Some(pair("system:node:n1", at(1_799_999_000), 100_000));
    begun.api.set_fate(Fate::Pending);
    let mut node = begun.start();
    node.until("Rotating").await;
    assert!(node.has_certificate());
    assert!(node.directory().join("kubelet-client-current.pem").exists());
    node.api.set_fate(issued(HOUR));
    node.api.decide();
    node.until("Issued").await;
    assert_eq!(node.api.calls("create")[0].as_whom, "node");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_half_written_store_is_replaced() {
    let begun = setup(issued(HOUR));
    let directory = begun.root.path().join("pki");
    fs::create_dir(&directory).unwrap();
    let half = directory.join("kubelet-client-2026-01-01-00-00-00.pem");
    fs::write(&half, "-----BEGIN CERTIFICATE-----\nMIIB").unwrap();
    std::os::unix::fs::symlink(&half, directory.join("kubelet-client-current.pem")).unwrap();
    let mut node = begun.start();
    node.until("Issued").await;
    assert!(node.has_certificate());
    node.stop().await;
}

fn serving(address: &str) -> Option<Template> {
    let address = crate::request::NodeAddress::InternalIp(address.to_owned());
    Template::serving("n1", &[address], false)
}

#[tokio::test(start_paused = true)]
async fn a_serving_certificate_is_asked_for_when_there_is_an_address_and_again_when_it_changes() {
    let mut begun = setup(issued(HOUR * 24));
    begun.purpose = Purpose::Serving;
    begun.template = None;
    let mut node = begun.start();
    node.pass(HOUR).await;
    assert_eq!(node.api.all_calls(), 0);
    assert_eq!(node.state().name(), "NoCredentials");
    node.templates.send_replace(serving("10.0.0.1"));
    node.until("Issued").await;
    assert_eq!(
        node.api.objects()[0]["spec"]["signerName"],
        "kubernetes.io/kubelet-serving"
    );
    node.api.set_fate(Fate::Pending);
    node.templates.send_replace(serving("10.0.0.2"));
    node.until("Rotating").await;
    assert!(node.has_certificate(), "the old one serves meanwhile");
    node.api.set_fate(issued(HOUR * 24));
    node.api.decide();
    node.until("Issued").await;
    assert_eq!(node.api.calls("create").len(), 2);

    node.api.set_fate(Fate::Pending);
    node.templates.send_replace(serving("10.0.0.3"));
    node.until("Rotating").await;
    node.pass(Duration::from_secs(30)).await;
    assert_eq!(node.api.calls("create").len(), 3);
    node.templates.send_replace(serving("10.0.0.4"));
    node.pass(Duration::from_secs(30)).await;
    assert_eq!(
        node.api.calls("create").len(),
        4,
        "the wait was of no use any more"
    );
    node.templates.send_replace(serving("10.0.0.2"));
    node.pass(Duration::from_secs(30)).await;
    assert_eq!(
        node.api.calls("create").len(),
        4,
        "what there is will do again"
    );
    assert_eq!(
        node.state().name(),
        "Issued",
        "and nobody has to approve anything"
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_serving_certificate_that_nobody_approves_never_ends_the_node() {
    let mut begun = setup(Fate::Pending);
    begun.purpose = Purpose::Serving;
    begun.template = serving("10.0.0.1");
    begun.can_bootstrap = false;
    let node = begun.start();
    node.pass(HOUR * 24).await;
    assert!(!node.has_certificate() && !node.running.is_finished());
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn figures_follow_the_state() {
    let mut begun = setup(issued(HOUR));
    begun.purpose = Purpose::Serving;
    begun.template = serving("10.0.0.1");
    let registry = prometheus::Registry::new();
    let mut node = begun.start();
    let metrics = KeeperMetrics::new(Purpose::Serving).unwrap();
    metrics
        .register(
            &registry,
            Purpose::Serving,
            node.findings.state.clone(),
            node.clock.clone(),
        )
        .unwrap();
    let text = || {
        prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap()
    };
    assert!(
        text().contains("kubelet_certificate_manager_server_ttl_seconds inf\n"),
        "{}",
        text()
    );
    node.until("Issued").await;
    metrics.failed();
    let shown = text();
    for line in [
        "kubelet_certificate_manager_server_ttl_seconds 36",
        "kubelet_server_expiration_renew_errors 1",
        "kubelet_certificate_manager_server_rotation_seconds_bucket{le=\"60\"} 0",
        "ferrolet_certificate_state{certificate=\"serving\",state=\"Issued\"} 1",
        "ferrolet_certificate_state{certificate=\"serving\",state=\"Expired\"} 0",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rotation_that_outlives_its_certificate_goes_on_as_bootstrap() {
    let mut node = setup(issued(HOUR)).start();
    node.until("Issued").await;
    node.api.set_fate(Fate::Pending);
    node.until("Expired").await;
    // At once, not when the old request's quarter of an hour is over.
    node.pass(Duration::from_secs(15)).await;
    let creates = node.api.calls("create");
    assert_eq!(creates.last().unwrap().as_whom, "bootstrap");
    node.pass(Duration::from_secs(600)).await;
    assert!(
        !node.running.is_finished(),
        "a request waits, nothing is lost"
    );
    node.api.set_fate(issued(HOUR));
    node.api.decide();
    node.until("Issued").await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_taken_at_last_is_waited_for() {
    let begun = setup(Fate::Pending);
    begun.api.set_health(Health::Refusing(403));
    let mut node = begun.start();
    node.pass(Duration::from_secs(240)).await;
    node.api.set_health(Health::Up);
    node.until("WaitingForApproval").await;
    node.pass(Duration::from_secs(600)).await;
    assert!(!node.running.is_finished());
    node.api.set_fate(issued(HOUR));
    node.api.decide();
    node.until("Issued").await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_wrong_for_a_while_does_not_cost_the_certificate() {
    let mut node = setup(issued(HOUR * 24)).start();
    node.until("Issued").await;
    node.api.set_health(Health::Refusing(401));
    node.clock.jump_ahead(HOUR * 48);
    node.pass(Duration::from_secs(90)).await;
    assert!(!node.has_certificate());
    node.clock.jump_back(HOUR * 48);
    node.until("Issued").await;
    assert!(node.has_certificate());
    node.stop().await;
}
