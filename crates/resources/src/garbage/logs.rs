//! The names of logs: of pods' directories, of the files in them, and of the links
//! by which shippers of logs find them. All are upstream's.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use seams::cri::{Container, ContainerState};
use types::{PodRef, PodUid};

use super::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, Texts};

/// File systems have names of at most so many bytes.
const LONGEST_NAME: usize = 255;
const SUFFIX: &str = ".log";

/// The name of a pod's directory.
pub(crate) fn directory(pod: &PodRef) -> String {
    let name = &pod.name;
    format!("{}_{}_{}", name.namespace, name.name, pod.uid)
}

/// The pod whose directory has this name; none if it is no pod's.
pub(crate) fn owner(directory: &str) -> Option<PodUid> {
    let parts: Vec<&str> = directory.split('_').collect();
    match parts[..] {
        [namespace, name, uid] if ![namespace, name, uid].contains(&"") => Some(PodUid::new(uid)),
        _ => None,
    }
}

/// The directory and the name of a container's log. `None` if it has none, or if
/// its path could lead elsewhere.
pub(crate) fn place(log_path: &str) -> Option<(&Path, &str)> {
    let path = Path::new(log_path);
    let leads_up = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || leads_up {
        return None;
    }
    Some((path.parent()?, path.file_name()?.to_str()?))
}

/// Whether a file is a log or a part of it that was rotated away: `0.log`,
/// `0.log.20260102-030405`, `0.log.20260102-030405.gz`.
pub(crate) fn is_part_of(file: &str, log: &str) -> bool {
    let rest = file.strip_prefix(log);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The name of the link to a container's log; none if the container is not ours.
pub(crate) fn link(labels: &Texts, id: &str) -> Option<String> {
    let label = |key: &str| labels.get(key);
    let pod = label(POD_NAME)?;
    let namespace = label(POD_NAMESPACE)?;
    let container = label(CONTAINER_NAME)?;
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    let longest = LONGEST_NAME - SUFFIX.len();
    name.truncate(name.floor_char_boundary(longest));
    Some(name + SUFFIX)
}

/// Of links that lead nowhere, those that go. That of a container which has not
/// ended stays: while its log is rotated, there is none for a moment.
pub(crate) fn dead_links(dangling: Vec<PathBuf>, listed: &[Container]) -> Vec<PathBuf> {
    let lives = |container: &&Container| container.state() != ContainerState::ContainerExited;
    let living = listed.iter().filter(lives);
    let needed: BTreeSet<String> = living
        .filter_map(|container| link(&container.labels, &container.id))
        .collect();
    let goes = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(SUFFIX) && !needed.contains(name))
    };
    dangling.into_iter().filter(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garbage::testing::container;

    #[test]
    fn a_pods_directory_names_its_uid_and_other_names_name_none() {
        let cases = [
            ("default_web-0_1-2-3", Some("1-2-3")),
            ("default_web-0_", None),
            ("_web-0_1", None),
            ("1-2-3", None),
            ("default_web-0", None),
            ("a_b_c_d", None),
            ("lost+found", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(owner(name), wanted.map(PodUid::new), "{name}");
        }
    }

    #[test]
    fn the_parts_of_a_log_are_those_of_its_own_name() {
        let cases = [
            ("0.log", true),
            ("0.log.20260102-030405", true),
            ("0.log.20260102-030405.gz", true),
            ("0.log.tmp", true),
            ("10.log", false),
            ("0.logs", false),
            ("1.log", false),
        ];
        for (file, wanted) in cases {
            assert_eq!(is_part_of(file, "0.log"), wanted, "{file}");
        }
    }

    #[test]
    fn a_log_is_looked_for_only_where_a_plain_absolute_path_leads() {
        let found = place("/var/log/pods/a_b_c/app/0.log");
        assert_eq!(found, Some((Path::new("/var/log/pods/a_b_c/app"), "0.log")));
        for path in ["", "app/0.log", "/var/log/pods/../../etc/passwd", "/"] {
            assert_eq!(place(path), None, "{path}");
        }
    }

    #[test]
    fn a_link_is_named_after_its_container_and_fits_into_a_directory() {
        let short = container("u1", "app", "0123456789");
        let name = link(&short.labels, &short.id);
        assert_eq!(name.as_deref(), Some("pod-u1_default_app-0123456789.log"));
        let long = container("u1", &"a".repeat(250), "0123456789");
        let name = link(&long.labels, &long.id).unwrap();
        assert_eq!(name.len(), 255);
        assert!(name.ends_with("aaa.log"), "{name}");
        assert_eq!(link(&Texts::new(), "0123456789"), None);
    }

    #[test]
    fn links_go_with_their_containers_and_a_living_container_keeps_its_own() {
        let state = |id: &str, state: ContainerState| Container {
            state: state.into(),
            ..container("u1", "app", id)
        };
        let listed = [
            state("running", ContainerState::ContainerRunning),
            state("unknown", ContainerState::ContainerUnknown),
            state("ended", ContainerState::ContainerExited),
        ];
        let path = |name: &str| PathBuf::from(format!("/links/{name}"));
        let of = |id: &str| path(&format!("pod-u1_default_app-{id}.log"));
        let dangling = vec![
            of("ended"),
            of("gone"),
            of("running"),
            of("unknown"),
            path("notes.txt"),
        ];
        assert_eq!(dead_links(dangling, &listed), [of("ended"), of("gone")]);
    }
}
