//! Images, and with whose name they are pulled.

use serde_json::json;

use crate::wire::spec::{Spec, Until, spec};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(super) fn specs() -> Vec<Spec> {
    let always = json!({"imagePullPolicy": "Always"});
    let image = |image: &str| json!({"image": image});
    let secret = |name: &str| json!({"imagePullSecrets": [{"name": name}]});
    vec![
        spec("pull-always").main(always.clone()),
        spec("pull-always-again")
            .main(always)
            .pod(json!({"restartPolicy": "Always"}))
            .story("crash-loop", "300ms")
            .until(Until::Restarted("main", 1))
            .lives(2),
        spec("pull-never")
            .main(json!({"imagePullPolicy": "Never"}))
            .until(Until::Waiting("main", "ErrImageNeverPull")),
        spec("pull-fails")
            .story("pull-failure", "there is none")
            .until(Until::Waiting("main", "ImagePullBackOff")),
        spec("pull-once-for-two").and("other", image("registry.example/pull-once-for-two/main:1")),
        spec("image-without-tag").main(image("registry.example/image-without-tag/main")),
        spec("image-without-registry").main(image("image-without-registry")),
        spec("image-by-digest").main(image(&format!(
            "registry.example/image-by-digest/main@{DIGEST}"
        ))),
        spec("image-by-tag-and-digest").main(image(&format!(
            "registry.example/image-by-tag/main:2@{DIGEST}"
        ))),
        spec("image-of-no-name")
            .main(image("registry.example/Not:A:Name"))
            .until(Until::Waiting("main", "InvalidImageName")),
        spec("pull-secret").pod(secret("registry")),
        spec("pull-secret-nested").pod(secret("two-registries")),
        spec("pull-secret-of-nobody").pod(secret("nobody")),
        spec("pull-secrets-two")
            .pod(json!({"imagePullSecrets": [{"name": "two-registries"}, {"name": "registry"}]})),
        spec("pull-secret-of-the-account").pod(json!({"serviceAccountName": "robot"})),
        spec("pull-secret-of-another-registry")
            .pod(secret("registry"))
            .main(image("other.example/app:1")),
        spec("image-changes")
            .then(
                "",
                json!({"spec": {"containers": [
                    {"name": "main", "image": "registry.example/image-changes/main:2"},
                ]}}),
                Until::Restarted("main", 1),
            )
            .lives(2),
    ]
}
