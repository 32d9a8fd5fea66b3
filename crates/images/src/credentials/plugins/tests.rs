//! Plugins over a machine whose programs do as they are told, and an API server with
//! one service account.

use std::time::UNIX_EPOCH;

use http::{Request, Response as HttpResponse};
use http_body_util::BodyExt as _;
use kube::Client;
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use types::{PodName, PodRef};

use super::*;
use crate::testing::{Behaviour, FilesOnly};

const IMAGE: &str = "r.io/team/app";
const PROGRAM: &str = "/plugins/p";

fn answer(more: &Value) -> String {
    let mut whole = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": protocol::V1,
        "cacheKeyType": "Image",
        "auth": {"r.io": {"username": "u", "password": "p"}},
    });
    for (key, value) in more.as_object().unwrap() {
        whole[key] = value.clone();
    }
    whole.to_string()
}

fn provider(name: &str) -> Provider {
    Provider {
        name: name.to_owned(),
        match_images: vec!["*.io/team".to_owned(), "q.org".to_owned()],
        default_cache: Duration::from_secs(600),
        api_version: protocol::V1.to_owned(),
        arguments: vec!["--flag".to_owned()],
        environment: vec![("A".to_owned(), "b".to_owned())],
        token: None,
    }
}

fn attributes() -> TokenAttributes {
    TokenAttributes {
        audience: "aud".to_owned(),
        cache_by_token: false,
        require_account: true,
        required_annotations: vec!["needed".to_owned()],
        optional_annotations: vec!["liked".to_owned(), "absent".to_owned()],
    }
}

/// What was asked of the API server: `GET path` or `POST path`, with the body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

struct Rig {
    host: Arc<FilesOnly>,
    clock: SharedClock,
    plugins: Plugins,
    asked: Asked,
    pod: PodRef,
}

impl Rig {
    fn new(providers: Vec<Provider>) -> Self {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let host = Arc::new(FilesOnly::default());
        host.put_program(PROGRAM, Behaviour::Prints(answer(&json!({}))));
        let loaded = Loaded {
            providers,
            directory: "/plugins".into(),
            digest: String::new(),
        };
        let asked = Asked::default();
        let accounts = Accounts::new(client(&asked, &clock), clock.clone());
        Self {
            plugins: Plugins::new(
                loaded,
                host.clone(),
                clock.clone(),
                Some(accounts),
                Arc::default(),
            ),
            host,
            clock,
            asked,
            pod: pod("1"),
        }
    }

    fn prints(&self, more: &Value) {
        self.host
            .put_program(PROGRAM, Behaviour::Prints(answer(more)));
    }

    /// The users that a pod can be, and whose they are.
    async fn users(&self, image: &str) -> Vec<String> {
        self.users_for(image, "robot", &self.pod).await
    }

    async fn users_for(&self, image: &str, account: &str, pod: &PodRef) -> Vec<String> {
        let asking = Asking {
            pod,
            service_account: account,
        };
        let keyring = self.plugins.keyring(image, asking).await;
        let found = keyring.lookup(image).into_iter();
        let text = |credential: &super::super::Credential| {
            let user = credential.login.to_cri().username;
            match &credential.source {
                Source::ServiceAccount(name) => format!("{user} of {}/{}", name.name, name.uid),
                _ => user,
            }
        };
        found.map(text).collect()
    }

    fn runs(&self) -> usize {
        self.host.runs().len()
    }
}

fn pod(uid: &str) -> PodRef {
    PodRef {
        name: PodName {
            namespace: "ns".to_owned(),
            name: format!("pod-{uid}"),
        },
        uid: PodUid::new(uid),
    }
}

/// With the account `robot`, and `bare` without annotations.
fn client(asked: &Asked, clock: &SharedClock) -> Client {
    let (asked, clock) = (Arc::clone(asked), clock.clone());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (asked, clock) = (Arc::clone(&asked), clock.clone());
        async move {
            let about = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let is_post = about.starts_with("POST");
            let number = {
                let mut asked = asked.lock().unwrap();
                asked.push((about.clone(), body.clone()));
                let tokens = asked.iter().filter(|(about, _)| about.starts_with("POST"));
                tokens.count()
            };
            let answer = if is_post {
                let expires = clock.now() + Duration::from_secs(3600);
                let expires = jiff::Timestamp::try_from(expires).unwrap().to_string();
                json!({
                    "metadata": {}, "spec": body["spec"],
                    "status": {"token": format!("token-{number}"), "expirationTimestamp": expires},
                })
            } else {
                let annotations = if about.ends_with("/bare") {
                    json!({})
                } else {
                    json!({"needed": "1", "liked": "2", "other": "3"})
                };
                json!({"metadata": {"name": "robot", "uid": "sa-1", "annotations": annotations}})
            };
            let answer = kube::client::Body::from(answer.to_string().into_bytes());
            Ok::<_, std::io::Error>(HttpResponse::new(answer))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_run_for_images_that_it_is_for_with_all_that_is_configured() {
    let rig = Rig::new(vec![provider("p")]);
    for image in ["r.io/other", "r.org/team/app", "q.org:80/x", "x.r.io/team"] {
        assert!(rig.users(image).await.is_empty(), "{image}");
    }
    assert_eq!(rig.runs(), 0);
    assert_eq!(rig.users(IMAGE).await, ["u"]);
    let run = rig.host.runs().pop().unwrap();
    assert_eq!(run.path, std::path::Path::new(PROGRAM));
    assert_eq!(run.arguments, ["--flag"]);
    assert_eq!(run.environment, [("A".into(), "b".into())]);
    let input: Value = serde_json::from_slice(&run.input).unwrap();
    let wanted = json!({
        "kind": "CredentialProviderRequest", "apiVersion": protocol::V1, "image": IMAGE,
    });
    assert_eq!(input, wanted, "nothing is told of the pod's account");
    assert!(rig.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_as_long_as_it_says_or_as_is_configured() {
    for (more, seconds) in [
        (json!({}), 600),
        (json!({"cacheDuration": "30s"}), 30),
        (json!({"cacheDuration": "0s"}), 0),
    ] {
        let rig = Rig::new(vec![provider("p")]);
        rig.prints(&more);
        rig.users(IMAGE).await;
        assert_eq!(rig.runs(), 1);
        if seconds > 0 {
            rig.clock.sleep(Duration::from_secs(seconds - 1)).await;
            assert_eq!(rig.users(IMAGE).await, ["u"]);
            assert_eq!(rig.runs(), 0, "{more}");
            rig.clock.sleep(Duration::from_secs(2)).await;
        }
        rig.users(IMAGE).await;
        assert_eq!(rig.runs(), 1, "{more}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_the_same_at_the_same_time_shares_one_run() {
    let rig = Rig::new(vec![provider("p")]);
    let other = pod("2");
    let (one, two, third) = tokio::join!(
        rig.users(IMAGE),
        rig.users_for(IMAGE, "", &other),
        rig.users("r.io/team/another"),
    );
    assert_eq!([one, two, third], [["u"], ["u"], ["u"]]);
    assert_eq!(rig.runs(), 2, "another image is another question");
}

#[tokio::test(start_paused = true)]
async fn one_who_gives_up_does_not_end_the_run_of_another() {
    let rig = Rig::new(vec![provider("p")]);
    let impatient = timeout(&*rig.clock, Duration::from_millis(500), rig.users(IMAGE));
    let (impatient, patient) = tokio::join!(impatient, rig.users(IMAGE));
    assert!(impatient.is_err());
    assert_eq!(patient, ["u"]);
    assert_eq!(rig.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_hangs_floods_or_babbles_has_nothing_and_harms_no_other() {
    let cases = [
        (Behaviour::Fails, 1),
        (Behaviour::Hangs, 60),
        (Behaviour::Floods, 1),
        (Behaviour::Prints("hunter2".to_owned()), 1),
        (Behaviour::Prints(String::new()), 1),
        (Behaviour::Prints("[".repeat(1 << 19)), 1),
        (Behaviour::Prints(answer(&json!({"cacheKeyType": "?"}))), 1),
    ];
    for (behaviour, seconds) in cases {
        let name = format!("{behaviour:?}");
        let rig = Rig::new(vec![provider("bad"), provider("p")]);
        rig.host.put_program("/plugins/bad", behaviour);
        let before = rig.clock.uptime();
        assert_eq!(rig.users(IMAGE).await, ["u"], "{name:.40}");
        let took = rig.clock.uptime().saturating_sub(before);
        assert_eq!(took.as_secs(), seconds + 1, "{name:.40}");
        rig.users(IMAGE).await;
        assert_eq!(rig.runs(), 3, "it is asked again, and the other is not");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_told_of_the_pods_account_as_it_wants_to_be() {
    let mut given = provider("p");
    given.token = Some(attributes());
    let rig = Rig::new(vec![given]);
    assert_eq!(rig.users(IMAGE).await, ["u of robot/sa-1"]);
    let run = rig.host.runs().pop().unwrap();
    let input: Value = serde_json::from_slice(&run.input).unwrap();
    assert_eq!(input["serviceAccountToken"], "token-1");
    let annotations = json!({"needed": "1", "liked": "2"});
    assert_eq!(input["serviceAccountAnnotations"], annotations);
    let asked = rig.asked.lock().unwrap().clone();
    let path = "/api/v1/namespaces/ns/serviceaccounts/robot";
    assert_eq!(asked[0].0, format!("GET {path}"));
    assert_eq!(asked[1].0, format!("POST {path}/token"));
    let spec = &asked[1].1["spec"];
    assert_eq!(spec["audiences"], json!(["aud"]));
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "pod-1", "uid": "1"});
    assert_eq!(spec["boundObjectRef"], bound);
    assert_eq!(asked[1].1["metadata"]["uid"], "sa-1");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_asked_for_pods_whose_account_is_none_of_its_business() {
    let mut given = provider("p");
    given.token = Some(attributes());
    let rig = Rig::new(vec![given.clone()]);
    for account in ["", "bare"] {
        let users = rig.users_for(IMAGE, account, &rig.pod).await;
        assert!(users.is_empty(), "{account:?}");
    }
    assert_eq!(rig.runs(), 0);
    given.token = Some(TokenAttributes {
        require_account: false,
        required_annotations: Vec::new(),
        ..attributes()
    });
    let rig = Rig::new(vec![given]);
    assert_eq!(rig.users_for(IMAGE, "", &rig.pod).await, ["u"]);
    let run = rig.host.runs().pop().unwrap();
    let input: Value = serde_json::from_slice(&run.input).unwrap();
    assert_eq!(input.get("serviceAccountToken"), None);
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_the_account_or_for_the_token() {
    for (cache_by_token, runs) in [(false, 1), (true, 2)] {
        let mut given = provider("p");
        given.token = Some(TokenAttributes {
            cache_by_token,
            ..attributes()
        });
        let rig = Rig::new(vec![given]);
        rig.users(IMAGE).await;
        rig.users(IMAGE).await;
        // Another pod has another token.
        rig.users_for(IMAGE, "robot", &pod("2")).await;
        assert_eq!(rig.runs(), runs, "{cache_by_token}");
        let asked = rig.asked.lock().unwrap();
        let tokens = asked.iter().filter(|(about, _)| about.starts_with("POST"));
        assert_eq!(tokens.count(), 2, "a pod's token is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_comes_back_as_a_password_is_refused_unless_answers_are_kept_by_token() {
    for (cache_by_token, users) in [(false, 0), (true, 1)] {
        let mut given = provider("p");
        given.token = Some(TokenAttributes {
            cache_by_token,
            ..attributes()
        });
        let rig = Rig::new(vec![given]);
        rig.prints(&json!({"auth": {"r.io": {"username": "u", "password": "token-1"}}}));
        assert_eq!(rig.users(IMAGE).await.len(), users, "{cache_by_token}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_in_time_and_let_go_of_with_its_pod() {
    let mut given = provider("p");
    given.token = Some(attributes());
    let rig = Rig::new(vec![given]);
    let tokens = |rig: &Rig| {
        let asked = rig.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(about, _)| about.starts_with("POST"))
            .count()
    };
    rig.users(IMAGE).await;
    rig.clock.sleep(Duration::from_secs(2700)).await;
    rig.users(IMAGE).await;
    assert_eq!(tokens(&rig), 1);
    rig.clock.sleep(Duration::from_secs(300)).await;
    rig.users(IMAGE).await;
    assert_eq!(tokens(&rig), 2);
    rig.plugins.forget(&rig.pod.uid);
    rig.users(IMAGE).await;
    assert_eq!(tokens(&rig), 3);
}

#[test]
fn configuration_and_programs_are_found_or_what_is_missing_is_named() {
    let host = FilesOnly::default();
    let load = |config: &str, directory: &str| {
        let loaded = load(&host, config.as_ref(), directory.as_ref(), true);
        loaded.map_err(|error| error.to_string())
    };
    let content = |name: &str| {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
             - {{name: {name}, matchImages: [r.io], defaultCacheDuration: 0s, \
             apiVersion: credentialprovider.kubelet.k8s.io/v1}}\n"
        )
    };
    let refused = |config: &str, directory: &str, wanted: &str| {
        let text = load(config, directory).unwrap_err();
        assert!(text.contains(wanted), "{text}");
    };
    refused(
        "/c.yaml",
        "/plugins",
        "plugin binary directory /plugins did not exist",
    );
    host.put_program("/plugins/a", Behaviour::Fails);
    refused("", "/plugins", "credential provider config path is empty");
    refused("/c.yaml", "/plugins", "unable to access path \"/c.yaml\"");
    host.put("/c.yaml", &content("b"));
    refused(
        "/c.yaml",
        "/plugins",
        "plugin binary executable /plugins/b did not exist",
    );
    host.put_program("/plugins/b", Behaviour::Fails);
    assert_eq!(load("/c.yaml", "/plugins").unwrap().providers.len(), 1);
    host.put("/d/README", "");
    refused(
        "/d",
        "/plugins",
        "no configuration files found in directory \"/d\"",
    );
    host.put("/d/2.yml", &content("b"));
    host.put("/d/1.json", &content("a"));
    let loaded = load("/d", "/plugins").unwrap();
    let names: Vec<&str> = loaded
        .providers
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    host.put("/d/3.yaml", &content("a"));
    refused("/d", "/plugins", "duplicate provider name \"a\"");
}
