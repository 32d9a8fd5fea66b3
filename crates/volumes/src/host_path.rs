//! hostPath: a path of the machine as it is, if it is what the pod says it is.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use seams::Storage;
use seams::host::HostError;
use seams::storage::PathKind;
use thiserror::Error;

/// Why a path is not given to a pod. The words are upstream's.
#[derive(Debug, Error)]
pub enum HostPathError {
    #[error("hostPath type check failed: {path} is not a {wanted}")]
    OtherKind { path: String, wanted: &'static str },
    #[error("{kind} is an invalid volume type")]
    UnknownType { kind: String },
    #[error("invalid HostPath `{path}`: must not contain '..'")]
    StepsBack { path: String },
    /// It was to be made.
    #[error("{}", .0.in_gos_words())]
    Host(#[from] HostError),
}

/// The path, checked; made if the pod says so.
pub(crate) fn set_up(
    storage: &dyn Storage,
    source: &HostPathVolumeSource,
) -> Result<PathBuf, HostPathError> {
    if source.path.split('/').any(|name| name == "..") {
        let path = source.path.clone();
        return Err(HostPathError::StepsBack { path });
    }
    let kind = source.type_.as_deref().unwrap_or_default();
    let (kind, make) = match kind {
        "" => return Ok(PathBuf::from(&source.path)),
        "Directory" => (PathKind::Directory, false),
        "DirectoryOrCreate" => (PathKind::Directory, true),
        "File" => (PathKind::File, false),
        "FileOrCreate" => (PathKind::File, true),
        "Socket" => (PathKind::Socket, false),
        "CharDevice" => (PathKind::CharacterDevice, false),
        "BlockDevice" => (PathKind::BlockDevice, false),
        kind => {
            let kind = kind.to_owned();
            return Err(HostPathError::UnknownType { kind });
        }
    };
    if storage.has(Path::new(&source.path), kind, make)? {
        return Ok(PathBuf::from(&source.path));
    }
    Err(HostPathError::OtherKind {
        path: source.path.clone(),
        wanted: words(kind),
    })
}

fn words(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Directory => "directory",
        PathKind::File => "file",
        PathKind::Socket => "socket file",
        PathKind::CharacterDevice => "character device",
        PathKind::BlockDevice => "block device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::host::LinuxHost;

    #[test]
    fn a_path_is_checked_and_made_as_its_type_says() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let host = LinuxHost::new(PathBuf::from("/"));
        let cases = [
            ("anything", "", Ok(())),
            ("directory", "Directory", Ok(())),
            ("file", "File", Ok(())),
            ("made/deep", "DirectoryOrCreate", Ok(())),
            ("made", "Directory", Ok(())),
            ("new", "FileOrCreate", Ok(())),
            ("new", "File", Ok(())),
            ("file", "FileOrCreate", Ok(())),
            ("file", "Directory", Err("is not a directory")),
            ("file", "DirectoryOrCreate", Err("is not a directory")),
            ("directory", "File", Err("is not a file")),
            ("directory", "FileOrCreate", Err("is not a file")),
            ("absent", "Directory", Err("is not a directory")),
            ("absent", "File", Err("is not a file")),
            ("file", "Socket", Err("is not a socket file")),
            ("absent", "CharDevice", Err("is not a character device")),
            ("file", "BlockDevice", Err("is not a block device")),
        ];
        for (name, kind, wanted) in cases {
            let source = HostPathVolumeSource {
                path: at(name),
                type_: Some(kind.to_owned()),
            };
            let found = set_up(&host, &source).map_err(|error| error.to_string());
            let wanted = wanted.map(|()| PathBuf::from(at(name)));
            let wanted =
                wanted.map_err(|what| format!("hostPath type check failed: {} {what}", at(name)));
            assert_eq!(found, wanted, "{name} as {kind}");
        }
        assert!(!Path::new(&at("anything")).exists());
    }

    #[test]
    fn what_cannot_be_made_or_must_not_be_is_told_in_upstreams_words() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        std::fs::write(at("file"), "").unwrap();
        let host = LinuxHost::new(PathBuf::from("/"));
        let cases = [
            (
                at("file"),
                "Pipe",
                "Pipe is an invalid volume type".to_owned(),
            ),
            (
                at("file/a/b"),
                "DirectoryOrCreate",
                format!("mkdir {}: not a directory", at("file")),
            ),
            (
                at("no/file"),
                "FileOrCreate",
                format!("open {}: no such file or directory", at("no/file")),
            ),
            (
                at("a/../b"),
                "",
                format!("invalid HostPath `{}`: must not contain '..'", at("a/../b")),
            ),
        ];
        for (path, kind, wanted) in cases {
            let source = HostPathVolumeSource {
                path,
                type_: Some(kind.to_owned()),
            };
            let error = set_up(&host, &source).unwrap_err();
            assert_eq!(error.to_string(), wanted);
        }
    }
}
