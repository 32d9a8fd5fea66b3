//! From the two flags to programs that can be run.

use std::path::{Path, PathBuf};

use seams::Host;
use seams::host::{HostError, Listing};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::super::hex;
use super::config::{ConfigError, Provider, read};

/// Programs, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub(super) providers: Vec<Provider>,
    pub(super) directory: PathBuf,
    /// Of all files of the configuration.
    pub(super) digest: String,
}

/// Why a node cannot start with its credential providers.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "plugin binary directory {} did not exist; set --image-credential-provider-bin-dir to where the programs are",
        .0.display()
    )]
    NoDirectory(PathBuf),
    #[error("credential provider config path is empty; set --image-credential-provider-config")]
    NoPath,
    #[error("unable to access path {:?}: no such file or directory", .0.display())]
    NoConfig(PathBuf),
    #[error("no configuration files found in directory {:?}", .0.display())]
    NoFiles(PathBuf),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("plugin binary executable {} did not exist, or cannot be run; put it there, with mode 0755", .0.display())]
    NoProgram(PathBuf),
}

/// Reads `--image-credential-provider-config`, a file or a directory of them, and looks
/// for its programs in `--image-credential-provider-bin-dir`. `tokens`: the gate
/// `KubeletServiceAccountTokenForCredentialProviders`.
pub fn load(
    host: &dyn Host,
    config: &Path,
    directory: &Path,
    tokens: bool,
) -> Result<Loaded, LoadError> {
    if host.list(directory)?.is_none() {
        return Err(LoadError::NoDirectory(directory.to_owned()));
    }
    let files = files(host, config)?;
    let providers = read(&files, tokens)?;
    for provider in &providers {
        let program = directory.join(&provider.name);
        if !host.is_program(&program)? {
            return Err(LoadError::NoProgram(program));
        }
    }
    Ok(Loaded {
        providers,
        directory: directory.to_owned(),
        digest: digest(&files),
    })
}

/// Of their contents, each after its length; upstream's.
fn digest(files: &[(String, Vec<u8>)]) -> String {
    let mut hasher = Sha256::new();
    for (_, content) in files {
        hasher.update((content.len() as u64).to_be_bytes());
        hasher.update(content);
    }
    format!("sha256:{}", hex(&hasher.finalize()))
}

/// With their names, in the order of these.
fn files(host: &dyn Host, config: &Path) -> Result<Vec<(String, Vec<u8>)>, LoadError> {
    if config.as_os_str().is_empty() {
        return Err(LoadError::NoPath);
    }
    let gone = || LoadError::NoConfig(config.to_owned());
    let paths = match host.list(config)?.ok_or_else(gone)? {
        Listing::File(_) | Listing::Other => vec![config.to_owned()],
        Listing::Directory(entries) => {
            let files = entries.into_iter().filter(|entry| entry.regular);
            let paths = files.map(|entry| config.join(entry.name));
            let paths: Vec<PathBuf> = paths.filter(|path| is_config(path)).collect();
            if paths.is_empty() {
                return Err(LoadError::NoFiles(config.to_owned()));
            }
            paths
        }
    };
    let mut files = Vec::new();
    for path in paths {
        let content = host.read(&path)?;
        let gone = || LoadError::NoConfig(path.clone());
        files.push((path.display().to_string(), content.ok_or_else(gone)?));
    }
    Ok(files)
}

fn is_config(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("json" | "yaml" | "yml"))
}
