//! Kubeconfigs as kubeadm writes them: for bootstrapping with a token, for a
//! client certificate, and the one without a user that cluster-info carries.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use identity::certificate::{self, CertificateError};
use serde::Serialize;
use thiserror::Error;

use crate::files::{self, FileError};
use crate::token::Token;

/// kubeadm's name for a cluster that has been given none.
pub const DEFAULT_CLUSTER_NAME: &str = "kubernetes";
/// kubeadm's name for whoever holds a bootstrap token.
pub const BOOTSTRAP_USER: &str = "tls-bootstrap-token-user";

/// Why a kubeconfig could not be made.
#[derive(Debug, Error)]
pub enum KubeconfigError {
    #[error("the server {0:?} is not an address of the form https://HOST:PORT")]
    Server(String),
    #[error("the certificate authority for {server} cannot be used: {cause}")]
    Authority {
        server: String,
        cause: CertificateError,
    },
    #[error("the kubeconfig cannot be put into words: {0}")]
    Encode(String),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where a cluster is and whom to trust there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    server: String,
    authority_pem: Vec<u8>,
}

impl Endpoint {
    /// `server` is a URL with the scheme https; the authority is PEM with at
    /// least one certificate.
    pub fn new(server: &str, authority_pem: &[u8]) -> Result<Self, KubeconfigError> {
        let host = server.strip_prefix("https://").unwrap_or_default();
        let odd = |character: char| character.is_whitespace() || character.is_control();
        if host.is_empty() || host.starts_with(['/', ':']) || host.contains(odd) {
            return Err(KubeconfigError::Server(server.to_owned()));
        }
        certificate::read_leaves(authority_pem).map_err(|cause| KubeconfigError::Authority {
            server: server.to_owned(),
            cause,
        })?;
        Ok(Self {
            server: server.to_owned(),
            authority_pem: authority_pem.to_vec(),
        })
    }

    /// As kubeadm names endpoints on the command line: HOST:PORT.
    pub fn at_host_port(host_port: &str, authority_pem: &[u8]) -> Result<Self, KubeconfigError> {
        Self::new(&format!("https://{host_port}"), authority_pem)
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// HOST:PORT, as `join` takes it.
    pub fn host_port(&self) -> &str {
        let host = self.server.trim_start_matches("https://");
        host.trim_end_matches('/')
    }

    pub fn authority_pem(&self) -> &[u8] {
        &self.authority_pem
    }
}

/// The text of a kubeconfig. It may hold a key, so that `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct KubeconfigText(String);

impl KubeconfigText {
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Puts it in place, for its owner only.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        files::write(path, self.0.as_bytes(), 0o600)
    }
}

impl std::fmt::Debug for KubeconfigText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KubeconfigText(hidden)")
    }
}

/// What a node starts with: the cluster, and a token to ask for a certificate with.
pub fn bootstrap(
    endpoint: &Endpoint,
    cluster: &str,
    token: &Token,
) -> Result<KubeconfigText, KubeconfigError> {
    let user = WrittenUser {
        token: Some(token.expose()),
        ..WrittenUser::default()
    };
    with_user(endpoint, cluster, BOOTSTRAP_USER, user)
}

/// A certificate and its key, both in the file itself.
pub fn client_certificate(
    endpoint: &Endpoint,
    cluster: &str,
    user: &str,
    certificate_pem: &[u8],
    key_pem: &[u8],
) -> Result<KubeconfigText, KubeconfigError> {
    let written = WrittenUser {
        client_certificate_data: Some(STANDARD.encode(certificate_pem)),
        client_key_data: Some(STANDARD.encode(key_pem)),
        ..WrittenUser::default()
    };
    with_user(endpoint, cluster, user, written)
}

/// The cluster alone, without a name and without anybody: what cluster-info
/// carries, and what its signatures are over.
pub fn cluster_info(endpoint: &Endpoint) -> Result<KubeconfigText, KubeconfigError> {
    render(&Document {
        clusters: [named_cluster(endpoint, "")],
        contexts: None,
        current_context: "",
        users: None,
        ..Document::default()
    })
}

fn with_user(
    endpoint: &Endpoint,
    cluster: &str,
    user: &str,
    written: WrittenUser,
) -> Result<KubeconfigText, KubeconfigError> {
    let context = format!("{user}@{cluster}");
    render(&Document {
        clusters: [named_cluster(endpoint, cluster)],
        contexts: Some([NamedContext {
            context: WrittenContext { cluster, user },
            name: &context,
        }]),
        current_context: &context,
        users: Some([NamedUser {
            name: user,
            user: written,
        }]),
        ..Document::default()
    })
}

fn named_cluster<'a>(endpoint: &'a Endpoint, name: &'a str) -> NamedCluster<'a> {
    NamedCluster {
        cluster: WrittenCluster {
            certificate_authority_data: STANDARD.encode(&endpoint.authority_pem),
            server: &endpoint.server,
        },
        name,
    }
}

fn render(document: &Document<'_>) -> Result<KubeconfigText, KubeconfigError> {
    // Long text on one line, as upstream.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(document, options);
    text.map(KubeconfigText)
        .map_err(|cause| KubeconfigError::Encode(cause.to_string()))
}

// The order of the fields is the one that upstream writes them in.

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Document<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    clusters: [NamedCluster<'a>; 1],
    contexts: Option<[NamedContext<'a>; 1]>,
    current_context: &'a str,
    kind: &'a str,
    users: Option<[NamedUser<'a>; 1]>,
}

impl Default for Document<'_> {
    fn default() -> Self {
        Self {
            api_version: "v1",
            clusters: [NamedCluster::default()],
            contexts: None,
            current_context: "",
            kind: "Config",
            users: None,
        }
    }
}

#[derive(Default, Serialize)]
struct NamedCluster<'a> {
    cluster: WrittenCluster<'a>,
    name: &'a str,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenCluster<'a> {
    certificate_authority_data: String,
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
    user: &'a str,
}

#[derive(Serialize)]
struct NamedUser<'a> {
    name: &'a str,
    user: WrittenUser,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenUser {
    #[serde(skip_serializing_if = "Option::is_none")]
    client_certificate_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_key_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use api::kubeconfig::Kubeconfig;

    use super::*;
    use crate::testing::CA_PEM;

    fn endpoint() -> Endpoint {
        Endpoint::at_host_port("api.example.test:6443", CA_PEM.as_bytes()).unwrap()
    }

    #[test]
    fn cluster_info_has_the_bytes_that_kubeadm_writes() {
        let text = cluster_info(&endpoint()).unwrap();
        assert_eq!(
            text.expose(),
            include_str!("../testdata/cluster-info-kubeconfig.txt")
        );
    }

    #[test]
    fn a_client_certificate_kubeconfig_is_laid_out_as_kubeadm_does() {
        let text = client_certificate(&endpoint(), "demo", "system:node:cp1", b"C", b"K").unwrap();
        let authority = STANDARD.encode(CA_PEM);
        let expected = format!(
            "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {authority}
    server: https://api.example.test:6443
  name: demo
contexts:
- context:
    cluster: demo
    user: system:node:cp1
  name: system:node:cp1@demo
current-context: system:node:cp1@demo
kind: Config
users:
- name: system:node:cp1
  user:
    client-certificate-data: Qw==
    client-key-data: Sw==
"
        );
        assert_eq!(text.expose(), expected);
    }

    #[test]
    fn a_bootstrap_kubeconfig_can_be_read_and_logs_in_with_the_token() {
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        let text = bootstrap(&endpoint(), DEFAULT_CLUSTER_NAME, &token).unwrap();
        assert!(text.expose().ends_with(
            "users:\n- name: tls-bootstrap-token-user\n  user:\n    token: abcdef.0123456789abcdef\n"
        ));
        let read = Kubeconfig::parse(text.expose().as_bytes(), Path::new("/x")).unwrap();
        let client = read.resolve(None).unwrap();
        assert_eq!(client.server.text, "https://api.example.test:6443");
        assert_eq!(
            read.current_context.as_deref(),
            Some("tls-bootstrap-token-user@kubernetes")
        );
        assert_eq!(format!("{text:?}"), "KubeconfigText(hidden)");
    }

    #[test]
    fn it_is_written_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bootstrap-kubelet.conf");
        cluster_info(&endpoint()).unwrap().write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_server_without_https_or_host_and_an_authority_without_certificate_are_refused() {
        for bad in [
            "",
            "https://",
            "http://x",
            "x:6443",
            "https:///x",
            "https://:6443",
            "https://a b",
            "https://a\n",
        ] {
            let outcome = Endpoint::new(bad, CA_PEM.as_bytes());
            assert!(
                matches!(outcome, Err(KubeconfigError::Server(_))),
                "{bad:?}"
            );
        }
        let outcome = Endpoint::new("https://x", b"nothing");
        assert!(matches!(outcome, Err(KubeconfigError::Authority { .. })));
    }
}
