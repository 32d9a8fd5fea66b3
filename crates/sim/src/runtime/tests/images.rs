//! Pulls, and what they leave.

use super::*;
use crate::faults::DiskFault;

fn request(notes: &[(&str, &str)]) -> cri::PullImageRequest {
    cri::PullImageRequest {
        image: Some(image(IMAGE)),
        sandbox_config: Some(pod_config("web", notes)),
        auth: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_takes_as_long_as_the_pod_or_the_runtime_says() {
    let seconds = |seconds| Duration::from_secs(seconds);
    for (notes, lasts, again) in [
        (&[][..], seconds(4), seconds(0)),
        (&[("pull-delay", "9s")], seconds(9), seconds(9)),
    ] {
        let rig = Rig::shaped(RuntimeShape {
            pull_delay: seconds(4),
            ..RuntimeShape::default()
        });
        for expected in [lasts, again] {
            let before = rig.clock.uptime();
            let pulled = rig.runtime.pull_image(request(notes)).await.unwrap();
            assert!(pulled.image_ref.starts_with("sha256:"), "{pulled:?}");
            assert_eq!(rig.clock.uptime(), before + expected, "{notes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_is_to_fail_fails_and_leaves_nothing() {
    let rig = Rig::new();
    let pull = rig
        .runtime
        .pull_image(request(&[("pull-failure", "no such tag")]));
    let refused = pull.await.unwrap_err();
    assert!(refused.message.ends_with("no such tag"), "{refused}");
    let listed = rig.runtime.list_images(cri::ListImagesRequest::default());
    assert_eq!(listed.await.unwrap().images, []);
}

#[tokio::test(start_paused = true)]
async fn a_container_needs_an_image_that_is_there() {
    let rig = Rig::new();
    let pod = rig.pod("web", &[]).await.unwrap();
    assert_eq!(code(rig.create(&pod, "app").await), Some(Code::NotFound));
    rig.pull().await;
    let container = rig.create(&pod, "app").await.unwrap();
    let status = rig.status(&container).await.unwrap();
    assert_eq!(status.image.unwrap().image, IMAGE);
    assert!(
        status.image_ref.starts_with("registry.example/app@sha256:"),
        "{}",
        status.image_ref
    );
    assert!(
        status.image_id.starts_with("sha256:"),
        "{}",
        status.image_id
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_can_be_asked_for_and_removed() {
    let rig = Rig::new();
    rig.pull().await;
    let status = || async {
        let request = cri::ImageStatusRequest {
            image: Some(image(IMAGE)),
            verbose: false,
        };
        rig.runtime.image_status(request).await.unwrap().image
    };
    let there = status().await.unwrap();
    assert!(there.size > 0);
    let remove = || cri::RemoveImageRequest {
        image: Some(image(&there.id)),
    };
    rig.runtime.remove_image(remove()).await.unwrap();
    assert_eq!(status().await, None);
    rig.runtime.remove_image(remove()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn images_fill_the_disk_and_so_does_a_fault() {
    let rig = Rig::new();
    let used = || async {
        let request = cri::ImageFsInfoRequest {};
        let answer = rig.runtime.image_fs_info(request).await.unwrap();
        assert_eq!(answer.container_filesystems, answer.image_filesystems);
        answer.image_filesystems[0].used_bytes.unwrap().value
    };
    assert_eq!(used().await, 0);
    rig.pull().await;
    let with_image = used().await;
    assert!(with_image > 5 << 20, "{with_image}");
    rig.ail.send_replace(Faults {
        disk: DiskFault::Full,
        ..Faults::default()
    });
    let storage = RuntimeShape::default().storage;
    assert_eq!(used().await, storage - storage / 100);
}
