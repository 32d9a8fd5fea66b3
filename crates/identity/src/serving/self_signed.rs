//! The self-signed serving pair, for a node that was given no other: made once,
//! kept in upstream's files, and used from then on even if it expires.
//!
//! Upstream makes RSA keys; ours are ECDSA P-256, which cost a thousandth.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use time::OffsetDateTime;

use crate::certificate;
use crate::files::{self, Entry, FileError, Step};
use crate::keys::{self, KeyError, PrivateKey};
use crate::pair::Pair;
use crate::request::{directory_string, parse_address};
use crate::store::{self, StoreError};

const CERTIFICATE_FILE: &str = "kubelet.crt";
const KEY_FILE: &str = "kubelet.key";

/// How far back validity begins, for clients whose clock is behind.
const HEAD_START: Duration = Duration::from_secs(3600);
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why there is no self-signed serving pair.
#[derive(Debug, Error)]
pub enum ServingError {
    #[error("{} is there but {} cannot be read; put the missing half there, or remove the other: a new pair will be made", present.display(), missing.display())]
    Half { present: PathBuf, missing: PathBuf },
    #[error(transparent)]
    Load(#[from] StoreError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("no serving certificate could be made for \"{host}\": {cause}")]
    Generate { host: String, cause: String },
}

/// The files of the self-signed pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingFiles {
    directory: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl ServingFiles {
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            certificate: directory.join(CERTIFICATE_FILE),
            key: directory.join(KEY_FILE),
        }
    }

    /// The pair in the files, or, where both are absent, a new one for `host`.
    /// One file without the other is an error: somebody must say which is right.
    pub fn obtain(&self, host: &str, now: SystemTime) -> Result<Pair, ServingError> {
        self.finish_interrupted()?;
        let half = |present: &Path, missing: &Path| ServingError::Half {
            present: present.to_owned(),
            missing: missing.to_owned(),
        };
        match (readable(&self.certificate), readable(&self.key)) {
            (true, true) => Ok(store::read_files(&self.certificate, &self.key)?),
            (true, false) => Err(half(&self.certificate, &self.key)),
            (false, true) => Err(half(&self.key, &self.certificate)),
            (false, false) => self.create(host, now),
        }
    }

    fn create(&self, host: &str, now: SystemTime) -> Result<Pair, ServingError> {
        let pair = self_signed(host, now)?;
        let key_pem = pair.key().to_pem().map_err(|cause| failed(host, &cause))?;
        files::run_all(&self.plan(pair.certificate_pem(), key_pem)?)?;
        Ok(pair)
    }

    /// Both files are whole before either gets its name, so that a crash between
    /// the two renames leaves what `finish_interrupted` needs.
    fn plan(&self, certificate_pem: String, key_pem: String) -> Result<Vec<Step>, FileError> {
        let certificate = files::beside(&self.certificate);
        let key = files::beside(&self.key);
        let mut steps = vec![Step::MakeDirectory(self.directory.clone())];
        for leftover in [&certificate, &key] {
            if Entry::at(leftover)? != Entry::Nothing {
                steps.push(Step::Remove(leftover.clone()));
            }
        }
        steps.extend([
            Step::Write {
                path: key.clone(),
                content: key_pem.into_bytes(),
                mode: 0o600,
            },
            Step::Write {
                path: certificate.clone(),
                content: certificate_pem.into_bytes(),
                mode: 0o644,
            },
            Step::Rename {
                from: key,
                to: self.key.clone(),
            },
            Step::Rename {
                from: certificate,
                to: self.certificate.clone(),
            },
            Step::SyncDirectory(self.directory.clone()),
        ]);
        Ok(steps)
    }

    fn finish_interrupted(&self) -> Result<(), FileError> {
        let waiting = files::beside(&self.certificate);
        let interrupted =
            !files::exists(&self.certificate)? && store::read_files(&waiting, &self.key).is_ok();
        if !interrupted {
            return Ok(());
        }
        files::run_all(&[
            Step::Rename {
                from: waiting,
                to: self.certificate.clone(),
            },
            Step::SyncDirectory(self.directory.clone()),
        ])
    }
}

/// A pair for `host` (a DNS name or an address), signed by a CA whose key is
/// thrown away and whose certificate follows the leaf.
pub fn self_signed(host: &str, now: SystemTime) -> Result<Pair, ServingError> {
    generate(host, now).map_err(|cause| failed(host, &cause))
}

fn generate(host: &str, now: SystemTime) -> Result<Pair, String> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_err(|_| "the clock is before 1970; set it")?;
    let from = now.saturating_sub(HEAD_START);
    let life = (moment(from)?, moment(from + LIFETIME)?);

    let ca_key = PrivateKey::generate().map_err(|cause| cause.to_string())?;
    let mut ca = parameters(&format!("{host}-ca@{}", now.as_secs()), life)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    let ca_certificate = ca
        .self_signed(ca_key.signer())
        .map_err(|cause| cause.to_string())?;

    let key = PrivateKey::generate().map_err(|cause| cause.to_string())?;
    let mut leaf = parameters(&format!("{host}@{}", now.as_secs()), life)?;
    leaf.is_ca = IsCa::ExplicitNoCa;
    // An elliptic curve key encrypts nothing, so unlike upstream's RSA keys it
    // must not claim to (RFC 8813).
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.subject_alt_names = vec![alternative_name(host)?];
    leaf.use_authority_key_identifier_extension = true;
    let issuer = Issuer::from_params(&ca, ca_key.signer());
    let certificate = leaf
        .signed_by(key.signer(), &issuer)
        .map_err(|cause| cause.to_string())?;

    let pem = keys::encode(certificate::TAG, certificate.der())
        + &keys::encode(certificate::TAG, ca_certificate.der());
    Pair::issued(pem.as_bytes(), key).map_err(|cause| cause.to_string())
}

fn parameters(
    common_name: &str,
    (from, until): (OffsetDateTime, OffsetDateTime),
) -> Result<CertificateParams, String> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, directory_string(common_name));
    parameters.serial_number = Some(serial_number()?);
    parameters.not_before = from;
    parameters.not_after = until;
    Ok(parameters)
}

/// Positive and of 63 bits, as upstream draws them.
fn serial_number() -> Result<SerialNumber, String> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| KeyError::Random.to_string())?;
    let number = u64::from_be_bytes(bytes) >> 1;
    Ok(number.max(1).into())
}

fn alternative_name(host: &str) -> Result<SanType, String> {
    if let Some(address) = parse_address(host) {
        return Ok(SanType::IpAddress(address));
    }
    let name = Ia5String::try_from(host);
    name.map(SanType::DnsName)
        .map_err(|_| "a certificate takes ASCII names only; set --hostname-override".to_owned())
}

/// Fails for years that a certificate cannot hold.
fn moment(since_1970: Duration) -> Result<OffsetDateTime, String> {
    let seconds = i64::try_from(since_1970.as_secs()).ok();
    let moment = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    moment.ok_or_else(|| "the clock is after the year 9999; set it".to_owned())
}

fn readable(path: &Path) -> bool {
    std::fs::File::open(path).is_ok()
}

fn failed(host: &str, cause: &dyn std::fmt::Display) -> ServingError {
    ServingError::Generate {
        host: host.to_owned(),
        cause: cause.to_string(),
    }
}

#[cfg(test)]
mod tests;
