//! What becomes of a pod's containers, as its annotations tell it.
//!
//! `sim.ferrolet.dev/KEY` holds for all containers of the pod, and
//! `sim.ferrolet.dev/KEY.CONTAINER` beats it for one.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;
use types::{GoDuration, Quantity};

use super::curve::Curve;
use crate::net::Manner;

/// What the annotations of a story begin with.
const PREFIX: &str = "sim.ferrolet.dev/";

/// A year: further ahead nobody looks, and sums stay in bounds.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A start is one call to the runtime, and such a call has two minutes.
const LONGEST_START: Duration = Duration::from_secs(110);

/// What is written at once after a second must be written within one.
const MOST_LINES_PER_SECOND: u32 = 10_000;

/// What one container does. Times count from when it began to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Story {
    /// How long it takes to begin.
    pub(super) start_delay: Duration,
    /// Without it, it runs until it is stopped.
    pub(super) run_time: Option<Duration>,
    pub(super) exit_code: u8,
    /// How long it goes on after it was asked to end.
    pub(super) stop_delay: Duration,
    pub(super) readiness: Readiness,
    pub(super) oom_after: Option<Duration>,
    pub(super) log: Log,
    /// Thousandths of a core.
    pub(super) cpu: Curve,
    /// Bytes.
    pub(super) memory: Curve,
    /// How it answers over the network once it is ready.
    pub(super) manner: Manner,
    /// What becomes of commands that are not simulated.
    pub(super) other_commands: OtherCommands,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OtherCommands {
    /// They say whether the container is ready.
    #[default]
    Probe,
    /// They are not in the image.
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    After(Duration),
    Never,
}

/// What a container prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Log {
    Silent,
    /// Numbered lines, so many each time.
    Lines {
        count: u32,
        per: Duration,
    },
    /// This, once, when it begins.
    Text(Box<str>),
}

/// How a container's story ends when nobody meddles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) after: Duration,
    pub(super) code: u8,
    pub(super) out_of_memory: bool,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            start_delay: Duration::ZERO,
            run_time: None,
            exit_code: 0,
            stop_delay: Duration::ZERO,
            readiness: Readiness::After(Duration::ZERO),
            oom_after: None,
            log: Log::Silent,
            cpu: Curve::flat(1),
            memory: Curve::flat(4 << 20),
            manner: Manner::Status(StatusCode::OK),
            other_commands: OtherCommands::default(),
        }
    }
}

impl Story {
    pub(super) fn ending(&self) -> Option<Ending> {
        let natural = self.run_time.map(|after| Ending {
            after,
            code: self.exit_code,
            out_of_memory: false,
        });
        let killed = self.oom_after.map(|after| Ending {
            after,
            code: 137,
            out_of_memory: true,
        });
        let endings = [natural, killed].into_iter().flatten();
        endings.min_by_key(|ending| ending.after)
    }

    pub(super) fn is_ready(&self, running_for: Duration) -> bool {
        match self.readiness {
            Readiness::After(delay) => running_for >= delay,
            Readiness::Never => false,
        }
    }

    /// How it answers over the network; `None`: nobody listens.
    pub(super) fn listens(&self, running_for: Duration) -> Option<Manner> {
        let listens = self.manner != Manner::Refused && self.is_ready(running_for);
        listens.then_some(self.manner)
    }

    fn take_up(&mut self, key: Key, value: &str) -> Option<()> {
        match key {
            Key::StartDelay => self.start_delay = duration(value, LONGEST_START)?,
            Key::RunTime => self.run_time = Some(duration(value, LONGEST)?),
            Key::ExitCode => self.exit_code = value.parse().ok()?,
            Key::CrashLoop => {
                self.run_time = Some(duration(value, LONGEST)?);
                self.exit_code = 1;
            }
            Key::StopDelay => self.stop_delay = duration(value, LONGEST)?,
            Key::ReadyAfter => self.readiness = Readiness::After(duration(value, LONGEST)?),
            Key::NeverReady => {
                if value.parse().ok()? {
                    self.readiness = Readiness::Never;
                }
            }
            Key::OomAfter => self.oom_after = Some(duration(value, LONGEST)?),
            Key::LogLines => self.log = log(value)?,
            Key::Cpu => {
                let curve = curve(value, Quantity::milli_value)?;
                let bounded = curve.highest() <= Curve::MOST_FOR_INTEGRAL;
                self.cpu = bounded.then_some(curve)?;
            }
            Key::Memory => self.memory = curve(value, Quantity::value)?,
            Key::Http => self.manner = manner(value)?,
            Key::OtherCommands => self.other_commands = other_commands(value)?,
            // Of the pod, and told before there is a container.
            Key::PullFailure | Key::PullDelay => {}
        }
        Some(())
    }
}

/// The stories of a pod's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stories {
    every: Arc<Story>,
    single: Box<[(Box<str>, Arc<Story>)]>,
}

/// The story of all who have none of their own.
static PLAIN: LazyLock<Arc<Story>> = LazyLock::new(Arc::default);

impl Stories {
    /// Judges all annotations of the simulation, those for pulls too.
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<Self, StoryError> {
        let notes = notes(annotations)?;
        if notes.is_empty() {
            return Ok(Self {
                every: Arc::clone(&PLAIN),
                single: Box::default(),
            });
        }
        let _ = Pull::read(annotations)?;
        let told = |base: &Story, container: Option<&str>| {
            let mut story = base.clone();
            // In the order of their names: `crash-loop` before what it stands for.
            for note in notes.iter().filter(|note| note.container == container) {
                story
                    .take_up(note.key, note.value)
                    .ok_or_else(|| note.not_allowed())?;
            }
            Ok(Arc::new(story))
        };
        let every = told(&Story::default(), None)?;
        let mut names: Vec<&str> = notes.iter().filter_map(|note| note.container).collect();
        names.sort_unstable();
        names.dedup();
        let single = names
            .into_iter()
            .map(|name| Ok((name.into(), told(&every, Some(name))?)))
            .collect::<Result<_, StoryError>>()?;
        Ok(Self { every, single })
    }

    pub(super) fn of(&self, container: &str) -> Arc<Story> {
        let single = self.single.iter().find(|(name, _)| **name == *container);
        Arc::clone(single.map_or(&self.every, |(_, story)| story))
    }
}

/// What becomes of pulls for a pod. It holds for all its images: a request to
/// pull does not say for which container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pull {
    pub(super) failure: Option<String>,
    pub(super) delay: Option<Duration>,
}

impl Pull {
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<Self, StoryError> {
        let mut pull = Self::default();
        for note in notes(annotations)? {
            match note.key {
                Key::PullFailure | Key::PullDelay if note.container.is_some() => {
                    return Err(StoryError::OfThePod { key: note.name() });
                }
                Key::PullFailure if note.value.is_empty() => return Err(note.not_allowed()),
                Key::PullFailure => pull.failure = Some(note.value.to_owned()),
                Key::PullDelay => {
                    let delay = duration(note.value, LONGEST);
                    pull.delay = Some(delay.ok_or_else(|| note.not_allowed())?);
                }
                _ => {}
            }
        }
        Ok(pull)
    }
}

/// An annotation that the simulation cannot follow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum StoryError {
    #[error("annotation {key}: {value:?} is not allowed; give {allowed}")]
    Value {
        key: String,
        value: String,
        allowed: &'static str,
    },
    #[error("annotation {key} is unknown; after {PREFIX} there can be {known}")]
    Key { key: String, known: String },
    #[error("annotation {key} is for a whole pod; leave out the container's name")]
    OfThePod { key: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    StartDelay,
    RunTime,
    ExitCode,
    CrashLoop,
    StopDelay,
    ReadyAfter,
    NeverReady,
    OomAfter,
    LogLines,
    Cpu,
    Memory,
    Http,
    OtherCommands,
    PullFailure,
    PullDelay,
}

const A_TIME: &str = "a time such as 500ms, 5s or 1h30m, up to a year";

const KEYS: [(Key, &str, &str); 15] = [
    (
        Key::StartDelay,
        "start-delay",
        "a time such as 500ms or 5s, up to 110s",
    ),
    (Key::RunTime, "run-time", A_TIME),
    (Key::ExitCode, "exit-code", "a number from 0 to 255"),
    (Key::CrashLoop, "crash-loop", A_TIME),
    (Key::StopDelay, "stop-delay", A_TIME),
    (Key::ReadyAfter, "ready-after", A_TIME),
    (Key::NeverReady, "never-ready", "true or false"),
    (Key::OomAfter, "oom-after", A_TIME),
    (
        Key::LogLines,
        "log-lines",
        "a rate such as 10/s or 5/m, up to 10000/s, or a text to print at the start",
    ),
    (
        Key::Cpu,
        "cpu",
        "cores such as 250m, or a wave such as 100m..900m/60s with a period from 1ms to 24h",
    ),
    (
        Key::Memory,
        "memory",
        "bytes such as 64Mi, or a wave such as 64Mi..1Gi/10m with a period from 1ms to 24h",
    ),
    (
        Key::Http,
        "http",
        "the status of each answer, such as 404, or refused, silent or echo",
    ),
    (Key::OtherCommands, "other-commands", "probe or missing"),
    (
        Key::PullFailure,
        "pull-failure",
        "the text of the error that each pull ends with",
    ),
    (Key::PullDelay, "pull-delay", A_TIME),
];

impl Key {
    fn named(name: &str) -> Option<Self> {
        let row = KEYS.iter().find(|(_, known, _)| *known == name);
        row.map(|(key, ..)| *key)
    }

    fn row(self) -> (&'static str, &'static str) {
        let row = KEYS.iter().find(|(key, ..)| *key == self);
        row.map_or(("", ""), |(_, name, allowed)| (name, allowed))
    }
}

/// One annotation of the simulation.
struct Note<'a> {
    key: Key,
    container: Option<&'a str>,
    value: &'a str,
}

impl Note<'_> {
    fn name(&self) -> String {
        let (name, _) = self.key.row();
        match self.container {
            Some(container) => format!("{PREFIX}{name}.{container}"),
            None => format!("{PREFIX}{name}"),
        }
    }

    fn not_allowed(&self) -> StoryError {
        let (_, allowed) = self.key.row();
        StoryError::Value {
            key: self.name(),
            value: self.value.to_owned(),
            allowed,
        }
    }
}

fn notes(annotations: &BTreeMap<String, String>) -> Result<Vec<Note<'_>>, StoryError> {
    let ours = annotations
        .iter()
        .filter_map(|(key, value)| Some((key, key.strip_prefix(PREFIX)?, value)));
    ours.map(|(full, rest, value)| {
        // No key has a dot in it, and neither has the name of a container.
        let (name, container) = match rest.split_once('.') {
            Some((name, container)) => (name, Some(container)),
            None => (rest, None),
        };
        let key = Key::named(name).ok_or_else(|| StoryError::Key {
            key: full.clone(),
            known: KEYS.map(|(_, name, _)| name).join(", "),
        })?;
        Ok(Note {
            key,
            container,
            value,
        })
    })
    .collect()
}

fn duration(text: &str, longest: Duration) -> Option<Duration> {
    let duration = text.parse::<GoDuration>().ok()?.to_std()?;
    (duration <= longest).then_some(duration)
}

/// Whatever does not look like a rate is a text.
fn log(value: &str) -> Option<Log> {
    let rate = value.split_once('/').and_then(|(count, unit)| {
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return None,
        };
        Some((count.parse::<u32>().ok()?, seconds))
    });
    match rate {
        None if value.is_empty() => None,
        None => Some(Log::Text(value.into())),
        Some((0, _)) => Some(Log::Silent),
        Some((count, seconds)) => (count / seconds <= MOST_LINES_PER_SECOND).then(|| Log::Lines {
            count,
            per: Duration::from_secs(u64::from(seconds)),
        }),
    }
}

fn manner(value: &str) -> Option<Manner> {
    match value {
        "refused" => Some(Manner::Refused),
        "silent" => Some(Manner::Silent),
        "echo" => Some(Manner::Echo),
        code => {
            let code = code.parse().ok().filter(|code| (200..600).contains(code))?;
            StatusCode::from_u16(code).ok().map(Manner::Status)
        }
    }
}

fn other_commands(value: &str) -> Option<OtherCommands> {
    match value {
        "probe" => Some(OtherCommands::Probe),
        "missing" => Some(OtherCommands::Missing),
        _ => None,
    }
}

/// `VALUE`, or `FROM..TO/PERIOD`.
fn curve(text: &str, unit: impl Fn(&Quantity) -> i64) -> Option<Curve> {
    let amount = |text: &str| u64::try_from(unit(&text.parse().ok()?)).ok();
    let Some((from, rest)) = text.split_once("..") else {
        return amount(text).map(Curve::flat);
    };
    let (to, period) = rest.split_once('/')?;
    Curve::wave(amount(from)?, amount(to)?, duration(period, LONGEST)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn annotated(notes: &[(&str, &str)]) -> BTreeMap<String, String> {
        let full = |key: &str| format!("{PREFIX}{key}");
        let notes = notes.iter();
        notes
            .map(|(key, value)| (full(key), (*value).to_owned()))
            .collect()
    }

    fn story(notes: &[(&str, &str)]) -> Story {
        let stories = Stories::read(&annotated(notes)).unwrap();
        Story::clone(&stories.of("app"))
    }

    #[test]
    fn each_annotation_changes_what_it_says() {
        let plain = Story::default;
        for (key, value, expected) in [
            (
                "start-delay",
                "2s",
                Story {
                    start_delay: 2 * SECOND,
                    ..plain()
                },
            ),
            (
                "run-time",
                "1m30s",
                Story {
                    run_time: Some(90 * SECOND),
                    ..plain()
                },
            ),
            (
                "exit-code",
                "3",
                Story {
                    exit_code: 3,
                    ..plain()
                },
            ),
            (
                "crash-loop",
                "5s",
                Story {
                    run_time: Some(5 * SECOND),
                    exit_code: 1,
                    ..plain()
                },
            ),
            (
                "stop-delay",
                "1.5s",
                Story {
                    stop_delay: SECOND * 3 / 2,
                    ..plain()
                },
            ),
            (
                "ready-after",
                "10s",
                Story {
                    readiness: Readiness::After(10 * SECOND),
                    ..plain()
                },
            ),
            (
                "never-ready",
                "true",
                Story {
                    readiness: Readiness::Never,
                    ..plain()
                },
            ),
            ("never-ready", "false", plain()),
            (
                "oom-after",
                "4s",
                Story {
                    oom_after: Some(4 * SECOND),
                    ..plain()
                },
            ),
            (
                "log-lines",
                "30/m",
                Story {
                    log: Log::Lines {
                        count: 30,
                        per: 60 * SECOND,
                    },
                    ..plain()
                },
            ),
            (
                "log-lines",
                "ready and/or waiting",
                Story {
                    log: Log::Text("ready and/or waiting".into()),
                    ..plain()
                },
            ),
            (
                "cpu",
                "1.5",
                Story {
                    cpu: Curve::flat(1500),
                    ..plain()
                },
            ),
            (
                "cpu",
                "100m..900m/60s",
                Story {
                    cpu: Curve::wave(100, 900, 60 * SECOND).unwrap(),
                    ..plain()
                },
            ),
            (
                "memory",
                "1Mi..2Mi/10s",
                Story {
                    memory: Curve::wave(1 << 20, 2 << 20, 10 * SECOND).unwrap(),
                    ..plain()
                },
            ),
            (
                "http",
                "404",
                Story {
                    manner: Manner::Status(StatusCode::NOT_FOUND),
                    ..plain()
                },
            ),
            (
                "http",
                "echo",
                Story {
                    manner: Manner::Echo,
                    ..plain()
                },
            ),
            (
                "other-commands",
                "missing",
                Story {
                    other_commands: OtherCommands::Missing,
                    ..plain()
                },
            ),
            ("other-commands", "probe", plain()),
            (
                "http",
                "silent",
                Story {
                    manner: Manner::Silent,
                    ..plain()
                },
            ),
            (
                "http",
                "refused",
                Story {
                    manner: Manner::Refused,
                    ..plain()
                },
            ),
        ] {
            assert_eq!(story(&[(key, value)]), expected, "{key}: {value}");
        }
    }

    #[test]
    fn what_is_said_of_one_container_beats_what_is_said_of_all() {
        let notes = [("run-time", "10s"), ("crash-loop.app", "2s")];
        let stories = Stories::read(&annotated(&notes)).unwrap();
        let facts = |name: &str| {
            let story = stories.of(name);
            (story.run_time.unwrap(), story.exit_code)
        };
        assert_eq!(facts("app"), (2 * SECOND, 1));
        assert_eq!(facts("other"), (10 * SECOND, 0));
        assert!(Arc::ptr_eq(&stories.of("other"), &stories.of("third")));
    }

    #[test]
    fn a_crash_loop_leaves_what_is_said_expressly() {
        let story = story(&[("crash-loop", "5s"), ("exit-code", "42")]);
        assert_eq!((story.run_time, story.exit_code), (Some(5 * SECOND), 42));
    }

    #[test]
    fn the_first_ending_is_the_ending() {
        let ended = |notes| story(notes).ending().map(|end| (end.after, end.code));
        assert_eq!(ended(&[]), None);
        assert_eq!(ended(&[("run-time", "3s")]), Some((3 * SECOND, 0)));
        let both = [("run-time", "3s"), ("oom-after", "2s")];
        assert_eq!(ended(&both), Some((2 * SECOND, 137)));
        let both = [("run-time", "3s"), ("oom-after", "4s")];
        assert_eq!(ended(&both), Some((3 * SECOND, 0)));
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_allowed() {
        for (key, value) in [
            ("start-delay", "111s"),
            ("run-time", "soon"),
            ("run-time.app", "-1s"),
            ("exit-code", "256"),
            ("exit-code", "-1"),
            ("crash-loop", "true"),
            ("stop-delay", "9000h"),
            ("never-ready", "maybe"),
            ("log-lines", "20000/s"),
            ("log-lines", ""),
            ("cpu", "-1"),
            ("cpu", "much"),
            ("cpu", "2000000"),
            ("cpu", "1..2"),
            ("memory", "1Mi..2Mi/0s"),
            ("http", "100"),
            ("http", "OK"),
            ("other-commands", "yes"),
            ("pull-failure", ""),
            ("pull-delay", "x"),
        ] {
            let refused = Stories::read(&annotated(&[(key, value)])).unwrap_err();
            let text = refused.to_string();
            let start = format!("annotation {PREFIX}{key}: {value:?} is not allowed; give ");
            assert!(text.starts_with(&start), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_known_ones() {
        let refused = Stories::read(&annotated(&[("exitcode", "1")])).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("sim.ferrolet.dev/exitcode is unknown"),
            "{text}"
        );
        assert!(text.contains("run-time, exit-code, crash-loop"), "{text}");
    }

    #[test]
    fn pulls_are_told_for_the_pod() {
        let notes = annotated(&[("pull-delay", "3s"), ("pull-failure", "no such image")]);
        let pull = Pull::read(&notes).unwrap();
        assert_eq!(pull.delay, Some(3 * SECOND));
        assert_eq!(pull.failure.as_deref(), Some("no such image"));
        let refused = Stories::read(&annotated(&[("pull-delay.app", "3s")])).unwrap_err();
        assert!(refused.to_string().contains("for a whole pod"), "{refused}");
    }

    #[test]
    fn annotations_of_others_are_left_alone() {
        let others = BTreeMap::from([("example.com/run-time".to_owned(), "x".to_owned())]);
        let stories = Stories::read(&others).unwrap();
        assert!(Arc::ptr_eq(&stories.of("app"), &PLAIN));
    }
}
