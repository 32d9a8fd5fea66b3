use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use testkit::clock::TokioClock;

use super::*;
use crate::cluster_info::{Verified, sign};
use crate::kubeconfig::{self, Endpoint};
use crate::testing::{CA_PEM, CA_PIN, at, authority};

const SERVER: &str = "https://192.0.2.10:6443";

fn token() -> Token {
    "abcdef.0123456789abcdef".parse().unwrap()
}

fn info(authority_pem: &str, signer: &Token) -> ClusterInfo {
    let endpoint = Endpoint::new(SERVER, authority_pem.as_bytes()).unwrap();
    let kubeconfig = kubeconfig::cluster_info(&endpoint)
        .unwrap()
        .expose()
        .to_owned();
    let signature = sign(&kubeconfig, signer);
    ClusterInfo {
        kubeconfig,
        signatures: BTreeMap::from([(signer.id().as_str().to_owned(), signature)]),
    }
}

fn unsigned() -> ClusterInfo {
    ClusterInfo {
        signatures: BTreeMap::new(),
        ..info(CA_PEM, &token())
    }
}

fn pinned() -> Pinning {
    Pinning::Pins(vec![CA_PIN.parse().unwrap()])
}

struct Outcome {
    result: Result<Discovered, DiscoveryError>,
    took: Duration,
    waits: usize,
    handed_authority: Option<Vec<u8>>,
}

/// The last answer of each list stays.
async fn run(pinning: Pinning, first: Vec<Answer>, second: Vec<Answer>) -> Outcome {
    let clock = TokioClock::starting_at(at("2026-11-15T06:00:00Z"));
    let next = |answers: &RefCell<VecDeque<Answer>>| {
        let mut answers = answers.borrow_mut();
        let answer = answers.front().cloned().expect("nobody should have asked");
        if answers.len() > 1 {
            answers.pop_front();
        }
        std::future::ready(answer)
    };
    let (first, second) = (
        RefCell::new(VecDeque::from(first)),
        RefCell::new(VecDeque::from(second)),
    );
    let handed_authority = RefCell::new(None);
    let mut waits = 0;
    let result = discover(
        SERVER,
        &token(),
        &pinning,
        Waiting {
            clock: &clock,
            limit: DEFAULT_TIMEOUT,
        },
        || next(&first),
        |authority| {
            *handed_authority.borrow_mut() = Some(authority);
            next(&second)
        },
        |_| waits += 1,
    )
    .await;
    Outcome {
        result,
        took: clock.uptime(),
        waits,
        handed_authority: handed_authority.into_inner(),
    }
}

/// Whoever knows the token can sign a bundle with an authority of his own in it:
/// that one must not vouch for the second fetch.
#[tokio::test(start_paused = true)]
async fn only_the_pinned_authority_vouches_for_the_second_fetch() {
    let key = rcgen::KeyPair::generate().unwrap();
    let his = rcgen::CertificateParams::default()
        .self_signed(&key)
        .unwrap();
    let his = pem::encode_config(
        &pem::Pem::new("CERTIFICATE", his.der().to_vec()),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    );
    let bundle = format!("{CA_PEM}{his}");
    let forged = info(&bundle, &token());
    let real = info(CA_PEM, &token());
    let outcome = run(pinned(), vec![Ok(forged)], vec![Ok(real)]).await;
    assert_eq!(outcome.handed_authority.as_deref(), Some(CA_PEM.as_bytes()));
    assert!(
        outcome.result.is_err(),
        "and what it then says is not the same"
    );
}

#[tokio::test(start_paused = true)]
async fn a_signed_and_pinned_cluster_is_fetched_again_and_believed() {
    let good = info(CA_PEM, &token());
    let outcome = run(pinned(), vec![Ok(good.clone())], vec![Ok(good)]).await;
    let found = outcome.result.unwrap();
    assert_eq!(found.verified, Verified::ByTokenAndPin);
    assert_eq!(found.endpoint.server(), SERVER);
    assert_eq!(outcome.handed_authority.as_deref(), Some(CA_PEM.as_bytes()));
    assert_eq!((outcome.took, outcome.waits), (Duration::ZERO, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_pin_there_is_no_second_look() {
    let good = info(CA_PEM, &token());
    let outcome = run(Pinning::Skip, vec![Ok(good)], Vec::new()).await;
    assert_eq!(outcome.result.unwrap().verified, Verified::ByToken);
    assert!(matches!(
        Pinning::to(Vec::new(), false),
        Err(DiscoveryError::NoPin)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_signature_that_is_yet_to_come_is_waited_for() {
    let good = info(CA_PEM, &token());
    let first = vec![
        Err(FetchError::Unreachable("refused".to_owned())),
        Err(FetchError::Missing),
        Ok(unsigned()),
        Ok(good.clone()),
    ];
    let second = vec![Err(FetchError::Unreachable("reset".to_owned())), Ok(good)];
    let outcome = run(pinned(), first, second).await;
    outcome.result.unwrap();
    assert_eq!(outcome.took, Duration::from_secs(20));
    assert_eq!(outcome.waits, 4);
}

#[tokio::test(start_paused = true)]
async fn what_stays_missing_is_told_when_the_time_is_up() {
    let other: Token = "zzzzzz.0123456789abcdef".parse().unwrap();
    let unreachable = FetchError::Unreachable("refused".to_owned());
    for (answer, expected) in [
        (Ok(unsigned()), "no signature by any token"),
        (Ok(info(CA_PEM, &other)), "only by zzzzzz"),
        (Err(unreachable), "refused"),
        (Err(FetchError::Missing), "not prepared for tokens"),
    ] {
        let outcome = run(pinned(), vec![answer], Vec::new()).await;
        let error = outcome.result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let patience = DEFAULT_TIMEOUT.saturating_sub(POLL_INTERVAL);
        assert!(
            (patience..=DEFAULT_TIMEOUT).contains(&outcome.took),
            "{:?}",
            outcome.took
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_never_ends_is_cut_off() {
    let clock = TokioClock::starting_at(at("2026-11-15T06:00:00Z"));
    let waiting = Waiting {
        clock: &clock,
        limit: DEFAULT_TIMEOUT,
    };
    let hung = || std::future::pending::<Answer>();
    let result = discover(
        SERVER,
        &token(),
        &pinned(),
        waiting,
        hung,
        |_| std::future::pending::<Answer>(),
        |_| {},
    )
    .await;
    assert!(matches!(result, Err(DiscoveryError::Fetch { .. })));
    assert_eq!(clock.uptime(), DEFAULT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn what_no_waiting_can_mend_is_told_at_once() {
    let good = info(CA_PEM, &token());
    let mut tampered = good.clone();
    tampered.kubeconfig = tampered.kubeconfig.replace("192.0.2.10", "192.0.2.66");
    let same_id: Token = "abcdef.6666666666666666".parse().unwrap();
    let signed_rubbish = |kubeconfig: &str| {
        let signature = sign(kubeconfig, &token());
        Ok(ClusterInfo {
            kubeconfig: kubeconfig.to_owned(),
            signatures: BTreeMap::from([("abcdef".to_owned(), signature)]),
        })
    };
    let empty = Ok(ClusterInfo::default());
    let page = Err(FetchError::NotApiServer("it answers 404".to_owned()));
    let other_authority = Ok(info(&authority("mallory"), &token()));
    for (answer, expected) in [
        (Ok(tampered), "is not what the token abcdef signed"),
        (
            Ok(info(CA_PEM, &same_id)),
            "is not what the token abcdef signed",
        ),
        (empty, "holds no kubeconfig"),
        (signed_rubbish(": :"), "cannot be used"),
        (signed_rubbish("kind: Config\n"), "cannot be used"),
        (other_authority, "none of those given"),
        (page, "not an API server"),
    ] {
        let outcome = run(pinned(), vec![answer], Vec::new()).await;
        let error = outcome.result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(outcome.took, Duration::ZERO, "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_man_in_the_middle_fails_at_the_second_look() {
    let good = info(CA_PEM, &token());
    let untrusted = Err(FetchError::Untrusted("unknown issuer".to_owned()));
    let outcome = run(pinned(), vec![Ok(good.clone())], vec![untrusted]).await;
    assert!(matches!(
        outcome.result,
        Err(DiscoveryError::NotProven { .. })
    ));
    let mut changed = good.clone();
    changed.kubeconfig.push(' ');
    let outcome = run(pinned(), vec![Ok(good)], vec![Ok(changed)]).await;
    assert!(matches!(outcome.result, Err(DiscoveryError::Changed(_))));
}

#[tokio::test(start_paused = true)]
async fn discovery_can_run_on_any_thread() {
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    let clock = TokioClock::starting_at(at("2026-11-15T06:00:00Z"));
    let waiting = Waiting {
        clock: &clock,
        limit: DEFAULT_TIMEOUT,
    };
    let good = info(CA_PEM, &token());
    let (token, pinning) = (token(), pinned());
    let answer = || std::future::ready(Ok(good.clone()));
    let verified = |_| std::future::ready(Ok(good.clone()));
    let work = discover(SERVER, &token, &pinning, waiting, answer, verified, |_| {});
    is_send(work).await.unwrap();
}
