//! Events are kept for an hour, as upstream keeps them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::objects::Objects;
use crate::kinds::EVENTS;
use crate::store::Expect;

const KEPT: SignedDuration = SignedDuration::from_hours(1);
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

/// Takes old events away for as long as it is polled.
pub async fn expire_events(objects: Objects) {
    loop {
        objects.clock().sleep(BETWEEN_LOOKS).await;
        let now = objects.clock().timestamp();
        for event in objects.store().list(&EVENTS, None).items {
            if is_old(&event.value(), now) {
                // One that was written meanwhile stays.
                let expect = Expect::At(event.revision());
                let _ = objects.store().delete(event.key(), expect).await;
            }
        }
    }
}

/// Counted from when it was last seen.
fn is_old(event: &Value, now: Timestamp) -> bool {
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["eventTime"],
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
    ];
    let times = times
        .iter()
        .filter_map(|time| time.as_str()?.parse::<Timestamp>().ok());
    // A difference cannot overflow; the last moment that a client can name and an hour would.
    times
        .max()
        .is_none_or(|last| now.duration_since(last) > KEPT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_as_old_as_its_last_sight() {
        let now: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
        let created = json!({"creationTimestamp": "2027-01-15T06:00:00Z"});
        for (event, old) in [
            (json!({"metadata": created}), true),
            (
                json!({"metadata": created, "lastTimestamp": "2027-01-15T07:30:00Z"}),
                false,
            ),
            (
                json!({"metadata": created, "eventTime": "2027-01-15T07:00:00.000001Z"}),
                false,
            ),
            (
                json!({"metadata": created, "series": {"lastObservedTime": "2027-01-15T06:59:59Z"}}),
                true,
            ),
            (
                json!({"metadata": created, "lastTimestamp": "9999-12-30T22:00:00Z"}),
                false,
            ),
        ] {
            assert_eq!(is_old(&event, now), old, "{event}");
        }
    }
}
