//! What needs an operator, and the command that mends it. Nothing is looked up
//! here but the CA that somebody asked to compare with.

use std::fmt;
use std::path::Path;

use identity::Purpose;
use identity::decide::state::{Advice, State, Step};
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::kubeconfig::{KubeconfigLook, Shows, Verdict};
use super::look::{self, CertificateLook, Content, Details, Life, Looked, Origin};

/// How long a renewal waits for an approver before somebody should know: those
/// that approve by themselves do it in seconds.
const APPROVER_TAKES: i64 = 5 * 60;

/// Something that will not mend itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) sentence: String,
    pub(crate) command: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)?;
        match &self.command {
            Some(command) => write!(formatter, ": {command}"),
            None => Ok(()),
        }
    }
}

impl From<Advice> for Problem {
    fn from(advice: Advice) -> Self {
        Self {
            sentence: advice.sentence,
            command: advice.command,
        }
    }
}

impl Problem {
    fn new(sentence: String, command: impl Into<String>) -> Self {
        Self {
            sentence,
            command: Some(command.into()),
        }
    }
}

/// Every problem, the gravest first.
pub(crate) fn problems(looked: &Looked) -> Vec<Problem> {
    let found = [
        client(looked),
        not_a_link(looked, &looked.client, Purpose::Client),
        kubeconfig(looked),
        bootstrap(looked),
        serving(looked),
        not_a_link(looked, &looked.serving, Purpose::Serving),
        looked.agent.fault.clone().map(|sentence| Problem {
            sentence,
            command: None,
        }),
    ];
    found.into_iter().flatten().collect()
}

/// Whether none of the CAs in `file` signed the client certificate.
pub(crate) fn signer(looked: &Looked, file: &Path) -> Option<Problem> {
    let details = looked.client.details()?;
    let authorities = match look::authorities(file) {
        Ok(authorities) => authorities,
        Err(cause) => {
            return Some(Problem {
                sentence: format!(
                    "the CA in {} cannot be used: {cause}; name the one that signs client certificates with --ca",
                    file.display()
                ),
                command: None,
            });
        }
    };
    if is_signed(&details.chain, &authorities) {
        return None;
    }
    Some(Problem {
        sentence: format!(
            "the client certificate in {} (issuer {}) was not signed by the CA in {}: the node belongs to another cluster, or the CA was replaced; let it join anew",
            looked.client.file.display(),
            details.issuer,
            file.display()
        ),
        command: Some("kubeadm token create --print-join-command".to_owned()),
    })
}

/// From the leaf upwards, through what the chain itself brings along.
fn is_signed(chain: &[CertificateDer<'_>], authorities: &[CertificateDer<'_>]) -> bool {
    let read = |der: &CertificateDer<'_>| X509Certificate::from_der(der).is_ok();
    chain.iter().all(read)
        && chain.iter().enumerate().any(|(index, der)| {
            let path = &chain[..=index];
            let linked = path.windows(2).all(|pair| signed_by(&pair[0], &pair[1]));
            linked && authorities.iter().any(|ca| signed_by(der, ca))
        })
}

fn signed_by(der: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> bool {
    let (Ok((_, certificate)), Ok((_, authority))) = (
        X509Certificate::from_der(der),
        X509Certificate::from_der(authority),
    ) else {
        return false;
    };
    certificate.issuer() == authority.subject()
        && certificate
            .verify_signature(Some(authority.public_key()))
            .is_ok()
}

pub(crate) fn client(looked: &Looked) -> Option<Problem> {
    let state = looked.agent.state(Purpose::Client);
    let advised = state.map(|state| state.advice(Purpose::Client));
    match &looked.client.content {
        Content::Nothing => Some(without_client(looked)),
        Content::Forbidden => Some(forbidden(&looked.client.file)),
        Content::Broken { cause } => Some(broken(looked, Purpose::Client, cause)),
        Content::Certificate(details) => match details.life {
            Life::NotYetValid => Some(not_yet(details, Purpose::Client)),
            Life::Expired => Some(match state {
                Some(State::Expired { step: Some(_), .. }) => advised?.into(),
                _ => expired_client(looked, details),
            }),
            Life::Valid => {
                let overdue = looked.now > details.renewal_until;
                match (state, overdue) {
                    (Some(state), _) if waits_too_long(state, looked) => Some(advised?.into()),
                    (Some(State::Rotating { .. }), true) => Some(advised?.into()),
                    (_, true) => Some(overdue_client(looked, details)),
                    (_, false) => None,
                }
            }
        },
    }
}

fn without_client(looked: &Looked) -> Problem {
    if let Some(spare) = &looked.client.spare {
        let file = looked.client.file.display();
        let sentence = match &looked.client.target {
            Some(target) => format!("{file} points at {}, which is not there", target.display()),
            None => format!("{file} is not there"),
        };
        return Problem::new(
            format!("{sentence}, and a valid pair is: point it there, and start the agent again"),
            relink(&looked.client, spare),
        );
    }
    match looked.agent.state(Purpose::Client) {
        // A certificate that is said to be in use and is not there was removed.
        Some(State::Issued { .. } | State::Rotating { .. }) => Problem::new(
            format!(
                "the agent uses a client certificate, but {} is gone: a restart would not find it; restart while the bootstrap credentials are good",
                looked.client.file.display()
            ),
            "systemctl restart kubelet",
        ),
        Some(state) => state.advice(Purpose::Client).into(),
        None if looked.kubeconfig.bootstrap.is_usable() => Problem::new(
            format!(
                "there is no client certificate, and no agent runs that would ask for one with {}; start it",
                looked.kubeconfig.bootstrap.file.display()
            ),
            "systemctl start kubelet",
        ),
        None => State::NoCredentials.advice(Purpose::Client).into(),
    }
}

fn expired_client(looked: &Looked, details: &Details) -> Problem {
    let bootstrap = &looked.kubeconfig.bootstrap;
    if bootstrap.is_usable() && !looked.agent.runs() {
        return Problem::new(
            format!(
                "the client certificate expired at {}, and no agent runs that would ask for a new one with {}; start it",
                details.not_after,
                bootstrap.file.display()
            ),
            "systemctl restart kubelet",
        );
    }
    let expired = State::Expired {
        since: details.not_after.0.into(),
        step: None,
    };
    expired.advice(Purpose::Client).into()
}

fn overdue_client(looked: &Looked, details: &Details) -> Problem {
    let head = format!(
        "the client certificate should have been renewed by {} and ends at {}",
        details.renewal_until, details.not_after
    );
    if looked.agent.runs() {
        Problem::new(
            format!(
                "{head}, and the agent does not try; set rotateCertificates: true and restart it"
            ),
            "systemctl restart kubelet",
        )
    } else {
        Problem::new(
            format!("{head}; see whether the agent runs and renews it (rotateCertificates: true)"),
            "systemctl status kubelet",
        )
    }
}

fn waits_too_long(state: &State, looked: &Looked) -> bool {
    let State::Rotating {
        step: Step::Waiting(wait),
        ..
    } = state
    else {
        return false;
    };
    let since = super::span::Moment::of(wait.since).0;
    looked.now.0.as_second() - since.as_second() > APPROVER_TAKES
}

pub(crate) fn serving(looked: &Looked) -> Option<Problem> {
    // Nobody approves serving certificates by themselves, so a wait is a problem
    // from its first second.
    if let Some(state) = looked.agent.state(Purpose::Serving) {
        let advice = state.advice(Purpose::Serving);
        if advice.command.is_some() {
            return Some(advice.into());
        }
    }
    match &looked.serving.content {
        Content::Nothing => None,
        Content::Forbidden => Some(forbidden(&looked.serving.file)),
        Content::Broken { cause } => Some(broken(looked, Purpose::Serving, cause)),
        Content::Certificate(details) => match (details.life, looked.serving.origin) {
            (Life::NotYetValid, _) => Some(not_yet(details, Purpose::Serving)),
            (Life::Expired, Origin::Store) => {
                let expired = State::Expired {
                    since: details.not_after.0.into(),
                    step: None,
                };
                Some(expired.advice(Purpose::Serving).into())
            }
            // A self-signed one is used on, as upstream does.
            _ => None,
        },
    }
}

pub(crate) fn kubeconfig(looked: &Looked) -> Option<Problem> {
    let look = &looked.kubeconfig;
    let stored = looked.client.origin == Origin::Store && looked.client.details().is_some();
    let file = look.file.display().to_string();
    let told = |more: &str| Problem {
        sentence: if look.told.contains(&file) {
            format!("{}{more}", look.told)
        } else {
            format!("{file}: {}{more}", look.told)
        },
        command: None,
    };
    // What it shows is said to be bad already, so that it is bad follows.
    let follows = look.shows == Some(Shows::Store) && !is_valid(looked);
    match (look.verdict, &look.shows) {
        (Verdict::Forbidden | Verdict::NoCertificate, _) if follows => None,
        (Verdict::Valid, Some(Shows::Store)) => None,
        (Verdict::Valid, _) => stored.then(|| shows_other(looked)),
        (Verdict::Forbidden, None) => Some(forbidden(&look.file)),
        (Verdict::Forbidden, Some(_)) => Some(told("; run this as root")),
        (Verdict::NoCertificate, Some(Shows::File(_) | Shows::Embedded)) if stored => {
            Some(shows_other(looked))
        }
        (Verdict::NoCertificate | Verdict::Unusable, _) => Some(told("")),
        (Verdict::Absent, _) if look.bootstrap.is_usable() => None,
        (Verdict::Absent, _) => without_kubeconfig(looked),
    }
}

fn without_kubeconfig(looked: &Looked) -> Option<Problem> {
    // Without a certificate either, the node has never joined: one problem.
    let details = looked.client.details().filter(|_| is_valid(looked))?;
    Some(Problem::new(
        format!(
            "there is a client certificate, but no {} that names the API server; make one on a control plane node and copy it here",
            looked.kubeconfig.file.display()
        ),
        format!(
            "kubeadm kubeconfig user --org system:nodes --client-name {} > kubelet.conf",
            details.common_name
        ),
    ))
}

/// The bootstrap kubeconfig is only worth a word where it would be used.
pub(crate) fn bootstrap(looked: &Looked) -> Option<Problem> {
    let bootstrap = &looked.kubeconfig.bootstrap;
    let fault = bootstrap.fault.as_ref()?;
    bootstrap.needed.then(|| Problem {
        sentence: format!("the next start would bootstrap, and cannot: {fault}"),
        command: None,
    })
}

fn shows_other(looked: &Looked) -> Problem {
    let KubeconfigLook {
        file, shows, user, ..
    } = &looked.kubeconfig;
    let store = looked.client.file.display();
    let other = match shows {
        Some(Shows::File(other)) => format!("shows the one in {}", other.display()),
        Some(Shows::Embedded) => "shows one of its own, which nobody renews".to_owned(),
        _ => "shows none".to_owned(),
    };
    let user = user.as_deref().unwrap_or("default-auth");
    let file = file.display();
    Problem::new(
        format!(
            "the agent renews the certificate in {store}, but {file} {other}; point it at the renewed one"
        ),
        format!(
            "kubectl config --kubeconfig={file} set-credentials {user} --client-certificate={store} --client-key={store}"
        ),
    )
}

pub(crate) fn not_a_link(
    looked: &Looked,
    look: &CertificateLook,
    purpose: Purpose,
) -> Option<Problem> {
    let in_links_place = look.origin == Origin::Store
        && look.target.is_none()
        && look.details().is_some()
        && look
            .file
            .ends_with(format!("{}-current.pem", purpose.store_prefix()));
    if !in_links_place {
        return None;
    }
    let stamp = looked.now.0.strftime("%Y-%m-%d-%H-%M-%S");
    let dated = look
        .file
        .with_file_name(format!("{}-{stamp}.pem", purpose.store_prefix()));
    let (file, dated) = (look.file.display(), dated.display());
    Some(Problem::new(
        format!(
            "{file} must be a symlink and is a regular file, which is never replaced, so no renewed certificate can be put in use; put a link in its place"
        ),
        format!("mv {file} {dated} && ln -s {dated} {file}"),
    ))
}

fn broken(looked: &Looked, purpose: Purpose, cause: &str) -> Problem {
    let look = match purpose {
        Purpose::Client => &looked.client,
        Purpose::Serving => &looked.serving,
    };
    let file = look.file.display();
    let sentence = format!("the pair in {file} cannot be used: {cause}");
    if let Some(spare) = &look.spare {
        return Problem::new(
            format!("{sentence}; point it at a valid one and restart the agent"),
            relink(look, spare),
        );
    }
    if look.origin == Origin::SelfSigned {
        let key = look.file.with_extension("key");
        return Problem::new(
            format!("{sentence}; a new pair is made at the next start once both files are gone"),
            format!(
                "rm -f {file} {} && systemctl restart kubelet",
                key.display()
            ),
        );
    }
    // A serving certificate is asked for with the client certificate.
    if purpose == Purpose::Serving || looked.kubeconfig.bootstrap.is_usable() {
        return Problem::new(
            format!("{sentence}; a new one is asked for at the next start once it is gone"),
            format!("mv {file} {file}.old && systemctl restart kubelet"),
        );
    }
    Problem::new(
        format!(
            "{sentence}, there is no other and nothing to ask for one with; make a token on a control plane node and join with it"
        ),
        "kubeadm token create --print-join-command",
    )
}

fn relink(look: &CertificateLook, spare: &Path) -> String {
    let file = look.file.display();
    format!(
        "ln -sfn {} {file} && systemctl restart kubelet",
        spare.display()
    )
}

fn forbidden(file: &Path) -> Problem {
    Problem::new(
        format!(
            "{} may not be read by this user; run this as root",
            file.display()
        ),
        "sudo ferrolet certs status",
    )
}

fn not_yet(details: &Details, purpose: Purpose) -> Problem {
    let noun = match purpose {
        Purpose::Client => "client certificate",
        Purpose::Serving => "serving certificate",
    };
    Problem::new(
        format!(
            "the {noun} is valid only from {}: this machine's clock or the signer's is wrong; compare them",
            details.not_before
        ),
        "timedatectl",
    )
}

fn is_valid(looked: &Looked) -> bool {
    let details = looked.client.details();
    details.is_some_and(|details| details.life == Life::Valid)
}
