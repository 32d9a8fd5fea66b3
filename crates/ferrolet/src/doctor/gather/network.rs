//! The configuration of the pod network, as the runtime looks for it: the first file
//! by name counts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::doctor::checks::network::{Facts, Found};
use crate::local_node::Remedies;

/// What the runtime says of the network, and where it looks.
#[derive(Clone, Debug)]
pub(super) struct NetworkSettings {
    pub(super) ready: Option<Result<(), String>>,
    pub(super) directory: PathBuf,
    pub(super) programs: Vec<PathBuf>,
}

impl Default for NetworkSettings {
    /// The places of runtimes that do not tell.
    fn default() -> Self {
        Self {
            ready: None,
            directory: PathBuf::from("/etc/cni/net.d"),
            programs: vec![PathBuf::from("/opt/cni/bin")],
        }
    }
}

pub(super) fn look(
    settings: &NetworkSettings,
    ip_forward: Option<bool>,
    remedies: Remedies,
) -> Facts {
    Facts {
        found: found(&settings.directory, &settings.programs),
        ..unread(settings, ip_forward, remedies)
    }
}

/// What is known without the disk.
pub(super) fn unread(
    settings: &NetworkSettings,
    ip_forward: Option<bool>,
    remedies: Remedies,
) -> Facts {
    Facts {
        ready: settings.ready.clone(),
        directory: settings.directory.clone(),
        programs: settings.programs.clone(),
        found: Found::Forbidden,
        ip_forward,
        remedies,
    }
}

fn found(directory: &Path, programs: &[PathBuf]) -> Found {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Found::Forbidden,
        Err(_) => return Found::Nothing,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_configuration(name)).collect();
    names.sort();
    let Some(name) = names.into_iter().next() else {
        return Found::Nothing;
    };
    let text = match fs::read(directory.join(&name)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Found::Forbidden,
        Err(error) => {
            let cause = error.to_string();
            return Found::Broken { name, cause };
        }
    };
    match serde_json::from_slice::<Value>(&text) {
        Err(error) => Found::Broken {
            name,
            cause: error.to_string(),
        },
        Ok(configuration) => {
            let mut missing = programs_of(&configuration);
            let there =
                |program: &String| programs.iter().any(|place| place.join(program).exists());
            missing.retain(|program| !there(program));
            Found::Configuration { name, missing }
        }
    }
}

fn is_configuration(name: &str) -> bool {
    let end = Path::new(name).extension().and_then(|end| end.to_str());
    end.is_some_and(|end| ["conf", "conflist", "json"].contains(&end))
}

/// The programs of a list of plugins, or of one.
fn programs_of(configuration: &Value) -> Vec<String> {
    let listed = configuration["plugins"].as_array();
    let plugins = listed.map_or_else(|| vec![configuration], |list| list.iter().collect());
    let mut programs = Vec::new();
    for plugin in plugins {
        for program in [&plugin["type"], &plugin["ipam"]["type"]] {
            programs.extend(program.as_str().map(str::to_owned));
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_file_by_name_counts_and_its_programs_must_be_there() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        let look = || found(&place("net.d"), &[place("bin")]);
        assert_eq!(look(), Found::Nothing);
        fs::create_dir_all(place("net.d")).unwrap();
        fs::create_dir_all(place("bin")).unwrap();
        fs::write(place("net.d/README"), "x").unwrap();
        assert_eq!(look(), Found::Nothing);
        fs::write(place("net.d/20-b.conf"), "not JSON").unwrap();
        assert!(matches!(look(), Found::Broken { .. }));
        let list = r#"{"plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}]}"#;
        fs::write(place("net.d/10-a.conflist"), list).unwrap();
        fs::write(place("bin/bridge"), "").unwrap();
        let configured = |missing: &[&str]| Found::Configuration {
            name: "10-a.conflist".to_owned(),
            missing: missing.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(look(), configured(&["host-local"]));
        fs::write(place("bin/host-local"), "").unwrap();
        assert_eq!(look(), configured(&[]));
    }
}
