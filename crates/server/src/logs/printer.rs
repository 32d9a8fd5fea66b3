//! From the bytes of a log to the bytes that are shown, block by block, wherever the
//! blocks end. A record of any length passes through; what is kept between two blocks
//! is the beginning of a head, or one line of docker's JSON.

use memchr::memchr;
use tracing::debug;

use super::docker;
use super::record::{Beginning, LONGEST_HEAD, LONGEST_STAMP, Moment, Output, Stamp, beginning};

/// What is shown of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) since: Option<Moment>,
    pub(super) timestamps: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    /// At most so many.
    pub(super) bytes: u64,
    /// At most so many, shown or not.
    pub(super) records: u64,
}

/// A line of docker's that is longer is passed over.
const LONGEST_JSON: usize = 1024 * 1024;

/// So much of a line that nobody understands is told.
const QUOTED: usize = 256;

/// Whether there may be more to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    More,
    Done,
    /// The log cannot be read any further.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Printer {
    shown: Shown,
    form: Form,
    place: Place,
    /// The last record ended a line, so that the next one gets a time.
    at_line_start: bool,
    /// What has come of the record at hand, if it is not to be shown as it comes.
    kept: Vec<u8>,
}

/// The first line decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Cri,
    Docker,
}

/// Where in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a record, or in its head.
    Head,
    Content {
        shown: bool,
        partial: bool,
        empty: bool,
    },
    /// In a line that cannot be understood.
    Unreadable,
    /// In the first line, which is not CRI's.
    FirstLine,
}

impl Printer {
    pub(super) fn new(shown: Shown) -> Self {
        Self {
            shown,
            form: Form::Unknown,
            place: Place::Head,
            at_line_start: true,
            kept: Vec::new(),
        }
    }

    /// Takes the next bytes of the log, and adds what is shown of them.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Course {
        if self.shown.records == 0 {
            return Course::Done;
        }
        while !bytes.is_empty() {
            let course;
            (course, bytes) = match self.place {
                Place::Content {
                    shown,
                    partial,
                    empty,
                } => self.content(bytes, (shown, partial, empty), out),
                Place::Unreadable => {
                    let end = memchr(b'\n', bytes).map(|end| end + 1);
                    if end.is_some() {
                        self.place = Place::Head;
                    }
                    (Course::More, &bytes[end.unwrap_or(bytes.len())..])
                }
                Place::FirstLine => self.line(bytes, out),
                Place::Head if self.form == Form::Docker => self.line(bytes, out),
                Place::Head => self.head(bytes, out),
            };
            if course != Course::More {
                return course;
            }
        }
        Course::More
    }

    /// There is no more, though a record may have been begun.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Course {
        if self.kept.is_empty() {
            return Course::More;
        }
        let line = std::mem::take(&mut self.kept);
        match self.form {
            Form::Cri => Course::More,
            Form::Docker => self.docker_line(&line, out),
            Form::Unknown => self.first_line(&line, out),
        }
    }

    /// What follows is the beginning of another file.
    pub(super) fn break_off(&mut self) {
        if let Place::Content { empty, .. } = self.place {
            self.at_line_start = empty;
        }
        self.kept.clear();
        self.place = Place::Head;
    }

    fn head<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> (Course, &'a [u8]) {
        if self.kept.is_empty() {
            return match beginning(bytes) {
                Beginning::Head(head) => {
                    let length = head.length;
                    let course = self.begin(head.stamp, head.output, head.partial, out);
                    (course, &bytes[length..])
                }
                Beginning::Short => {
                    self.kept.extend_from_slice(bytes);
                    (Course::More, &[])
                }
                Beginning::Malformed => (self.malformed(), bytes),
            };
        }
        let before = self.kept.len();
        let taken = bytes.len().min(LONGEST_HEAD.saturating_sub(before));
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(&bytes[..taken]);
        match beginning(&kept) {
            Beginning::Head(head) => {
                // What was kept was no whole head.
                let length = head.length.saturating_sub(before);
                let course = self.begin(head.stamp, head.output, head.partial, out);
                kept.clear();
                self.kept = kept;
                (course, &bytes[length..])
            }
            Beginning::Short => {
                self.kept = kept;
                (Course::More, &bytes[taken..])
            }
            Beginning::Malformed => {
                kept.truncate(before);
                self.kept = kept;
                (self.malformed(), bytes)
            }
        }
    }

    /// It may be docker's, if it is the first; what is kept of it is its beginning.
    fn malformed(&mut self) -> Course {
        if self.form == Form::Unknown {
            self.place = Place::FirstLine;
        } else {
            self.unreadable();
        }
        Course::More
    }

    fn unreadable(&mut self) {
        debug!("a line of a container's log is in no form that is known, and is passed over");
        self.kept.clear();
        self.place = Place::Unreadable;
    }

    fn begin(
        &mut self,
        stamp: Stamp<'_>,
        output: Output,
        partial: bool,
        out: &mut Vec<u8>,
    ) -> Course {
        self.form = Form::Cri;
        let shown = self.shows(stamp, output);
        self.place = Place::Content {
            shown,
            partial,
            empty: true,
        };
        if shown && self.shown.timestamps && self.at_line_start {
            return self.print_stamp(stamp, out);
        }
        Course::More
    }

    fn shows(&self, stamp: Stamp<'_>, output: Output) -> bool {
        let wanted = match output {
            Output::Stdout => self.shown.stdout,
            Output::Stderr => self.shown.stderr,
        };
        wanted && !self.shown.since.is_some_and(|since| stamp.is_before(since))
    }

    fn content<'a>(
        &mut self,
        bytes: &'a [u8],
        (shown, partial, empty): (bool, bool, bool),
        out: &mut Vec<u8>,
    ) -> (Course, &'a [u8]) {
        let Some(end) = memchr(b'\n', bytes) else {
            self.place = Place::Content {
                shown,
                partial,
                empty: false,
            };
            let course = if shown {
                self.print(bytes, out)
            } else {
                Course::More
            };
            return (course, &[]);
        };
        let mut course = Course::More;
        if shown {
            let text = if partial {
                &bytes[..end]
            } else {
                &bytes[..=end]
            };
            course = self.print(text, out);
        }
        self.place = Place::Head;
        // Of a part of a line nothing is known but that it goes on; an empty one is
        // taken for a line by upstream, too.
        self.at_line_start = !partial || (empty && end == 0);
        if course == Course::More {
            course = self.count();
        }
        (course, &bytes[end + 1..])
    }

    fn count(&mut self) -> Course {
        self.shown.records = self.shown.records.saturating_sub(1);
        if self.shown.records == 0 {
            return Course::Done;
        }
        Course::More
    }

    fn print_stamp(&mut self, stamp: Stamp<'_>, out: &mut Vec<u8>) -> Course {
        if self.shown.bytes > LONGEST_STAMP as u64 {
            let before = out.len();
            stamp.write(out);
            self.shown.bytes -= (out.len() - before) as u64;
            return Course::More;
        }
        let mut text = Vec::with_capacity(LONGEST_STAMP);
        stamp.write(&mut text);
        self.print(&text, out)
    }

    fn print(&mut self, text: &[u8], out: &mut Vec<u8>) -> Course {
        let length = text.len() as u64;
        if length < self.shown.bytes {
            self.shown.bytes -= length;
            out.extend_from_slice(text);
            return Course::More;
        }
        let most = usize::try_from(self.shown.bytes).unwrap_or(usize::MAX);
        out.extend_from_slice(&text[..most.min(text.len())]);
        self.shown.bytes = 0;
        Course::Done
    }

    /// Of docker's, or of nobody knows whose yet: it counts as a whole.
    fn line<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> (Course, &'a [u8]) {
        let end = memchr(b'\n', bytes).map(|end| end + 1);
        let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        if self.kept.len() + line.len() > LONGEST_JSON {
            if self.form == Form::Unknown {
                return (unsupported(&self.kept), rest);
            }
            self.unreadable();
            return (Course::More, bytes);
        }
        if end.is_some() && self.kept.is_empty() {
            return (self.whole_line(line, out), rest);
        }
        self.kept.extend_from_slice(line);
        if end.is_none() {
            return (Course::More, rest);
        }
        let line = std::mem::take(&mut self.kept);
        (self.whole_line(&line, out), rest)
    }

    fn whole_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Course {
        self.place = Place::Head;
        match self.form {
            Form::Unknown => self.first_line(line, out),
            Form::Cri | Form::Docker => self.docker_line(line, out),
        }
    }

    fn first_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Course {
        if docker::read(line).is_none() {
            return unsupported(line);
        }
        self.form = Form::Docker;
        self.docker_line(line, out)
    }

    fn docker_line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Course {
        let Some(entry) = docker::read(line) else {
            debug!("a line of a container's log is not docker's, as the first was");
            return Course::More;
        };
        // Where docker says nothing, Go's zero stands.
        let time = entry.time.as_deref().unwrap_or("0001-01-01T00:00:00Z");
        let Some(stamp) = Stamp::read(time.as_bytes()) else {
            return Course::More;
        };
        let late = !self.shown.since.is_some_and(|since| stamp.is_before(since));
        if late {
            let Some(output) = Output::named(entry.stream.as_bytes()) else {
                return Course::Failed(format!("unexpected stream type {:?}", entry.stream));
            };
            let mut course = Course::More;
            if self.shows(stamp, output) {
                if self.shown.timestamps && self.at_line_start {
                    course = self.print_stamp(stamp, out);
                }
                if course == Course::More {
                    course = self.print(entry.log.as_bytes(), out);
                }
            }
            if course != Course::More {
                return course;
            }
        }
        self.at_line_start = entry.log.is_empty() || entry.log.ends_with('\n');
        self.count()
    }
}

fn unsupported(line: &[u8]) -> Course {
    let quoted = String::from_utf8_lossy(&line[..line.len().min(QUOTED)]);
    Course::Failed(format!(
        "failed to get parse function: unsupported log format: {quoted:?}"
    ))
}

#[cfg(test)]
mod tests;
