//! What there is: certificates, kubeconfigs, and what a running agent says.

use std::path::{Path, PathBuf};
use std::{fs, io};

use identity::certificate::read_chain;
use identity::decide::rotation::deadline;
use identity::decide::state::{Event, State};
use identity::published::Published;
use identity::{Leaf, Pair, Purpose};
use jiff::Timestamp;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::Places;
use super::kubeconfig::{KubeconfigLook, Shows};
use super::process::Process;
use super::span::Moment;

/// Everything that is reported, before it is judged.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Looked {
    pub(crate) now: Moment,
    pub(crate) client: CertificateLook,
    pub(crate) serving: CertificateLook,
    pub(crate) kubeconfig: KubeconfigLook,
    pub(crate) agent: AgentLook,
}

/// The certificate in use for one purpose.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CertificateLook {
    pub(crate) origin: Origin,
    pub(crate) file: PathBuf,
    /// Where the file leads, if it is a symlink.
    pub(crate) target: Option<PathBuf>,
    #[serde(flatten)]
    pub(crate) content: Content,
    /// What follows a broken pair best: the newest good one beside it.
    #[serde(skip)]
    pub(crate) spare: Option<PathBuf>,
}

/// Who put a certificate there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Origin {
    /// The agent, which had it signed.
    Store,
    /// The kubeconfig, in itself or by pointing at files.
    Kubeconfig,
    /// The agent, which signed it itself.
    SelfSigned,
}

#[derive(Debug, Serialize)]
#[serde(tag = "found", rename_all = "camelCase")]
pub(crate) enum Content {
    Nothing,
    /// Not for this user to read.
    Forbidden,
    Broken {
        cause: String,
    },
    Certificate(Box<Details>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    pub(crate) common_name: String,
    pub(crate) subject: String,
    pub(crate) issuer: String,
    pub(crate) not_before: Moment,
    pub(crate) not_after: Moment,
    pub(crate) life: Life,
    /// The agent renews it at a moment between these two.
    pub(crate) renewal_from: Moment,
    pub(crate) renewal_until: Moment,
    #[serde(skip)]
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Life {
    NotYetValid,
    Valid,
    Expired,
}

/// What an agent has published here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentLook {
    pub(crate) file: PathBuf,
    /// `None`: no agent of ours has run here.
    pub(crate) published: Option<Published>,
    pub(crate) age_seconds: Option<u64>,
    pub(crate) process: Option<Process>,
    /// Why it cannot be read.
    pub(crate) fault: Option<String>,
}

impl Looked {
    pub(crate) fn at(places: &Places, now: Timestamp) -> Self {
        let store = store_file(&places.cert_dir, Purpose::Client);
        let kubeconfig = KubeconfigLook::at(places, &store, now);
        Self {
            client: client(places, &kubeconfig, now),
            serving: serving(places, now),
            kubeconfig,
            agent: AgentLook::at(&places.cert_dir, now),
            now: Moment::of(now.into()),
        }
    }
}

impl Looked {
    /// What is known where the disk does not answer.
    pub(crate) fn unread(places: &Places, now: Timestamp) -> Self {
        let forbidden = |purpose| CertificateLook {
            origin: Origin::Store,
            file: store_file(&places.cert_dir, purpose),
            target: None,
            content: Content::Forbidden,
            spare: None,
        };
        Self {
            now: Moment::of(now.into()),
            client: forbidden(Purpose::Client),
            serving: forbidden(Purpose::Serving),
            kubeconfig: KubeconfigLook::unread(places),
            agent: AgentLook {
                file: Published::path(&places.cert_dir),
                published: None,
                age_seconds: None,
                process: None,
                fault: None,
            },
        }
    }
}

impl AgentLook {
    fn at(directory: &Path, now: Timestamp) -> Self {
        let file = Published::path(directory);
        let (published, fault) = match Published::read(&file) {
            Ok(published) => (Some(published), None),
            Err(error) if error.is_absence() => (None, None),
            Err(error) => (None, Some(error.to_string())),
        };
        // Time may have run on since: a certificate that was in use is expired.
        let published = published.map(|published| Published {
            client: published.client.map(|state| aged(state, now)),
            serving: published.serving.map(|state| aged(state, now)),
            ..published
        });
        let written = published
            .as_ref()
            .map(|published| Moment::of(published.written_at).0);
        Self {
            file,
            age_seconds: written.map(|written| {
                let age = now.as_second().saturating_sub(written.as_second());
                u64::try_from(age).unwrap_or_default()
            }),
            process: published
                .as_ref()
                .map(|published| Process::of(published.process_id)),
            published,
            fault,
        }
    }

    /// What an agent that still runs says of one of its identities.
    pub(crate) fn state(&self, purpose: Purpose) -> Option<&State> {
        let published = self.published.as_ref()?;
        if !self.runs() {
            return None;
        }
        match purpose {
            Purpose::Client => published.client.as_ref(),
            Purpose::Serving => published.serving.as_ref(),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.process == Some(Process::Runs)
    }
}

impl CertificateLook {
    pub(crate) fn details(&self) -> Option<&Details> {
        match &self.content {
            Content::Certificate(details) => Some(details),
            _ => None,
        }
    }

    fn new(origin: Origin, file: PathBuf, content: Content) -> Self {
        Self {
            origin,
            target: fs::read_link(&file).ok(),
            file,
            content,
            spare: None,
        }
    }

    /// A pair of the agent's own: one file with both halves.
    fn stored(directory: &Path, purpose: Purpose, now: Timestamp) -> Self {
        let file = store_file(directory, purpose);
        let content = pair_in(&file, &file, now);
        let needs_other = matches!(content, Content::Nothing | Content::Broken { .. });
        Self {
            spare: needs_other
                .then(|| spare(directory, purpose, now))
                .flatten(),
            ..Self::new(Origin::Store, file, content)
        }
    }
}

/// As the agent looks for it: the store, what the kubeconfig shows, and the
/// names of old kubelets.
fn client(places: &Places, kubeconfig: &KubeconfigLook, now: Timestamp) -> CertificateLook {
    let stored = CertificateLook::stored(&places.cert_dir, Purpose::Client, now);
    if !matches!(stored.content, Content::Nothing) {
        return stored;
    }
    if let (Some(source), Some(shows)) = (&kubeconfig.source, &kubeconfig.shows)
        && *shows != Shows::Store
        && let Ok(loaded) = source.load(&default_provider())
    {
        let file = match shows {
            Shows::File(file) => file.clone(),
            _ => kubeconfig.file.clone(),
        };
        let content = Content::of(&loaded.certified.cert, now);
        return CertificateLook::new(Origin::Kubeconfig, file, content);
    }
    let prefix = places.cert_dir.join(Purpose::Client.store_prefix());
    let (certificate, key) = (prefix.with_extension("crt"), prefix.with_extension("key"));
    let legacy = pair_in(&certificate, &key, now);
    if matches!(legacy, Content::Nothing) {
        return stored;
    }
    CertificateLook::new(Origin::Store, certificate, legacy)
}

fn serving(places: &Places, now: Timestamp) -> CertificateLook {
    let stored = CertificateLook::stored(&places.cert_dir, Purpose::Serving, now);
    if !matches!(stored.content, Content::Nothing) {
        return stored;
    }
    let certificate = places.cert_dir.join("kubelet.crt");
    let key = places.cert_dir.join("kubelet.key");
    let content = match (certificate.exists(), key.exists()) {
        (false, false) => return stored,
        (true, true) => pair_in(&certificate, &key, now),
        // An agent does not start upon half a pair.
        (false, true) => lacking(&certificate),
        (true, false) => lacking(&key),
    };
    CertificateLook::new(Origin::SelfSigned, certificate, content)
}

fn lacking(half: &Path) -> Content {
    Content::Broken {
        cause: format!("{} is not there", half.display()),
    }
}

fn pair_in(certificate: &Path, key: &Path, now: Timestamp) -> Content {
    let halves = fs::read(certificate).and_then(|text| Ok((text, fs::read(key)?)));
    match halves {
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Content::Nothing,
            io::ErrorKind::PermissionDenied => Content::Forbidden,
            _ => Content::Broken {
                cause: format!("cannot read it: {error}"),
            },
        },
        Ok((certificate, key)) => match Pair::from_pem(&certificate, &key) {
            Ok(pair) => Content::of(pair.chain(), now),
            Err(error) => Content::Broken {
                cause: error.to_string(),
            },
        },
    }
}

impl Content {
    fn of(chain: &[CertificateDer<'static>], now: Timestamp) -> Self {
        match Details::of(chain, now) {
            Ok(details) => Self::Certificate(Box::new(details)),
            Err(cause) => Self::Broken { cause },
        }
    }
}

impl Details {
    fn of(chain: &[CertificateDer<'static>], now: Timestamp) -> Result<Self, String> {
        let first = chain.first().ok_or("it holds no certificate")?;
        let leaf = Leaf::from_der(first)?;
        let (_, certificate) =
            X509Certificate::from_der(first).map_err(|error| error.to_string())?;
        let renewal = |point| Moment::of(deadline(leaf.not_before, leaf.not_after, point));
        let life = if leaf.is_expired(now.into()) {
            Life::Expired
        } else if Moment::of(leaf.not_before).0 > now {
            Life::NotYetValid
        } else {
            Life::Valid
        };
        Ok(Self {
            common_name: leaf.common_name.clone(),
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            not_before: Moment::of(leaf.not_before),
            not_after: Moment::of(leaf.not_after),
            life,
            renewal_from: renewal(0.0),
            renewal_until: renewal(1.0),
            chain: chain.to_vec(),
        })
    }
}

/// The pair in the directory that is valid for longest.
fn spare(directory: &Path, purpose: Purpose, now: Timestamp) -> Option<PathBuf> {
    let prefix = format!("{}-", purpose.store_prefix());
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    // The links are left out: they are what has to be turned.
    let named = entries.filter(|entry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name();
        let stamp = name.to_str().and_then(|name| {
            let name = name.strip_prefix(&prefix)?;
            name.strip_suffix(".pem")
        });
        is_file && stamp.is_some_and(|stamp| stamp != "current" && stamp != "updated")
    });
    let valid = named.filter_map(|entry| {
        let text = fs::read(entry.path()).ok()?;
        let leaf = Pair::from_pem(&text, &text).ok()?.leaf().clone();
        (!leaf.is_expired(now.into())).then(|| (leaf.not_after, entry.path()))
    });
    valid.max().map(|(_, path)| path)
}

/// The certificates of a CA file.
pub(crate) fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = fs::read(file).map_err(|error| error.to_string())?;
    read_chain(&text).map_err(|error| error.to_string())
}

fn aged(state: State, now: Timestamp) -> State {
    state.after(Event::Passed { now: now.into() })
}

fn store_file(directory: &Path, purpose: Purpose) -> PathBuf {
    directory.join(format!("{}-current.pem", purpose.store_prefix()))
}
