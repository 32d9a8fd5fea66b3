//! Volumes: each with a name of its own and one source.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use types::Quantity;
use types::names::validate_dns_label;

use super::Problems;

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
];

pub(super) fn check(spec: &PodSpec, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let field = format!("spec.volumes[{index}]");
        problems.check(format!("{field}.name"), validate_dns_label(&volume.name));
        if !names.insert(&volume.name) {
            let message = format!("{:?} is the name of another volume", volume.name);
            problems.add(format!("{field}.name"), message);
        }
        source(volume, &field, problems);
    }
}

fn source(volume: &Volume, field: &str, problems: &mut Problems) {
    let sources = kinds(volume);
    if sources.len() > 1 {
        let message = format!("it has {}: choose one", sources.join(" and "));
        problems.add(field, message);
    }
    if let Some(host_path) = &volume.host_path {
        let path = &host_path.path;
        if path.is_empty() {
            problems.add(format!("{field}.hostPath.path"), "it is missing");
        }
        if path.split('/').any(|part| part == "..") {
            problems.add(format!("{field}.hostPath.path"), "it must not contain '..'");
        }
        let kind = host_path.type_.as_deref();
        problems.choice(format!("{field}.hostPath.type"), kind, &HOST_PATH_TYPES);
    }
    let limit = volume
        .empty_dir
        .as_ref()
        .and_then(|dir| dir.size_limit.as_ref());
    if let Some(limit) = limit {
        let field = format!("{field}.emptyDir.sizeLimit");
        match limit.0.parse::<Quantity>() {
            Ok(limit) if limit.sign() < 0 => problems.add(field, "it must not be negative"),
            outcome => problems.check(field, outcome.map(drop)),
        }
    }
}

/// The sources that a volume names, as manifests call them.
fn kinds(volume: &Volume) -> Vec<String> {
    // What was read from text can be written to it; all that has a name beside the
    // volume's own is a source.
    let written = serde_json::to_value(volume).unwrap_or_default();
    let fields = written
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys);
    fields.filter(|field| *field != "name").cloned().collect()
}

#[cfg(test)]
mod tests {
    use crate::validate::tests::{check, problems, with_spec};

    #[test]
    fn volumes_have_names_of_their_own_and_one_source() {
        let volumes = |list: &str| with_spec(&format!("volumes: [{list}]"));
        check(&[
            (
                volumes("{name: a}, {name: a}"),
                "spec.volumes[1].name: \"a\" is the name of another",
            ),
            (volumes("{name: A}"), "spec.volumes[0].name: "),
            (
                volumes("{name: a, emptyDir: {}, hostPath: {path: /a}}"),
                "spec.volumes[0]: it has emptyDir and hostPath: choose one",
            ),
            (
                volumes("{name: a, hostPath: {path: ''}}"),
                "spec.volumes[0].hostPath.path: ",
            ),
            (
                volumes("{name: a, hostPath: {path: /a/../b}}"),
                "spec.volumes[0].hostPath.path: ",
            ),
            (
                volumes("{name: a, hostPath: {path: /a, type: Dir}}"),
                "spec.volumes[0].hostPath.type: ",
            ),
            (
                volumes("{name: a, emptyDir: {sizeLimit: much}}"),
                "spec.volumes[0].emptyDir.sizeLimit: ",
            ),
            (
                volumes("{name: a, emptyDir: {sizeLimit: -1}}"),
                "spec.volumes[0].emptyDir.sizeLimit: ",
            ),
        ]);
        assert!(problems(&volumes("{name: a}, {name: b, hostPath: {path: /a..b}}")).is_empty());
    }
}
