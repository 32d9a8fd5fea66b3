//! What listeners hear.

use futures_util::StreamExt as _;
use seams::cri::{ContainerEventResponse, ContainerEventType as Kind};
use seams::runtime::ContainerEvents;

use super::*;
use crate::faults::RuntimeFault;

async fn listen(rig: &Rig) -> ContainerEvents {
    let request = cri::GetEventsRequest {};
    rig.runtime.get_container_events(request).await.unwrap()
}

async fn hear(events: &mut ContainerEvents) -> ContainerEventResponse {
    events.next().await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_of_a_pods_whole_life() {
    let rig = Rig::new();
    let mut events = listen(&rig).await;
    let (pod, container) = rig.running(&[("run-time", "5s")]).await;
    let heard = async {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push((hear(&mut events).await, rig.seconds()));
        }
        all
    };
    let all = heard.await;
    let told: Vec<_> = all
        .iter()
        .map(|(event, second)| {
            (
                event.container_event_type(),
                event.container_id.as_str(),
                *second,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Kind::ContainerCreatedEvent, pod.as_str(), 0),
            (Kind::ContainerStartedEvent, &pod, 0),
            (Kind::ContainerCreatedEvent, &container, 0),
            (Kind::ContainerStartedEvent, &container, 0),
            (Kind::ContainerStoppedEvent, &container, 5),
        ]
    );
    let (last, _) = all.last().unwrap();
    assert_eq!(last.pod_sandbox_status.as_ref().unwrap().id, pod);
    assert_eq!(last.containers_statuses[0].finished_at, last.created_at);
    rig.remove_pod(&pod).await;
    for (kind, id) in [
        (Kind::ContainerStoppedEvent, &pod),
        (Kind::ContainerDeletedEvent, &container),
        (Kind::ContainerDeletedEvent, &pod),
    ] {
        let event = hear(&mut events).await;
        assert_eq!(
            (event.container_event_type(), &event.container_id),
            (kind, id)
        );
        assert!(event.pod_sandbox_status.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_one_look_are_told_in_their_order() {
    let rig = Rig::new();
    rig.pull().await;
    let notes = [
        ("run-time.slow", "7s"),
        ("run-time.quick", "2s"),
        ("start-delay.late", "4s"),
    ];
    let pod = rig.pod("web", &notes).await.unwrap();
    let mut ids = Vec::new();
    for name in ["slow", "quick", "late"] {
        ids.push(rig.create(&pod, name).await.unwrap());
    }
    rig.start(&ids[0]).await.unwrap();
    rig.start(&ids[1]).await.unwrap();
    let mut events = listen(&rig).await;
    rig.start(&ids[2]).await.unwrap();
    rig.pass(60 * SECOND).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let event = hear(&mut events).await;
        told.push((event.container_event_type(), event.container_id));
    }
    assert_eq!(
        told,
        [
            (Kind::ContainerStoppedEvent, ids[1].clone()),
            (Kind::ContainerStartedEvent, ids[2].clone()),
            (Kind::ContainerStoppedEvent, ids[0].clone()),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_listener_who_waits_hears_what_others_do() {
    let rig = Rig::new();
    let mut events = listen(&rig).await;
    let arrival = async {
        rig.pass(3 * SECOND).await;
        rig.pod("web", &[]).await.unwrap()
    };
    let (event, pod) = tokio::join!(hear(&mut events), arrival);
    assert_eq!(event.container_event_type(), Kind::ContainerCreatedEvent);
    assert_eq!(event.container_id, pod);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_removed_while_it_runs_is_killed_first() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("stop-delay", "9s")]).await;
    let mut events = listen(&rig).await;
    rig.remove(&container).await.unwrap();
    for kind in [Kind::ContainerStoppedEvent, Kind::ContainerDeletedEvent] {
        let event = hear(&mut events).await;
        assert_eq!(event.container_event_type(), kind);
        let killed = ContainerState::ContainerExited;
        let status = &event.containers_statuses[0];
        assert_eq!(outcome(status), (killed, 137, "Error"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_runtime_goes_down() {
    let rig = Rig::new();
    let mut events = listen(&rig).await;
    let fall = async {
        rig.pass(3 * SECOND).await;
        rig.ail.send_replace(Faults {
            runtime: RuntimeFault::Down,
            ..Faults::default()
        });
    };
    let (ended, ()) = tokio::join!(events.next(), fall);
    assert_eq!(code(ended.unwrap()), Some(Code::Unavailable));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_ends_with_an_error() {
    let rig = Rig::new();
    let mut events = listen(&rig).await;
    let mut other = listen(&rig).await;
    for number in 0..400 {
        let pod = rig.pod(&format!("pod-{number}"), &[]).await.unwrap();
        rig.remove_pod(&pod).await;
        for _ in 0..4 {
            hear(&mut other).await;
        }
    }
    assert_eq!(
        code(events.next().await.unwrap()),
        Some(Code::ResourceExhausted)
    );
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_listener_who_leaves_leaves_nothing_behind() {
    let rig = Rig::new();
    let events = listen(&rig).await;
    assert!(!rig.runtime.core.look().0.audience.is_empty());
    drop(events);
    assert!(rig.runtime.core.look().0.audience.is_empty());
}
