//! `/flagz` and `/statusz`: the flags and the state of the program, as text for people, or
//! as an object for those who name its kind.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use seams::SharedClock;
use serde::Serialize;
use serde_json::json;

use crate::answer::{Answer, text};
use crate::process::Process;
use crate::small::negotiated::{Form, Notation, form, object};

const COMPONENT: &str = "kubelet";
const WARNING: HeaderName = HeaderName::from_static("warning");

/// Between a name and its value in the text; another each time, so that nobody parses it.
const SEPARATORS: [&str; 4] = [":", ": ", "=", " "];

const NOT_FOR_MACHINES: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n";

/// What is listed as worth a look.
const PATHS: [&str; 5] = ["/configz", "/debug", "/flagz", "/healthz", "/metrics"];

#[derive(Clone, Debug)]
pub struct ZPages {
    process: Process,
    clock: SharedClock,
    started: SystemTime,
    started_up: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    start_time: String,
    uptime_seconds: u64,
    go_version: &'static str,
    binary_version: String,
    emulation_version: String,
    paths: [&'static str; 5],
}

impl ZPages {
    pub fn new(process: Process, clock: SharedClock) -> Self {
        Self {
            process,
            started: clock.now(),
            started_up: clock.uptime(),
            clock,
        }
    }

    pub(crate) fn flagz(&self, headers: &HeaderMap, query: &str) -> Answer {
        match form(headers, query, "Flagz") {
            Err(unwanted) => unwanted.answer(),
            Ok(Form::Text) => {
                let separator = self.separator();
                let mut words = format!("\n{COMPONENT} flagz\n{NOT_FOR_MACHINES}");
                for (name, value) in (self.process.flags)() {
                    words.extend([name.as_ref(), separator, value.as_ref(), "\n"]);
                }
                text(StatusCode::OK, words)
            }
            Ok(Form::Object { notation, version }) => {
                let flags = json!({ "flags": (self.process.flags)() });
                page("Flagz", version, notation, flags)
            }
        }
    }

    pub(crate) fn statusz(&self, headers: &HeaderMap, query: &str) -> Answer {
        let status = self.status();
        match form(headers, query, "Statusz") {
            Err(unwanted) => unwanted.answer(),
            Ok(Form::Text) => {
                let delimiter = self.separator();
                let up = status.uptime_seconds;
                let started = self.zoned().strftime("%a %b %e %H:%M:%S UTC %Y");
                text(
                    StatusCode::OK,
                    format!(
                        "\n{COMPONENT} statusz\n{NOT_FOR_MACHINES}\n\
                         Started{delimiter} {started}\n\
                         Up{delimiter} {} hr {:02} min {:02} sec\n\
                         Go version{delimiter} {}\n\
                         Binary version{delimiter} {}\n\
                         Emulation version{delimiter} {}\n\
                         Paths{delimiter} {}\n",
                        up / 3600,
                        (up / 60) % 60,
                        up % 60,
                        status.go_version,
                        status.binary_version,
                        status.emulation_version,
                        status.paths.join(" "),
                    ),
                )
            }
            Ok(Form::Object { notation, version }) => page("Statusz", version, notation, status),
        }
    }

    fn status(&self) -> Status {
        let version = self.process.version.trim_start_matches('v');
        let version = version.split(['+', '-']).next().unwrap_or_default();
        let mut numbers = version.split('.');
        let [major, minor] = [(); 2].map(|()| numbers.next().unwrap_or_default());
        Status {
            start_time: self.zoned().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            uptime_seconds: self
                .clock
                .uptime()
                .saturating_sub(self.started_up)
                .as_secs(),
            go_version: "none: it is written in Rust",
            binary_version: version.to_owned(),
            emulation_version: format!("{major}.{minor}"),
            paths: PATHS,
        }
    }

    fn zoned(&self) -> jiff::Zoned {
        let started = Timestamp::try_from(self.started).unwrap_or_default();
        started.to_zoned(TimeZone::UTC)
    }

    fn separator(&self) -> &'static str {
        let random = self.clock.random();
        let quarters = SEPARATORS.into_iter().zip([0.25, 0.5, 0.75, 1.0]);
        let mut from = quarters.filter(|(_, limit)| random < *limit);
        from.next().map_or(":", |(separator, _)| separator)
    }
}

/// With a warning, if the version is old.
fn page(kind: &str, version: &str, notation: Notation, content: impl Serialize) -> Answer {
    let mut answer = object((kind, version), notation, COMPONENT, content);
    if version == "v1alpha1" {
        let endpoint = kind.to_lowercase();
        let words = format!(
            "299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\""
        );
        if let Ok(words) = HeaderValue::from_str(&words) {
            answer.headers_mut().insert(WARNING, words);
        }
    }
    answer
}
