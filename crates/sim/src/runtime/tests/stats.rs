//! What containers are said to use.

use super::*;

async fn of(rig: &Rig, container: &str) -> cri::ContainerStats {
    let request = cri::ContainerStatsRequest {
        container_id: container.to_owned(),
    };
    let answer = rig.runtime.container_stats(request).await.unwrap();
    answer.stats.unwrap()
}

/// Seconds of a core so far, thousandths of a core now, bytes.
fn figures(cpu: Option<cri::CpuUsage>, memory: Option<cri::MemoryUsage>) -> (f64, u64, u64) {
    let cpu = cpu.unwrap();
    let nanos = cpu.usage_core_nano_seconds.unwrap().value;
    let seconds = Duration::from_nanos(nanos).as_secs_f64();
    let milli = cpu.usage_nano_cores.unwrap().value / 1_000_000;
    (
        seconds,
        milli,
        memory.unwrap().working_set_bytes.unwrap().value,
    )
}

#[tokio::test(start_paused = true)]
async fn usage_follows_the_curves_of_the_story() {
    let rig = Rig::new();
    let notes = [("cpu", "100m..900m/60s"), ("memory", "1Ki..3Ki/20s")];
    let (pod, container) = rig.running(&notes).await;
    for (pass, expected) in [
        (0, (0.0, 100, 1024)),
        (15, (4.5, 500, 2048)),
        (15, (15.0, 900, 3072)),
        (30, (30.0, 100, 1024)),
    ] {
        rig.pass(pass * SECOND).await;
        let stats = of(&rig, &container).await;
        assert_eq!(figures(stats.cpu, stats.memory), expected);
    }
    let request = cri::PodSandboxStatsRequest {
        pod_sandbox_id: pod.clone(),
    };
    let answer = rig
        .runtime
        .pod_sandbox_stats(request.clone())
        .await
        .unwrap();
    let linux = answer.stats.unwrap().linux.unwrap();
    assert_eq!(figures(linux.cpu, linux.memory), (30.0, 100, 1024));
    assert_eq!(linux.process.unwrap().process_count.unwrap().value, 1);
    assert_eq!(linux.containers.len(), 1);
    // What it has used stays used when it has ended.
    rig.stop(&container, 0).await;
    rig.pass(60 * SECOND).await;
    let answer = rig.runtime.pod_sandbox_stats(request).await.unwrap();
    let linux = answer.stats.unwrap().linux.unwrap();
    assert_eq!(figures(linux.cpu, linux.memory), (30.0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn only_what_runs_is_listed() {
    let rig = Rig::new();
    let (pod, app) = rig.running(&[]).await;
    let idle = rig.create(&pod, "idle").await.unwrap();
    assert_eq!(of(&rig, &idle).await.cpu, None);
    let listed = || async {
        let request = cri::ListContainerStatsRequest::default();
        let answer = rig.runtime.list_container_stats(request).await.unwrap();
        let ids = answer
            .stats
            .into_iter()
            .map(|one| one.attributes.unwrap().id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed().await, [app]);
    let pods = || async {
        let request = cri::ListPodSandboxStatsRequest::default();
        let answer = rig.runtime.list_pod_sandbox_stats(request).await;
        answer.unwrap().stats.len()
    };
    assert_eq!(pods().await, 1);
    rig.stop_pod(&pod).await;
    assert_eq!(listed().await, [""; 0]);
    assert_eq!(pods().await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_available_is_what_the_limit_leaves() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("memory", "3Ki")]).await;
    assert_eq!(
        of(&rig, &container).await.memory.unwrap().available_bytes,
        None
    );
    let request = cri::UpdateContainerResourcesRequest {
        container_id: container.clone(),
        linux: Some(cri::LinuxContainerResources {
            memory_limit_in_bytes: 4096,
            ..cri::LinuxContainerResources::default()
        }),
        ..cri::UpdateContainerResourcesRequest::default()
    };
    rig.runtime
        .update_container_resources(request)
        .await
        .unwrap();
    let memory = of(&rig, &container).await.memory.unwrap();
    assert_eq!(memory.available_bytes.unwrap().value, 1024);
}
