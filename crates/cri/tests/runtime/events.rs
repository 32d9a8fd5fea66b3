//! The stream of events: how it begins, what it brings, and how it ends.

use std::time::Duration;

use futures_util::StreamExt as _;
use seams::cri::{GetEventsRequest, runtime_service};
use seams::runtime::{Code, ContainerEvents};
use seams::{Runtime, RuntimeError};

use crate::support::{Manner, Place, Server, eventually};

/// The container of the next event.
async fn next(events: &mut ContainerEvents) -> Option<Result<String, RuntimeError>> {
    let event = tokio::time::timeout(Duration::from_secs(10), events.next());
    let event = event.await.expect("neither an event nor an end");
    event.map(|event| event.map(|event| event.container_id))
}

#[tokio::test]
async fn events_come_as_they_happen_and_end_with_an_error_when_the_connection_breaks() {
    let place = Place::new();
    let server = Server::start(&place.socket("runtime"), Manner::Tells { ends: false });
    let client = place.client();
    let events = client.get_container_events(GetEventsRequest {}).await;
    let mut events = events.unwrap();
    assert_eq!(next(&mut events).await, Some(Ok("first".to_owned())));
    assert_eq!(next(&mut events).await, Some(Ok("second".to_owned())));
    assert_eq!(
        server.seen.calls.lock().unwrap()[0].2,
        "",
        "it has no time limit"
    );
    server.kill().await;
    let error = next(&mut events).await.unwrap().unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(error.call, "GetContainerEvents");
    assert!(error.message.contains("broke"), "{error}");
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test]
async fn events_that_the_runtime_ends_end() {
    let place = Place::new();
    let _server = Server::start(&place.socket("runtime"), Manner::Tells { ends: true });
    let client = place.client();
    let events = client.get_container_events(GetEventsRequest {}).await;
    let mut events = events.unwrap();
    assert_eq!(next(&mut events).await, Some(Ok("first".to_owned())));
    assert_eq!(next(&mut events).await, Some(Ok("second".to_owned())));
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test]
async fn a_runtime_that_says_nothing_before_the_first_event_is_subscribed_to_all_the_same() {
    let place = Place::new();
    let manner = Manner::HangsAt(&[runtime_service::GET_CONTAINER_EVENTS]);
    let server = Server::start(&place.socket("runtime"), manner);
    let client = place.client();
    let subscribed = client.get_container_events(GetEventsRequest {});
    let events = tokio::time::timeout(Duration::from_secs(10), subscribed).await;
    let events = events.expect("it waits for an event").unwrap();
    // Nobody has looked for an event yet.
    eventually("the request", || server.seen.under_way() == 1).await;
    drop(events);
    eventually("the end of the stream", || server.seen.under_way() == 0).await;
}

#[tokio::test]
async fn a_runtime_that_is_away_refuses_the_stream_and_one_without_the_call_its_first_event() {
    let place = Place::new();
    let client = place.client();
    let away = client.get_container_events(GetEventsRequest {}).await;
    assert!(away.err().unwrap().is_unavailable());

    let manner = Manner::Refuses(tonic::Code::Unimplemented, "no events here");
    let _server = Server::start(&place.socket("runtime"), manner);
    let events = client.get_container_events(GetEventsRequest {}).await;
    let error = next(&mut events.unwrap()).await.unwrap().unwrap_err();
    let expected = RuntimeError::new("GetContainerEvents", Code::Unimplemented, "no events here");
    assert_eq!(error, expected);
}
