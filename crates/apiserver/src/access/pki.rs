//! The cluster's own keys and certificates: made at the first start, found at the
//! next. Names and contents are kubeadm's, so that its tools can read the directory.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::KeyPair;
use thiserror::Error;

use super::files::{self, FileError};
use super::pair::{self, Leaf, Pair, PairError, Purpose};
use super::token_key::{TokenKey, TokenKeyError};
use super::user::{KUBELET_CLIENT, MASTERS};

/// The user of the admin's certificate.
pub const ADMIN: &str = "kubernetes-admin";

/// Why the cluster has no keys.
#[derive(Debug, Error)]
pub enum PkiError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} cannot be used: {cause}; restore it, or move the whole directory away to begin a new cluster", path.display())]
    Unusable { path: PathBuf, cause: PairError },
    #[error("{} is not the certificate of the key beside it, or has ended; restore it, or move the whole directory away to begin a new cluster", .0.display())]
    OtherCa(PathBuf),
    #[error("{} is there and its key is not; restore ca.key, or move the whole directory away to begin a new cluster", .0.display())]
    CaWithoutKey(PathBuf),
    #[error(transparent)]
    Make(#[from] PairError),
    #[error("{} cannot be used: {cause}", path.display())]
    TokenKey { path: PathBuf, cause: TokenKeyError },
}

/// What the server is reached by, beside the names that every cluster has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingNames {
    /// Host names.
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// The address of the service `kubernetes`.
    pub service_address: IpAddr,
    /// The domain of the cluster's services, `cluster.local` by default.
    pub cluster_domain: String,
}

/// All keys and certificates of a cluster.
pub struct Pki {
    pub ca: Pair,
    pub serving: Pair,
    pub admin: Pair,
    /// As whom the server asks kubelets.
    pub kubelet_client: Pair,
    pub token_key: Arc<TokenKey>,
}

impl Pki {
    /// Finds the cluster's keys in a directory, makes those that are not there, and
    /// renews certificates that end soon or lack a name. Without a directory nothing
    /// is kept.
    pub fn open(
        directory: Option<&Path>,
        names: &ServingNames,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        if let Some(directory) = directory {
            files::make_directory(directory)?;
        }
        let drawer = Drawer { directory, now };
        let ca = drawer.ca()?;
        let serving = drawer.leaf("apiserver", &serving_leaf(names), &ca)?;
        let admin = drawer.leaf("admin", &client_leaf(ADMIN, Some(MASTERS)), &ca)?;
        let kubelet_client = client_leaf(KUBELET_CLIENT, None);
        let kubelet_client = drawer.leaf("apiserver-kubelet-client", &kubelet_client, &ca)?;
        let token_key = Arc::new(drawer.token_key()?);
        Ok(Self {
            ca,
            serving,
            admin,
            kubelet_client,
            token_key,
        })
    }
}

impl fmt::Debug for Pki {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pki").finish_non_exhaustive()
    }
}

fn serving_leaf(wanted: &ServingNames) -> Leaf {
    let mut names: Vec<_> = wanted
        .names
        .iter()
        .map(|name| name.to_lowercase())
        .collect();
    for name in [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "localhost",
    ] {
        names.push(name.to_owned());
    }
    names.push(format!("kubernetes.default.svc.{}", wanted.cluster_domain));
    names.sort();
    names.dedup();
    let mut addresses = vec![
        wanted.service_address,
        Ipv4Addr::LOCALHOST.into(),
        Ipv6Addr::LOCALHOST.into(),
    ];
    addresses.extend(&wanted.addresses);
    addresses.sort();
    addresses.dedup();
    Leaf {
        common_name: "kube-apiserver",
        organization: None,
        purpose: Purpose::Server,
        names,
        addresses,
    }
}

fn client_leaf(common_name: &'static str, organization: Option<&'static str>) -> Leaf {
    Leaf {
        common_name,
        organization,
        purpose: Purpose::Client,
        names: Vec::new(),
        addresses: Vec::new(),
    }
}

/// Where keys are kept. Of each pair the key is written first: what a crash leaves
/// is a key without a certificate, which is given one at the next start.
struct Drawer<'a> {
    directory: Option<&'a Path>,
    now: Timestamp,
}

impl Drawer<'_> {
    fn ca(&self) -> Result<Pair, PkiError> {
        let key = self.key("ca.key")?;
        let certificate = self.certificate("ca.crt")?;
        match (key, certificate) {
            (None, Some((path, _))) => Err(PkiError::CaWithoutKey(path)),
            (Some(key), Some((path, certificate))) => {
                let usable = pair::is_ca_with(&certificate, &key, self.now).map_err(|cause| {
                    PkiError::Unusable {
                        path: path.clone(),
                        cause,
                    }
                })?;
                if usable {
                    Ok(Pair::new(certificate, key))
                } else {
                    Err(PkiError::OtherCa(path))
                }
            }
            (key, None) => {
                let key = self.key_or_new("ca.key", key)?;
                let ca = pair::self_signed_ca(key, self.now)?;
                self.keep("ca.crt", &ca.certificate_pem(), 0o644)?;
                Ok(ca)
            }
        }
    }

    fn leaf(&self, name: &str, leaf: &Leaf, ca: &Pair) -> Result<Pair, PkiError> {
        let (key_file, certificate_file) = (format!("{name}.key"), format!("{name}.crt"));
        let key = self.key_or_new(&key_file, self.key(&key_file)?)?;
        // One that cannot be read is one to be made anew: the CA is here.
        let found = self.certificate(&certificate_file).ok().flatten();
        if let Some((_, certificate)) = found
            && pair::serves(&certificate, leaf, &key, ca, self.now)
        {
            return Ok(Pair::new(certificate, key));
        }
        let made = pair::signed_leaf(leaf, key, ca, self.now)?;
        self.keep(&certificate_file, &made.certificate_pem(), 0o644)?;
        Ok(made)
    }

    fn token_key(&self) -> Result<TokenKey, PkiError> {
        let key = self.key_or_new("sa.key", self.key("sa.key")?)?;
        self.keep("sa.pub", &pair::public_pem(&key), 0o600)?;
        TokenKey::new(&key).map_err(|cause| PkiError::TokenKey {
            path: self.path("sa.key").unwrap_or_default(),
            cause,
        })
    }

    fn key_or_new(&self, file: &str, found: Option<KeyPair>) -> Result<KeyPair, PkiError> {
        if let Some(key) = found {
            return Ok(key);
        }
        let key = pair::generate_key()?;
        self.keep(file, &pair::key_pem(&key), 0o600)?;
        Ok(key)
    }

    fn key(&self, file: &str) -> Result<Option<KeyPair>, PkiError> {
        let Some((path, text)) = self.find(file)? else {
            return Ok(None);
        };
        let key = pair::parse_key(&text).map_err(|cause| PkiError::Unusable { path, cause })?;
        Ok(Some(key))
    }

    fn certificate(
        &self,
        file: &str,
    ) -> Result<Option<(PathBuf, rustls_pki_types::CertificateDer<'static>)>, PkiError> {
        let Some((path, text)) = self.find(file)? else {
            return Ok(None);
        };
        match pair::parse_certificate(&text) {
            Ok(certificate) => Ok(Some((path, certificate))),
            Err(cause) => Err(PkiError::Unusable { path, cause }),
        }
    }

    fn find(&self, file: &str) -> Result<Option<(PathBuf, String)>, FileError> {
        let Some(path) = self.path(file) else {
            return Ok(None);
        };
        let text = files::read(&path)?;
        Ok(text.map(|text| (path, text)))
    }

    fn keep(&self, file: &str, content: &str, mode: u32) -> Result<(), FileError> {
        let Some(path) = self.path(file) else {
            return Ok(());
        };
        if files::read(&path)?.as_deref() == Some(content) {
            return Ok(());
        }
        files::write(&path, content, mode)
    }

    fn path(&self, file: &str) -> Option<PathBuf> {
        self.directory.map(|directory| directory.join(file))
    }
}

#[cfg(test)]
pub(crate) mod tests_support;

#[cfg(test)]
mod tests;
