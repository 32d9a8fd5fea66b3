//! The waits, on a paused clock and an API server in memory.

use std::convert::Infallible;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::time::SystemTime;

use cluster::layout::KUBECONFIG;
use http::{Request, Response};
use identity::decide::state::{State, Wait};
use kube::client::Body;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use testkit::clock::TokioClock;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

fn put(root: &Path, path: &str, content: &str) {
    let path = below(root, path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn patience(clock: &TokioClock) -> Patience<'_> {
    Patience {
        clock,
        limit: LIMIT,
    }
}

/// A certificate and its key; it ends in the year 4096.
fn pair(name: &str) -> String {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    pem + &key.serialize_pem()
}

#[test]
fn only_a_valid_certificate_of_a_node_counts() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let current = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    put(root, current, &pair("system:node:up1"));
    assert!(has_leftover(root, now) && !has_certificate(root, now));
    put(root, KUBECONFIG, "x");
    assert!(has_certificate(root, now) && !has_leftover(root, now));
    let ended = now + Duration::from_secs(100_000_000_000);
    assert!(!has_certificate(root, ended));
    for text in ["garbage".to_owned(), pair("somebody")] {
        put(root, current, &text);
        assert!(!has_certificate(root, now), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_certificate_is_there_when_both_files_are() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
    let path = "/var/lib/kubelet/pki/kubelet-client-1.pem";
    put(root, path, &pair("system:node:up1"));
    let link = below(root, "/var/lib/kubelet/pki/kubelet-client-current.pem");
    symlink("kubelet-client-1.pem", link).unwrap();
    let looks = Mutex::new(0);
    let on_wait = |_: &str| {
        *looks.lock().unwrap() += 1;
        if *looks.lock().unwrap() == 3 {
            put(root, KUBECONFIG, "x");
        }
    };
    let waited = for_certificate(root, patience(&clock), || Ok(()), on_wait).await;
    waited.unwrap();
    assert_eq!(*looks.lock().unwrap(), 3);
    assert_eq!(clock.uptime(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn when_nobody_approves_the_command_that_helps_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let clock = TokioClock::starting_at(began);
    let mut published = Published {
        node_name: "up1".to_owned(),
        process_id: u32::MAX,
        written_at: began,
        client: Some(State::WaitingForApproval(Wait {
            csr: "csr-x".to_owned(),
            since: began,
            approved: false,
        })),
        serving: None,
    };
    let path = Published::path(&below(root, CERTIFICATES));
    published.write(&path).unwrap();
    let ask = async || {
        let waited = for_certificate(root, patience(&clock), || Ok(()), |_| {}).await;
        waited.unwrap_err().to_string()
    };
    let told = ask().await;
    assert!(
        told.contains("has not said anything"),
        "of a former agent: {told}"
    );
    published.process_id = std::process::id();
    published.write(&path).unwrap();
    let told = ask().await;
    assert!(told.contains("no certificate after 10s"), "{told}");
    assert!(told.contains("kubectl certificate approve csr-x"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_has_ended_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH + LIMIT);
    let ended = || {
        let log = "/log".into();
        let last = "why".to_owned();
        Err(AgentError::Ended { log, last })
    };
    let waited = for_certificate(directory.path(), patience(&clock), ended, |_| {}).await;
    assert!(matches!(waited, Err(WaitError::Agent(_))), "{waited:?}");
    assert_eq!(clock.uptime(), Duration::ZERO);
}

#[test]
fn the_certificate_says_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    assert_eq!(certified_name(root), None);
    let of = |name: &str| {
        let path = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        put(root, path, &pair(name));
        certified_name(root)
    };
    assert_eq!(of("system:node:up1"), Some("up1".to_owned()));
    assert_eq!(of("somebody"), None);
}

/// An API server that has these answers for the Node, the last one for ever.
fn client(answers: Vec<(u16, Value)>) -> Client {
    let answers = std::sync::Arc::new(Mutex::new(answers));
    let service = tower::service_fn(move |_: Request<Body>| {
        let mut answers = answers.lock().unwrap();
        let (code, body) = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        let response = Response::builder().status(code).body(body).unwrap();
        std::future::ready(Ok::<_, Infallible>(response))
    });
    Client::new(service, "default")
}

fn missing() -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
    (404, status)
}

fn node(ready: &str) -> (u16, Value) {
    let condition = json!({"type": "Ready", "status": ready, "reason": "KubeletNotReady",
        "message": "cni plugin not initialized"});
    let status = json!({"conditions": [condition]});
    (200, json!({"metadata": {"name": "up1"}, "status": status}))
}

#[tokio::test(start_paused = true)]
async fn a_node_is_waited_for_until_it_is_ready() {
    let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
    let mut said = Vec::new();
    let client = client(vec![missing(), node("False"), node("True")]);
    let on_wait = |last: &str| said.push(last.to_owned());
    let waited = for_ready(&client, "up1", patience(&clock), on_wait).await;
    waited.unwrap();
    assert_eq!(said.len(), 2);
    assert!(said[0].contains("no Node up1 yet"), "{said:?}");
    assert_eq!(
        said[1],
        "Ready is False (KubeletNotReady: cni plugin not initialized)"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_last_is_told_when_the_time_is_up() {
    let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
    let client = client(vec![missing(), node("False")]);
    let waited = for_ready(&client, "up1", patience(&clock), |_| {}).await;
    let told = waited.unwrap_err().to_string();
    assert!(told.contains("not Ready after 10s"), "{told}");
    assert!(told.contains("cni plugin not initialized"), "{told}");
    assert!(told.contains("--skip-phases ready"), "{told}");
}
