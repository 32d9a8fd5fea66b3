//! What TLS needs from a kubeconfig: whom to trust, and the certificate to show.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{Secret, files};

/// How the server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub trust: Trust,
    /// The name that the certificate must be for, where it is not the address's host.
    pub server_name: Option<String>,
}

/// Which certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// No CA is configured: those of the machine.
    System,
    /// Only these.
    Authority(Authority),
    /// Any (`insecure-skip-tls-verify`).
    Unverified,
}

/// A CA bundle. One that lies in a file is to be loaded again when the file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(pub Material);

/// The client certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateSource {
    pub certificate: Material,
    pub key: Material,
}

/// PEM text, or the file that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Material {
    /// The field that it stood in, and its content.
    Data(&'static str, Secret<Vec<u8>>),
    File(PathBuf),
}

/// A certificate, its chain and the key that fits it, ready for a handshake.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    pub certified: Arc<CertifiedKey>,
    /// When the first certificate of the chain ends to be valid, be it the leaf or not.
    pub first_expiry: Timestamp,
}

/// Why TLS material cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{origin} holds no certificate in PEM")]
    NoCertificate { origin: String },
    #[error("{origin} holds no private key in PEM")]
    NoKey { origin: String },
    #[error("{origin} holds a certificate that cannot be read")]
    BadCertificate { origin: String },
    #[error(
        "the key in {origin} cannot be used: it is damaged, or of a kind that is not supported"
    )]
    BadKey { origin: String },
    #[error(
        "the key in {key} does not belong to the certificate in {certificate}: replace both with a pair that was made together"
    )]
    Mismatch { certificate: String, key: String },
}

impl Material {
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    pub(super) fn load(&self) -> Result<Secret<Vec<u8>>, TlsError> {
        match self {
            Self::Data(_, bytes) => Ok(bytes.clone()),
            Self::File(path) => {
                files::read(path)
                    .map(Secret::new)
                    .map_err(|source| TlsError::Read {
                        path: path.clone(),
                        source,
                    })
            }
        }
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Material({self})")
    }
}

/// Where it comes from, not what it is.
impl fmt::Display for Material {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(field, _) => formatter.write_str(field),
            Self::File(path) => path.display().fmt(formatter),
        }
    }
}

impl Authority {
    /// The certificates of the bundle. What is not a certificate in it is passed over, as
    /// upstream does; but one must be there.
    pub fn load(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let pem = self.0.load()?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.expose())
            .filter_map(Result::ok)
            .filter(|der| X509Certificate::from_der(der).is_ok())
            .collect();
        if certificates.is_empty() {
            return Err(TlsError::NoCertificate {
                origin: self.0.to_string(),
            });
        }
        Ok(certificates)
    }
}

impl CertificateSource {
    /// Both halves are files: they are to be loaded again when they change. A pair of which a
    /// half stands in the kubeconfig stays what it was.
    pub fn is_reloadable(&self) -> bool {
        self.certificate.is_file() && self.key.is_file()
    }

    /// Reads both halves, and makes sure that they belong together.
    pub fn load(&self, provider: &CryptoProvider) -> Result<ClientCertificate, TlsError> {
        let certificate = self.certificate.load()?;
        let key = self.key.load()?;
        let origins = (self.certificate.to_string(), self.key.to_string());
        ClientCertificate::from_pem(certificate.expose(), key.expose(), &origins, provider)
    }
}

impl ClientCertificate {
    /// `origins` are the names of both halves in errors.
    pub(super) fn from_pem(
        certificate: &[u8],
        key: &[u8],
        origins: &(String, String),
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let origin = || origins.0.clone();
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| TlsError::BadCertificate { origin: origin() })?;
        let expiries = chain
            .iter()
            .map(|der| expiry(der))
            .collect::<Option<Vec<_>>>();
        let expiries = expiries.ok_or_else(|| TlsError::BadCertificate { origin: origin() })?;
        let first_expiry = expiries
            .into_iter()
            .min()
            .ok_or_else(|| TlsError::NoCertificate { origin: origin() })?;

        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey {
            origin: origins.1.clone(),
        })?;
        let certified =
            CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
                    certificate: origin(),
                    key: origins.1.clone(),
                },
                _ => TlsError::BadKey {
                    origin: origins.1.clone(),
                },
            })?;
        Ok(Self {
            certified: Arc::new(certified),
            first_expiry,
        })
    }
}

fn expiry(der: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::crypto::ring::default_provider;

    use super::super::testing::{Pair, pair};
    use super::*;

    fn data(text: &str) -> Material {
        Material::Data(
            "client-certificate-data",
            Secret::new(text.as_bytes().to_vec()),
        )
    }

    fn load(certificate: &str, key: &str) -> Result<ClientCertificate, TlsError> {
        let source = CertificateSource {
            certificate: data(certificate),
            key: data(key),
        };
        source.load(&default_provider())
    }

    #[test]
    fn a_pair_is_taken_however_its_blocks_are_arranged() {
        let Pair { certificate, key } = pair(2030);
        let other = pair(2028).certificate;
        let both = format!("{certificate}{key}");
        let parameters =
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        for (certificate, key) in [
            (&certificate, &key),
            (&both, &both),
            (
                &format!("{key}{certificate}"),
                &format!("{certificate}{key}"),
            ),
            (
                &format!("note\n{certificate}"),
                &format!("{parameters}{key}"),
            ),
        ] {
            assert_eq!(
                load(certificate, key).unwrap().first_expiry.to_string(),
                "2030-01-01T00:00:00Z"
            );
        }
        let chain = load(&format!("{certificate}{other}"), &key).unwrap();
        assert_eq!(chain.certified.cert.len(), 2);
        assert_eq!(chain.first_expiry.to_string(), "2028-01-01T00:00:00Z");
    }

    #[test]
    fn a_pair_that_is_none_says_which_half_is_wrong() {
        let (one, other) = (pair(2030), pair(2030));
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            load(&one.certificate, &other.key),
            Err(TlsError::Mismatch { .. })
        ));
        assert!(matches!(
            load("", &one.key),
            Err(TlsError::NoCertificate { .. })
        ));
        assert!(matches!(
            load(&one.key, &one.key),
            Err(TlsError::NoCertificate { .. })
        ));
        assert!(matches!(
            load(&one.certificate, ""),
            Err(TlsError::NoKey { .. })
        ));
        assert!(matches!(
            load(&one.certificate, &one.certificate),
            Err(TlsError::NoKey { .. })
        ));
        assert!(matches!(
            load(junk, &one.key),
            Err(TlsError::BadCertificate { .. })
        ));
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert!(matches!(
            load(&one.certificate, key),
            Err(TlsError::BadKey { .. })
        ));
    }

    #[test]
    fn a_bundle_needs_one_certificate_that_can_be_read() {
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let (one, other) = (pair(2030), pair(2030));
        let bundle = |text: &str| Authority(data(text)).load().map(|list| list.len());
        assert_eq!(
            bundle(&format!(
                "{junk}{}{}{}",
                one.certificate, one.key, other.certificate
            ))
            .unwrap(),
            2
        );
        assert!(bundle(junk).is_err() && bundle("").is_err() && bundle("text").is_err());
    }

    #[test]
    fn files_are_read_anew_and_named_when_they_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pair.pem");
        let source = CertificateSource {
            certificate: Material::File(path.clone()),
            key: Material::File(path.clone()),
        };
        let error = source.load(&default_provider()).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        for year in [2030, 2031] {
            let Pair { certificate, key } = pair(year);
            fs::write(&path, format!("{certificate}{key}")).unwrap();
            let expiry = source.load(&default_provider()).unwrap().first_expiry;
            assert_eq!(expiry.to_string(), format!("{year}-01-01T00:00:00Z"));
        }
        assert!(source.is_reloadable());
    }
}
