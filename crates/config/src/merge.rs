//! Drop-ins: each is a JSON merge patch (RFC 7396) on what stood before.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The end of a drop-in's name; other files are left alone.
const ENDING: &[u8] = b".conf";

/// Objects are merged key by key, null takes a key away, everything else
/// replaces.
pub(crate) fn patch(target: &mut Value, patch: Value) {
    let Value::Object(changes) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, change) in changes {
        match change {
            Value::Null => {
                target.remove(&key);
            }
            change => self::patch(target.entry(key).or_insert(Value::Null), change),
        }
    }
}

/// What a directory of drop-ins holds.
#[derive(Debug, Default)]
pub(crate) struct DropIns {
    /// In the order in which they count.
    pub(crate) files: Vec<PathBuf>,
    /// Files whose name does not end in `.conf`.
    pub(crate) skipped: Vec<PathBuf>,
}

/// Finds drop-ins in the directory and all below it: entries in the order of
/// their names, a directory's content where the directory stands.
pub(crate) fn drop_ins(directory: &Path) -> Result<DropIns, (PathBuf, std::io::Error)> {
    let mut found = DropIns::default();
    // A stack of what is still to be looked at, the next one last.
    let mut open = vec![directory.to_path_buf()];
    while let Some(path) = open.pop() {
        let named = |error| (path.clone(), error);
        let kind = std::fs::symlink_metadata(&path).map_err(named)?;
        if kind.is_dir() {
            let entries = std::fs::read_dir(&path).map_err(named)?;
            let mut entries = entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(named)?;
            entries.sort_by(|one, other| other.cmp(one));
            open.extend(entries);
        } else if is_drop_in(&path) {
            found.files.push(path);
        } else {
            found.skipped.push(path);
        }
    }
    Ok(found)
}

/// A name may be nothing but the ending.
fn is_drop_in(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().ends_with(ENDING))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_merge_and_the_rest_is_replaced() {
        for (before, change, after) in [
            (json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
        ] {
            let mut target = before.clone();
            patch(&mut target, change.clone());
            assert_eq!(target, after, "{before} with {change}");
        }
    }

    #[test]
    fn drop_ins_count_in_the_order_of_names_through_directories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for name in [
            "10-a.conf",
            "99-x.yaml",
            "sub/05-b.conf",
            "zz.conf",
            "conf",
            ".conf",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = drop_ins(dir.path()).unwrap();
        let names: Vec<_> = found
            .files
            .iter()
            .map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, [".conf", "10-a.conf", "sub/05-b.conf", "zz.conf"]);
        assert_eq!(found.skipped.len(), 2);
        assert!(drop_ins(&dir.path().join("none")).is_err());
    }
}
