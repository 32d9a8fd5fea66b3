use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use types::PodName;

use super::*;

/// A server of tokens: what it was asked, and whether it answers.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    away: Arc<Mutex<bool>>,
    /// How long its tokens live, if not as long as is asked.
    life: Option<i64>,
    /// How far the node's clock is ahead of its own.
    behind: Duration,
}

struct Scene {
    server: Server,
    clock: SharedClock,
    tokens: Tokens,
}

fn scene(life: Option<i64>) -> Scene {
    scene_of(Server {
        life,
        ..Server::default()
    })
}

fn scene_of(server: Server) -> Scene {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(
        UNIX_EPOCH + Duration::from_secs(1_000_000),
    ));
    let (answering, time) = (server.clone(), clock.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (server, clock) = (answering.clone(), time.clone());
        async move { server.answer(request, &clock).await }
    });
    let client = Client::new(service, "default");
    let tokens = Tokens::new(client, clock.clone());
    Scene {
        server,
        clock,
        tokens,
    }
}

impl Server {
    async fn answer(
        &self,
        request: Request<kube::client::Body>,
        clock: &SharedClock,
    ) -> Result<Response<kube::client::Body>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push((path, body.clone()));
            asked.len()
        };
        if *self.away.lock().unwrap() {
            return Err(std::io::Error::other("connection refused"));
        }
        let life = self
            .life
            .or(body["spec"]["expirationSeconds"].as_i64())
            .unwrap();
        body["spec"]["expirationSeconds"] = json!(life);
        let expires = clock.now() - self.behind + Duration::from_secs(life.unsigned_abs());
        let expires = k8s_openapi::jiff::Timestamp::try_from(expires).unwrap();
        body["status"] =
            json!({"token": format!("token-{number}"), "expirationTimestamp": expires.to_string()});
        Ok(Response::new(kube::client::Body::from(
            serde_json::to_vec(&body).unwrap(),
        )))
    }
}

fn ask(uid: &str) -> TokenAsk {
    TokenAsk {
        pod: PodRef {
            name: PodName {
                namespace: "ns".to_owned(),
                name: "p".to_owned(),
            },
            uid: PodUid::new(uid),
        },
        service_account: "robot".to_owned(),
        audience: String::new(),
        expiration_seconds: 3600,
    }
}

impl Scene {
    async fn token(&self) -> String {
        self.tokens
            .get(&ask("1"))
            .await
            .unwrap()
            .token
            .expose()
            .clone()
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_bound_to_its_pod_and_asked_for_once() {
    let scene = scene(None);
    for _ in 0..3 {
        assert_eq!(scene.token().await, "token-1");
    }
    let asked = scene.server.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    let (path, body) = &asked[0];
    assert_eq!(path, "/api/v1/namespaces/ns/serviceaccounts/robot/token");
    let wanted = json!({
        "expirationSeconds": 3600,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
    });
    assert_eq!(body["spec"], wanted);
    let other = TokenAsk {
        audience: "vault".to_owned(),
        ..ask("1")
    };
    scene.tokens.get(&other).await.unwrap();
    let asked = scene.server.asked.lock().unwrap().clone();
    assert_eq!(asked[1].1["spec"]["audiences"], json!(["vault"]));
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_when_a_fifth_of_its_life_is_left() {
    let scene = scene(None);
    assert_eq!(scene.token().await, "token-1");
    scene.pass(2869).await;
    assert_eq!(scene.token().await, "token-1");
    scene.pass(11).await;
    assert_eq!(scene.token().await, "token-2");
}

#[tokio::test(start_paused = true)]
async fn one_that_lives_long_is_renewed_after_a_day() {
    // As servers that extend tokens do.
    let scene = scene(Some(365 * 24 * 3600));
    assert_eq!(scene.token().await, "token-1");
    scene.pass(24 * 3600 - 11).await;
    assert_eq!(scene.token().await, "token-1");
    scene.pass(11).await;
    assert_eq!(scene.token().await, "token-2");
}

#[tokio::test(start_paused = true)]
async fn when_it_cannot_be_renewed_the_old_one_stays_until_it_expires() {
    let scene = scene(None);
    assert_eq!(scene.token().await, "token-1");
    scene.pass(2900).await;
    *scene.server.away.lock().unwrap() = true;
    assert_eq!(scene.token().await, "token-1");
    assert_eq!(scene.token().await, "token-1");
    assert_eq!(
        scene.server.asked.lock().unwrap().len(),
        2,
        "not asked again at once"
    );
    scene.pass(61).await;
    assert_eq!(scene.token().await, "token-1");
    assert_eq!(scene.server.asked.lock().unwrap().len(), 3);
    scene.pass(700).await;
    let error = scene.tokens.get(&ask("1")).await.unwrap_err().to_string();
    assert!(
        error.starts_with("token of service account \"robot\" for pod p_ns(1)"),
        "{error}"
    );
    assert!(error.contains("expired and refresh failed: "), "{error}");
    assert!(!error.contains("token-1"), "{error}");
    *scene.server.away.lock().unwrap() = false;
    assert_eq!(scene.token().await, "token-5");
}

#[tokio::test(start_paused = true)]
async fn one_that_looks_old_because_the_nodes_clock_is_ahead_is_renewed_once_a_minute() {
    for ahead in [3000, 7200] {
        let scene = scene_of(Server {
            behind: Duration::from_secs(ahead),
            ..Server::default()
        });
        for minute in 1..4 {
            for _ in 0..6 {
                assert_eq!(scene.token().await, format!("token-{minute}"), "{ahead}");
                scene.pass(10).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_old_one_the_failure_is_told() {
    let scene = scene(None);
    *scene.server.away.lock().unwrap() = true;
    let error = scene.tokens.get(&ask("1")).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to fetch token: "), "{error}");
    assert!(error.contains("connection refused"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_tokens_of_a_pod_that_is_gone_are_forgotten() {
    let scene = scene(None);
    scene.token().await;
    scene.tokens.get(&ask("2")).await.unwrap();
    scene.tokens.forget(&PodUid::new("1"));
    assert_eq!(scene.tokens.count(), 1);
    assert_eq!(scene.token().await, "token-3");
}

#[test]
fn renewals_are_spread_over_ten_seconds() {
    let expires = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let before = |life, random| {
        let left = expires.duration_since(renew_at(expires, life, random));
        left.unwrap().as_secs_f64()
    };
    let cases = [
        (3600, 0.0, 720.0),
        (3600, 0.5, 725.0),
        (600, 0.0, 120.0),
        (172_800, 0.0, 86_400.0),
        (100_000, 0.0, 20_000.0),
    ];
    for (life, random, wanted) in cases {
        let found: f64 = before(life, random);
        assert!((found - wanted).abs() < 1e-3, "{life} {random}: {found}");
    }
}
