use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use seams::cri::{
    AuthConfig, CreateContainerRequest, CreateContainerResponse, ImageSpec, PullImageRequest,
    StopContainerRequest, VersionRequest, VersionResponse, image_service, runtime_service,
};
use seams::runtime::Code;
use serde_json::{Value as Json, json};
use testkit::clock::TokioClock;

use super::*;

/// Has `calls` taken down, and answers what the file then says.
async fn recorded(calls: impl AsyncFnOnce(Recorder, SharedClock)) -> Vec<Json> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.jsonl");
    let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let clock: SharedClock = Arc::new(TokioClock::starting_at(origin));
    let (recorder, recording) = Recording::open(&path, clock.clone()).await.unwrap();
    let (kept, ()) = tokio::join!(recording.keep(), calls(recorder, clock));
    kept.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_line_with_its_time_request_outcome_and_duration() {
    let lines = recorded(async |recorder, clock| {
        let request = StopContainerRequest {
            container_id: "c1".to_owned(),
            timeout: 30,
        };
        let path = runtime_service::STOP_CONTAINER;
        let entry = recorder.begin(path, Some(&request)).await.unwrap();
        clock.sleep(Duration::from_micros(1_500_000)).await;
        let error = RuntimeError::new("StopContainer", Code::NotFound, "no container c1");
        entry.end(Some(&error));
        let request = VersionRequest::default();
        let path = runtime_service::VERSION;
        recorder
            .begin(path, Some(&request))
            .await
            .unwrap()
            .end(None);
    })
    .await;
    let wanted = [
        json!({
            "time": "2001-09-09T01:46:40.000000Z", "call": "StopContainer",
            "request": { "containerId": "c1", "timeout": "30" },
            "code": "NotFound", "message": "no container c1", "duration_ms": 1500.0,
        }),
        json!({
            "time": "2001-09-09T01:46:41.500000Z", "call": "Version", "request": {},
            "code": "OK", "duration_ms": 0.0,
        }),
    ];
    assert_eq!(lines, wanted);
}

#[tokio::test(start_paused = true)]
async fn the_id_of_what_was_made_is_written_and_other_answers_are_not() {
    let lines = recorded(async |recorder, _| {
        let request = CreateContainerRequest::default();
        let path = runtime_service::CREATE_CONTAINER;
        let mut entry = recorder.begin(path, Some(&request)).await.unwrap();
        entry.answered(&CreateContainerResponse {
            container_id: "c1".to_owned(),
        });
        entry.end(None);
        let request = VersionRequest::default();
        let path = runtime_service::VERSION;
        let mut entry = recorder.begin(path, Some(&request)).await.unwrap();
        entry.answered(&VersionResponse::default());
        entry.end(None);
    })
    .await;
    assert_eq!(lines[0]["answer"], json!({ "containerId": "c1" }));
    assert_eq!(lines[1].get("answer"), None);
}

#[tokio::test(start_paused = true)]
async fn what_opens_a_registry_is_masked() {
    let lines = recorded(async |recorder, _| {
        let request = PullImageRequest {
            image: Some(ImageSpec {
                image: "busybox".to_owned(),
                ..ImageSpec::default()
            }),
            auth: Some(AuthConfig {
                username: "somebody".to_owned(),
                password: "secret-1".to_owned(),
                auth: "secret-2".to_owned(),
                identity_token: "secret-3".to_owned(),
                registry_token: "secret-4".to_owned(),
                ..AuthConfig::default()
            }),
            ..PullImageRequest::default()
        };
        let path = image_service::PULL_IMAGE;
        recorder
            .begin(path, Some(&request))
            .await
            .unwrap()
            .end(None);
    })
    .await;
    let request = lines[0]["request"].to_string();
    assert!(!request.contains("secret"), "{request}");
    let auth = &lines[0]["request"]["auth"];
    assert_eq!(auth["username"], "somebody");
    assert_eq!(auth["registryToken"], "(masked)");
    assert_eq!(lines[0]["request"]["image"]["image"], "busybox");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_and_one_that_nobody_knows_are_written_too() {
    let lines = recorded(async |recorder, _| {
        let path = runtime_service::VERSION;
        let request = VersionRequest::default();
        drop(recorder.begin(path, Some(&request)).await.unwrap());
        recorder
            .begin::<()>("/other.Service/Call", None)
            .await
            .unwrap()
            .end(None);
    })
    .await;
    assert_eq!(lines[0]["code"], "Cancelled");
    assert_eq!(lines[1]["call"], "/other.Service/Call");
    assert_eq!(lines[1]["request"], Json::Null);
}

#[tokio::test(start_paused = true)]
async fn a_recording_goes_on_behind_an_earlier_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.jsonl");
    std::fs::write(&path, "{}\n").unwrap();
    let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let (recorder, recording) = Recording::open(&path, clock).await.unwrap();
    let request = VersionRequest::default();
    let entry = recorder
        .begin(runtime_service::VERSION, Some(&request))
        .await;
    entry.unwrap().end(None);
    drop(recorder);
    recording.keep().await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{}\n"), "{text}");
    assert_eq!(text.lines().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_recording_that_cannot_be_written_says_so_and_keeps_nobody_waiting() {
    let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let full = Path::new("/dev/full");
    let (recorder, recording) = Recording::open(full, clock).await.unwrap();
    let request = VersionRequest::default();
    let path = runtime_service::VERSION;
    recorder
        .begin(path, Some(&request))
        .await
        .unwrap()
        .end(None);
    let error = recording.keep().await.unwrap_err();
    assert!(error.to_string().contains("/dev/full"), "{error}");
    assert!(recorder.begin(path, Some(&request)).await.is_none());
}
