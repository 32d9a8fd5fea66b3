//! What an answer must have to be one, as upstream's clients demand it. A
//! message of the interface cannot be without a string or a number, only with an
//! empty one, so a broken runtime would go unnoticed.
//!
//! Each function says what is wrong, as an object of "the runtime answered".

use seams::cri::{
    AttachResponse, ContainerStatusResponse, CreateContainerResponse, ExecResponse,
    ImageStatusResponse, PodSandboxStatusResponse, PortForwardResponse, PullImageResponse,
    RunPodSandboxResponse,
};

pub(crate) fn run_pod_sandbox(answer: &RunPodSandboxResponse) -> Option<String> {
    lacks(&answer.pod_sandbox_id, "a pod sandbox without id")
}

pub(crate) fn create_container(answer: &CreateContainerResponse) -> Option<String> {
    lacks(&answer.container_id, "a container without id")
}

pub(crate) fn pull_image(answer: &PullImageResponse) -> Option<String> {
    lacks(&answer.image_ref, "a pulled image without reference")
}

pub(crate) fn exec(answer: &ExecResponse) -> Option<String> {
    lacks(&answer.url, "no URL for the streams of exec")
}

pub(crate) fn attach(answer: &AttachResponse) -> Option<String> {
    lacks(&answer.url, "no URL for the streams of attach")
}

pub(crate) fn port_forward(answer: &PortForwardResponse) -> Option<String> {
    lacks(&answer.url, "no URL for the streams of port-forward")
}

pub(crate) fn image_status(answer: &ImageStatusResponse) -> Option<String> {
    let image = answer.image.as_ref()?;
    (image.id.is_empty() || image.size == 0)
        .then(|| format!("an image without id or size: {:?}", image.id))
}

pub(crate) fn pod_sandbox_status(answer: &PodSandboxStatusResponse) -> Option<String> {
    let status = answer.status.as_ref()?;
    let metadata = status.metadata.clone().unwrap_or_default();
    let missing = first_missing([
        (status.id.is_empty(), "id"),
        (metadata.name.is_empty(), "name"),
        (metadata.namespace.is_empty(), "namespace"),
        (metadata.uid.is_empty(), "uid"),
        (status.created_at == 0, "time of creation"),
    ])?;
    Some(format!("pod sandbox {:?} without {missing}", status.id))
}

pub(crate) fn container_status(answer: &ContainerStatusResponse) -> Option<String> {
    let status = answer.status.as_ref()?;
    let metadata = status.metadata.as_ref();
    let image = status.image.as_ref();
    let missing = first_missing([
        (status.id.is_empty(), "id"),
        (metadata.is_none_or(|data| data.name.is_empty()), "name"),
        (status.created_at == 0, "time of creation"),
        (image.is_none_or(|spec| spec.image.is_empty()), "image"),
        (status.image_ref.is_empty(), "image reference"),
    ])?;
    Some(format!("container {:?} without {missing}", status.id))
}

fn lacks(value: &str, what: &str) -> Option<String> {
    value.is_empty().then(|| what.to_owned())
}

fn first_missing<const N: usize>(fields: [(bool, &'static str); N]) -> Option<&'static str> {
    let mut missing = fields.into_iter().filter(|(missing, _)| *missing);
    missing.next().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use seams::cri::{
        ContainerMetadata, ContainerStatus, ImageSpec, PodSandboxMetadata, PodSandboxStatus,
    };

    use super::*;

    type Spoil<T> = fn(&mut T);

    fn sandbox() -> PodSandboxStatus {
        PodSandboxStatus {
            id: "s".to_owned(),
            metadata: Some(PodSandboxMetadata {
                name: "web".to_owned(),
                uid: "u".to_owned(),
                namespace: "default".to_owned(),
                attempt: 0,
            }),
            created_at: 1,
            ..PodSandboxStatus::default()
        }
    }

    fn container() -> ContainerStatus {
        ContainerStatus {
            id: "c".to_owned(),
            metadata: Some(ContainerMetadata {
                name: "web".to_owned(),
                attempt: 0,
            }),
            created_at: 1,
            image: Some(ImageSpec {
                image: "busybox".to_owned(),
                ..ImageSpec::default()
            }),
            image_ref: "busybox@sha256:0".to_owned(),
            ..ContainerStatus::default()
        }
    }

    #[test]
    fn the_status_of_a_sandbox_is_whole_or_absent() {
        let check = |status| {
            pod_sandbox_status(&PodSandboxStatusResponse {
                status,
                ..PodSandboxStatusResponse::default()
            })
        };
        assert_eq!(check(None), None);
        assert_eq!(check(Some(sandbox())), None);
        let cases: [(Spoil<PodSandboxStatus>, &str); 6] = [
            (|status| status.id.clear(), "id"),
            (|status| status.metadata = None, "name"),
            (
                |status| status.metadata.as_mut().unwrap().name.clear(),
                "name",
            ),
            (
                |status| status.metadata.as_mut().unwrap().namespace.clear(),
                "namespace",
            ),
            (
                |status| status.metadata.as_mut().unwrap().uid.clear(),
                "uid",
            ),
            (|status| status.created_at = 0, "time of creation"),
        ];
        for (spoil, missing) in cases {
            let mut status = sandbox();
            spoil(&mut status);
            let expected = format!("pod sandbox {:?} without {missing}", status.id);
            assert_eq!(check(Some(status)), Some(expected));
        }
    }

    #[test]
    fn the_status_of_a_container_is_whole_or_absent() {
        let check = |status| {
            container_status(&ContainerStatusResponse {
                status,
                ..ContainerStatusResponse::default()
            })
        };
        assert_eq!(check(None), None);
        assert_eq!(check(Some(container())), None);
        let cases: [(Spoil<ContainerStatus>, &str); 6] = [
            (|status| status.id.clear(), "id"),
            (|status| status.metadata = None, "name"),
            (|status| status.created_at = 0, "time of creation"),
            (|status| status.image = None, "image"),
            (|status| status.image = Some(ImageSpec::default()), "image"),
            (|status| status.image_ref.clear(), "image reference"),
        ];
        for (spoil, missing) in cases {
            let mut status = container();
            spoil(&mut status);
            let expected = format!("container {:?} without {missing}", status.id);
            assert_eq!(check(Some(status)), Some(expected));
        }
    }
}
