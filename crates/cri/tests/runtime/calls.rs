//! What the calls carry there and back.

use seams::Runtime;
use seams::cri::{
    ImageFilter, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ListImagesRequest,
    NetworkConfig, RuntimeConfig, RuntimeConfigRequest, StatusRequest, UpdateRuntimeConfigRequest,
    VersionRequest,
};

use crate::support::{Manner, Place, Server, clock};

fn spec(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        ..ImageSpec::default()
    }
}

#[tokio::test]
async fn every_call_brings_its_request_and_its_answer() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Answers);
    let client = place.client();

    let request = VersionRequest {
        version: "0.1.0".to_owned(),
    };
    let version = client.version(request).await.unwrap();
    assert_eq!(version.version, "0.1.0");
    assert_eq!(version.runtime_name, "lab");
    assert_eq!(version.runtime_api_version, "v1");

    for verbose in [false, true] {
        let status = client.status(StatusRequest { verbose }).await.unwrap();
        assert_eq!(status.info.contains_key("config"), verbose);
        assert_eq!(status.status.unwrap().conditions[0].r#type, "RuntimeReady");
    }

    let config = client
        .runtime_config(RuntimeConfigRequest {})
        .await
        .unwrap();
    assert_eq!(config.linux.unwrap().cgroup_driver, 1);

    let pod_cidr = "10.0.0.0/24,fd00::/64".to_owned();
    let request = UpdateRuntimeConfigRequest {
        runtime_config: Some(RuntimeConfig {
            network_config: Some(NetworkConfig {
                pod_cidr: pod_cidr.clone(),
            }),
        }),
    };
    client.update_runtime_config(request).await.unwrap();
    assert_eq!(*server.seen.pod_cidr.lock().unwrap(), pod_cidr);

    let filter = Some(ImageFilter {
        image: Some(spec("busybox")),
    });
    for (filter, id) in [(None, "all"), (filter, "busybox")] {
        let images = client
            .list_images(ListImagesRequest { filter })
            .await
            .unwrap();
        assert_eq!(images.images[0].id, id);
    }

    for (image, there) in [("busybox", true), ("absent", false)] {
        let request = ImageStatusRequest {
            image: Some(spec(image)),
            verbose: false,
        };
        let status = client.image_status(request).await.unwrap();
        assert_eq!(status.image.is_some(), there, "{image}");
    }

    let disk = client.image_fs_info(ImageFsInfoRequest {}).await.unwrap();
    let fs_id = disk.image_filesystems[0].fs_id.clone();
    assert_eq!(fs_id.unwrap().mountpoint, "/var/lib/lab");
    assert_eq!(server.seen.connections(), 1, "one connection does for all");
}

#[tokio::test]
async fn a_call_tells_the_runtime_its_time_limit_and_upstreams_authority() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Answers);
    let client = place.client();
    client.status(StatusRequest::default()).await.unwrap();
    let calls = server.seen.calls.lock().unwrap();
    let (path, authority, limit) = &calls[0];
    assert_eq!(path, "/runtime.v1.RuntimeService/Status");
    assert_eq!(authority, "localhost");
    assert!(
        ["120S", "120000m", "120000000u"].contains(&limit.as_str()),
        "{limit}"
    );
}

#[tokio::test]
async fn images_are_asked_for_at_their_own_endpoint_if_there_is_one() {
    let place = Place::new();
    let runtime = Server::start(&place.socket("runtime"), Manner::Answers);
    let images = Server::start(&place.socket("images"), Manner::Answers);
    let mut config = place.config();
    config.image_endpoint = format!("unix://{}", place.socket("images").display());
    let client = cri::Client::new(&config, clock()).unwrap();
    client.version(VersionRequest::default()).await.unwrap();
    let request = ImageFsInfoRequest {};
    client.image_fs_info(request).await.unwrap();
    assert_eq!(runtime.seen.calls.lock().unwrap().len(), 1);
    assert_eq!(
        images.seen.calls.lock().unwrap()[0].0,
        "/runtime.v1.ImageService/ImageFsInfo"
    );
}

#[tokio::test]
async fn an_image_without_a_size_is_an_error() {
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), Manner::Forgets);
    let request = ImageStatusRequest {
        image: Some(spec("busybox")),
        verbose: false,
    };
    let error = place.client().image_status(request).await.unwrap_err();
    assert!(error.to_string().contains("without id or size"), "{error}");
}
