//! Our CRI client with the runtimes that nodes have.

use std::sync::Arc;
use std::time::Duration;

use ::cri::{Client, Config};
use anyhow::{Context, Result, ensure};
use linux::SystemClock;
use seams::cri::{
    CgroupDriver, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ListImagesRequest,
    RuntimeConfigRequest, StatusRequest, StatusResponse,
};
use seams::start::{cgroup_driver, check};
use seams::{Runtime as _, SharedClock};
use testkit::lab::{Lab, Node, Runtime};
use testkit::wait;

#[test]
fn containerd_2_answers_with_its_handlers_features_and_cgroup_driver() -> Result<()> {
    let node = Lab::shared()?.node("cri-ctd2", Runtime::Containerd2)?;
    block_on(async {
        let (client, _) = client_of(&node)?;
        let version = check(&client).await?;
        assert_eq!(version.runtime_name, "containerd");
        assert!(version.runtime_version.contains("2."), "{version:?}");

        let status = ready(&client).await?;
        let default = status.runtime_handlers.iter().find(|h| h.name.is_empty());
        let features = default.and_then(|handler| handler.features);
        let features = features.context("the default handler has no features")?;
        assert!(features.recursive_read_only_mounts, "{features:?}");
        assert!(
            status
                .features
                .is_some_and(|f| f.supplemental_groups_policy)
        );

        let driver = cgroup_driver(&client).await?;
        assert_eq!(driver, Some(CgroupDriver::Cgroupfs));
        images(&client).await
    })?;
    node.remove()
}

#[test]
fn containerd_1_6_answers_and_leaves_the_cgroup_driver_to_the_node() -> Result<()> {
    let node = Lab::shared()?.node("cri-ctd16", Runtime::Containerd16)?;
    block_on(async {
        let (client, _) = client_of(&node)?;
        let version = check(&client).await?;
        assert!(version.runtime_version.contains("1.6."), "{version:?}");

        let status = ready(&client).await?;
        assert!(status.runtime_handlers.is_empty(), "{status:?}");
        assert_eq!(status.features, None);

        let refusal = client.runtime_config(RuntimeConfigRequest {}).await;
        let error = refusal.err().context("1.6 has RuntimeConfig")?;
        assert!(error.is_unimplemented(), "{error}");
        assert_eq!(cgroup_driver(&client).await?, None);
        images(&client).await
    })?;
    node.remove()
}

#[test]
fn a_client_outlives_a_restart_of_containerd() -> Result<()> {
    let node = Lab::shared()?.node("cri-restart", Runtime::Containerd2)?;
    let runtime = runtime()?;
    let (client, _) = client_of(&node)?;
    runtime.block_on(ready(&client))?;

    node.runtime().stop()?;
    // This runtime has stood still meanwhile, so the first call may be what
    // finds the connection broken.
    let away = || runtime.block_on(client.status(StatusRequest::default()));
    let error = away().err().context("a stopped containerd answered")?;
    assert!(error.is_unavailable(), "{error}");
    let error = away().err().context("a stopped containerd answered")?;
    assert!(error.message.contains("cannot connect"), "{error}");

    node.runtime().restart()?;
    wait::until("an answer", Duration::from_secs(90), || {
        runtime.block_on(ready(&client))
    })?;
    node.remove()
}

async fn ready(client: &Client) -> Result<StatusResponse> {
    let plain = client.status(StatusRequest { verbose: false }).await?;
    ensure!(plain.info.is_empty(), "{plain:?}");
    let conditions = plain.status.clone().unwrap_or_default().conditions;
    for wanted in ["RuntimeReady", "NetworkReady"] {
        let found = conditions.iter().find(|found| found.r#type == wanted);
        let condition = found.with_context(|| format!("no {wanted} in {conditions:?}"))?;
        ensure!(condition.status, "{condition:?}");
    }
    let verbose = client.status(StatusRequest { verbose: true }).await?;
    ensure!(verbose.info.contains_key("config"), "{verbose:?}");
    Ok(plain)
}

async fn images(client: &Client) -> Result<()> {
    let images = client.list_images(ListImagesRequest::default()).await?;
    let pause = images
        .images
        .iter()
        .find(|image| image.repo_tags.iter().any(|tag| tag.contains("pause")))
        .with_context(|| format!("no pause image in {images:?}"))?;
    assert!(pause.size > 0 && !pause.id.is_empty(), "{pause:?}");

    for (name, there) in [(pause.repo_tags[0].as_str(), true), ("lab/absent:1", false)] {
        let request = ImageStatusRequest {
            image: Some(ImageSpec {
                image: name.to_owned(),
                ..ImageSpec::default()
            }),
            verbose: false,
        };
        let status = client.image_status(request).await?;
        assert_eq!(status.image.is_some(), there, "{name}");
    }

    let disk = client.image_fs_info(ImageFsInfoRequest {}).await?;
    let first = disk.image_filesystems.first().context("no image disk")?;
    let mountpoint = &first.fs_id.as_ref().context("no mount point")?.mountpoint;
    assert!(
        mountpoint.starts_with("/var/lib/containerd"),
        "{mountpoint}"
    );
    Ok(())
}

/// A client of the node's socket, as the host sees it.
fn client_of(node: &Node) -> Result<(Client, SharedClock)> {
    let socket = node.machine().root("/run/containerd/containerd.sock");
    let config = Config {
        runtime_endpoint: format!("unix://{}", socket.display()),
        ..Config::default()
    };
    let clock: SharedClock = Arc::new(SystemClock::start());
    Ok((Client::new(&config, Arc::clone(&clock))?, clock))
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    runtime()?.block_on(work)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}
