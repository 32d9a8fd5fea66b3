//! What is asked of a node's logs by a query: services or a file, and which lines. The
//! rules, and their words, are upstream's.

use crate::logs::record::Stamp;
use crate::query::Query;

use super::pattern;

const MOST_LINES: i64 = 100_000;

const MOST_SERVICES: usize = 4;

const LONGEST_SERVICE: usize = 256;

/// A query, read but not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeQuery {
    services: Vec<String>,
    files: Vec<String>,
    options: Options,
}

/// Which lines are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// As they were written: RFC 3339.
    since: Option<String>,
    until: Option<String>,
    tail: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// What a query comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    File(String),
    Services(ServiceQuery),
}

/// Services, and which of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceQuery {
    pub(super) services: Vec<String>,
    options: Options,
}

impl NodeQuery {
    /// `None` if nothing is asked for.
    pub(super) fn read(query: &Query) -> Result<Option<Self>, String> {
        let mut problems = Vec::new();
        let mut read = Self::default();
        let queries: Vec<&str> = query.all("query").collect();
        for asked in &queries {
            // A slash tells a file from a service.
            if asked.contains(['/', '\\']) {
                read.files.push((*asked).to_owned());
            } else if !asked.trim().is_empty() {
                read.services.push((*asked).to_owned());
            }
        }
        if !queries.is_empty() && read.files.is_empty() && read.services.is_empty() {
            let value = serde_json::json!(queries);
            problems.push(format!("query: Invalid value: {value}: may not be empty"));
        }
        let given = |name| query.first(name).filter(|value| !value.is_empty());
        let mut time = |name: &'static str| {
            let text = given(name)?;
            if Stamp::read(text.as_bytes()).is_none() {
                let problem = format!("{name}: Invalid value: {text:?}: invalid time format");
                problems.push(problem);
                return None;
            }
            Some(text.to_owned())
        };
        read.options.since = time("sinceTime");
        read.options.until = time("untilTime");
        let mut number = |name: &'static str| {
            let text = given(name)?;
            let number = text.parse::<i64>();
            if let Err(error) = &number {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let why = match error.kind() {
                    PosOverflow | NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                let why = format!("strconv.Atoi: parsing {text:?}: {why}");
                problems.push(format!("{name}: Invalid value: {text:?}: {why}"));
            }
            number.ok()
        };
        read.options.boot = number("boot");
        read.options.tail = number("tailLines");
        given("pattern")
            .unwrap_or_default()
            .clone_into(&mut read.options.pattern);
        match together(problems) {
            Some(problems) => Err(problems),
            None => Ok(Some(read).filter(|read| *read != Self::default())),
        }
    }

    /// The only file that is asked for, if that is all.
    pub(super) fn file(&self) -> Option<&str> {
        match &self.files[..] {
            [file] if self.services.is_empty() && self.options == Options::default() => Some(file),
            _ => None,
        }
    }

    /// `missing`: why the file is not there.
    pub(super) fn asked(self, missing: Option<String>) -> Result<Asked, String> {
        if let Some(problems) = together(self.problems(missing)) {
            return Err(problems);
        }
        if let Some(file) = self.files.into_iter().next() {
            // Windows has them.
            return Ok(Asked::File(file));
        }
        Ok(Asked::Services(ServiceQuery {
            services: self.services,
            options: self.options,
        }))
    }

    fn problems(&self, missing: Option<String>) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        for service in &self.services {
            if let Some(why) = unsafe_name(service) {
                problems.push(format!("query: Invalid value: {service:?}: {why}"));
            }
        }
        let (count, files) = (self.services.len(), &self.files);
        if count > MOST_SERVICES {
            problems.push(format!(
                "query: Too many: {count}: must have at most {MOST_SERVICES} items"
            ));
        }
        let listed = serde_json::json!(files);
        let file_problem = match (files.len(), count) {
            (0, 0) => Some("query: Required value: cannot be empty with options".to_owned()),
            (1.., 1..) => {
                let both = format!("[{}], [{}]", files.join(" "), self.services.join(" "));
                Some(format!(
                    "query: Invalid value: {both:?}: cannot specify a file and service"
                ))
            }
            (2.., _) => Some(format!(
                "query: Invalid value: {listed}: cannot specify more than one file"
            )),
            (1, _) if self.options != Options::default() => Some(format!(
                "query: Invalid value: {listed}: cannot specify file with options"
            )),
            _ => missing.map(|why| format!("query: Invalid value: {listed}: {why}")),
        };
        problems.extend(file_problem);
        problems.extend(self.options.problems());
        problems
    }
}

/// As lists of errors are written.
fn together(problems: Vec<String>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    match &mut seen[..] {
        [] => None,
        [one] => Some(std::mem::take(one)),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn unsafe_name(service: &str) -> Option<String> {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    if service.len() > LONGEST_SERVICE {
        return Some(format!("length must be less than {LONGEST_SERVICE}"));
    }
    let all = service.bytes().all(safe);
    (!all).then(|| "input contains unsupported characters".to_owned())
}

impl Options {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let moment = |text: &Option<String>| {
            let stamp = Stamp::read(text.as_deref()?.as_bytes());
            stamp.map(|stamp| stamp.moment())
        };
        if let (Some(since), Some(until)) = (moment(&self.since), moment(&self.until))
            && since > until
        {
            let value = self.until.as_deref().unwrap_or_default();
            problems.push(format!(
                "untilTime: Invalid value: {value:?}: must be after `sinceTime`"
            ));
        }
        if let Some(boot) = self.boot.filter(|boot| *boot > 0) {
            problems.push(format!("boot: Invalid value: {boot}: must be less than 1"));
        }
        if let Some(tail) = self.tail.filter(|tail| !(0..=MOST_LINES).contains(tail)) {
            problems.push(format!(
                "tailLines: Invalid value: {tail}: must be between 0 and {MOST_LINES}, inclusive"
            ));
        }
        if let Err(why) = pattern::check(&self.pattern) {
            let pattern = &self.pattern;
            problems.push(format!("pattern: Invalid value: {pattern:?}: {why}"));
        }
        problems
    }
}

impl ServiceQuery {
    /// Whether anything but services was asked for.
    pub(super) fn has_options(&self) -> bool {
        self.options != Options::default()
    }

    pub(super) fn says_boot(&self) -> bool {
        self.options.boot.is_some_and(|boot| boot != 0)
    }

    /// For journalctl, about these services.
    pub(super) fn words(&self, services: &[String]) -> Vec<String> {
        let options = &self.options;
        let mut words: Vec<String> = ["--utc", "--no-pager", "--output=short-precise"]
            .map(str::to_owned)
            .into();
        let time = |text: &String| plain_time(text);
        words.extend(
            options
                .since
                .iter()
                .map(|since| format!("--since={}", time(since))),
        );
        words.extend(
            options
                .until
                .iter()
                .map(|until| format!("--until={}", time(until))),
        );
        if let Some(lines) = options.tail {
            words.extend(["--pager-end".to_owned(), format!("--lines={lines}")]);
        }
        words.extend(services.iter().map(|service| format!("--unit={service}")));
        if !options.pattern.is_empty() {
            words.push(format!("--grep={}", options.pattern));
        }
        if let Some(boot) = options.boot {
            words.extend(["--boot".to_owned(), boot.to_string()]);
        }
        words
    }
}

/// `2016-1-2 3:4:5`, as upstream writes it, in the zone that it was told in.
fn plain_time(text: &str) -> String {
    let numbers = text.get(..19).unwrap_or_default();
    let numbers: Vec<u32> = numbers
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [year, month, day, hour, minute, second] => {
            format!("{year:04}-{month}-{day} {hour}:{minute}:{second}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<Asked, String> {
        match NodeQuery::read(&Query::read(query))? {
            None => Ok(Asked::Nothing),
            Some(query) => query.asked(None),
        }
    }

    fn words(query: &str) -> Vec<String> {
        let Ok(Asked::Services(query)) = asked(query) else {
            panic!("{query} asks for services");
        };
        query.words(&query.services)
    }

    #[test]
    fn a_query_is_for_services_or_for_a_file() {
        for nothing in ["", "other=1", "tailLines=&pattern="] {
            assert_eq!(asked(nothing), Ok(Asked::Nothing), "{nothing}");
        }
        assert_eq!(asked("query=%2Fa.log"), Ok(Asked::File("/a.log".into())));
        assert_eq!(
            words("query=kubelet&query=ssh@1"),
            [
                "--utc",
                "--no-pager",
                "--output=short-precise",
                "--unit=kubelet",
                "--unit=ssh@1"
            ]
        );
        let all = "query=k&sinceTime=2016-01-02T03:04:05%2B01:00&untilTime=2017-10-12T13:14:15.5Z\
                   &tailLines=7&boot=-1&pattern=a.b";
        assert_eq!(
            words(all)[3..],
            [
                "--since=2016-1-2 3:4:5",
                "--until=2017-10-12 13:14:15",
                "--pager-end",
                "--lines=7",
                "--unit=k",
                "--grep=a.b",
                "--boot",
                "-1"
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_in_upstreams_words() {
        let long = format!("query={}", "x".repeat(257));
        for (query, wanted) in [
            (
                "query=+&query=",
                r#"query: Invalid value: [" ",""]: may not be empty"#,
            ),
            (
                "tailLines=3",
                "query: Required value: cannot be empty with options",
            ),
            (
                "query=a&sinceTime=x&untilTime=y",
                "[sinceTime: Invalid value: \"x\": invalid time format, untilTime: Invalid value: \
                 \"y\": invalid time format]",
            ),
            (
                "query=a&boot=x",
                "boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                "query=a&tailLines=99999999999999999999",
                "tailLines: Invalid value: \"99999999999999999999\": strconv.Atoi: parsing \
                 \"99999999999999999999\": value out of range",
            ),
            (
                "query=a&query=b&query=c&query=d&query=e",
                "query: Too many: 5: must have at most 4 items",
            ),
            (
                "query=a&query=%2Fb",
                "query: Invalid value: \"[/b], [a]\": cannot specify a file and service",
            ),
            (
                "query=%2Fa&query=%2Fb",
                r#"query: Invalid value: ["/a","/b"]: cannot specify more than one file"#,
            ),
            (
                "query=%2Fa&boot=0",
                r#"query: Invalid value: ["/a"]: cannot specify file with options"#,
            ),
            (
                "query=a%24",
                "query: Invalid value: \"a$\": input contains unsupported characters",
            ),
            (
                "query=a&boot=1",
                "boot: Invalid value: 1: must be less than 1",
            ),
            (
                "query=a&tailLines=100001",
                "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive",
            ),
            (
                "query=a&sinceTime=2017-01-02T03:04:05Z&untilTime=2016-01-02T03:04:05Z",
                "untilTime: Invalid value: \"2016-01-02T03:04:05Z\": must be after `sinceTime`",
            ),
            (
                "query=a&pattern=(",
                "pattern: Invalid value: \"(\": error parsing regexp: missing closing ): `(`",
            ),
        ] {
            assert_eq!(asked(query), Err(wanted.to_owned()), "{query}");
        }
        assert!(
            asked(&long)
                .unwrap_err()
                .ends_with("length must be less than 256")
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_not_served() {
        let query = NodeQuery::read(&Query::read("query=a%2Fb"))
            .unwrap()
            .unwrap();
        assert_eq!(query.file(), Some("a/b"));
        let refused = query.asked(Some("no such file".to_owned())).unwrap_err();
        assert_eq!(refused, r#"query: Invalid value: ["a/b"]: no such file"#);
    }
}
