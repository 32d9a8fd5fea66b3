//! The files of one request: key, request, certificate, kubeconfig. They are what
//! a second run of the same command goes on from.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cluster::csr::{KeyType, NewRequest, RequestContent};
use identity::{Leaf, Pair, PrivateKey};
use jiff::Timestamp;
use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

/// Why the files that are there do not let the command go on.
#[derive(Debug, Error)]
pub(super) enum FilesError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("the key {} is not there; make it, or leave --key out to have one made", .0.display())]
    NoKey(PathBuf),
    #[error("the key {} cannot be used: {cause}", path.display())]
    Key {
        path: PathBuf,
        cause: identity::keys::KeyError,
    },
    #[error(
        "{} is a request for something else (another subject, other names or another key), and is not overwritten; move it away, or choose another place with --out",
        .0.display()
    )]
    OtherRequest(PathBuf),
    #[error(
        "{} is there already and is not of this request, and is not overwritten; move it away, or choose another place with --out",
        .0.display()
    )]
    OtherCertificate(PathBuf),
    #[error(
        "the certificate {} ended on {ended}; to get a new one for the same key, move it, {} and {} away and run this again",
        certificate.display(),
        request.display(),
        kubeconfig.display()
    )]
    Expired {
        certificate: PathBuf,
        request: PathBuf,
        kubeconfig: PathBuf,
        ended: Timestamp,
    },
}

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) key: PathBuf,
    pub(super) request: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) kubeconfig: PathBuf,
    /// The key is the user's own, and must be there.
    key_is_given: bool,
}

/// A key, and whether it has yet to be written.
pub(super) struct Key {
    pub(super) private: PrivateKey,
    pub(super) pem: String,
    pub(super) is_new: bool,
}

impl Files {
    /// `out` is a prefix, or a directory in which the subject's name is the prefix.
    pub(super) fn at(
        directory: &Path,
        out: Option<&Path>,
        common_name: &str,
        key: Option<&Path>,
    ) -> Self {
        let name = file_name(common_name);
        let prefix = match out {
            None => directory.join(name),
            Some(out) => {
                let is_directory = out.as_os_str().as_encoded_bytes().ends_with(b"/");
                let out = directory.join(out);
                if is_directory || out.is_dir() {
                    out.join(name)
                } else {
                    out
                }
            }
        };
        let with = |extension: &str| {
            let mut path = prefix.clone().into_os_string();
            path.push(extension);
            PathBuf::from(path)
        };
        Self {
            key: key.map_or_else(|| with(".key"), |key| directory.join(key)),
            request: with(".csr"),
            certificate: with(".crt"),
            kubeconfig: with(".kubeconfig"),
            key_is_given: key.is_some(),
        }
    }

    /// The key that is there, else a new one, which is not written yet.
    pub(super) fn key(&self, key_type: KeyType) -> Result<Key, crate::output::Failure> {
        if let Some(text) = read(&self.key)? {
            let private = PrivateKey::from_pem(&text).map_err(|cause| FilesError::Key {
                path: self.key.clone(),
                cause,
            })?;
            return Ok(Key {
                private,
                pem: String::from_utf8_lossy(&text).into_owned(),
                is_new: false,
            });
        }
        if self.key_is_given {
            return Err(FilesError::NoKey(self.key.clone()).into());
        }
        let private = key_type.generate()?;
        Ok(Key {
            pem: private.to_pem()?,
            private,
            is_new: true,
        })
    }

    /// The request that is there, if it is for the same as `made`.
    pub(super) fn request(&self, made: &str) -> Result<Option<String>, FilesError> {
        let Some(found) = read(&self.request)? else {
            return Ok(None);
        };
        if !is_same(&found, made.as_bytes()) {
            return Err(FilesError::OtherRequest(self.request.clone()));
        }
        Ok(Some(String::from_utf8_lossy(&found).into_owned()))
    }

    /// The certificate that is there, if it is what is asked for, and is valid.
    pub(super) fn certificate(
        &self,
        wanted: &NewRequest,
        key: &Key,
        now: SystemTime,
    ) -> Result<Option<Vec<u8>>, FilesError> {
        let Some(found) = read(&self.certificate)? else {
            return Ok(None);
        };
        let pair = Pair::from_pem(&found, key.pem.as_bytes());
        let Some(leaf) = pair.ok().map(|pair| pair.leaf().clone()) else {
            return Err(FilesError::OtherCertificate(self.certificate.clone()));
        };
        if !is_for(&leaf, wanted) {
            return Err(FilesError::OtherCertificate(self.certificate.clone()));
        }
        if leaf.is_expired(now) {
            return Err(FilesError::Expired {
                certificate: self.certificate.clone(),
                request: self.request.clone(),
                kubeconfig: self.kubeconfig.clone(),
                ended: Timestamp::try_from(leaf.not_after).unwrap_or_default(),
            });
        }
        Ok(Some(found))
    }
}

/// Whether two requests (PEM) ask for the same with the same key. Their bytes may
/// differ: signatures are made with chance.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let content = |text: &[u8]| Some((RequestContent::of_pem(text).ok()?, public_key(text)?));
    let one = content(one);
    one.is_some() && one == content(other)
}

/// The public key of a request (PEM), as DER.
pub(super) fn public_key(text: &[u8]) -> Option<Vec<u8>> {
    let block = pem::parse(text).ok()?;
    let (_, request) = X509CertificationRequest::from_der(block.contents()).ok()?;
    let key = &request.certification_request_info.subject_pki;
    Some(key.raw.to_vec())
}

fn is_for(leaf: &Leaf, wanted: &NewRequest) -> bool {
    leaf.common_name == wanted.subject.common_name()
        && leaf.organizations == wanted.subject.organizations()
        && leaf.dns_names == wanted.dns_names
        && leaf.addresses == wanted.addresses
}

/// What a subject's files are called: without what would lead out of a directory
/// or need quotes in a shell.
pub(super) fn file_name(common_name: &str) -> String {
    let plain = |character: char| {
        let kept = character.is_ascii_alphanumeric() || "-_.@".contains(character);
        if kept { character } else { '-' }
    };
    let name: String = common_name.chars().map(plain).collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() {
        return "certificate".to_owned();
    }
    name.to_owned()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, FilesError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FilesError::Read {
            path: path.to_owned(),
            cause,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(subject: &str) -> NewRequest {
        NewRequest {
            subject: subject.parse().unwrap(),
            ..NewRequest::default()
        }
    }

    #[test]
    fn a_prefix_or_a_directory_says_where_the_files_are() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        let request =
            |out: Option<&str>| Files::at(here, out.map(Path::new), "a/../b:c", None).request;
        assert_eq!(request(None), here.join("a-..-b-c.csr"));
        assert_eq!(request(Some("x.y")), here.join("x.y.csr"));
        assert_eq!(request(Some("new/")), here.join("new/a-..-b-c.csr"));
        assert_eq!(request(Some(".")), here.join("./a-..-b-c.csr"));
        assert_eq!(file_name(".."), "certificate");
    }

    #[test]
    fn requests_are_the_same_if_they_ask_for_the_same_with_the_same_key() {
        let key = KeyType::EcdsaP256.generate().unwrap();
        let one = request("CN=jane,O=dev").pkcs10(&key).unwrap();
        let again = request("CN=jane,O=dev").pkcs10(&key).unwrap();
        assert_ne!(one, again, "signed with chance");
        assert!(is_same(one.as_bytes(), again.as_bytes()));
        let other = request("CN=jane,O=ops").pkcs10(&key).unwrap();
        assert!(!is_same(one.as_bytes(), other.as_bytes()));
        let other_key = KeyType::EcdsaP256.generate().unwrap();
        let other = request("CN=jane,O=dev").pkcs10(&other_key).unwrap();
        assert!(!is_same(one.as_bytes(), other.as_bytes()));
        assert!(!is_same(b"nothing", b"nothing"));
    }

    #[test]
    fn what_is_there_is_used_only_if_it_is_of_this_request() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::at(directory.path(), None, "jane", None);
        let made = files.key(KeyType::EcdsaP256).unwrap();
        assert!(made.is_new && !files.key.exists());
        fs::write(&files.key, &made.pem).unwrap();
        let key = files.key(KeyType::Ed25519).unwrap();
        assert!(!key.is_new && key.pem == made.pem);

        let first = request("CN=jane").pkcs10(&key.private).unwrap();
        assert!(files.request(&first).unwrap().is_none());
        fs::write(&files.request, &first).unwrap();
        let second = request("CN=jane").pkcs10(&key.private).unwrap();
        assert_eq!(files.request(&second).unwrap(), Some(first));
        let other = request("CN=joe").pkcs10(&key.private).unwrap();
        let refused = files.request(&other);
        assert!(matches!(refused, Err(FilesError::OtherRequest(_))));

        let certificate =
            |key: &Key| files.certificate(&request("CN=jane"), key, SystemTime::UNIX_EPOCH);
        assert!(certificate(&key).unwrap().is_none());
        let signer = rcgen::KeyPair::from_pem(&made.pem)
            .or_else(|_| rcgen::KeyPair::try_from(&key.private.to_tls()));
        let mut parameters = rcgen::CertificateParams::default();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "jane");
        parameters.not_after = rcgen::date_time_ymd(2026, 1, 1);
        let issued = parameters.self_signed(&signer.unwrap()).unwrap();
        fs::write(&files.certificate, issued.pem()).unwrap();
        assert_eq!(certificate(&key).unwrap(), Some(issued.pem().into_bytes()));
        let late: SystemTime = "2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap().into();
        let expired = files.certificate(&request("CN=jane"), &key, late);
        assert!(matches!(expired, Err(FilesError::Expired { .. })));
        let other = files.certificate(&request("CN=joe"), &key, SystemTime::UNIX_EPOCH);
        assert!(matches!(other, Err(FilesError::OtherCertificate(_))));
    }

    #[test]
    fn a_key_that_was_given_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::at(directory.path(), None, "jane", Some(Path::new("own.key")));
        assert!(files.key(KeyType::EcdsaP256).is_err());
    }
}
