//! Whether to pull, and what is said of it: the reasons that containers wait
//! with, and the events, in the words that users and their tools know.

use std::fmt;
use std::time::Duration;

use api::events::Severity;
use seams::RuntimeError;
use seams::runtime::Code;
use types::GoDuration;

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// As a container has it. One that is not known, or absent where nobody has
    /// filled in the default, asks the registry: that is right for any image.
    pub fn read(text: Option<&str>) -> Self {
        match text {
            Some("IfNotPresent") => Self::IfNotPresent,
            Some("Never") => Self::Never,
            _ => Self::Always,
        }
    }

    /// Whether it matters what the machine has already.
    pub fn looks_first(self) -> bool {
        self != Self::Always
    }
}

/// What to do, by what is known of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    Pull,
    /// Use what is there, if the pod may.
    Use,
    Refuse,
}

/// `present` is whether the machine has the image; nobody asks where the policy
/// is not [`PullPolicy::looks_first`].
pub fn course(policy: PullPolicy, present: bool) -> Course {
    match (policy, present) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => Course::Pull,
        (PullPolicy::IfNotPresent | PullPolicy::Never, true) => Course::Use,
        (PullPolicy::Never, false) => Course::Refuse,
    }
}

/// What to do with an image that is there, but that the pod has not shown the
/// right to use.
pub fn course_without_right(policy: PullPolicy) -> Course {
    match policy {
        PullPolicy::Always | PullPolicy::IfNotPresent => Course::Pull,
        PullPolicy::Never => Course::Refuse,
    }
}

/// Why a container waits for its image: `state.waiting.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    InvalidImageName,
    ImageInspectError,
    ErrImageNeverPull,
    ErrImagePull,
    ImagePullBackOff,
    RegistryUnavailable,
    SignatureValidationFailed,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// A container without its image, for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: Reason,
    pub message: String,
    /// Before this has passed, another try would be answered the same.
    pub retry_after: Option<Duration>,
}

impl Waiting {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The event about a container that could not be started for this: its own image,
    /// or one that it mounts.
    pub fn container_event(&self) -> Said {
        Said::warning("Failed", format!("Error: {}", self.reason))
    }
}

/// An event to be recorded on the pod's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

impl Said {
    fn normal(reason: &'static str, message: String) -> Self {
        Self {
            severity: Severity::Normal,
            reason,
            message,
        }
    }

    fn warning(reason: &'static str, message: String) -> Self {
        Self {
            severity: Severity::Warning,
            reason,
            message,
        }
    }

    pub fn pulling(image: &str) -> Self {
        Self::normal("Pulling", format!("Pulling image {image:?}"))
    }

    /// Of a pull that the runtime has not done yet.
    pub fn still_pulling(image: &str, so_far: Duration) -> Self {
        let message = format!("Still pulling image {image:?} after {}", in_seconds(so_far));
        Self::normal("Pulling", message)
    }

    /// Of a pull that has not begun.
    pub fn still_waiting(image: &str, so_far: Duration) -> Self {
        let message = format!(
            "Still waiting for other pulls before pulling image {image:?} ({} so far)",
            in_seconds(so_far),
        );
        Self::normal("Pulling", message)
    }

    pub fn pulled(image: &str, pulled: &Pulled) -> Self {
        let message = format!(
            "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {} bytes.",
            in_millis(pulled.took),
            in_millis(pulled.since_asked),
            pulled.size,
        );
        Self::normal("Pulled", message)
    }

    /// `verified`: whether the right to use it is looked at on this node at all.
    pub fn present(image: &str, verified: bool) -> Self {
        let allowed = if verified {
            " and can be accessed by the pod"
        } else {
            ""
        };
        let message = format!("Container image {image:?} already present on machine{allowed}");
        Self::normal("Pulled", message)
    }

    pub fn pull_failed(image: &str, error: &str) -> Self {
        let message = format!("Failed to pull image {image:?}: {error}");
        Self::warning("Failed", message)
    }

    pub fn back_off(image: &str) -> Self {
        Self::normal("BackOff", format!("Back-off pulling image {image:?}"))
    }
}

/// How a pull went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// By the runtime, with all credentials that were tried.
    pub took: Duration,
    /// With the wait for its turn.
    pub since_asked: Duration,
    /// Bytes; 0 if the runtime would not say.
    pub size: u64,
}

/// A name that is none.
pub fn invalid_name(image: &str, error: &dyn fmt::Display) -> (Waiting, Said) {
    let message = format!("Failed to apply default image tag {image:?}: {error}");
    told(Reason::InvalidImageName, "InspectFailed", message)
}

/// The runtime would not say whether it has it. (Upstream leaves the name empty
/// in this message.)
pub fn not_inspected(image: &str, error: &str) -> (Waiting, Said) {
    let message = format!("Failed to inspect image {image:?}: {error}");
    told(Reason::ImageInspectError, "InspectFailed", message)
}

/// The image is not there, or the pod may not know that it is: both sound alike,
/// so that nobody learns what others use.
pub fn never_pulled(image: &str) -> (Waiting, Said) {
    let message = format!("Container image {image:?} is not present with pull policy of Never");
    told(Reason::ErrImageNeverPull, "ErrImageNeverPull", message)
}

fn told(reason: Reason, event: &'static str, message: String) -> (Waiting, Said) {
    let said = Said::warning(event, message.clone());
    (Waiting::new(reason, message), said)
}

/// Too soon after a failure.
pub fn backing_off(image: &str, why: &str, left: Duration) -> Waiting {
    let message = format!("Back-off pulling image {image:?}: {why}");
    Waiting {
        retry_after: Some(left),
        ..Waiting::new(Reason::ImagePullBackOff, message)
    }
}

/// What a failed pull means: runtimes begin their errors with a name where it is
/// the registry's fault or the signature's.
pub fn pull_failure(image: &str, error: &str) -> Waiting {
    let named = [
        (Reason::RegistryUnavailable, "the registry is unavailable"),
        (
            Reason::SignatureValidationFailed,
            "the signature validation failed",
        ),
    ];
    for (reason, cause) in named {
        if let Some(detail) = error.strip_prefix(&reason.to_string()) {
            let message = format!("image pull failed for {image} because {cause}{detail}");
            return Waiting::new(reason, message);
        }
    }
    Waiting::new(Reason::ErrImagePull, error)
}

/// The texts of several failures, each once.
pub fn joined(mut errors: Vec<String>) -> String {
    let mut seen = Vec::<String>::new();
    errors.retain(|error| {
        let new = !seen.contains(error);
        if new {
            seen.push(error.clone());
        }
        new
    });
    match errors.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The error of a pull as users know it: gRPC's words, or the runtime's own where
/// its code says nothing.
pub fn pull_error(error: &RuntimeError) -> String {
    if error.code == Code::Unknown {
        error.message.clone()
    } else {
        call_error(error)
    }
}

/// The error of any other call, in gRPC's words.
pub fn call_error(error: &RuntimeError) -> String {
    let code = match error.code {
        // Go spells it with one l.
        Code::Cancelled => "Canceled".to_owned(),
        code => code.to_string(),
    };
    format!("rpc error: code = {code} desc = {}", error.message)
}

/// Go's form, cut to seconds.
fn in_seconds(duration: Duration) -> GoDuration {
    in_millis(Duration::from_secs(duration.as_secs()))
}

/// Go's form, cut to milliseconds.
fn in_millis(duration: Duration) -> GoDuration {
    GoDuration::from_millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_and_what_is_there_decide() {
        for (policy, present, decided) in [
            ("Always", false, Course::Pull),
            ("Always", true, Course::Pull),
            ("IfNotPresent", false, Course::Pull),
            ("IfNotPresent", true, Course::Use),
            ("Never", false, Course::Refuse),
            ("Never", true, Course::Use),
            ("Sometimes", true, Course::Pull),
        ] {
            let read = PullPolicy::read(Some(policy));
            assert_eq!(course(read, present), decided, "{policy}, {present}");
        }
        assert_eq!(PullPolicy::read(None), PullPolicy::Always);
        for (policy, decided) in [
            (PullPolicy::IfNotPresent, Course::Pull),
            (PullPolicy::Never, Course::Refuse),
        ] {
            assert_eq!(course_without_right(policy), decided);
        }
    }

    #[test]
    fn events_have_the_words_that_users_know() {
        let pulled = Pulled {
            took: Duration::from_micros(1_234_567),
            since_asked: Duration::from_millis(62_500),
            size: 4096,
        };
        let (_, invalid) = invalid_name("A b", &"couldn't parse");
        let (_, inspect) = not_inspected("a", "no");
        let (_, never) = never_pulled("a");
        for (said, severity, reason, message) in [
            (
                Said::pulling("a"),
                Severity::Normal,
                "Pulling",
                r#"Pulling image "a""#,
            ),
            (
                Said::still_pulling("a", Duration::from_millis(60_004)),
                Severity::Normal,
                "Pulling",
                r#"Still pulling image "a" after 1m0s"#,
            ),
            (
                Said::still_waiting("a", Duration::from_secs(3_661)),
                Severity::Normal,
                "Pulling",
                r#"Still waiting for other pulls before pulling image "a" (1h1m1s so far)"#,
            ),
            (
                Said::pulled("a", &pulled),
                Severity::Normal,
                "Pulled",
                r#"Successfully pulled image "a" in 1.234s (1m2.5s including waiting). Image size: 4096 bytes."#,
            ),
            (
                Said::present("a", true),
                Severity::Normal,
                "Pulled",
                r#"Container image "a" already present on machine and can be accessed by the pod"#,
            ),
            (
                Said::present("a", false),
                Severity::Normal,
                "Pulled",
                r#"Container image "a" already present on machine"#,
            ),
            (
                Said::pull_failed("a", "no"),
                Severity::Warning,
                "Failed",
                r#"Failed to pull image "a": no"#,
            ),
            (
                Said::back_off("a"),
                Severity::Normal,
                "BackOff",
                r#"Back-off pulling image "a""#,
            ),
            (
                invalid,
                Severity::Warning,
                "InspectFailed",
                r#"Failed to apply default image tag "A b": couldn't parse"#,
            ),
            (
                inspect,
                Severity::Warning,
                "InspectFailed",
                r#"Failed to inspect image "a": no"#,
            ),
            (
                never,
                Severity::Warning,
                "ErrImageNeverPull",
                r#"Container image "a" is not present with pull policy of Never"#,
            ),
        ] {
            assert_eq!(said.message, message);
            assert_eq!(said.severity, severity, "{message}");
            assert_eq!(said.reason, reason, "{message}");
        }
    }

    #[test]
    fn the_reason_of_a_failed_pull_is_named_by_its_error() {
        for (error, reason, message) in [
            ("no such host", Reason::ErrImagePull, "no such host"),
            (
                "RegistryUnavailable: 503",
                Reason::RegistryUnavailable,
                "image pull failed for r.io/a because the registry is unavailable: 503",
            ),
            (
                "SignatureValidationFailed: no key",
                Reason::SignatureValidationFailed,
                "image pull failed for r.io/a because the signature validation failed: no key",
            ),
        ] {
            let waiting = pull_failure("r.io/a", error);
            assert_eq!(waiting.reason, reason);
            assert_eq!(waiting.message, message);
        }
    }

    #[test]
    fn a_pull_that_waits_says_what_the_last_one_failed_with() {
        let left = Duration::from_secs(3);
        let waiting = backing_off("a", "ErrImagePull: no", left);
        assert_eq!(waiting.reason.to_string(), "ImagePullBackOff");
        assert_eq!(
            waiting.message,
            r#"Back-off pulling image "a": ErrImagePull: no"#
        );
        assert_eq!(waiting.retry_after, Some(left));
        let said = waiting.container_event();
        assert_eq!(said.message, "Error: ImagePullBackOff");
        assert_eq!((said.severity, said.reason), (Severity::Warning, "Failed"));
    }

    #[test]
    fn failures_of_several_credentials_are_told_once_each() {
        let texts = |errors: &[&str]| errors.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(joined(texts(&["no"])), "no");
        assert_eq!(joined(texts(&["no", "no"])), "no");
        assert_eq!(joined(texts(&["no", "never", "no"])), "[no, never]");
    }

    #[test]
    fn errors_of_the_runtime_are_in_the_words_of_grpc() {
        let error = |code| RuntimeError::new("PullImage", code, "gone");
        for (code, text) in [
            (Code::Unknown, "gone"),
            (Code::NotFound, "rpc error: code = NotFound desc = gone"),
            (Code::Cancelled, "rpc error: code = Canceled desc = gone"),
        ] {
            assert_eq!(pull_error(&error(code)), text);
        }
        let text = call_error(&error(Code::Unknown));
        assert_eq!(text, "rpc error: code = Unknown desc = gone");
    }
}
