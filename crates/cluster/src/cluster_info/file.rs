//! Discovery from a file that the operator has brought along: a kubeconfig with
//! the cluster, and perhaps with something to log in with.

use std::path::{Path, PathBuf};

use api::Secret;
use api::kubeconfig::{Kubeconfig, ReadError, User};
use thiserror::Error;

use super::judge::chosen_cluster;
use crate::files::{self, FileError};
use crate::kubeconfig::{Endpoint, KubeconfigError};

/// What a discovery file says.
#[derive(Clone, Debug)]
pub struct DiscoveryFile {
    pub endpoint: Endpoint,
    pub credentials: Credentials,
}

/// What a discovery file lets a node log in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing: a token is needed beside the file.
    None,
    Token(Secret<String>),
    Certificate {
        certificate_pem: Vec<u8>,
        key_pem: Secret<Vec<u8>>,
    },
}

/// Why a discovery file cannot be used.
#[derive(Debug, Error)]
pub enum DiscoveryFileError {
    #[error("the discovery file cannot be read: {0}")]
    Read(#[from] ReadError),
    #[error("the discovery file {path} cannot be used: {cause}")]
    Cluster { path: PathBuf, cause: String },
    #[error("the discovery file {path} cannot be used: {cause}")]
    Endpoint {
        path: PathBuf,
        cause: KubeconfigError,
    },
    #[error("the discovery file {path} names a file that cannot be used: {cause}")]
    Named { path: PathBuf, cause: FileError },
    #[error(
        "the discovery file {path} logs in by {kind}, which a node cannot take over; give a token with --token, or put a token or a certificate into the file"
    )]
    Credentials { path: PathBuf, kind: &'static str },
}

impl DiscoveryFile {
    /// Reads the file at `path`, which must be absolute.
    pub fn read(path: &Path) -> Result<Self, DiscoveryFileError> {
        let kubeconfig = Kubeconfig::read(path)?;
        let cluster = chosen_cluster(&kubeconfig).map_err(|cause| DiscoveryFileError::Cluster {
            path: path.to_owned(),
            cause,
        })?;
        let authority = material(
            path,
            cluster.certificate_authority_data.as_ref(),
            cluster.certificate_authority.as_deref(),
        )?;
        let server = cluster.server.as_deref().unwrap_or_default();
        let endpoint = Endpoint::new(server, &authority.unwrap_or_default()).map_err(|cause| {
            DiscoveryFileError::Endpoint {
                path: path.to_owned(),
                cause,
            }
        })?;
        let credentials = match chosen_user(&kubeconfig) {
            Some(user) => credentials(path, user)?,
            None => Credentials::None,
        };
        Ok(Self {
            endpoint,
            credentials,
        })
    }
}

fn chosen_user(kubeconfig: &Kubeconfig) -> Option<&User> {
    let context = kubeconfig
        .contexts
        .get(kubeconfig.current_context.as_deref()?)?;
    kubeconfig
        .users
        .get(context.user.as_deref().unwrap_or_default())
}

fn credentials(path: &Path, user: &User) -> Result<Credentials, DiscoveryFileError> {
    let refused = |kind| {
        Err(DiscoveryFileError::Credentials {
            path: path.to_owned(),
            kind,
        })
    };
    if user.exec.is_some() {
        return refused("a credential plugin");
    }
    if user.auth_provider.is_some() {
        return refused("an auth provider");
    }
    if user.username.is_some() || user.password.is_some() {
        return refused("user name and password");
    }
    // A token file outdoes a token, as in clients.
    if let Some(file) = &user.token_file {
        let token = named_file(path, file)?;
        let token = String::from_utf8_lossy(&token).trim().to_owned();
        return Ok(Credentials::Token(Secret::new(token)));
    }
    if let Some(token) = &user.token {
        return Ok(Credentials::Token(token.clone()));
    }
    let certificate = material(
        path,
        user.client_certificate_data.as_ref(),
        user.client_certificate.as_deref(),
    )?;
    let key_data = user.client_key_data.as_ref().map(Secret::expose);
    let key = material(path, key_data, user.client_key.as_deref())?;
    match (certificate, key) {
        (Some(certificate_pem), Some(key)) => Ok(Credentials::Certificate {
            certificate_pem,
            key_pem: Secret::new(key),
        }),
        (None, None) => Ok(Credentials::None),
        (Some(_), None) => refused("a certificate without a key"),
        (None, Some(_)) => refused("a key without a certificate"),
    }
}

/// What is in the file itself goes before what it names.
fn material(
    path: &Path,
    data: Option<&Vec<u8>>,
    file: Option<&Path>,
) -> Result<Option<Vec<u8>>, DiscoveryFileError> {
    match (data, file) {
        (Some(data), _) => Ok(Some(data.clone())),
        (None, Some(file)) => named_file(path, file).map(Some),
        (None, None) => Ok(None),
    }
}

fn named_file(path: &Path, file: &Path) -> Result<Vec<u8>, DiscoveryFileError> {
    let content = files::read(file).and_then(|content| {
        content.ok_or_else(|| FileError::new("read", file, std::io::ErrorKind::NotFound.into()))
    });
    content.map_err(|cause| DiscoveryFileError::Named {
        path: path.to_owned(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kubeconfig;
    use crate::testing::CA_PEM;

    fn read(text: &str) -> Result<DiscoveryFile, DiscoveryFileError> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.crt"), CA_PEM).unwrap();
        let path = directory.path().join("discovery.conf");
        fs::write(&path, text).unwrap();
        DiscoveryFile::read(&path)
    }

    fn endpoint() -> Endpoint {
        Endpoint::new("https://api.example.test:6443", CA_PEM.as_bytes()).unwrap()
    }

    fn with_user(user: &str) -> String {
        format!(
            "clusters: [{{name: c, cluster: {{server: 'https://api.example.test:6443', \
             certificate-authority: ca.crt}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\nusers: [{{name: u, user: {user}}}]\n"
        )
    }

    #[test]
    fn a_cluster_info_kubeconfig_has_the_cluster_and_nobody() {
        let file = read(kubeconfig::cluster_info(&endpoint()).unwrap().expose()).unwrap();
        assert_eq!(file.endpoint, endpoint());
        assert_eq!(file.credentials, Credentials::None);
    }

    #[test]
    fn files_that_it_names_are_read_beside_it() {
        let file = read(&with_user("{token: abc}")).unwrap();
        assert_eq!(file.endpoint, endpoint());
        assert_eq!(
            file.credentials,
            Credentials::Token(Secret::new("abc".to_owned()))
        );
    }

    #[test]
    fn credentials_that_a_node_cannot_take_over_are_refused_by_name() {
        for (user, kind) in [
            ("{exec: {command: x}}", "a credential plugin"),
            ("{username: a, password: b}", "user name and password"),
            ("{auth-provider: {name: gcp}}", "an auth provider"),
            ("{client-key-data: QQ==}", "a key without a certificate"),
        ] {
            let error = read(&with_user(user)).unwrap_err();
            assert!(error.to_string().contains(kind), "{user}: {error}");
        }
    }

    #[test]
    fn a_file_without_cluster_or_authority_is_refused() {
        let error = read("kind: Config\n").unwrap_err();
        assert!(matches!(error, DiscoveryFileError::Cluster { .. }));
        let text = with_user("{}").replace("ca.crt", "gone.crt");
        let error = read(&text).unwrap_err();
        assert!(matches!(error, DiscoveryFileError::Named { .. }), "{error}");
    }
}
