//! The kubeconfig that bootstrapping leaves behind.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::resolve::ClientConfig;
use super::tls::{Material, Trust};

/// Why no kubeconfig was written. What stood there before still does.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("kubeconfig {path} cannot be written: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "kubeconfig {path} would have to name {named:?}, which is not UTF-8: choose another place"
    )]
    NotText { path: PathBuf, named: PathBuf },
    #[error("kubeconfig {path} cannot be put into words: {source}")]
    Encode {
        path: PathBuf,
        source: serde_saphyr::ser_error::Error,
    },
}

/// Writes the kubeconfig with which the node goes on: the server and the CA of `bootstrap`, and
/// the pair in the file at `pair`. A proxy and a server name are not carried over, as upstream.
///
/// A new file is for its owner only; one that is there keeps its mode and owner. The file is
/// replaced as a whole or not at all.
pub fn write_bootstrapped(
    path: &Path,
    bootstrap: &ClientConfig,
    pair: &Path,
) -> Result<(), WriteError> {
    let text = render(path, bootstrap, pair)?;
    replace(path, text.as_bytes()).map_err(|source| WriteError::Io {
        path: path.to_owned(),
        source,
    })
}

// The order of the fields is the one that upstream writes them in.

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    clusters: [NamedCluster<'a>; 1],
    contexts: [NamedContext<'a>; 1],
    current_context: &'a str,
    kind: &'a str,
    users: [NamedUser<'a>; 1],
}

#[derive(Serialize)]
struct NamedCluster<'a> {
    cluster: WrittenCluster<'a>,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenCluster<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    server: &'a str,
}

#[derive(Serialize)]
struct NamedContext<'a> {
    context: WrittenContext<'a>,
    name: &'a str,
}

#[derive(Serialize)]
struct WrittenContext<'a> {
    cluster: &'a str,
    namespace: &'a str,
    user: &'a str,
}

#[derive(Serialize)]
struct NamedUser<'a> {
    name: &'a str,
    user: WrittenUser<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenUser<'a> {
    client_certificate: &'a str,
    client_key: &'a str,
}

fn render(path: &Path, bootstrap: &ClientConfig, pair: &Path) -> Result<String, WriteError> {
    let pair = text(path, pair)?;
    let trust = bootstrap.tls.as_ref().map(|tls| &tls.trust);
    let (file, data) = match trust {
        Some(Trust::Authority(authority)) => match &authority.0 {
            Material::File(file) => (Some(text(path, file)?), None),
            Material::Data(_, pem) => (None, Some(STANDARD.encode(pem.expose()))),
        },
        Some(Trust::System | Trust::Unverified) | None => (None, None),
    };
    let (cluster, context, user) = ("default-cluster", "default-context", "default-auth");
    let document = Document {
        api_version: "v1",
        clusters: [NamedCluster {
            cluster: WrittenCluster {
                certificate_authority: file,
                certificate_authority_data: data,
                insecure_skip_tls_verify: trust == Some(&Trust::Unverified),
                server: &bootstrap.server.text,
            },
            name: cluster,
        }],
        contexts: [NamedContext {
            context: WrittenContext {
                cluster,
                namespace: "default",
                user,
            },
            name: context,
        }],
        current_context: context,
        kind: "Config",
        users: [NamedUser {
            name: user,
            user: WrittenUser {
                client_certificate: pair,
                client_key: pair,
            },
        }],
    };
    // Long text on one line, as upstream.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&document, options).map_err(|source| WriteError::Encode {
        path: path.to_owned(),
        source,
    })
}

fn text<'a>(path: &Path, named: &'a Path) -> Result<&'a str, WriteError> {
    named.to_str().ok_or_else(|| WriteError::NotText {
        path: path.to_owned(),
        named: named.to_owned(),
    })
}

/// Writes beside, syncs, renames. A symbolic link stays, and its target is replaced.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        other => other?,
    };
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path names no file",
        ));
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)?;

    // Always the same name, so that a crash leaves at most one file, which the next run removes.
    let mut beside = name.to_owned();
    beside.push(".new");
    let beside = directory.join(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written =
        write_beside(&beside, &target, content).and_then(|()| fs::rename(&beside, &target));
    if let Err(error) = written {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

fn write_beside(beside: &Path, target: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(beside)?;
    file.write_all(content)?;
    match fs::metadata(target) {
        Ok(old) => {
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.sync_all()
}

#[cfg(test)]
mod tests;
