//! From flags to a file: for people who come from old units.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::flags::{CommandLine, Use};
use crate::load::{Loaded, RELATIVE_PATHS, Refused, resolve_text};
use crate::schema;
use crate::settings::{Origin, Settings, leaves};

/// A command line as a file, and what of it no file can hold.
#[derive(Debug)]
pub struct Converted {
    /// What goes into the file.
    pub settings: Settings,
    /// Flags that no file can stand for: they stay on the command line.
    pub stay: Vec<String>,
    /// Fields that are written only because a kubelet without this file has
    /// another default than one with it.
    pub kept: Vec<&'static str>,
}

/// A kubelet with the file and the flags that stay resolves to the same
/// configuration as one with the whole command line. `directory` is where
/// relative paths on the command line start.
pub fn convert(
    line: &CommandLine,
    loaded: &Loaded,
    directory: &Path,
) -> Result<Converted, Refused> {
    let mut settings = loaded
        .settings
        .only(|setting| !matches!(setting.origin, Origin::Default | Origin::FlagsOnlyDefault));
    for path in ["apiVersion", "kind"] {
        copy(&loaded.settings, &mut settings, path);
    }
    let wanted = with_absolute_paths(&loaded.settings, directory);
    for path in RELATIVE_PATHS {
        if settings.value(path).is_some() {
            copy(&wanted, &mut settings, path);
        }
    }

    // What resolves to something else is written out; what still does, no
    // file can say: its flag stays.
    let mut stay: BTreeSet<&str> = line
        .uses
        .iter()
        .map(|one| one.flag)
        .filter(|flag| !["config", "config-dir"].contains(flag))
        .filter(|flag| schema::flag(flag).is_some_and(|flag| flag.field.is_none()))
        .collect();
    let mut kept = Vec::new();
    for path in differences(&settings, &wanted, line, &stay)? {
        copy(&wanted, &mut settings, path);
        kept.push(path);
    }
    for path in differences(&settings, &wanted, line, &stay)? {
        let flag = schema::field(path).and_then(|field| field.flag);
        if let Some(flag) = flag.filter(|flag| line.uses.iter().any(|one| one.flag == *flag)) {
            settings.remove(path);
            kept.retain(|kept| *kept != path);
            stay.insert(flag);
        }
    }
    kept.retain(|path| {
        line.uses
            .iter()
            .all(|one| schema::flag(one.flag).and_then(|flag| flag.field) != Some(*path))
    });
    Ok(Converted {
        settings,
        stay: staying(line, &stay)
            .map(|one| shell_word(&one.written))
            .collect(),
        kept,
    })
}

fn staying<'a>(line: &'a CommandLine, stay: &BTreeSet<&str>) -> impl Iterator<Item = &'a Use> {
    line.uses.iter().filter(|one| stay.contains(one.flag))
}

fn copy(from: &Settings, to: &mut Settings, path: &str) {
    let Some(field) = schema::field(path) else {
        return;
    };
    match from.value(path) {
        Some(value) => to.set(field, value.clone(), Origin::Default),
        // Absence can be said only where an empty one is not the same.
        None if path == "evictionHard" => {
            to.set(
                field,
                Value::Object(serde_json::Map::new()),
                Origin::Default,
            );
        }
        None => {}
    }
}

/// A file's relative paths start at the file, a flag's where the kubelet runs.
fn with_absolute_paths(settings: &Settings, directory: &Path) -> Settings {
    let mut settings = settings.clone();
    for path in RELATIVE_PATHS {
        let text = settings.text(path).to_owned();
        if text.is_empty() || text.starts_with('/') {
            continue;
        }
        if let Some(field) = schema::field(path) {
            let whole = directory.join(text).display().to_string();
            settings.set(field, Value::from(whole), Origin::Default);
        }
    }
    settings
}

/// Fields in which a kubelet with this file and the flags that stay would
/// differ from what is wanted.
fn differences(
    settings: &Settings,
    wanted: &Settings,
    line: &CommandLine,
    stay: &BTreeSet<&str>,
) -> Result<Vec<&'static str>, Refused> {
    let rest = CommandLine {
        uses: staying(line, stay).cloned().collect(),
        notices: Vec::new(),
    };
    let text = serde_json::to_string(&settings.given()).unwrap_or_default();
    let found = resolve_text(&text, &rest)?;
    let differing = leaves()
        .filter(|field| found.printed(field) != wanted.printed(field))
        .map(|field| field.path);
    Ok(differing.collect())
}

/// The word as a shell must be given it.
fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::load::resolve;

    fn resolved(words: &[String]) -> (CommandLine, Loaded) {
        let line = CommandLine::parse(words).unwrap();
        let loaded = resolve(&line, Path::new("/")).unwrap();
        (line, loaded)
    }

    #[test]
    fn a_converted_command_line_means_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for words in [
            &[
                "--max-pods=50",
                "--kubeconfig=/k",
                "-v=4",
                "--cluster-dns=10.0.0.10",
            ][..],
            &[],
            &[
                "--eviction-hard=memory.available<1Gi",
                "--anonymous-auth=false",
                "--vmodule=a=1",
            ],
            &["--node-status-update-frequency=20s"],
            &[
                "--max-pods=0",
                "--event-burst=0",
                "--streaming-connection-idle-timeout=0s",
            ],
            &[
                "--log-text-split-stream=true",
                "--feature-gates=LoggingAlphaOptions=true",
            ],
            &["--tls-cert-file=certs/a.crt", "--config="],
            &[
                "--register-with-taints=a=b:NoSchedule",
                "--feature-gates=MemoryQoS=true",
            ],
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let (line, loaded) = resolved(&words);
            let converted = convert(&line, &loaded, Path::new("/")).unwrap();
            let file = dir.path().join("config.json");
            let text = serde_json::to_string(&converted.settings.given()).unwrap();
            std::fs::write(&file, text).unwrap();
            let mut rest = vec![format!("--config={}", file.display())];
            rest.extend(converted.stay);
            let (_, again) = resolved(&rest);
            let wanted = with_absolute_paths(&loaded.settings, Path::new("/"));
            assert_eq!(again.settings.to_json(), wanted.to_json(), "{words:?}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word("--a=b"), "--a=b");
        assert_eq!(shell_word("--a=b c'd"), "'--a=b c'\\''d'");
    }

    #[test]
    fn flags_without_a_field_stay() {
        let words = ["--kubeconfig=/k".to_owned(), "--max-pods=5".to_owned()];
        let (line, loaded) = resolved(&words);
        assert_eq!(
            convert(&line, &loaded, Path::new("/")).unwrap().stay,
            ["--kubeconfig=/k"]
        );
    }
}
