//! The subscriber layer: decides whether an event is shown, and writes it.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::record::{Record, Severity};
use super::verbosity::{Verbosity, level_filter, verbosity_of_level};
use super::{json, text};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What a line says about where it comes from: the time, in which zone, and the
/// process.
pub(crate) struct Origin {
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    zone: TimeZone,
    pid: u32,
}

impl Origin {
    pub(crate) fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        zone: TimeZone,
        pid: u32,
    ) -> Self {
        Self {
            now: Box::new(now),
            zone,
            pid,
        }
    }

    /// The machine's clock and time zone, and this process. The zone is read
    /// once, here, which is sound in a program with many threads.
    pub(crate) fn local() -> Self {
        Self::new(Timestamp::now, TimeZone::system(), std::process::id())
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now: _, zone, pid } = self;
        f.debug_struct("Origin")
            .field("zone", zone)
            .field("pid", pid)
            .finish_non_exhaustive()
    }
}

/// Writes events to `W` in one of klog's formats.
#[derive(Debug)]
pub(crate) struct KlogLayer<W> {
    format: LogFormat,
    verbosity: Verbosity,
    origin: Origin,
    // Lines of several threads must not mix; it is held for one write.
    output: Mutex<W>,
    waiting: Waiting,
}

/// Whether a line waits to be written, and since when. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<AtomicI64>);

/// So long nobody waits whose log is read; upstream's.
const BLOCKED: i64 = 120;

impl Waiting {
    /// Who reads the log does not.
    pub(crate) fn is_blocked(&self, now: Timestamp) -> bool {
        let since = self.0.load(Ordering::Relaxed);
        since != 0 && now.as_second() - since > BLOCKED
    }
}

impl<W: Write> KlogLayer<W> {
    pub(crate) fn new(format: LogFormat, verbosity: Verbosity, origin: Origin, output: W) -> Self {
        Self {
            format,
            verbosity,
            origin,
            output: Mutex::new(output),
            waiting: Waiting::default(),
        }
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting.clone()
    }

    /// Single files can have a verbosity of their own in the text format only.
    fn verbosity_of(&self, file: Option<&str>) -> u32 {
        match (self.format, file) {
            (LogFormat::Text, Some(file)) => self.verbosity.of_file(file),
            _ => self.verbosity.level(),
        }
    }

    fn listens_to(&self, metadata: &Metadata<'_>) -> bool {
        verbosity_of_level(*metadata.level()) <= self.verbosity_of(metadata.file())
    }

    fn shows(&self, record: &Record) -> bool {
        record.severity != Severity::Info
            || record.verbosity <= self.verbosity_of(Some(record.file))
    }

    fn line(&self, record: &Record) -> String {
        let now = (self.origin.now)();
        match self.format {
            LogFormat::Text => text::line(
                record,
                &now.to_zoned(self.origin.zone.clone()),
                self.origin.pid,
            ),
            LogFormat::Json => json::line(record, now),
        }
    }
}

impl<S: Subscriber, W: Write + Send + 'static> Layer<S> for KlogLayer<W> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.listens_to(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.listens_to(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let verbosity = match self.format {
            LogFormat::Text => self.verbosity.of_any_file(),
            LogFormat::Json => self.verbosity.level(),
        };
        Some(level_filter(verbosity))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let record = Record::of(event);
        if !self.shows(&record) {
            return;
        }
        let line = self.line(&record);
        let now = (self.origin.now)().as_second();
        // Whoever waits longest counts: the others wait behind them.
        let _ = self
            .waiting
            .0
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // There is nowhere left to report that the log cannot be written.
        let _ = output.write_all(line.as_bytes());
        self.waiting.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing::{debug, error, info, trace, warn};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::logging::ModuleVerbosity;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn origin() -> Origin {
        let now = Timestamp::from_nanosecond(1_794_723_332_253_229_500).unwrap();
        Origin::new(move || now, TimeZone::UTC, 42)
    }

    /// What `events` writes, less the headers of text lines.
    fn logged(format: LogFormat, verbosity: &Verbosity, events: impl FnOnce()) -> Vec<String> {
        let captured = Captured::default();
        let layer = KlogLayer::new(format, verbosity.clone(), origin(), captured.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), events);
        let bytes = captured.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| {
                line.split_once("] ")
                    .map_or(line, |(_, rest)| rest)
                    .to_owned()
            })
            .collect()
    }

    fn one_of_each() {
        error!("error");
        warn!("warning");
        info!("info");
        info!(v = 2, "two");
        debug!("four");
        debug!(v = 5_u64, "five");
        trace!("six");
        info!(v = 10, "ten");
    }

    #[test]
    fn an_event_is_shown_if_its_verbosity_is_not_above_the_threshold() {
        let all = [
            "error", "warning", "info", "two", "four", "five", "six", "ten",
        ];
        for (level, shown) in [
            (0, 3),
            (1, 3),
            (2, 4),
            (4, 5),
            (5, 6),
            (6, 7),
            (9, 7),
            (10, 8),
        ] {
            let lines = logged(
                LogFormat::Text,
                &Verbosity::new(level, Vec::new()),
                one_of_each,
            );
            let expected: Vec<_> = all.iter().take(shown).map(|m| format!("\"{m}\"")).collect();
            assert_eq!(lines, expected, "-v={level}");
        }
    }

    #[test]
    fn the_verbosity_changes_while_the_program_runs() {
        let verbosity = Verbosity::default();
        let lines = logged(LogFormat::Text, &verbosity, || {
            for level in [0, 4, 2] {
                verbosity.set(level);
                info!(v = 2, level, "two");
                debug!(level, "four");
            }
        });
        assert_eq!(
            lines,
            ["\"two\" level=4", "\"four\" level=4", "\"two\" level=2"]
        );
    }

    #[test]
    fn a_pattern_raises_the_verbosity_of_this_file_in_text_only() {
        let module = ModuleVerbosity {
            file_pattern: "lay*".into(),
            level: 5,
        };
        let verbosity = Verbosity::new(0, vec![module]);
        assert_eq!(logged(LogFormat::Text, &verbosity, one_of_each).len(), 6);
        assert_eq!(logged(LogFormat::Json, &verbosity, one_of_each).len(), 3);

        let elsewhere = ModuleVerbosity {
            file_pattern: "plan".into(),
            level: 5,
        };
        let verbosity = Verbosity::new(0, vec![elsewhere]);
        assert_eq!(logged(LogFormat::Text, &verbosity, one_of_each).len(), 3);
    }

    #[test]
    fn fields_become_pairs_and_errors_come_under_err() {
        let error = io::Error::other("disk on fire");
        let lines = logged(LogFormat::Text, &Verbosity::default(), || {
            error!(
                pod = "ns/name",
                error = &error as &dyn std::error::Error,
                "mount failed"
            );
            error!(err = %error, attempt = 3, "mount failed");
            info!(ok = true, ratio = 0.5, names = ?["a", "b"], r#type = "x", v = "text", "mounted {}", 1);
        });
        assert_eq!(
            lines,
            [
                r#""mount failed" err="disk on fire" pod="ns/name""#,
                r#""mount failed" err="disk on fire" attempt=3"#,
                r#""mounted 1" ok=true ratio=0.5 names="[\"a\", \"b\"]" type="x" v="text""#,
            ]
        );
    }

    #[test]
    fn a_text_line_names_this_file_and_line_and_the_process() {
        let captured = Captured::default();
        let layer = KlogLayer::new(
            LogFormat::Text,
            Verbosity::default(),
            origin(),
            captured.clone(),
        );
        let line = line!() + 2;
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            info!("x");
        });
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            format!("I1115 06:15:32.253229      42 layer.rs:{line}] \"x\"\n")
        );
    }

    #[test]
    fn a_json_line_has_the_verbosity_as_v() {
        let lines = logged(LogFormat::Json, &Verbosity::new(2, Vec::new()), || {
            info!(v = 2, pod = "a/b", "started");
        });
        let json: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(json["ts"], 1_794_723_332_253.229_5);
        assert_eq!(
            (&json["msg"], &json["v"], &json["pod"]),
            (&"started".into(), &2.into(), &"a/b".into())
        );
        assert!(
            json["caller"]
                .as_str()
                .unwrap()
                .starts_with("logging/layer.rs:")
        );
    }
}
