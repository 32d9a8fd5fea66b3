//! Pods as those see them who come over the network.

use seams::Net as _;
use seams::cri::NamespaceMode;
use seams::net::{Destination, DialError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// The status that is answered; 0: nobody listens.
async fn asked(rig: &Rig, host: &str, port: u16) -> u16 {
    let to = Destination { host, port };
    let mut connection = match rig.runtime.dial(to).await {
        Ok(connection) => connection,
        Err(DialError::Connect { .. }) => return 0,
        Err(error) => panic!("{error}"),
    };
    connection
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    text["HTTP/1.1 ".len()..][..3].parse().unwrap()
}

/// A container that says which port it has, running.
async fn listening(rig: &Rig, pod: &str, name: &str, port: u16) {
    let mut config = container_config(name);
    let ports = format!("[{{\"containerPort\":{port},\"protocol\":\"TCP\"}}]");
    config.annotations = map(&[("io.kubernetes.container.ports", &ports)]);
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: pod.to_owned(),
        config: Some(config),
        sandbox_config: None,
    };
    let created = rig.runtime.create_container(request).await.unwrap();
    rig.start(&created.container_id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_listens_while_it_runs_and_is_ready_by_its_story() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("ready-after", "5s")]).await;
    assert_eq!(asked(&rig, "10.88.0.2", 80).await, 0);
    rig.pass(5 * SECOND).await;
    assert_eq!(asked(&rig, "10.88.0.2", 80).await, 200);
    assert_eq!(asked(&rig, "10.88.0.3", 80).await, 0);
    rig.stop(&container, 0).await;
    assert_eq!(asked(&rig, "10.88.0.2", 80).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_story_says_what_is_answered() {
    for (story, status) in [("404", 404), ("refused", 0)] {
        let rig = Rig::new();
        rig.running(&[("http", story)]).await;
        assert_eq!(asked(&rig, "10.88.0.2", 80).await, status, "{story}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_container_that_has_the_port_answers() {
    let rig = Rig::new();
    rig.pull().await;
    let notes = [
        ("http.one", "201"),
        ("http.two", "202"),
        ("http.three", "refused"),
    ];
    let pod = rig.pod("web", &notes).await.unwrap();
    for (name, port) in [("one", 8001), ("two", 8002), ("three", 8003)] {
        listening(&rig, &pod, name, port).await;
    }
    for (port, status) in [(8001, 201), (8002, 202), (8003, 0)] {
        assert_eq!(asked(&rig, "10.88.0.2", port).await, status, "{port}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_network_of_the_node_only_ports_tell_pods_apart() {
    let rig = Rig::new();
    rig.pull().await;
    let mut config = pod_config("web", &[]);
    let options = cri::NamespaceOption {
        network: NamespaceMode::Node.into(),
        ..cri::NamespaceOption::default()
    };
    config.linux = Some(cri::LinuxPodSandboxConfig {
        security_context: Some(cri::LinuxSandboxSecurityContext {
            namespace_options: Some(options),
            ..cri::LinuxSandboxSecurityContext::default()
        }),
        ..cri::LinuxPodSandboxConfig::default()
    });
    let request = cri::RunPodSandboxRequest {
        config: Some(config),
        runtime_handler: String::new(),
    };
    let pod = rig.runtime.run_pod_sandbox(request).await.unwrap();
    listening(&rig, &pod.pod_sandbox_id, "app", 8080).await;
    assert_eq!(asked(&rig, "192.0.2.1", 8080).await, 200);
    assert_eq!(asked(&rig, "192.0.2.1", 8081).await, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_has_a_name_here() {
    let rig = Rig::new();
    let to = Destination {
        host: "web.example",
        port: 80,
    };
    let refused = rig.runtime.dial(to).await.unwrap_err();
    assert!(matches!(refused, DialError::Lookup { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_sleeps_takes_its_time_and_dies_with_its_container() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("stop-delay", "2s")]).await;
    let exec = || {
        rig.runtime.exec_sync(cri::ExecSyncRequest {
            container_id: container.clone(),
            cmd: vec!["sleep".to_owned(), "3".to_owned()],
            timeout: 0,
        })
    };
    assert_eq!(exec().await.unwrap().exit_code, 0);
    assert_eq!(rig.seconds(), 3);
    let late = rig.runtime.exec_sync(cri::ExecSyncRequest {
        container_id: container.clone(),
        cmd: vec!["sleep".to_owned(), "9".to_owned()],
        timeout: 1,
    });
    assert_eq!(code(late.await), Some(Code::DeadlineExceeded));
    let (killed, ()) = tokio::join!(exec(), rig.stop(&container, 10));
    assert_eq!(killed.unwrap().exit_code, 137);
    assert_eq!(rig.seconds(), 6);
}
