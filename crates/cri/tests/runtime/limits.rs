//! How long each call may take, and who waits for whom.

use std::time::Duration;

use cri::Client;
use seams::Runtime;
use seams::cri::{
    CheckpointContainerRequest, ContainerStatusRequest, ExecSyncRequest, GetEventsRequest,
    ListContainersRequest, PullImageRequest, RemoveImageRequest, RunPodSandboxRequest,
    StatusRequest, StopContainerRequest, StopPodSandboxRequest, image_service, runtime_service,
};

use crate::support::{Manner, Place, Server, bare, clock, eventually};

fn stop(timeout: i64) -> StopContainerRequest {
    StopContainerRequest {
        timeout,
        ..StopContainerRequest::default()
    }
}

fn exec(timeout: i64) -> ExecSyncRequest {
    ExecSyncRequest {
        timeout,
        ..ExecSyncRequest::default()
    }
}

fn checkpoint(timeout: i64) -> CheckpointContainerRequest {
    CheckpointContainerRequest {
        timeout,
        ..CheckpointContainerRequest::default()
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_has_the_time_that_upstream_gives_it() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let client = place.client();
    for (seconds, answer) in [
        (
            240,
            bare(client.run_pod_sandbox(RunPodSandboxRequest::default())),
        ),
        (
            120,
            bare(client.stop_pod_sandbox(StopPodSandboxRequest::default())),
        ),
        (
            120,
            bare(client.container_status(ContainerStatusRequest::default())),
        ),
        (
            120,
            bare(client.list_containers(ListContainersRequest::default())),
        ),
        (
            120,
            bare(client.remove_image(RemoveImageRequest::default())),
        ),
        (120, bare(client.stop_container(stop(0)))),
        (150, bare(client.stop_container(stop(30)))),
        (121, bare(client.exec_sync(exec(1)))),
        (120, bare(client.checkpoint_container(checkpoint(1)))),
        (600, bare(client.checkpoint_container(checkpoint(600)))),
    ] {
        let before = tokio::time::Instant::now();
        let error = answer.await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert_eq!(before.elapsed().as_secs(), seconds, "{error}");
        let calls = server.seen.calls.lock().unwrap();
        let limit = &calls.last().unwrap().2;
        let told = [format!("{seconds}000m"), format!("{seconds}000000u")];
        assert!(told.contains(limit), "{}: {limit}", error.call);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_and_a_command_without_limit_end_when_they_are_dropped() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Hangs);
    let client = place.client();
    for answer in [
        bare(client.pull_image(PullImageRequest::default())),
        bare(client.exec_sync(exec(0))),
    ] {
        let a_day = Duration::from_secs(24 * 60 * 60);
        let outcome = tokio::time::timeout(a_day, answer).await;
        assert!(outcome.is_err(), "it ended by itself: {outcome:?}");
        eventually("the end of the call", || server.seen.under_way() == 0).await;
    }
    let calls = server.seen.calls.lock().unwrap();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|(_, _, limit)| limit.is_empty()));
}

#[tokio::test]
async fn what_waits_for_others_than_the_runtime_holds_no_place() {
    let place = Place::new();
    let manner = Manner::HangsAt(&[
        image_service::PULL_IMAGE,
        runtime_service::EXEC_SYNC,
        runtime_service::GET_CONTAINER_EVENTS,
        runtime_service::RUN_POD_SANDBOX,
        runtime_service::STOP_CONTAINER,
    ]);
    let server = Server::start(&place.socket("runtime"), manner);
    let mut config = place.config();
    config.calls_at_once = 1;
    let client = Client::new(&config, clock()).unwrap();
    let events = client.get_container_events(GetEventsRequest {}).await;
    let _events = events.unwrap();
    let mut waiting = [
        bare(client.pull_image(PullImageRequest::default())),
        bare(client.exec_sync(exec(0))),
        bare(client.exec_sync(exec(10))),
        bare(client.run_pod_sandbox(RunPodSandboxRequest::default())),
        bare(client.stop_container(stop(30))),
    ];
    let status = async {
        eventually("the calls that wait", || server.seen.under_way() == 6).await;
        client.status(StatusRequest::default()).await
    };
    tokio::select! {
        ended = futures_util::future::select_all(&mut waiting) => panic!("{:?}", ended.0),
        status = status => drop(status.unwrap()),
    }
    assert_eq!(server.seen.under_way(), 6, "they wait on");
}
