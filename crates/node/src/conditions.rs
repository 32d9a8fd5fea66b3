//! The node's conditions: under which pressure it is, and whether it is ready.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub const READY: &str = "Ready";

/// What the node is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pid: bool,
}

/// Whether the node is ready, and the words that go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub ready: bool,
    pub message: String,
}

/// A condition that became another, to be told of in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub condition: &'static str,
    /// The reason of the event.
    pub event: &'static str,
    /// The status before and since when; `None`: there was no such condition.
    pub before: Option<(String, Option<Time>)>,
}

/// The words of a kind of pressure: when it is there, and when it is not.
struct Words {
    condition: &'static str,
    pressed: [&'static str; 3],
    free: [&'static str; 3],
}

/// Reason, message, and reason of the event; in the order in which a new node
/// lists them.
const PRESSURES: [Words; 3] = [
    Words {
        condition: "MemoryPressure",
        pressed: [
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ],
        free: [
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ],
    },
    Words {
        condition: "DiskPressure",
        pressed: [
            "KubeletHasDiskPressure",
            "kubelet has disk pressure",
            "NodeHasDiskPressure",
        ],
        free: [
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
            "NodeHasNoDiskPressure",
        ],
    },
    Words {
        condition: "PIDPressure",
        pressed: [
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
            "NodeHasInsufficientPID",
        ],
        free: [
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
            "NodeHasSufficientPID",
        ],
    },
];

impl Readiness {
    /// Of what stands in the way; a `warning` goes with either outcome.
    pub fn new(problems: Option<String>, warning: Option<&str>) -> Self {
        let ready = problems.is_none();
        let message = problems.unwrap_or_else(|| "kubelet is posting ready status".to_owned());
        let message = match warning {
            Some(warning) => format!("{message}. WARNING: {warning}"),
            None => message,
        };
        Self { ready, message }
    }
}

/// Brings the node's conditions up to date, and says which became another. Those
/// that are not the node's own are left alone.
pub fn refresh(
    conditions: &mut Vec<NodeCondition>,
    pressure: Pressure,
    readiness: &Readiness,
    now: Timestamp,
) -> Vec<Transition> {
    let pressed = [pressure.memory, pressure.disk, pressure.pid];
    let mut transitions: Vec<Transition> = PRESSURES
        .iter()
        .zip(pressed)
        .filter_map(|(words, pressed)| refresh_pressure(conditions, words, pressed, now))
        .collect();
    transitions.extend(refresh_ready(conditions, readiness, now));
    transitions
}

fn refresh_pressure(
    conditions: &mut Vec<NodeCondition>,
    words: &Words,
    pressed: bool,
    now: Timestamp,
) -> Option<Transition> {
    let [reason, message, event] = if pressed { words.pressed } else { words.free };
    let (condition, before) = entry(conditions, words.condition);
    condition.last_heartbeat_time = Some(Time(now));
    if condition.status == status(pressed) {
        return None;
    }
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
    turn(condition, pressed, now);
    Some(Transition {
        condition: words.condition,
        event,
        before,
    })
}

fn refresh_ready(
    conditions: &mut Vec<NodeCondition>,
    readiness: &Readiness,
    now: Timestamp,
) -> Option<Transition> {
    let (reason, event) = if readiness.ready {
        ("KubeletReady", "NodeReady")
    } else {
        ("KubeletNotReady", "NodeNotReady")
    };
    let (condition, before) = entry(conditions, READY);
    condition.last_heartbeat_time = Some(Time(now));
    condition.reason = Some(reason.to_owned());
    condition.message = Some(readiness.message.clone());
    if condition.status == status(readiness.ready) {
        return None;
    }
    turn(condition, readiness.ready, now);
    // The first readiness of a new node is no news: it had none before.
    before.is_some().then_some(Transition {
        condition: READY,
        event,
        before,
    })
}

type Before = Option<(String, Option<Time>)>;

/// The condition of that type, and what it was; a new one goes to the end.
fn entry<'a>(
    conditions: &'a mut Vec<NodeCondition>,
    kind: &str,
) -> (&'a mut NodeCondition, Before) {
    let place = conditions
        .iter()
        .position(|condition| condition.type_ == kind);
    let place = place.unwrap_or_else(|| {
        conditions.push(NodeCondition {
            type_: kind.to_owned(),
            ..NodeCondition::default()
        });
        conditions.len() - 1
    });
    let condition = &mut conditions[place];
    let before = (!condition.status.is_empty()).then(|| {
        (
            condition.status.clone(),
            condition.last_transition_time.clone(),
        )
    });
    (condition, before)
}

fn turn(condition: &mut NodeCondition, to: bool, now: Timestamp) {
    status(to).clone_into(&mut condition.status);
    condition.last_transition_time = Some(Time(now));
}

fn status(is: bool) -> &'static str {
    if is { "True" } else { "False" }
}

/// Whether the conditions say that the node is ready.
pub fn is_ready(conditions: &[NodeCondition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == READY && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready() -> Readiness {
        Readiness::new(None, None)
    }

    fn not_ready(message: &str) -> Readiness {
        Readiness::new(Some(message.to_owned()), None)
    }

    fn events(transitions: &[Transition]) -> Vec<&str> {
        transitions.iter().map(|one| one.event).collect()
    }

    fn printed(condition: &NodeCondition) -> String {
        let second = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
        format!(
            "{}={} {} since {} seen {}",
            condition.type_,
            condition.status,
            condition.reason.as_deref().unwrap(),
            second(&condition.last_transition_time),
            second(&condition.last_heartbeat_time),
        )
    }

    #[test]
    fn a_new_node_lists_pressures_first_and_ready_last() {
        let mut conditions = Vec::new();
        let transitions = refresh(&mut conditions, Pressure::default(), &ready(), at(5));
        let printed: Vec<String> = conditions.iter().map(printed).collect();
        assert_eq!(
            printed,
            [
                "MemoryPressure=False KubeletHasSufficientMemory since 5 seen 5",
                "DiskPressure=False KubeletHasNoDiskPressure since 5 seen 5",
                "PIDPressure=False KubeletHasSufficientPID since 5 seen 5",
                "Ready=True KubeletReady since 5 seen 5",
            ]
        );
        assert_eq!(
            events(&transitions),
            [
                "NodeHasSufficientMemory",
                "NodeHasNoDiskPressure",
                "NodeHasSufficientPID"
            ]
        );
    }

    #[test]
    fn only_a_change_of_status_moves_the_time_of_transition() {
        let mut conditions = Vec::new();
        refresh(&mut conditions, Pressure::default(), &not_ready("a"), at(5));
        let quiet = refresh(&mut conditions, Pressure::default(), &not_ready("b"), at(6));
        assert_eq!(quiet, []);
        assert_eq!(conditions[3].message.as_deref(), Some("b"));
        assert_eq!(
            printed(&conditions[3]),
            "Ready=False KubeletNotReady since 5 seen 6"
        );
        let pressure = Pressure {
            memory: true,
            disk: true,
            pid: true,
        };
        let transitions = refresh(&mut conditions, pressure, &ready(), at(7));
        assert_eq!(
            events(&transitions),
            [
                "NodeHasInsufficientMemory",
                "NodeHasDiskPressure",
                "NodeHasInsufficientPID",
                "NodeReady"
            ]
        );
        assert_eq!(
            printed(&conditions[0]),
            "MemoryPressure=True KubeletHasInsufficientMemory since 7 seen 7"
        );
        let transitions = refresh(&mut conditions, pressure, &not_ready("c"), at(8));
        assert_eq!(events(&transitions), ["NodeNotReady"]);
    }

    #[test]
    fn conditions_of_others_keep_their_place_and_their_words() {
        let other = NodeCondition {
            type_: "NetworkUnavailable".to_owned(),
            status: "False".to_owned(),
            ..NodeCondition::default()
        };
        let unknown = NodeCondition {
            type_: READY.to_owned(),
            status: "Unknown".to_owned(),
            ..NodeCondition::default()
        };
        let mut conditions = vec![unknown, other.clone()];
        let transitions = refresh(&mut conditions, Pressure::default(), &ready(), at(9));
        assert_eq!(conditions[1], other);
        assert_eq!(
            printed(&conditions[0]),
            "Ready=True KubeletReady since 9 seen 9"
        );
        assert_eq!(
            transitions.last().unwrap().before,
            Some(("Unknown".to_owned(), None))
        );
        assert!(is_ready(&conditions));
    }

    #[test]
    fn a_warning_follows_either_message() {
        let warned = Readiness::new(None, Some("CPU hardcapping unsupported"));
        assert_eq!(
            warned.message,
            "kubelet is posting ready status. WARNING: CPU hardcapping unsupported"
        );
        assert!(warned.ready);
    }
}
