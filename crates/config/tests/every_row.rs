//! Every field and every flag, one by one: its default is upstream's, a good
//! value is taken, and a bad one refused for what it is.
//!
//! In: the facts and the tables of values in `testdata`. Out: verdicts. It
//! uses the crate as a program does, without a machine to judge against. That
//! upstream judges the tables alike is checked in `tests/config_differential`.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's helpers end it as the test itself would"
)]

#[path = "every_row/table.rs"]
mod table;

use std::fs;

use config::flags::CommandLine;
use config::load::{Loaded, built_in_defaults, load};
use config::schema::{FIELDS, FLAGS, FlagKind, Kind};
use config::settings::Settings;
use serde_json::Value;
use tempfile::TempDir;

use table::{Given, Row};

const FIELD_FACTS: &str = include_str!("../testdata/fields.tsv");

/// Fields that stay at their default whatever good value a file gives them:
/// two name the format, two count by flag only, one may not be there, and one
/// may not be true any more.
const FIXED_FIELDS: [&str; 6] = [
    "apiVersion",
    "kind",
    "logging.options.json.splitStream",
    "logging.options.text.splitStream",
    "registerWithTaints[].timeAdded",
    "runOnce",
];
/// The same of flags. (With `--help=true` a kubelet does something else.)
const FIXED_FLAGS: [&str; 2] = ["help", "runonce"];

#[test]
fn every_field_and_flag_has_its_row_of_values() {
    // A row's own value comes last.
    let names = |rows: Vec<Row>| {
        let own = rows.iter().filter_map(|row| row.good.last());
        own.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let fields: Vec<_> = FIELDS.iter().map(|field| field.path).collect();
    assert_eq!(names(table::fields()), fields);
    let flags: Vec<_> = FLAGS.iter().map(|flag| flag.name).collect();
    assert_eq!(names(table::flags()), flags);
}

#[test]
fn only_a_flag_that_takes_any_text_lacks_a_bad_value() {
    for (row, field) in table::fields().iter().zip(FIELDS) {
        assert!(row.bad.is_some(), "{}", field.path);
    }
    for (row, flag) in table::flags().iter().zip(FLAGS) {
        let any_text = flag.kind == FlagKind::String;
        assert!(row.bad.is_some() || any_text, "--{}", flag.name);
    }
}

#[test]
fn a_field_that_nobody_gives_has_the_default_of_the_facts() {
    for flags_only in [false, true] {
        let settings = built_in_defaults(flags_only);
        for line in FIELD_FACTS.lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            let (path, default) = (cells[0], cells[2]);
            if default == "(required)" {
                continue;
            }
            assert_eq!(
                shown(&settings, path),
                stated(default, flags_only),
                "{path} (flags only: {flags_only})"
            );
        }
    }
}

/// The tables of fields and of flags each have defaults: of a kubelet with
/// flags only they are the same ones.
#[test]
fn a_flag_that_nobody_gives_leaves_its_field_as_it_is_printed() {
    let settings = built_in_defaults(true);
    for flag in FLAGS {
        if let Some(path) = flag.field {
            let default = flag.default.trim_matches(['[', ']']);
            assert_eq!(shown(&settings, path), non_zero(default), "--{}", flag.name);
        }
    }
}

#[test]
fn a_good_value_of_a_field_is_accepted_and_changes_something() {
    let kubelet = Kubelet::new();
    for (row, field) in table::fields().iter().zip(FIELDS) {
        let [taken, without] = kubelet.accepts(&row.good, Kubelet::with_file);
        let differs = taken.settings.to_json() != without.settings.to_json();
        let fixed = field.kind == Kind::Object || FIXED_FIELDS.contains(&field.path);
        assert!(differs || fixed, "{}", field.path);
    }
}

#[test]
fn a_bad_value_of_a_field_is_refused_by_name() {
    let kubelet = Kubelet::new();
    for (row, field) in table::fields().into_iter().zip(FIELDS) {
        let bad = row.bad.unwrap_or_default();
        let refusal = kubelet.refuses(&bad, Kubelet::with_file);
        let last_name = field.path.rsplit('.').next().unwrap_or_default();
        assert!(refusal.contains(last_name), "{}: {refusal}", field.path);
    }
}

#[test]
fn a_good_value_of_a_flag_is_accepted_and_changes_something() {
    let kubelet = Kubelet::new();
    for (row, flag) in table::flags().iter().zip(FLAGS) {
        let [taken, without] = kubelet.accepts(&row.good, Kubelet::with_flags);
        let differs = match flag.field {
            Some(_) => taken.settings.to_json() != without.settings.to_json(),
            None => !row.good.contains(&(flag.name, flag.default)),
        };
        assert!(
            differs || FIXED_FLAGS.contains(&flag.name),
            "--{}",
            flag.name
        );
    }
}

#[test]
fn a_bad_value_of_a_flag_is_refused_by_name() {
    let kubelet = Kubelet::new();
    for (row, flag) in table::flags().into_iter().zip(FLAGS) {
        let Some(bad) = row.bad else {
            continue;
        };
        let refusal = kubelet.refuses(&bad, Kubelet::with_flags);
        let named = refusal.contains(&format!("--{}", flag.name))
            || flag.field.is_some_and(|path| refusal.contains(path));
        assert!(named, "--{}: {refusal}", flag.name);
    }
}

/// A kubelet's directory, with the files that the flags of the table name.
struct Kubelet(TempDir);

type Judgement = fn(&Kubelet, &[Given]) -> Result<Loaded, String>;

impl Kubelet {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("conf.d")).unwrap();
        fs::write(directory.path().join("config.yaml"), table::file(&[])).unwrap();
        Self(directory)
    }

    fn with_file(&self, given: &[Given]) -> Result<Loaded, String> {
        fs::write(self.0.path().join("it.yaml"), table::file(given)).unwrap();
        self.with_flags(&[("config", "it.yaml")])
    }

    fn with_flags(&self, given: &[Given]) -> Result<Loaded, String> {
        let line = CommandLine::parse(&table::command_line(given));
        let line = line.map_err(|error| error.to_string())?;
        load(&line, self.0.path(), None).map_err(|refused| refused.to_string())
    }

    /// What comes of a good value and its companions, and of those alone.
    fn accepts(&self, given: &[Given], judge: Judgement) -> [Loaded; 2] {
        let companions = &given[..given.len() - 1];
        [given, companions].map(|given| {
            judge(self, given).unwrap_or_else(|refusal| panic!("{given:?}: {refusal}"))
        })
    }

    /// What is said of a bad value, of whose companions there is nothing to
    /// say.
    fn refuses(&self, given: &[Given], judge: Judgement) -> String {
        let companions = &given[..given.len() - 1];
        if let Err(refusal) = judge(self, companions) {
            panic!("{companions:?}: {refusal}");
        }
        match judge(self, given) {
            Ok(_) => panic!("{given:?} is accepted"),
            Err(refusal) => refusal,
        }
    }
}

/// The default that a fact states, of its prose only what it is; nothing if it
/// is a zero or none.
fn stated(default: &str, flags_only: bool) -> Option<String> {
    let thresholds = default.strip_prefix("--config used and field absent: ");
    if let Some((listed, _)) = thresholds.and_then(|both| both.split_once("; ")) {
        let mut listed: Vec<&str> = listed.split(", ").collect();
        listed.sort_unstable();
        return (!flags_only).then(|| listed.join(","));
    }
    let stated = match default.split_once(" when --config is used; ") {
        Some((_, other)) if flags_only => other,
        Some((with_file, _)) => with_file,
        None => default,
    };
    let word = stated.split([' ', ';']).next().unwrap_or_default();
    let none = word.starts_with('(') || ["\"\"", "-", "{}", "see"].contains(&word);
    (!none)
        .then(|| word.trim_matches(['[', ']']))
        .and_then(non_zero)
}

/// The value of a field in the manner of the facts.
fn shown(settings: &Settings, path: &str) -> Option<String> {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = match settings.value(path)? {
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, it)| format!("{key}={}", plain(it)));
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort_unstable();
            pairs.join(",")
        }
        value => plain(value),
    };
    non_zero(&text)
}

fn non_zero(text: &str) -> Option<String> {
    let zero = ["", "0", "0s", "false"].contains(&text);
    (!zero).then(|| text.to_owned())
}
