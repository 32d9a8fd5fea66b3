//! From flags to a file: for people who come from old units.

use serde_json::{Map, Value};

use crate::flags::CommandLine;
use crate::load::Loaded;
use crate::schema;
use crate::settings::{Origin, Settings};

/// A command line as a file, and what of it no file can hold.
#[derive(Debug)]
pub struct Converted {
    /// What goes into the file.
    pub settings: Settings,
    /// Flags that have no field: they stay on the command line.
    pub stay: Vec<String>,
    /// Fields that are written only because a kubelet without a file has
    /// another default than one with a file.
    pub kept: Vec<&'static str>,
}

/// A kubelet with the file and the flags that stay resolves to the same
/// configuration as one with the whole command line.
pub fn convert(line: &CommandLine, loaded: &Loaded) -> Converted {
    let mut settings = loaded
        .settings
        .only(|setting| setting.origin != Origin::Default);
    for path in ["apiVersion", "kind"] {
        if let (Some(field), Some(value)) = (schema::field(path), loaded.settings.value(path)) {
            settings.set(field, value.clone(), Origin::Default);
        }
    }
    if line.text("config").is_none()
        && loaded.settings.value("evictionHard").is_none()
        && let Some(field) = schema::field("evictionHard")
    {
        // A file that says nothing would bring thresholds along.
        let nothing = Value::Object(Map::new());
        settings.set(field, nothing, Origin::FlagsOnlyDefault);
    }
    let kept = settings
        .iter()
        .filter(|(_, setting)| setting.origin == Origin::FlagsOnlyDefault)
        .map(|(path, _)| path)
        .collect();
    let stay = line
        .uses
        .iter()
        .filter(|one| {
            let merged_in = ["config", "config-dir"].contains(&one.flag);
            !merged_in && schema::flag(one.flag).is_some_and(|flag| flag.field.is_none())
        })
        .map(|one| one.written.clone())
        .collect();
    Converted {
        settings,
        stay,
        kept,
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
            &[
                "--register-with-taints=a=b:NoSchedule",
                "--feature-gates=MemoryQoS=true",
            ],
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let (line, loaded) = resolved(&words);
            let converted = convert(&line, &loaded);
            let file = dir.path().join("config.json");
            let text = serde_json::to_string(&converted.settings.given()).unwrap();
            std::fs::write(&file, text).unwrap();
            let mut rest = vec![format!("--config={}", file.display())];
            rest.extend(converted.stay);
            let (_, again) = resolved(&rest);
            assert_eq!(
                again.settings.to_json(),
                loaded.settings.to_json(),
                "{words:?}"
            );
        }
    }

    #[test]
    fn flags_without_a_field_stay() {
        let words = ["--kubeconfig=/k".to_owned(), "--max-pods=5".to_owned()];
        let (line, loaded) = resolved(&words);
        assert_eq!(convert(&line, &loaded).stay, ["--kubeconfig=/k"]);
    }
}
