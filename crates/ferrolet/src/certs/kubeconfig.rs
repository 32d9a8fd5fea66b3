//! How the kubeconfigs fit: whether the main one is good, which certificate it
//! shows, and whether the next start would use the bootstrap one.

use std::io;
use std::path::{Path, PathBuf};

use api::kubeconfig::{
    CertificateSource, Identity, Kubeconfig, ReadError, TlsError, Unusable, Validity, judge,
};
use jiff::Timestamp;
use rustls::crypto::ring::default_provider;
use serde::Serialize;

use super::Places;

/// The main kubeconfig, and what a start would make of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KubeconfigLook {
    pub(crate) file: PathBuf,
    pub(crate) verdict: Verdict,
    /// What it is worth, in a sentence.
    pub(crate) told: String,
    /// Whose certificate it shows; `None` if that cannot be told.
    pub(crate) shows: Option<Shows>,
    /// The user entry of its current context.
    pub(crate) user: Option<String>,
    pub(crate) bootstrap: BootstrapLook,
    #[serde(skip)]
    pub(crate) source: Option<CertificateSource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    Valid,
    Absent,
    /// Not for this user to read.
    Forbidden,
    /// It is well-formed; what it lacks is a valid certificate.
    NoCertificate,
    Unusable,
}

/// The certificate that a kubeconfig shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Shows {
    /// The store's current pair.
    Store,
    File(PathBuf),
    /// One that stands in the kubeconfig itself.
    Embedded,
    /// None: a token, a plugin, or nothing.
    NoCertificate,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BootstrapLook {
    pub(crate) file: PathBuf,
    /// The next start, if told of this file, would bootstrap.
    pub(crate) needed: bool,
    pub(crate) present: bool,
    /// Why it could not be used.
    pub(crate) fault: Option<String>,
}

impl KubeconfigLook {
    pub(crate) fn at(places: &Places, store: &Path, now: Timestamp) -> Self {
        let file = places.kubeconfig.clone();
        let validity = judge(&file, now, &default_provider());
        let parsed = Kubeconfig::read(&file).ok();
        let config = parsed.as_ref().and_then(|parsed| parsed.resolve(None).ok());
        let verdict = verdict(&validity);
        Self {
            told: told(&validity, verdict, &file),
            verdict,
            shows: parsed.as_ref().map(|parsed| shows(parsed, store)),
            user: parsed.as_ref().and_then(user),
            bootstrap: BootstrapLook::at(&places.bootstrap_kubeconfig, verdict),
            source: config.and_then(|config| match config.identity {
                Identity::Given(given) => given.certificate,
                Identity::Exec(_) => None,
            }),
            file,
        }
    }
}

impl KubeconfigLook {
    /// Where the disk does not answer.
    pub(crate) fn unread(places: &Places) -> Self {
        Self {
            file: places.kubeconfig.clone(),
            verdict: Verdict::Forbidden,
            told: String::new(),
            shows: None,
            user: None,
            bootstrap: BootstrapLook {
                file: places.bootstrap_kubeconfig.clone(),
                needed: false,
                present: false,
                fault: None,
            },
            source: None,
        }
    }
}

impl BootstrapLook {
    fn at(file: &Path, main: Verdict) -> Self {
        let fault = match Kubeconfig::read(file) {
            Err(ReadError::Io { source, .. }) if is_absence(&source) => None,
            Err(error) => Some(error.to_string()),
            Ok(parsed) => parsed.resolve(None).err().map(|error| error.to_string()),
        };
        Self {
            file: file.to_owned(),
            // One that may not be read ends a start, and bootstraps nothing.
            needed: !matches!(main, Verdict::Valid | Verdict::Forbidden),
            present: file.symlink_metadata().is_ok(),
            fault,
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.present && self.fault.is_none()
    }
}

fn verdict(validity: &Validity) -> Verdict {
    if file_error(validity).is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return Verdict::Forbidden;
    }
    match validity {
        Validity::Valid { .. } => Verdict::Valid,
        Validity::Absent => Verdict::Absent,
        Validity::NoCertificate | Validity::Expired { .. } | Validity::Material(_) => {
            Verdict::NoCertificate
        }
        // An agent that bootstraps in the background writes the kubeconfig first,
        // and what it points at later.
        Validity::Unusable(error) if matches!(&error.problem, Unusable::File { field, .. } if field.starts_with("client-")) => {
            Verdict::NoCertificate
        }
        Validity::Inaccessible(_) | Validity::Unreadable(_) | Validity::Unusable(_) => {
            Verdict::Unusable
        }
    }
}

/// What the system said of a file: the kubeconfig, or one that it names.
fn file_error(validity: &Validity) -> Option<&io::Error> {
    match validity {
        Validity::Inaccessible(error)
        | Validity::Unreadable(ReadError::Io { source: error, .. })
        | Validity::Material(TlsError::Read { source: error, .. }) => Some(error),
        Validity::Unusable(error) => match &error.problem {
            Unusable::File { source, .. } => Some(source),
            _ => None,
        },
        _ => None,
    }
}

fn told(validity: &Validity, verdict: Verdict, file: &Path) -> String {
    match verdict {
        Verdict::Absent => format!("{} is not there", file.display()),
        _ => validity.to_string(),
    }
}

/// As written, whether what it points at is there or not.
fn shows(parsed: &Kubeconfig, store: &Path) -> Shows {
    let user = user(parsed).and_then(|name| parsed.users.get(&name));
    let Some(user) = user else {
        return Shows::NoCertificate;
    };
    match (&user.client_certificate, &user.client_certificate_data) {
        (_, Some(_)) => Shows::Embedded,
        (Some(path), None) if path == store => Shows::Store,
        (Some(path), None) => Shows::File(path.clone()),
        (None, None) => Shows::NoCertificate,
    }
}

fn user(parsed: &Kubeconfig) -> Option<String> {
    let context = parsed.contexts.get(parsed.current_context.as_ref()?)?;
    context.user.clone()
}

fn is_absence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
