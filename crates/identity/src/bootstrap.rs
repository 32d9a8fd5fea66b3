//! The blocking bootstrap, for nodes that do not rotate: nothing else happens
//! until the one request that this node makes, now and after every restart, has
//! its certificate.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::Client;
use seams::{Clock, timeout};
use thiserror::Error;
use tracing::warn;

use crate::bootstrap_key::{self, BootstrapKeyError};
use crate::csr::{self, CallError, NotIssued, Requester, Submitted};
use crate::decide::rotation::WAIT_FOR_BOOTSTRAP;
use crate::decide::state::Event;
use crate::keeper::Outlet;
use crate::keys::PrivateKey;
use crate::pair::{Pair, PairError};
use crate::request::{Incompatible, RequestError, SigningRequest};
use crate::store::{PairStore, StoreError};

const HEALTH_ANSWER: Duration = Duration::from_secs(1);
const HEALTH_PERIOD: Duration = Duration::from_secs(2);
const HEALTH_PATIENCE: Duration = Duration::from_secs(60);

/// Why the node has no first certificate.
#[derive(Debug, Error)]
pub enum BootstrapError {
    #[error(transparent)]
    Key(#[from] BootstrapKeyError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("cannot ask for a client certificate: {0}{remedy}", remedy = Requester::Bootstrap.remedy(.0))]
    Call(#[from] CallError),
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    #[error("what was issued for CSR {csr} cannot be used: {cause}")]
    Unusable { csr: String, cause: PairError },
    #[error("the certificate was issued and cannot be stored: {0}")]
    Store(#[from] StoreError),
}

/// Gets the node's first certificate into the store. Whatever goes wrong, the
/// next start finds the same key, and so the same request.
pub async fn first_certificate(
    client: &Client,
    clock: &dyn Clock,
    node_name: &str,
    (store, directory): (&PairStore, &Path),
    outlet: &Outlet,
) -> Result<(), BootstrapError> {
    let key = bootstrap_key::obtain(store, directory)?;
    outlet.event(Event::Began);
    until_healthy(client, clock).await;
    let request = SigningRequest::bootstrap(node_name, &key)?;
    let submitted = submit_or_find(client, clock, &request, &key).await?;
    outlet.event(Event::Submitted {
        csr: submitted.name.clone(),
        at: clock.now(),
    });
    let approved = || outlet.event(Event::Approved);
    let pem = csr::wait(client, clock, &submitted, WAIT_FOR_BOOTSTRAP, approved).await?;
    let pair = Pair::issued(&pem, key).map_err(|cause| BootstrapError::Unusable {
        csr: submitted.name,
        cause,
    })?;
    store.update(&pair, clock.now())?;
    outlet.event(Event::Stored {
        until: pair.leaf().not_after,
        rotate_at: None,
    });
    if let Err(error) = bootstrap_key::discard(directory) {
        // The pair is stored: that is what counts.
        warn!(err = %error, "the key of the bootstrap is left over");
    }
    Ok(())
}

async fn submit_or_find(
    client: &Client,
    clock: &dyn Clock,
    request: &SigningRequest,
    key: &PrivateKey,
) -> Result<Submitted, BootstrapError> {
    match (csr::submit(client, clock, request).await, request.name()) {
        (Ok(submitted), _) => Ok(submitted),
        (Err(error), Some(name)) if error.is(409) => {
            let existing = csr::get(client, clock, name).await?;
            let reused = request.reuse(&existing, key, clock.now())?;
            Ok(Submitted {
                name: reused.name,
                uid: reused.uid,
            })
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Gives a server that is just starting a minute, and then goes on all the same:
/// the request will tell what is wrong.
async fn until_healthy(client: &Client, clock: &dyn Clock) {
    let asked = async {
        loop {
            let cause = match healthz(client, clock).await {
                Ok(()) => return,
                Err(cause) => cause,
            };
            tracing::debug!(err = cause, "the API server is not healthy yet");
            let jitter = 1.0 + 0.2 * clock.random();
            clock.sleep(HEALTH_PERIOD.mul_f64(jitter)).await;
        }
    };
    if timeout(clock, HEALTH_PATIENCE, asked).await.is_err() {
        warn!(
            "the API server did not become healthy within a minute; asking for a certificate anyway"
        );
    }
}

async fn healthz(client: &Client, clock: &dyn Clock) -> Result<(), String> {
    let request = Request::get("/healthz").body(Vec::new());
    let request = request.map_err(|cause| cause.to_string())?;
    match timeout(clock, HEALTH_ANSWER, client.request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        // A server that refuses is there: the request will be told why.
        Ok(Err(kube::Error::Api(status))) if status.code < 500 => Ok(()),
        Ok(Err(cause)) => Err(cause.to_string()),
        Err(elapsed) => Err(elapsed.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;

    use jiff::tz::TimeZone;
    use seams::SharedClock;
    use tempfile::TempDir;
    use testkit::clock::TokioClock;

    use super::*;
    use crate::decide::state::State;
    use crate::keeper::Findings;
    use crate::request::Purpose;
    use crate::store::Location;
    use crate::testapi::{Fate, Health, TestApi};
    use crate::testdata::at;

    struct Node {
        _root: TempDir,
        directory: PathBuf,
        store: PairStore,
        clock: SharedClock,
        api: TestApi,
        outlet: Outlet,
        findings: Findings,
    }

    impl Node {
        fn new(fate: Fate) -> Self {
            let root = tempfile::tempdir().unwrap();
            let directory = root.path().join("pki");
            let store = PairStore::open(Location {
                directory: directory.clone(),
                prefix: "kubelet-client".to_owned(),
                fallback: None,
                zone: TimeZone::UTC,
            });
            let clock: SharedClock = Arc::new(TokioClock::starting_at(at(1_800_000_000)));
            let (outlet, findings) = Outlet::new(Purpose::Client);
            Self {
                _root: root,
                directory,
                store: store.unwrap(),
                api: TestApi::new(clock.clone(), fate),
                clock,
                outlet,
                findings,
            }
        }

        async fn bootstrap(&self) -> Result<(), BootstrapError> {
            let client = self.api.client("bootstrap");
            let place = (&self.store, self.directory.as_path());
            first_certificate(&client, &*self.clock, "n1", place, &self.outlet).await
        }

        fn key_is_kept(&self) -> bool {
            self.directory.join("kubelet-client.key.tmp").exists()
        }
    }

    const ISSUED: Fate = Fate::Issued {
        life: Duration::from_secs(3_600),
    };

    #[tokio::test(start_paused = true)]
    async fn the_first_certificate_is_stored_and_its_key_file_removed() {
        let node = Node::new(ISSUED);
        node.bootstrap().await.unwrap();
        let pair = node.store.current().unwrap().unwrap();
        assert_eq!(pair.leaf().common_name, "system:node:n1");
        assert!(!node.key_is_kept());
        let name = node.api.objects()[0]["metadata"]["name"].clone();
        assert!(name.as_str().unwrap().starts_with("node-csr-"), "{name}");
        assert_eq!(node.api.calls("healthz").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_node_waits_for_the_request_it_made_before() {
        let node = Node::new(Fate::Pending);
        let error = node.bootstrap().await.unwrap_err();
        assert!(matches!(
            error,
            BootstrapError::NotIssued(NotIssued::TimedOut { .. })
        ));
        assert!(
            error
                .to_string()
                .contains("kubectl certificate approve node-csr-"),
            "{error}"
        );
        assert_eq!(node.clock.uptime().as_secs() / 60, 60, "waited an hour");
        assert!(matches!(
            *node.findings.state.borrow(),
            State::WaitingForApproval(_)
        ));
        assert!(node.key_is_kept());
        node.api.set_fate(ISSUED);
        node.api.decide();
        node.bootstrap().await.unwrap();
        assert_eq!(node.api.objects().len(), 1, "the same request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_or_deleted_request_ends_the_start_and_keeps_the_key() {
        let node = Node::new(Fate::Denied);
        let error = node.bootstrap().await.unwrap_err().to_string();
        assert!(
            error.contains("was denied (NotWanted: by the test)"),
            "{error}"
        );
        assert!(node.key_is_kept());

        let node = Node::new(Fate::Pending);
        let deleted = async {
            node.clock.sleep(Duration::from_secs(60)).await;
            node.api.delete_all();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = node.bootstrap() => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("was deleted while it was waited for"), "{error}");
            }
            () = deleted => unreachable!("it never ends"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_our_name_that_is_not_ours_is_not_waited_for() {
        let node = Node::new(Fate::Pending);
        let key = bootstrap_key::obtain(&node.store, &node.directory).unwrap();
        let other = PrivateKey::generate().unwrap();
        let name = SigningRequest::bootstrap("n1", &key).unwrap();
        let forged = SigningRequest::bootstrap("n1", &other).unwrap();
        node.api.plant(name.name().unwrap(), forged.object());
        let error = node.bootstrap().await.unwrap_err();
        assert!(matches!(error, BootstrapError::Incompatible(_)), "{error}");
        assert!(error.to_string().contains("kubectl delete csr"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unhealthy_server_is_given_a_minute_and_then_asked_all_the_same() {
        let node = Node::new(ISSUED);
        node.api.set_health(Health::Down);
        let error = node.bootstrap().await.unwrap_err().to_string();
        assert!(error.contains("connection refused"), "{error}");
        let waited = node.clock.uptime().as_secs();
        assert_eq!(waited, 60);
        let asked = node.api.calls("healthz").len();
        assert!((25..=31).contains(&asked), "{asked}");
        assert_eq!(node.api.calls("create").len(), 1);

        let node = Node::new(ISSUED);
        node.api.set_health(Health::Hanging);
        let error = node.bootstrap().await.unwrap_err().to_string();
        assert!(error.contains("nothing within 60 seconds"), "{error}");
        fs::read_dir(&node.directory).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_not_known_or_not_allowed_says_what_to_do() {
        for (code, advice) in [
            (401, "kubeadm token create"),
            (403, "system:node-bootstrapper"),
        ] {
            let node = Node::new(ISSUED);
            node.api.set_health(Health::Refusing(code));
            let error = node.bootstrap().await.unwrap_err().to_string();
            assert!(error.contains(advice), "{error}");
        }
    }
}
