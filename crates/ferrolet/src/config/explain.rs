//! What a setting is, from its row; and what it is now, from whom.

use std::fmt::Write;

use config::decode::kind_name;
use config::effect::{self, not_effective};
use config::schema::{self, Default, FIELDS, FLAGS, Field, Flag, Kind, Presence, Stage};
use config::settings::Settings;

use crate::kubelet::wrapped;

const WIDTH: usize = 96;

/// Every field in a line; with settings, its value and where that is from.
pub(super) fn all(settings: Option<&Settings>) -> String {
    let mut text = String::new();
    for field in FIELDS.iter().filter(|field| field.kind != Kind::Object) {
        if field.path.contains("[]") {
            continue;
        }
        let told = match settings {
            None => default(field, ""),
            Some(settings) => now(field, settings),
        };
        let _ = writeln!(text, "{:<45} {told}", field.path);
    }
    text
}

/// One field or flag in full; the error names the nearest.
pub(super) fn one(name: &str, settings: Option<&Settings>) -> Result<String, String> {
    if let Some(flag) = name.strip_prefix("--") {
        let flag = flag.replace('_', "-");
        return match (schema::flag(&flag), schema::removed_flag(&flag)) {
            (Some(flag), _) => Ok(of_flag(flag, settings)),
            (None, Some(gone)) => Ok(format!(
                "--{}\n  gone, Kubernetes {} was the last to have it: {}\n",
                gone.name, gone.last, gone.advice
            )),
            (None, None) => Err(nothing(
                "flag",
                name,
                "--",
                FLAGS.iter().map(|flag| flag.name),
            )),
        };
    }
    // Items of a list may be named with an index.
    let path = without_indexes(name);
    match schema::field(&path) {
        Some(field) => Ok(of_field(field, settings)),
        None => Err(nothing(
            "field",
            name,
            "",
            FIELDS.iter().map(|field| field.path),
        )),
    }
}

pub(super) fn not_effective_list() -> String {
    not_effective().fold(String::new(), |mut text, (name, why)| {
        let _ = writeln!(text, "{name:<45} {why}");
        text
    })
}

fn nothing<'a>(
    what: &str,
    name: &str,
    dashes: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let bare = name.trim_start_matches("--");
    let last = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
    // A person may know only the last part of a path.
    let meant = names
        .clone()
        .find(|path| last(path).eq_ignore_ascii_case(bare))
        .or_else(|| schema::nearest(bare, names));
    let meant = meant.map_or(String::new(), |meant| {
        format!("; did you mean {dashes}{meant}?")
    });
    format!("error: there is no {what} {name}{meant}")
}

fn of_field(field: &Field, settings: Option<&Settings>) -> String {
    let mut text = format!("{}\n", field.path);
    for line in wrapped(field.about, WIDTH) {
        let _ = writeln!(text, "  {line}");
    }
    let mut row = |name: &str, told: &str| {
        if !told.is_empty() {
            let _ = writeln!(text, "  {name:<9} {told}");
        }
    };
    row("type", kind_name(field.kind));
    row("default", &default(field, " (zero counts as not given)"));
    row("allowed", field.allowed);
    row(
        "flag",
        &field.flag.map_or(String::new(), |flag| format!("--{flag}")),
    );
    match field.stage {
        Stage::Stable => {}
        Stage::Deprecated(became) => row("stage", &format!("deprecated: {became}")),
        Stage::Gated(gate) => row("stage", &format!("behind the feature gate {gate}")),
    }
    if field.kind == Kind::Object || field.kind == Kind::Objects {
        let names: Vec<&str> = schema::children(field.path)
            .map(|child| child.path)
            .collect();
        row("fields", &names.join(", "));
    } else if !field.path.contains("[]")
        && let Some(why) = effect::of_field(field.path)
    {
        row("effect", &why.to_string());
    }
    if let Some(settings) = settings
        && field.kind != Kind::Object
    {
        row("now", &now(field, settings));
        for part in parts(field, settings) {
            row("", &part);
        }
        let before = settings
            .get(field.path)
            .map(|setting| setting.before.as_slice());
        for (value, origin) in before.unwrap_or_default().iter().rev() {
            row("before", &format!("{value}, {origin}"));
        }
    }
    text
}

fn of_flag(flag: &Flag, settings: Option<&Settings>) -> String {
    if let Some(field) = flag.field.and_then(schema::field) {
        return of_field(field, settings);
    }
    let mut text = format!("--{}\n", flag.name);
    for line in wrapped(flag.about, WIDTH) {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  {:<9} {:?}", "default", flag.default);
    text
}

/// `zero` is what is said of a field whose zero value turns into its default.
fn default(field: &Field, zero: &str) -> String {
    let unset = match field.presence {
        Presence::Plain | Presence::Printed => zero,
        Presence::Emptiable | Presence::Optional => "",
    };
    match field.default {
        Default::None => "none".to_owned(),
        Default::Json(json) => format!("{json}{unset}"),
        Default::Depends(how) => how.to_owned(),
    }
}

fn now(field: &Field, settings: &Settings) -> String {
    match settings.get(field.path) {
        Some(setting) => format!("{}, {}", setting.value, setting.origin),
        None => "not set".to_owned(),
    }
}

/// The parts of a map or list that someone else gave than the whole.
fn parts(field: &Field, settings: &Settings) -> Vec<String> {
    let Some(setting) = settings.get(field.path) else {
        return Vec::new();
    };
    let other = setting
        .parts
        .iter()
        .filter(|(_, origin)| **origin != setting.origin);
    other
        .map(|(path, origin)| {
            let name = path.strip_prefix(field.path).unwrap_or(path);
            format!("{}: {origin}", name.trim_start_matches('.'))
        })
        .collect()
}

/// `a[3].b` names the row `a[].b`.
fn without_indexes(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|&letter| {
            match letter {
                '[' => inside = true,
                ']' => inside = false,
                _ => return !inside,
            }
            true
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_explained() {
        for field in FIELDS {
            let told = one(field.path, None).unwrap();
            assert!(told.lines().count() > 2, "{told}");
        }
        for flag in FLAGS {
            assert!(
                one(&format!("--{}", flag.name), None).is_ok(),
                "{}",
                flag.name
            );
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        for (name, said) in [
            ("maxPodz", "did you mean maxPods?"),
            ("cacheTTL", "did you mean authentication.webhook.cacheTTL?"),
            ("--max-podz", "did you mean --max-pods?"),
        ] {
            let error = one(name, None).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(one("logging.vmodule[0].verbosity", None).is_ok());
    }
}
