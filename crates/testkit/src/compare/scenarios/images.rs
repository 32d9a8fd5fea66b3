//! Images that are there, come, come slowly, and do not come.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, pod};
use super::super::scenario::{Lane, Scenario};

/// The image that only the registry has is on the node no more, nor any part of it.
/// All its names are one image to the runtime, whose answer may take its time.
pub(super) const FORGET_PULLED: &str = "\
while crictl --timeout 30s images | grep --quiet /pulled; do
    for way in open private slow; do
        crictl --timeout 30s rmi registry.lab:5000/$way/pulled:1 >/dev/null 2>&1
    done
done
ctr --namespace k8s.io content prune references >/dev/null";

fn with_image(image: &str) -> Pod {
    pod("p", FOREVER).main(&json!({"image": image}))
}

/// What `lab:secret` may pull.
fn pull_secret() -> Value {
    let auths = json!({"auths": {"registry.lab:5000": {"auth": "bGFiOnNlY3JldA=="}}});
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": auths.to_string()},
    })
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "image-pulled",
        "an image comes from its registry",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            stage.create(with_image("registry.lab:5000/open/pulled:1"))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new(
        "image-always",
        "an image that is there is asked for again",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            let always = json!({"imagePullPolicy": "Always"});
            stage.on_node("crictl pull registry.lab:5000/open/pulled:1")?;
            stage.create(with_image("registry.lab:5000/open/pulled:1").main(&always))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new("image-slow", "a pod waits for its image", |stage| {
        stage.on_node(FORGET_PULLED)?;
        stage.create(with_image("registry.lab:5000/slow/pulled:1"))?;
        stage.running("p")?;
        stage.end("p")
    })
    .lane(Lane::PulledImage),
    Scenario::new("image-missing", "an image that no registry has", |stage| {
        stage.create(with_image("registry.lab:5000/open/missing:1"))?;
        stage.state("p", "main", "waiting:ImagePullBackOff")?;
        stage.end("p")
    })
    .ci(),
    Scenario::new(
        "image-name-invalid",
        "a name that cannot be an image's",
        |stage| {
            stage.create(with_image("registry.lab:5000/NOT/an/image::1"))?;
            stage.state("p", "main", "waiting:InvalidImageName")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "image-never-pulled",
        "an image that may not be pulled and is not there",
        |stage| {
            let never = json!({"imagePullPolicy": "Never"});
            stage.create(with_image("registry.lab:5000/open/absent:1").main(&never))?;
            stage.state("p", "main", "waiting:ErrImageNeverPull")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "image-private-refused",
        "a private image without a secret",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            stage.create(with_image("registry.lab:5000/private/pulled:1"))?;
            stage.state("p", "main", "waiting:ImagePullBackOff")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new(
        "image-private",
        "a private image with its secret",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            stage.make("/api/v1", "secrets", &pull_secret())?;
            let secrets = json!({"imagePullSecrets": [{"name": "pull"}]});
            stage.create(with_image("registry.lab:5000/private/pulled:1").spec(&secrets))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new(
        "image-secret-missing",
        "a pull secret that is not there is not needed",
        |stage| {
            stage.on_node(FORGET_PULLED)?;
            let secrets = json!({"imagePullSecrets": [{"name": "absent"}]});
            stage.create(with_image("registry.lab:5000/open/pulled:1").spec(&secrets))?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .lane(Lane::PulledImage),
    Scenario::new("registry-failing", "a registry that answers 500", |stage| {
        stage.create(with_image("registry.lab:5000/failing/pulled:1"))?;
        stage.state("p", "main", "waiting:ImagePullBackOff")?;
        stage.end("p")
    }),
    Scenario::new("registry-busy", "a registry that answers 429", |stage| {
        stage.create(with_image("registry.lab:5000/busy/pulled:1"))?;
        stage.state("p", "main", "waiting:ImagePullBackOff")?;
        stage.end("p")
    }),
];
