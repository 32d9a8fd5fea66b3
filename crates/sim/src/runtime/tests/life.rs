//! Sandboxes and containers, from beginning to end.

use seams::cri::{ContainerState, PodSandboxState};

use super::*;
use crate::faults::RuntimeFault;

#[tokio::test(start_paused = true)]
async fn a_container_ends_as_its_story_says() {
    let exited = ContainerState::ContainerExited;
    for (notes, seconds, outcome_then) in [
        (
            &[][..],
            1_000_000,
            (ContainerState::ContainerRunning, 0, ""),
        ),
        (
            &[("run-time", "5s")],
            4,
            (ContainerState::ContainerRunning, 0, ""),
        ),
        (&[("run-time", "5s")], 5, (exited, 0, "Completed")),
        (
            &[("run-time", "5s"), ("exit-code", "3")],
            6,
            (exited, 3, "Error"),
        ),
        (&[("crash-loop", "5s")], 60, (exited, 1, "Error")),
        (&[("oom-after", "2s")], 3, (exited, 137, "OOMKilled")),
        (
            &[("run-time.other", "1s")],
            3,
            (ContainerState::ContainerRunning, 0, ""),
        ),
        (
            &[("run-time", "9s"), ("run-time.app", "1s")],
            3,
            (exited, 0, "Completed"),
        ),
    ] {
        let rig = Rig::new();
        let (_, container) = rig.running(notes).await;
        rig.pass(seconds * SECOND).await;
        let status = rig.status(&container).await.unwrap();
        assert_eq!(outcome(&status), outcome_then, "{notes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn timestamps_are_those_of_the_story_whenever_it_is_looked_at() {
    let rig = Rig::new();
    rig.pull().await;
    let notes = [("start-delay", "2s"), ("run-time", "5s")];
    let pod = rig.pod("web", &notes).await.unwrap();
    let container = rig.create(&pod, "app").await.unwrap();
    let created = rig.status(&container).await.unwrap();
    assert_eq!(outcome(&created), (ContainerState::ContainerCreated, 0, ""));
    let before = rig.clock.uptime();
    rig.start(&container).await.unwrap();
    assert_eq!(
        rig.clock.uptime(),
        before + 2 * SECOND,
        "a start takes its time"
    );
    rig.pass(3600 * SECOND).await;
    let status = rig.status(&container).await.unwrap();
    let after = |seconds: i64| created.created_at + seconds * 1_000_000_000;
    assert_eq!(status.created_at, created.created_at);
    assert_eq!(
        (status.started_at, status.finished_at),
        (after(2), after(7))
    );
    assert_eq!(status.log_path, "/var/log/pods/web/app/0.log");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_revives_nothing() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("run-time", "5s")]).await;
    rig.pass(10 * SECOND).await;
    rig.clock.jump_back(60 * SECOND);
    let status = rig.status(&container).await.unwrap();
    assert_eq!(status.state(), ContainerState::ContainerExited);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_as_the_program_obeys_or_the_grace_is_over() {
    for (delay, grace, code, lasts) in [
        ("0s", 30, 143, 0),
        ("5s", 30, 143, 5),
        ("60s", 30, 137, 30),
        ("5s", 0, 137, 0),
        ("5s", -1, 137, 0),
    ] {
        let rig = Rig::new();
        let (_, container) = rig.running(&[("stop-delay", delay)]).await;
        let before = rig.clock.uptime();
        rig.stop(&container, grace).await;
        assert_eq!(
            rig.clock.uptime(),
            before + lasts * SECOND,
            "{delay}, {grace}"
        );
        let status = rig.status(&container).await.unwrap();
        let exited = ContainerState::ContainerExited;
        assert_eq!(
            outcome(&status),
            (exited, code, "Error"),
            "{delay}, {grace}"
        );
        // Once more, and never: neither is an error.
        rig.stop(&container, grace).await;
        rig.stop("nobody", grace).await;
        assert_eq!(rig.status(&container).await.unwrap(), status);
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_ends_by_itself_ends_a_stop_too() {
    let rig = Rig::new();
    let (_, container) = rig
        .running(&[("stop-delay", "60s"), ("run-time", "7s")])
        .await;
    rig.stop(&container, 30).await;
    let status = rig.status(&container).await.unwrap();
    assert_eq!(
        outcome(&status),
        (ContainerState::ContainerExited, 0, "Completed")
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_waits_is_over_when_the_container_is_removed() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("stop-delay", "60s")]).await;
    let before = rig.clock.uptime();
    let removal = async {
        rig.pass(3 * SECOND).await;
        rig.remove(&container).await.unwrap();
    };
    tokio::join!(rig.stop(&container, 600), removal);
    assert_eq!(rig.clock.uptime(), before + 3 * SECOND);
    assert_eq!(code(rig.status(&container).await), Some(Code::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_container_is_started_once() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let refused = rig.start(&container).await.unwrap_err();
    assert_eq!(refused.code, Code::Unknown);
    assert!(
        refused.message.contains("CONTAINER_RUNNING state"),
        "{refused}"
    );
    rig.stop(&container, 0).await;
    let refused = rig.start(&container).await.unwrap_err();
    assert!(
        refused.message.contains("CONTAINER_EXITED state"),
        "{refused}"
    );
    assert_eq!(code(rig.start("nobody").await), Some(Code::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_container_is_not_removed_while_it_starts() {
    let rig = Rig::new();
    rig.pull().await;
    let pod = rig.pod("web", &[("start-delay", "5s")]).await.unwrap();
    let container = rig.create(&pod, "app").await.unwrap();
    let removal = async {
        rig.pass(SECOND).await;
        rig.remove(&container).await.unwrap_err()
    };
    let (started, refused) = tokio::join!(rig.start(&container), removal);
    started.unwrap();
    assert!(
        refused.message.contains("CONTAINER_STARTING state"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sandbox_keeps_its_containers_killed() {
    let rig = Rig::new();
    let (pod, container) = rig.running(&[("stop-delay", "9s")]).await;
    let idle = rig.create(&pod, "idle").await.unwrap();
    rig.stop_pod(&pod).await;
    rig.stop_pod(&pod).await;
    let status = rig.pod_status(&pod).await.unwrap();
    assert_eq!(status.state(), PodSandboxState::SandboxNotready);
    let killed = rig.status(&container).await.unwrap();
    assert_eq!(
        outcome(&killed),
        (ContainerState::ContainerExited, 137, "Error")
    );
    let idle = rig.status(&idle).await.unwrap();
    assert_eq!(idle.state(), ContainerState::ContainerCreated);
    for refused in [
        rig.create(&pod, "late").await.map(drop),
        rig.start(&idle.id).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.message.ends_with("is not running"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_fails_when_the_sandbox_is_stopped_meanwhile() {
    let rig = Rig::new();
    rig.pull().await;
    let pod = rig.pod("web", &[("start-delay", "5s")]).await.unwrap();
    let container = rig.create(&pod, "app").await.unwrap();
    let stop = async {
        rig.pass(SECOND).await;
        rig.stop_pod(&pod).await;
    };
    let (started, ()) = tokio::join!(rig.start(&container), stop);
    assert_eq!(code(started), Some(Code::Unknown));
    rig.pass(60 * SECOND).await;
    let status = rig.status(&container).await.unwrap();
    assert_eq!(
        outcome(&status),
        (ContainerState::ContainerExited, 128, "StartError")
    );
    rig.remove_pod(&pod).await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_removed_with_all_that_is_in_it() {
    let rig = Rig::new();
    let (pod, container) = rig.running(&[]).await;
    rig.remove_pod(&pod).await;
    rig.remove_pod(&pod).await;
    assert_eq!(code(rig.pod_status(&pod).await), Some(Code::NotFound));
    assert_eq!(code(rig.status(&container).await), Some(Code::NotFound));
    assert_eq!(code(rig.create(&pod, "app").await), Some(Code::NotFound));
    rig.stop_pod(&pod).await;
    rig.remove(&container).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_name_is_given_once() {
    let rig = Rig::new();
    let (pod, container) = rig.running(&[]).await;
    let refused = rig.pod("web", &[]).await.unwrap_err();
    assert!(
        refused.message.contains("web_default_uid-web_0"),
        "{refused}"
    );
    let refused = rig.create(&pod, "app").await.unwrap_err();
    assert!(refused.message.contains(&container), "{refused}");
    rig.remove(&container).await.unwrap();
    rig.create(&pod, "app").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_bad_annotation_is_refused_by_name() {
    let rig = Rig::new();
    let refused = rig.pod("web", &[("exit-code", "many")]).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument);
    assert_eq!(
        refused.message,
        "annotation sim.ferrolet.dev/exit-code: \"many\" is not allowed; give a number from 0 to 255"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_hold_what_their_filter_asks_for() {
    let rig = Rig::new();
    let (web, app) = rig.running(&[]).await;
    let db = rig.pod("db", &[]).await.unwrap();
    let store = rig.create(&db, "store").await.unwrap();
    rig.stop_pod(&web).await;
    let state = |state: ContainerState| {
        Some(cri::ContainerStateValue {
            state: state.into(),
        })
    };
    let plain = cri::ContainerFilter::default;
    for (filter, expected) in [
        (plain(), vec![&app, &store]),
        (
            cri::ContainerFilter {
                id: app.clone(),
                ..plain()
            },
            vec![&app],
        ),
        (
            cri::ContainerFilter {
                id: app[..12].to_owned(),
                ..plain()
            },
            vec![&app],
        ),
        (
            cri::ContainerFilter {
                id: "none".to_owned(),
                ..plain()
            },
            vec![],
        ),
        (
            cri::ContainerFilter {
                pod_sandbox_id: db.clone(),
                ..plain()
            },
            vec![&store],
        ),
        (
            cri::ContainerFilter {
                state: state(ContainerState::ContainerExited),
                ..plain()
            },
            vec![&app],
        ),
        (
            cri::ContainerFilter {
                state: state(ContainerState::ContainerRunning),
                ..plain()
            },
            vec![],
        ),
        (
            cri::ContainerFilter {
                label_selector: map(&[("io.kubernetes.container.name", "store")]),
                ..plain()
            },
            vec![&store],
        ),
    ] {
        let request = cri::ListContainersRequest {
            filter: Some(filter.clone()),
        };
        let answer = rig.runtime.list_containers(request).await.unwrap();
        let mut listed: Vec<_> = answer.containers.iter().map(|one| &one.id).collect();
        listed.sort_by_key(|id| **id != app);
        assert_eq!(listed, expected, "{filter:?}");
    }
    let state = |state: PodSandboxState| {
        Some(cri::PodSandboxStateValue {
            state: state.into(),
        })
    };
    let plain = cri::PodSandboxFilter::default;
    for (filter, expected) in [
        (plain(), vec![&web, &db]),
        (
            cri::PodSandboxFilter {
                id: db[..9].to_owned(),
                ..plain()
            },
            vec![&db],
        ),
        (
            cri::PodSandboxFilter {
                state: state(PodSandboxState::SandboxReady),
                ..plain()
            },
            vec![&db],
        ),
        (
            cri::PodSandboxFilter {
                label_selector: map(&[("io.kubernetes.pod.name", "web")]),
                ..plain()
            },
            vec![&web],
        ),
    ] {
        let request = cri::ListPodSandboxRequest {
            filter: Some(filter.clone()),
        };
        let answer = rig.runtime.list_pod_sandbox(request).await.unwrap();
        let mut listed: Vec<_> = answer.items.iter().map(|one| &one.id).collect();
        listed.sort_by_key(|id| **id != web);
        assert_eq!(listed, expected, "{filter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_say_nothing_leave_those_that_are_there() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let update = |linux: cri::LinuxContainerResources| cri::UpdateContainerResourcesRequest {
        container_id: container.clone(),
        linux: Some(linux),
        ..cri::UpdateContainerResourcesRequest::default()
    };
    for linux in [
        cri::LinuxContainerResources {
            cpu_shares: 512,
            memory_limit_in_bytes: 1 << 30,
            ..cri::LinuxContainerResources::default()
        },
        cri::LinuxContainerResources {
            cpuset_cpus: "0-1".to_owned(),
            ..cri::LinuxContainerResources::default()
        },
    ] {
        rig.runtime
            .update_container_resources(update(linux))
            .await
            .unwrap();
    }
    let status = rig.status(&container).await.unwrap();
    let linux = status.resources.unwrap().linux.unwrap();
    assert_eq!(
        (linux.cpu_shares, linux.memory_limit_in_bytes),
        (512, 1 << 30)
    );
    assert_eq!(linux.cpuset_cpus, "0-1");
}

#[tokio::test(start_paused = true)]
async fn a_probe_by_command_sees_readiness_and_only_in_a_running_container() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("ready-after", "10s")]).await;
    let probe = || async {
        let request = cri::ExecSyncRequest {
            container_id: container.clone(),
            cmd: vec!["cat".to_owned(), "/tmp/healthy".to_owned()],
            timeout: 1,
        };
        rig.runtime.exec_sync(request).await
    };
    assert_eq!(probe().await.unwrap().exit_code, 1);
    rig.pass(10 * SECOND).await;
    assert_eq!(probe().await.unwrap().exit_code, 0);
    rig.stop(&container, 0).await;
    let refused = probe().await.unwrap_err();
    assert!(
        refused.message.contains("CONTAINER_EXITED state"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn containers_go_on_while_the_runtime_is_down() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("run-time", "5s")]).await;
    rig.ail.send_replace(Faults {
        runtime: RuntimeFault::Down,
        ..Faults::default()
    });
    assert_eq!(code(rig.status(&container).await), Some(Code::Unavailable));
    rig.pass(10 * SECOND).await;
    rig.ail.send_replace(Faults::default());
    let status = rig.status(&container).await.unwrap();
    assert_eq!(status.finished_at, status.started_at + 5_000_000_000);
}
