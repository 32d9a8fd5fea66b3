//! Volumes that are images: pulled before any container is started, as images of
//! containers are, and mounted by the runtime.

use std::collections::BTreeMap;

use api::events::Severity;
use images::{PullPolicy, Request, Said, Waiting};
use k8s_openapi::api::core::v1::{Container, Pod};
use seams::cri::ImageSpec;

use super::start::{Scene, pull_secrets};
use crate::spec::spec_of;
use crate::task::Worker;

/// By the volume's name: what the runtime is to mount, or why it is not there.
pub(super) type ImageVolumes = BTreeMap<String, Result<ImageSpec, Waiting>>;

/// Why a container cannot have the images that it mounts: of several reasons the last,
/// as upstream has it. Each is told.
pub(super) fn missing_image<'a>(
    images: &'a ImageVolumes,
    container: &Container,
    tell: impl Fn(&Waiting),
) -> Option<&'a Waiting> {
    let mounts = container.volume_mounts.iter().flatten();
    let missing = mounts.filter_map(|mount| images.get(&mount.name)?.as_ref().err());
    missing.inspect(|waiting| tell(waiting)).last()
}

/// What the runtime is to mount.
fn mounted(pod: &Pod, reference: &str, image_ref: String, handler: &str) -> ImageSpec {
    ImageSpec {
        image: image_ref,
        user_specified_image: reference.to_owned(),
        runtime_handler: handler.to_owned(),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        ..ImageSpec::default()
    }
}

impl Worker {
    /// Pulls them, one after the other. `None`: the pod is to end.
    pub(super) async fn image_volumes(&self, scene: &Scene<'_>) -> Option<ImageVolumes> {
        let on = &self.on;
        let pod = &scene.slot.pod;
        let spec = spec_of(pod);
        let say = |said: Said| match said.severity {
            Severity::Normal => on.telling.normal(pod, said.reason, said.message),
            Severity::Warning => on.telling.warning(pod, said.reason, said.message),
        };
        let mut pulled = ImageVolumes::new();
        for volume in spec.volumes.iter().flatten() {
            let Some(image) = &volume.image else { continue };
            let reference = image.reference.as_deref().unwrap_or_default();
            let request = Request {
                pod: &self.pod,
                container: &volume.name,
                image: reference,
                policy: PullPolicy::read(image.pull_policy.as_deref()),
                pull_secrets: &pull_secrets(pod, &scene.found),
                sandbox: &scene.sandbox,
                runtime_handler: &scene.image_handler,
                service_account: spec.service_account_name.as_deref().unwrap_or_default(),
            };
            let ensured = tokio::select! {
                ensured = on.images.ensure(&request, &say) => ensured,
                () = self.cut(scene.slot) => return None,
            };
            let handler = &scene.image_handler;
            let ensured = ensured.map(|it| mounted(pod, reference, it.image_ref, handler));
            pulled.insert(volume.name.clone(), ensured);
        }
        Some(pulled)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use images::Reason;
    use serde_json::json;

    use super::*;

    fn waiting(reason: Reason, message: &str) -> Waiting {
        Waiting {
            reason,
            message: message.to_owned(),
            retry_after: None,
        }
    }

    fn container(mounts: &[&str]) -> Container {
        let mounts = mounts
            .iter()
            .map(|name| json!({"name": name, "mountPath": format!("/{name}")}));
        let mounts: Vec<_> = mounts.collect();
        serde_json::from_value(json!({"name": "main", "volumeMounts": mounts})).unwrap()
    }

    #[test]
    fn a_container_waits_for_the_images_that_it_mounts_and_for_no_others() {
        let images = ImageVolumes::from([
            ("there".to_owned(), Ok(ImageSpec::default())),
            (
                "late".to_owned(),
                Err(waiting(Reason::ImagePullBackOff, "soon")),
            ),
            ("bad".to_owned(), Err(waiting(Reason::ErrImagePull, "no"))),
        ]);
        let cases: [(&[&str], &[&str], Option<&str>); 5] = [
            (&[], &[], None),
            (&["there", "plain"], &[], None),
            (&["late"], &["soon"], Some("soon")),
            (&["late", "there", "bad"], &["soon", "no"], Some("no")),
            (&["bad", "late"], &["no", "soon"], Some("soon")),
        ];
        for (mounts, told, shown) in cases {
            let heard = RefCell::new(Vec::new());
            let container = container(mounts);
            let found = missing_image(&images, &container, |waiting| {
                heard.borrow_mut().push(waiting.message.clone());
            });
            assert_eq!(found.map(|it| it.message.as_str()), shown, "{mounts:?}");
            assert_eq!(heard.into_inner(), told, "{mounts:?}");
        }
    }

    #[test]
    fn the_runtime_is_told_what_the_pod_calls_the_image_and_what_it_is() {
        let pod = json!({"metadata": {"annotations": {"a": "b"}}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let spec = mounted(&pod, "r.io/data:1", "sha256:1".to_owned(), "vm");
        assert_eq!(spec.image, "sha256:1");
        assert_eq!(spec.user_specified_image, "r.io/data:1");
        assert_eq!(spec.annotations["a"], "b");
        assert_eq!(spec.runtime_handler, "vm");
    }
}
