//! The addresses of pods.

use seams::cri::NamespaceMode;

use super::*;

async fn tell(rig: &Rig, pod_cidr: &str) -> Result<(), RuntimeError> {
    let request = cri::UpdateRuntimeConfigRequest {
        runtime_config: Some(cri::RuntimeConfig {
            network_config: Some(cri::NetworkConfig {
                pod_cidr: pod_cidr.to_owned(),
            }),
        }),
    };
    rig.runtime.update_runtime_config(request).await.map(drop)
}

async fn address(rig: &Rig, pod: &str) -> String {
    let status = rig.pod_status(pod).await.unwrap();
    status.network.unwrap().ip
}

async fn network_ready(rig: &Rig) -> bool {
    let answer = rig.runtime.status(cri::StatusRequest::default()).await;
    let conditions = answer.unwrap().status.unwrap().conditions;
    let network = conditions
        .into_iter()
        .find(|one| one.r#type == "NetworkReady");
    network.unwrap().status
}

#[tokio::test(start_paused = true)]
async fn pods_have_addresses_of_the_range_that_was_told() {
    let rig = Rig::new();
    let early = rig.pod("early", &[]).await.unwrap();
    assert_eq!(address(&rig, &early).await, "10.88.0.2");
    tell(&rig, "10.1.2.0/24,fd00::/64").await.unwrap();
    let pod = rig.pod("web", &[]).await.unwrap();
    let network = rig.pod_status(&pod).await.unwrap().network.unwrap();
    assert_eq!(network.ip, "10.1.2.2");
    assert_eq!(network.additional_ips[0].ip, "fd00::2");
    assert_eq!(address(&rig, &early).await, "10.88.0.2");
    tell(&rig, "").await.unwrap();
    assert_eq!(
        code(tell(&rig, "10.0.0.0").await),
        Some(Code::InvalidArgument)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_pod_gives_its_address_back() {
    let rig = Rig::new();
    tell(&rig, "192.0.2.0/30").await.unwrap();
    let first = rig.pod("first", &[]).await.unwrap();
    let refused = rig.pod("second", &[]).await.unwrap_err();
    assert!(
        refused.message.contains("no IP addresses available"),
        "{refused}"
    );
    rig.stop_pod(&first).await;
    assert_eq!(address(&rig, &first).await, "");
    let second = rig.pod("second", &[]).await.unwrap();
    assert_eq!(address(&rig, &second).await, "192.0.2.2");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_host_network_has_no_address_of_its_own() {
    let rig = Rig::new();
    let mut config = pod_config("host", &[]);
    config.linux = Some(cri::LinuxPodSandboxConfig {
        security_context: Some(cri::LinuxSandboxSecurityContext {
            namespace_options: Some(cri::NamespaceOption {
                network: NamespaceMode::Node.into(),
                ..cri::NamespaceOption::default()
            }),
            ..cri::LinuxSandboxSecurityContext::default()
        }),
        ..cri::LinuxPodSandboxConfig::default()
    });
    let request = cri::RunPodSandboxRequest {
        config: Some(config),
        runtime_handler: String::new(),
    };
    let pod = rig
        .runtime
        .run_pod_sandbox(request)
        .await
        .unwrap()
        .pod_sandbox_id;
    assert_eq!(address(&rig, &pod).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_can_wait_for_its_range() {
    let rig = Rig::shaped(RuntimeShape {
        pod_network: None,
        ..RuntimeShape::default()
    });
    assert!(!network_ready(&rig).await);
    let refused = rig.pod("web", &[]).await.unwrap_err();
    assert!(
        refused.message.contains("no pod CIDR was told yet"),
        "{refused}"
    );
    tell(&rig, "10.1.2.0/24").await.unwrap();
    assert!(network_ready(&rig).await);
    rig.pod("web", &[]).await.unwrap();
    assert!(network_ready(&Rig::new()).await);
}
