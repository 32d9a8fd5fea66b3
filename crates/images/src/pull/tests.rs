use std::time::SystemTime;

use k8s_openapi::ByteString;
use seams::RuntimeError;
use seams::runtime::Code;
use testkit::clock::TokioClock;
use tokio::task::JoinSet;
use types::PodName;

use super::*;
use crate::credentials::Places;
use crate::credentials::plugins::load;
use crate::records::Known;
use crate::testing::{Behaviour, FilesOnly, Registry, SIZE};

const IMAGE: &str = "r.io/app:1";
const REF: &str = "id-of-r.io/app:1";

fn config() -> Config {
    Config {
        at_once: AtOnce::AtMost(1),
        rate: 0,
        burst: 0,
        verification: Some(Verification::NeverVerifyPreloadedImages),
        by_handler: false,
    }
}

struct Node {
    images: Arc<Images>,
    registry: Arc<Registry>,
    host: Arc<FilesOnly>,
    records: Arc<Records>,
    said: Arc<Mutex<Vec<Said>>>,
}

impl Node {
    fn new(config: Config) -> Self {
        Self::with_host(config, Arc::default(), false)
    }

    /// With a credential provider plugin that has the user `plugin` for `r.io`.
    fn with_plugin(config: Config) -> Self {
        let host = Arc::new(FilesOnly::default());
        host.put(
            "/plugins.yaml",
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
             - {name: p, matchImages: [r.io], defaultCacheDuration: 1m, \
             apiVersion: credentialprovider.kubelet.k8s.io/v1}\n",
        );
        let printed = r#"{"kind": "CredentialProviderResponse", "cacheKeyType": "Image",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "auth": {"r.io": {"username": "plugin", "password": "p"}}}"#;
        host.put_program("/bin/p", Behaviour::Prints(printed.to_owned()));
        Self::with_host(config, host, true)
    }

    fn with_host(config: Config, host: Arc<FilesOnly>, with_plugin: bool) -> Self {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let registry = Arc::new(Registry::new(clock.clone()));
        let records = Arc::new(Records::in_memory());
        let places = Places {
            root: "/kubelet".into(),
            ..Places::default()
        };
        let parts = Parts {
            runtime: registry.clone(),
            clock: clock.clone(),
            node_files: NodeFiles::new(host.clone(), clock.clone(), places),
            records: records.clone(),
            plugins: with_plugin.then(|| {
                let config = "/plugins.yaml".as_ref();
                let loaded = load(&*host, config, "/bin".as_ref(), true).unwrap();
                Plugins::new(loaded, host.clone(), clock.clone(), None, Arc::default())
            }),
            metrics: Arc::default(),
        };
        Self {
            images: Arc::new(Images::new(config, parts)),
            registry,
            host,
            records,
            said: Arc::default(),
        }
    }

    fn private(&self, image: &str, users: &[&str]) {
        let users = users.iter().map(|&user| user.to_owned()).collect();
        self.registry
            .state()
            .private
            .insert(image.to_owned(), users);
    }

    fn present(&self, image: &str) {
        self.registry.state().present.insert(image.to_owned(), SIZE);
    }

    async fn ensure(&self, wanted: &Wanted) -> Result<Ensured, Waiting> {
        wanted.ensure(&self.images, &self.said).await
    }

    fn said(&self) -> Vec<String> {
        let said = std::mem::take(&mut *self.said.lock().unwrap());
        said.into_iter()
            .map(|it| format!("{}: {}", it.reason, it.message))
            .collect()
    }
}

/// A pod's wish that owns what it is made of.
#[derive(Clone)]
struct Wanted {
    pod: PodRef,
    image: String,
    policy: PullPolicy,
    secrets: Vec<SecretObject>,
    sandbox: PodSandboxConfig,
}

fn wanted(pod: &str, image: &str, policy: PullPolicy) -> Wanted {
    let mut sandbox = PodSandboxConfig::default();
    sandbox
        .annotations
        .insert("key".to_owned(), "value".to_owned());
    sandbox.hostname = pod.to_owned();
    Wanted {
        pod: PodRef {
            name: PodName {
                namespace: "ns".to_owned(),
                name: pod.to_owned(),
            },
            uid: PodUid::new(pod),
        },
        image: image.to_owned(),
        policy,
        secrets: Vec::new(),
        sandbox,
    }
}

impl Wanted {
    /// With a pull secret that lets `user` in at `registry`.
    fn with_secret(mut self, name: &str, registry: &str, user: &str) -> Self {
        let content =
            format!(r#"{{"{registry}": {{"username": "{user}", "password": "hunter2"}}}}"#);
        let mut secret = SecretObject {
            type_: Some("kubernetes.io/dockercfg".to_owned()),
            data: Some([(".dockercfg".to_owned(), ByteString(content.into()))].into()),
            ..SecretObject::default()
        };
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.namespace = Some("ns".to_owned());
        secret.metadata.uid = Some(format!("uid-{name}"));
        self.secrets.push(secret);
        self
    }

    async fn ensure(&self, images: &Images, said: &Mutex<Vec<Said>>) -> Result<Ensured, Waiting> {
        let request = Request {
            pod: &self.pod,
            container: "main",
            image: &self.image,
            policy: self.policy,
            pull_secrets: &self.secrets,
            sandbox: &self.sandbox,
            runtime_handler: "kata",
            service_account: "robot",
        };
        let say = |it: Said| said.lock().unwrap().push(it);
        images.ensure(&request, &say).await
    }
}

/// Each pod in a task of its own, in this order.
fn start(node: &Node, all: impl IntoIterator<Item = Wanted>) -> JoinSet<Result<Ensured, Waiting>> {
    let mut tasks = JoinSet::new();
    for wanted in all {
        let (images, said) = (node.images.clone(), node.said.clone());
        tasks.spawn(async move { wanted.ensure(&images, &said).await });
    }
    tasks
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_there_is_pulled_and_told_of() {
    let node = Node::new(config());
    let pod = wanted("a", "r.io/app", PullPolicy::IfNotPresent);
    let ensured = node.ensure(&pod).await.unwrap();
    assert_eq!(ensured.image_ref, "id-of-r.io/app:latest");
    assert_eq!(ensured.pulled.unwrap().size, SIZE);
    assert_eq!(
        node.said(),
        [
            r#"Pulling: Pulling image "r.io/app""#,
            r#"Pulled: Successfully pulled image "r.io/app" in 1s (1s including waiting). Image size: 4096 bytes."#,
        ]
    );
    let call = node.registry.state().last.clone().unwrap();
    assert_eq!(call.auth, None);
    assert_eq!(call.sandbox_config.unwrap(), pod.sandbox);
    let spec = call.image.unwrap();
    assert_eq!(spec.annotations["key"], "value");
    assert_eq!(spec.runtime_handler, "", "its gate is off");
    assert_eq!(node.records.left_behind().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_told_the_handler_where_images_differ_by_it() {
    let node = Node::new(Config {
        by_handler: true,
        ..config()
    });
    node.ensure(&wanted("a", IMAGE, PullPolicy::Always))
        .await
        .unwrap();
    let call = node.registry.state().last.clone().unwrap();
    assert_eq!(call.image.unwrap().runtime_handler, "kata");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_there_is_used_or_pulled_by_its_policy() {
    for (policy, pulls, by_handler, handler) in [
        (PullPolicy::Always, 1, false, ""),
        (PullPolicy::IfNotPresent, 0, false, ""),
        (PullPolicy::Never, 0, false, ""),
        (PullPolicy::Never, 0, true, "kata"),
    ] {
        let node = Node::new(Config {
            by_handler,
            ..config()
        });
        node.present(IMAGE);
        let pod = wanted("a", IMAGE, policy);
        let ensured = node.ensure(&pod).await.unwrap();
        assert_eq!(ensured.image_ref, REF);
        assert_eq!(node.registry.begun().len(), pulls, "{policy:?}");
        // What is asked of the runtime may depend on the pod, as a pull does.
        let looked = node.registry.state().looked.clone().unwrap();
        let spec = looked.image.unwrap();
        assert_eq!(spec.image, IMAGE);
        assert_eq!(spec.annotations, pod.sandbox.annotations, "{policy:?}");
        assert_eq!(spec.runtime_handler, handler, "{policy:?}");
        assert!(!looked.verbose, "{policy:?}");
        if pulls == 0 {
            let text = r#"Pulled: Container image "r.io/app:1" already present on machine and can be accessed by the pod"#;
            assert_eq!(node.said(), [text]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_waited_for_with_a_reason() {
    let node = Node::new(config());
    let waiting = node
        .ensure(&wanted("a", "A b", PullPolicy::Always))
        .await
        .unwrap_err();
    assert_eq!(waiting.reason, Reason::InvalidImageName);
    assert_eq!(node.said(), [format!("InspectFailed: {}", waiting.message)]);

    let waiting = node
        .ensure(&wanted("a", IMAGE, PullPolicy::Never))
        .await
        .unwrap_err();
    assert_eq!(waiting.reason, Reason::ErrImageNeverPull);
    assert_eq!(
        node.said(),
        [format!("ErrImageNeverPull: {}", waiting.message)]
    );

    let blind = RuntimeError::new("ImageStatus", Code::Unavailable, "gone");
    node.registry.state().blind = Some(blind);
    let waiting = node
        .ensure(&wanted("a", IMAGE, PullPolicy::IfNotPresent))
        .await
        .unwrap_err();
    assert_eq!(waiting.reason, Reason::ImageInspectError);
    let text = r#"Failed to inspect image "r.io/app:1": rpc error: code = Unavailable desc = gone"#;
    assert_eq!(waiting.message, text);

    node.registry.state().present.insert(IMAGE.to_owned(), 0);
    let waiting = node
        .ensure(&wanted("a", IMAGE, PullPolicy::IfNotPresent))
        .await
        .unwrap_err();
    assert_eq!(waiting.reason, Reason::ImageInspectError);
    assert!(
        waiting.message.ends_with("is not set"),
        "{}",
        waiting.message
    );
    assert_eq!(node.registry.begun(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_is_left_alone_for_ten_seconds_and_then_for_twenty() {
    let node = Node::new(config());
    let error = RuntimeError::new("PullImage", Code::NotFound, "no such tag");
    node.registry.state().broken.insert(IMAGE.to_owned(), error);
    let pod = wanted("a", IMAGE, PullPolicy::IfNotPresent);
    let text = "rpc error: code = NotFound desc = no such tag";
    for wait in [10, 20] {
        let waiting = node.ensure(&pod).await.unwrap_err();
        assert_eq!(
            (waiting.reason, &*waiting.message),
            (Reason::ErrImagePull, text)
        );
        let failed = format!(r#"Failed: Failed to pull image "r.io/app:1": {text}"#);
        assert_eq!(
            node.said(),
            [r#"Pulling: Pulling image "r.io/app:1""#.to_owned(), failed]
        );

        let waiting = node.ensure(&pod).await.unwrap_err();
        assert_eq!(waiting.reason, Reason::ImagePullBackOff);
        let message = format!(r#"Back-off pulling image "r.io/app:1": ErrImagePull: {text}"#);
        assert_eq!(waiting.message, message);
        assert_eq!(waiting.retry_after, Some(Duration::from_secs(wait)));
        assert_eq!(
            node.said(),
            [r#"BackOff: Back-off pulling image "r.io/app:1""#]
        );
        tokio::time::advance(Duration::from_secs(wait)).await;
    }
    assert_eq!(node.records.left_behind().unwrap(), Vec::<String>::new());
    // Another pod does not wait for the failures of this one.
    let other = node.ensure(&wanted("b", IMAGE, PullPolicy::Always)).await;
    assert_eq!(other.unwrap_err().reason, Reason::ErrImagePull);
    // And a pod that is gone leaves nothing to wait for.
    node.images.forget(&PodUid::new("b"));
    let other = node.ensure(&wanted("b", IMAGE, PullPolicy::Always)).await;
    assert_eq!(other.unwrap_err().reason, Reason::ErrImagePull);
}

#[tokio::test(start_paused = true)]
async fn failures_long_past_are_let_go_of_when_a_pull_succeeds() {
    let node = Node::new(config());
    node.private(IMAGE, &["team"]);
    let pod = wanted("a", IMAGE, PullPolicy::Always);
    node.ensure(&pod).await.unwrap_err();
    assert!(!node.images.backoff().is_empty());
    tokio::time::advance(Duration::from_secs(601)).await;
    let other = wanted("b", "r.io/open", PullPolicy::Always);
    node.ensure(&other).await.unwrap();
    assert!(node.images.backoff().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_pull_runs_at_a_time_and_who_came_first_is_next() {
    let node = Node::new(config());
    let pods = ["a", "b", "c"].map(|it| wanted(it, &format!("r.io/{it}:1"), PullPolicy::Always));
    for outcome in start(&node, pods).join_all().await {
        outcome.unwrap();
    }
    assert_eq!(
        node.registry.begun(),
        [
            "r.io/a:1 as anybody at 0",
            "r.io/b:1 as anybody at 1",
            "r.io/c:1 as anybody at 2",
        ]
    );
    assert_eq!(node.registry.state().most, 1);
    let last = node.said().pop().unwrap();
    assert!(last.contains("in 1s (3s including waiting)"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_takes_long_is_told_of_at_pauses_that_double() {
    for (takes, told) in [
        (59, &[][..]),
        (61, &["1m0s"][..]),
        (179, &["1m0s"][..]),
        (16 * 60, &["1m0s", "3m0s", "7m0s", "15m0s"][..]),
    ] {
        for fails in [false, true] {
            let node = Node::new(config());
            let slow = (IMAGE.to_owned(), Duration::from_secs(takes));
            node.registry.state().slow.extend([slow]);
            if fails {
                let error = RuntimeError::new("PullImage", Code::Unknown, "no");
                node.registry.state().broken.insert(IMAGE.to_owned(), error);
            }
            let ensured = node.ensure(&wanted("a", IMAGE, PullPolicy::Always)).await;
            assert_eq!(ensured.is_err(), fails);
            // Nor is it told of once it is over.
            tokio::time::advance(Duration::from_secs(3600)).await;
            let said = node.said();
            let [first, still @ .., last] = said.as_slice() else {
                panic!("{said:?}");
            };
            assert_eq!(first, r#"Pulling: Pulling image "r.io/app:1""#);
            let text =
                |it: &&str| format!(r#"Pulling: Still pulling image "r.io/app:1" after {it}"#);
            let told: Vec<_> = told.iter().map(text).collect();
            assert_eq!(still, told, "{takes}");
            let outcome = if fails { "Failed: " } else { "Pulled: " };
            assert!(last.starts_with(outcome), "{last}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_waits_for_its_turn_is_told_of_as_waiting() {
    let node = Node::new(config());
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60 + 30);
    let slow = [("r.io/a:1", minutes(3)), ("r.io/b:1", minutes(1))];
    let slow = slow.map(|(image, takes)| (image.to_owned(), takes));
    node.registry.state().slow.extend(slow);
    let pods = ["a", "b"].map(|it| wanted(it, &format!("r.io/{it}:1"), PullPolicy::Always));
    for outcome in start(&node, pods).join_all().await {
        outcome.unwrap();
    }
    let waits = |so_far| {
        let text = "Still waiting for other pulls before pulling image";
        format!(r#"Pulling: {text} "r.io/b:1" ({so_far} so far)"#)
    };
    let pulls = |image, so_far| {
        let image = format!("r.io/{image}:1");
        format!("Pulling: Still pulling image {image:?} after {so_far}")
    };
    let mut said = node.said();
    said.retain(|it| it.contains("Still"));
    // Of those that are told at the same moment either may be first.
    said[..2].sort();
    said[2..4].sort();
    assert_eq!(
        said,
        [
            pulls("a", "1m0s"),
            waits("1m0s"),
            pulls("a", "3m0s"),
            waits("3m0s"),
            // How long it pulls, not how long the pod waits: that is in the last event.
            pulls("b", "1m0s"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn as_many_pulls_as_configured_run_beside_each_other() {
    for (at_once, most) in [(AtOnce::AtMost(2), 2), (AtOnce::All, 5)] {
        let node = Node::new(Config {
            at_once,
            ..config()
        });
        let pods = (0..5).map(|it| wanted(&format!("p{it}"), IMAGE, PullPolicy::Always));
        for outcome in start(&node, pods).join_all().await {
            outcome.unwrap();
        }
        assert_eq!(node.registry.state().most, most, "{at_once:?}");
        assert_eq!(
            node.registry.begun().len(),
            5,
            "pulls of one image are not shared"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pulls_beyond_the_rate_fail_and_back_off() {
    let node = Node::new(Config {
        at_once: AtOnce::All,
        rate: 1,
        burst: 2,
        ..config()
    });
    let pods = (0..3).map(|it| wanted(&format!("p{it}"), IMAGE, PullPolicy::Always));
    let outcomes = start(&node, pods).join_all().await;
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].reason, Reason::ErrImagePull);
    assert_eq!(refused[0].message, "pull QPS exceeded");
    let again = node.ensure(&wanted("p2", IMAGE, PullPolicy::Always)).await;
    assert_eq!(again.unwrap_err().reason, Reason::ImagePullBackOff);
    tokio::time::advance(Duration::from_secs(10)).await;
    node.ensure(&wanted("p2", IMAGE, PullPolicy::Always))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn credentials_are_tried_in_order_until_one_is_good() {
    let node = Node::new(config());
    node.private(IMAGE, &["node"]);
    let file = r#"{"auths": {"r.io": {"username": "node"}, "q.io": {"username": "other"}}}"#;
    node.host.put("/kubelet/config.json", file);
    let pod = wanted("a", IMAGE, PullPolicy::Always)
        .with_secret("one", "r.io", "host")
        .with_secret("two", "r.io/app", "path");
    node.ensure(&pod).await.unwrap();
    assert_eq!(
        node.registry.begun(),
        [
            "r.io/app:1 as path at 0",
            "r.io/app:1 as host at 1",
            "r.io/app:1 as node at 2",
        ]
    );
    let auth = node.registry.state().last.clone().unwrap().auth.unwrap();
    assert_eq!(auth.username, "node");
}

#[tokio::test(start_paused = true)]
async fn plugins_come_last_and_are_not_asked_where_nothing_is_to_be_shown() {
    let node = Node::with_plugin(config());
    node.host.put(
        "/kubelet/config.json",
        r#"{"auths": {"r.io": {"username": "node"}}}"#,
    );
    node.private(IMAGE, &["plugin"]);
    let pod = wanted("a", IMAGE, PullPolicy::IfNotPresent).with_secret("s", "r.io", "secret");
    node.ensure(&pod).await.unwrap();
    let begun = node.registry.begun();
    let users: Vec<&str> = begun
        .iter()
        .filter_map(|pull| pull.split(' ').nth(2))
        .collect();
    assert_eq!(users, ["secret", "node", "plugin"]);
    assert_eq!(node.host.runs().len(), 1);
    // What the node's own program has brought is for everybody on it.
    let other = wanted("b", IMAGE, PullPolicy::IfNotPresent);
    assert_eq!(node.ensure(&other).await.unwrap().pulled, None);
    assert_eq!(node.host.runs().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_credentials_nobody_pulls_as_anybody() {
    let node = Node::new(config());
    node.private(IMAGE, &["", "somebody-else"]);
    let pod = wanted("a", IMAGE, PullPolicy::Always)
        .with_secret("one", "r.io", "u")
        .with_secret("two", "r.io", "v");
    let waiting = node.ensure(&pod).await.unwrap_err();
    assert_eq!(waiting.message, "[u is denied, v is denied]");
    assert_eq!(node.registry.begun().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pull_secret_that_cannot_be_read_is_named_where_it_is_needed() {
    let node = Node::new(config());
    let mut pod = wanted("a", IMAGE, PullPolicy::IfNotPresent).with_secret("bad", "r.io", "u");
    let broken = ByteString(b"hunter2".to_vec());
    pod.secrets[0].data = Some([(".dockercfg".to_owned(), broken)].into());
    let waiting = node.ensure(&pod).await.unwrap_err();
    assert_eq!(waiting.reason, Reason::ErrImagePull);
    assert!(waiting.message.contains("ns/bad"), "{}", waiting.message);
    assert!(!waiting.message.contains("hunter2"), "{}", waiting.message);
    node.present(IMAGE);
    node.ensure(&pod).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_private_image_is_used_by_those_who_show_that_they_may() {
    let node = Node::new(config());
    node.private(IMAGE, &["team"]);
    let policy = PullPolicy::IfNotPresent;
    let owner = wanted("a", IMAGE, policy).with_secret("s", "r.io", "team");
    node.ensure(&owner).await.unwrap();
    assert_eq!(node.ensure(&owner).await.unwrap().pulled, None);

    // The same login in another secret.
    let friend = wanted("b", IMAGE, policy).with_secret("t", "r.io", "team");
    assert_eq!(node.ensure(&friend).await.unwrap().pulled, None);
    let Known::Pulled(record) = node.records.known(IMAGE, REF).unwrap() else {
        panic!("not recorded");
    };
    assert_eq!(record.credentials["r.io/app"].kubernetes_secrets.len(), 2);

    // Somebody without: the registry decides, and with Never nobody asks it.
    let stranger = wanted("c", IMAGE, policy);
    let waiting = node.ensure(&stranger).await.unwrap_err();
    assert_eq!(waiting.reason, Reason::ErrImagePull);
    let waiting = node
        .ensure(&wanted("d", IMAGE, PullPolicy::Never))
        .await
        .unwrap_err();
    assert_eq!(waiting.reason, Reason::ErrImageNeverPull);
}

#[tokio::test(start_paused = true)]
async fn without_verification_whoever_asks_may_use_what_is_there() {
    let node = Node::new(Config {
        verification: None,
        ..config()
    });
    node.private(IMAGE, &["team"]);
    let policy = PullPolicy::IfNotPresent;
    let owner = wanted("a", IMAGE, policy).with_secret("s", "r.io", "team");
    node.ensure(&owner).await.unwrap();
    node.said();
    node.ensure(&wanted("b", IMAGE, policy)).await.unwrap();
    let text = r#"Pulled: Container image "r.io/app:1" already present on machine"#;
    assert_eq!(node.said(), [text]);
    assert_eq!(node.records.known(IMAGE, REF).unwrap(), Known::Nothing);
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_is_given_up_gives_its_turn_to_the_next() {
    let node = Node::new(config());
    let pods = ["a", "b", "c"].map(|it| wanted(it, &format!("r.io/{it}:1"), PullPolicy::Always));
    let [a, b, c] = pods;
    let mut running = start(&node, [a]);
    tokio::task::yield_now().await;
    let mut waiting = start(&node, [b]);
    tokio::task::yield_now().await;
    let mut last = start(&node, [c]);
    tokio::task::yield_now().await;
    assert_eq!(node.registry.begun(), ["r.io/a:1 as anybody at 0"]);
    // One that waits, and the one that runs.
    waiting.shutdown().await;
    running.shutdown().await;
    last.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(
        node.registry.begun(),
        ["r.io/a:1 as anybody at 0", "r.io/c:1 as anybody at 0"]
    );
    // What the runtime was asked for may have come; what it was not, has not.
    assert_eq!(node.records.left_behind().unwrap(), ["r.io/a:1"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_came_after_its_pull_was_given_up_is_not_for_everybody() {
    let node = Node::new(config());
    let mut intent = node.records.intend(IMAGE, None).unwrap();
    intent.begun();
    drop(intent);
    node.present(IMAGE);
    node.private(IMAGE, &["team"]);
    let stranger = wanted("a", IMAGE, PullPolicy::Never);
    assert!(node.ensure(&stranger).await.is_err());

    node.images.adopt_left_behind().await;
    assert_eq!(node.records.left_behind().unwrap(), Vec::<String>::new());
    assert!(node.ensure(&stranger).await.is_err());
    let owner = wanted("b", IMAGE, PullPolicy::IfNotPresent).with_secret("s", "r.io", "team");
    node.ensure(&owner).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_preloaded_image_is_everybodys_though_a_pull_of_it_was_cut_off() {
    let node = Node::new(config());
    node.present(IMAGE);
    let mut running = start(&node, [wanted("a", IMAGE, PullPolicy::Always)]);
    tokio::task::yield_now().await;
    assert_eq!(node.registry.begun().len(), 1);
    running.shutdown().await;
    for _ in 0..2 {
        let stranger = wanted("b", IMAGE, PullPolicy::Never);
        assert_eq!(node.ensure(&stranger).await.unwrap().pulled, None);
        // And so after a start of the agent.
        node.images.adopt_left_behind().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_fails_does_not_make_an_image_everybodys() {
    let node = Node::new(config());
    node.private(IMAGE, &["team"]);
    let owner = wanted("a", IMAGE, PullPolicy::Always).with_secret("s", "r.io", "team");
    let mut running = start(&node, [owner]);
    tokio::task::yield_now().await;
    running.shutdown().await;
    // It came all the same.
    node.present(IMAGE);
    let stranger = wanted("b", IMAGE, PullPolicy::IfNotPresent);
    for _ in 0..2 {
        node.ensure(&stranger).await.unwrap_err();
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    // Of an image that is gone nothing is left to be kept from anybody.
    node.registry.state().present.clear();
    node.ensure(&stranger).await.unwrap_err();
    assert_eq!(node.records.left_behind().unwrap(), Vec::<String>::new());
}

#[test]
fn a_request_does_not_show_its_secrets() {
    let wanted = wanted("a", IMAGE, PullPolicy::Always).with_secret("s", "r.io", "team");
    let request = Request {
        pod: &wanted.pod,
        container: "main",
        image: IMAGE,
        policy: wanted.policy,
        pull_secrets: &wanted.secrets,
        sandbox: &wanted.sandbox,
        runtime_handler: "",
        service_account: "robot",
    };
    // A debug text of bytes would have them as numbers.
    let text = format!("{request:?}");
    assert!(text.contains("pull_secrets: 1"), "{text}");
    assert!(!text.contains("ByteString"), "{text}");
}
