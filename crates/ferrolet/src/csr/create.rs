//! `ferrolet csr create`: from a name to a certificate and a kubeconfig.
//!
//! Nothing is written before everything that was typed is known to be right. From
//! then on each step leaves its file, and a second run goes on behind the last one.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use cluster::csr::{CLIENT_SIGNER, KeyType, NewRequest, Subject, WaitError, submit, wait};
use cluster::{CallError, CallProblem, kubeconfig};
use identity::Pair;
use identity::request::Verdict;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::KIND;
use super::files::{Files, Key, file_name, is_same, public_key};
use crate::cluster_access::{self, ClusterAccess, ClusterArguments};
use crate::given;
use crate::kubelet::{say, working_directory};
use crate::new_file::put;
use crate::output::{Failure, Format, ListFormat, age, print, printable, rendered};

pub(super) const HELP: &str = "\
Example:
  ferrolet csr create --subject CN=jane,O=dev --expires 24h --out ./jane

This writes jane.key, jane.csr and, once approved, jane.crt and jane.kubeconfig. What is there
already is never overwritten: a second run uses the key, and goes on where the first one ended.
For a new key, or for another subject, move the files away or choose another --out.";

const CLIENT_AUTH: &str = "client auth";

/// How much of a name is the subject's.
const NAME_LENGTH: usize = 40;
/// How many bytes of the digest are in a name.
const DIGEST_LENGTH: usize = 5;

#[derive(Args)]
pub(crate) struct Wanted {
    /// Whom it is for: CN=USER,O=GROUP,… or /CN=USER/O=GROUP/…
    #[arg(long, value_name = "NAME")]
    subject: Subject,
    /// DNS names that it is for
    #[arg(long = "dns", value_delimiter = ',', value_name = "NAME,…")]
    dns_names: Vec<String>,
    /// IP addresses that it is for
    #[arg(long = "ip", value_delimiter = ',', value_name = "ADDRESS,…")]
    addresses: Vec<IpAddr>,
    /// Who is to sign it
    #[arg(long, default_value = CLIENT_SIGNER, value_name = "DOMAIN/NAME")]
    signer: String,
    /// What it may be used for [default: what the signer signs for]
    #[arg(long, value_delimiter = ',', value_name = "USAGE,…")]
    usages: Option<Vec<String>>,
    /// How long it is to live, 10m at least [default: as the signer likes]
    #[arg(long, value_name = "SPAN", value_parser = given::span)]
    expires: Option<Duration>,
    /// The kind of key to make: ecdsa-p256, ecdsa-p384 or ed25519
    #[arg(long, default_value = "ecdsa-p256", value_name = "TYPE")]
    key_type: KeyType,
    /// A key to use instead of making one
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// What the request is called in the cluster [default: made of the subject and the key]
    #[arg(long)]
    name: Option<String>,
    /// Where the files go: a prefix, or a directory [default: the user's name, here]
    #[arg(long, value_name = "PREFIX|DIR/")]
    out: Option<PathBuf>,
    /// Wait for the certificate; with =false, run the same command later to fetch it
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    wait: bool,
    /// How long to wait
    #[arg(long, default_value = "5m", value_name = "SPAN", value_parser = given::span)]
    timeout: Duration,
    /// In a form for programs
    #[arg(short, long, value_enum)]
    output: Option<ListFormat>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(wanted: &Wanted) -> Result<(), Failure> {
    let request = wanted.request();
    let files = Files::at(
        &working_directory(),
        wanted.out.as_deref(),
        request.subject.common_name(),
        wanted.key.as_deref(),
    );
    let key = files.key(wanted.key_type)?;
    let mut object = request.object(&key.private).map_err(Failure::usage)?;
    let made = String::from_utf8_lossy(&object.spec.request.0).into_owned();
    let kept = files.request(&made)?;
    let asked = Asked {
        is_new: kept.is_none(),
        pem: kept.unwrap_or(made),
    };
    object.spec.request.0 = asked.pem.clone().into_bytes();
    let name = object.metadata.name.take();
    object.metadata.generate_name = None;
    object.metadata.name = Some(name.unwrap_or_else(|| derived_name(&request, &object)));
    let certificate = files.certificate(&request, &key, SystemTime::now())?;
    cluster_access::run(&wanted.cluster, async |access| {
        let work = Work {
            wanted,
            request: &request,
            files: &files,
            access,
        };
        work.finish(&key, &asked, &object, certificate).await
    })
}

impl Wanted {
    fn request(&self) -> NewRequest {
        NewRequest {
            name: self.name.clone(),
            subject: self.subject.clone(),
            dns_names: self.dns_names.clone(),
            addresses: self.addresses.clone(),
            signer: self.signer.clone(),
            usages: self.usages.clone(),
            life: self.expires,
        }
    }
}

/// The request's text, and whether it has yet to be written.
struct Asked {
    pem: String,
    is_new: bool,
}

struct Work<'a> {
    wanted: &'a Wanted,
    request: &'a NewRequest,
    files: &'a Files,
    access: &'a ClusterAccess,
}

impl Work<'_> {
    async fn finish(
        &self,
        key: &Key,
        asked: &Asked,
        object: &CertificateSigningRequest,
        certificate: Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let mut done = Done::of(name, self.files);
        let certificate = match certificate {
            Some(certificate) => {
                say(&format!(
                    "the certificate is there: {}",
                    shown(&self.files.certificate)
                ));
                certificate
            }
            None => match self.ask(key, asked, object).await? {
                Some(certificate) => certificate,
                None => return done.print(self.wanted.output),
            },
        };
        let pair = Pair::from_pem(&certificate, key.pem.as_bytes())?;
        put(&self.files.certificate, &certificate, 0o644)?;
        let usages = object.spec.usages.as_deref().unwrap_or_default();
        if usages.iter().any(|usage| usage == CLIENT_AUTH) {
            self.write_kubeconfig(&certificate, &key.pem)?;
            done.kubeconfig = Some(self.files.kubeconfig.clone());
        }
        done.certificate = Some(self.files.certificate.clone());
        done.until = Timestamp::try_from(pair.leaf().not_after).ok();
        done.print(self.wanted.output)
    }

    /// The certificate; nothing, if it is not to be waited for.
    async fn ask(
        &self,
        key: &Key,
        asked: &Asked,
        object: &CertificateSigningRequest,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Files {
            key: key_file,
            request,
            ..
        } = self.files;
        if key.is_new {
            put(key_file, key.pem.as_bytes(), 0o600)?;
        }
        say(&format!(
            "{} the key {}",
            made_or_used(key.is_new),
            shown(key_file)
        ));
        if asked.is_new {
            put(request, asked.pem.as_bytes(), 0o644)?;
        }
        say(&format!(
            "{} the request {} for {}",
            made_or_used(asked.is_new),
            shown(request),
            printable(&self.request.subject.to_string())
        ));
        let (name, uid) = self.hand_in(object).await?;
        if !self.wanted.wait {
            return Ok(None);
        }
        let (clock, timeout) = (&*self.access.clock, self.wanted.timeout);
        let told = |verdict: &Verdict| say(&waiting(verdict, &name, timeout));
        let waited = wait(&self.access.client, (&name, &uid), clock, timeout, told).await;
        waited.map(Some).map_err(|error| no_certificate(&error))
    }

    /// A request of the same name that asks for the same is the one of an earlier run.
    async fn hand_in(
        &self,
        object: &CertificateSigningRequest,
    ) -> Result<(String, String), Failure> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let error = match submit(&self.access.client, object).await {
            Ok(created) => {
                say(&format!(
                    "handed it in as {name} to {}",
                    object.spec.signer_name
                ));
                return Ok((name, created.metadata.uid.unwrap_or_default()));
            }
            Err(error) => error,
        };
        if error.problem != CallProblem::AlreadyExists {
            return Err(error.into());
        }
        let requests: Api<CertificateSigningRequest> = Api::all(self.access.client.clone());
        let found = requests.get(&name).await;
        let found =
            found.map_err(|cause| CallError::new("read", format!("the request {name}"), &cause))?;
        if !asks_the_same(&found, object) {
            return Err(Failure::Failed(format!(
                "a request {name} is there already and asks for something else; `ferrolet csr show {name}` tells what; choose another --name"
            )));
        }
        say(&format!("it was handed in before, as {name}"));
        Ok((name, found.metadata.uid.unwrap_or_default()))
    }

    fn write_kubeconfig(&self, certificate: &[u8], key_pem: &str) -> Result<(), Failure> {
        let tls = self.access.config.tls.as_ref();
        if tls.is_some_and(|tls| tls.server_name.is_some()) || self.access.config.proxy.is_some() {
            say(
                "warning: tls-server-name and proxy-url of the kubeconfig in use are not in the new one; add them by hand",
            );
        }
        let text = kubeconfig::client_certificate(
            &self.access.endpoint()?,
            &self.access.cluster_name,
            self.request.subject.common_name(),
            certificate,
            key_pem.as_bytes(),
        )?;
        put(&self.files.kubeconfig, text.expose().as_bytes(), 0o600)?;
        Ok(())
    }
}

/// The same for the same key and wish, so that a second run finds the first one's.
fn derived_name(request: &NewRequest, object: &CertificateSigningRequest) -> String {
    let spec = &object.spec;
    let mut digest = Sha256::new();
    digest.update(public_key(&spec.request.0).unwrap_or_default());
    let wish = (
        request.subject.to_string(),
        &request.dns_names,
        &request.addresses,
        &spec.signer_name,
        &spec.usages,
        spec.expiration_seconds,
    );
    digest.update(format!("{wish:?}"));
    let digest = digest.finalize();
    let hex = digest[..DIGEST_LENGTH]
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    let subject = file_name(request.subject.common_name()).to_ascii_lowercase();
    let subject: String = subject
        .replace(['_', '@'], "-")
        .chars()
        .take(NAME_LENGTH)
        .collect();
    format!("{}-{hex}", subject.trim_end_matches(['.', '-']))
}

fn asks_the_same(found: &CertificateSigningRequest, wanted: &CertificateSigningRequest) -> bool {
    let (found, wanted) = (&found.spec, &wanted.spec);
    found.signer_name == wanted.signer_name
        && found.usages == wanted.usages
        && found.expiration_seconds == wanted.expiration_seconds
        && is_same(&found.request.0, &wanted.request.0)
}

fn waiting(verdict: &Verdict, name: &str, timeout: Duration) -> String {
    match verdict {
        Verdict::Approved => "it is approved; waiting for its signer".to_owned(),
        _ => format!(
            "waiting up to {} for its approval (`ferrolet csr approve {name}`); Ctrl-C is safe, the same command goes on from here",
            age(timeout)
        ),
    }
}

fn no_certificate(error: &WaitError) -> Failure {
    let next = match error {
        WaitError::Denied { name, .. } | WaitError::Failed { name, .. } => {
            format!("; to hand it in again: `kubectl delete csr {name}`, and run this again")
        }
        WaitError::NotApproved(_) | WaitError::NotSigned(_) => {
            "; then run this again, which goes on from here".to_owned()
        }
        WaitError::Gone(_) => "; run this again".to_owned(),
        WaitError::Call(_) => String::new(),
    };
    Failure::Failed(format!("{error}{next}"))
}

/// What there is at the end; without a certificate, if it was not waited for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    name: String,
    key: PathBuf,
    request: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
}

impl Done {
    fn of(name: &str, files: &Files) -> Self {
        Self {
            name: name.to_owned(),
            key: files.key.clone(),
            request: files.request.clone(),
            certificate: None,
            kubeconfig: None,
            until: None,
        }
    }

    fn print(&self, output: Option<ListFormat>) -> Result<(), Failure> {
        match output {
            Some(ListFormat::Json) => return print(&rendered(Format::Json, self)?),
            Some(ListFormat::Yaml) => return print(&rendered(Format::Yaml, self)?),
            Some(ListFormat::Name) => return print(&format!("{KIND}/{}\n", self.name)),
            None => {}
        }
        let Some(certificate) = &self.certificate else {
            return print(&format!("{KIND}/{} created\n", self.name));
        };
        if let Some(until) = self.until {
            say(&format!("the certificate is valid until {until}"));
        }
        let mut text = format!(
            "key           {}\nrequest       {}\ncertificate   {}\n",
            shown(&self.key),
            shown(&self.request),
            shown(certificate)
        );
        if let Some(kubeconfig) = &self.kubeconfig {
            let _ = writeln!(text, "kubeconfig    {}", shown(kubeconfig));
        }
        print(&text)
    }
}

fn made_or_used(is_new: bool) -> &'static str {
    if is_new { "made" } else { "using" }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(
        subject: &str,
        key: &identity::PrivateKey,
    ) -> (NewRequest, CertificateSigningRequest) {
        let request = NewRequest {
            subject: subject.parse().unwrap(),
            ..NewRequest::default()
        };
        let object = request.object(key).unwrap();
        (request, object)
    }

    #[test]
    fn the_name_is_the_same_for_the_same_wish_and_key_only() {
        let key = KeyType::EcdsaP256.generate().unwrap();
        let name = |subject: &str, key: &identity::PrivateKey| {
            let (request, object) = object(subject, key);
            derived_name(&request, &object)
        };
        let jane = name("CN=Jane@example.com,O=dev", &key);
        assert!(jane.starts_with("jane-example.com-"), "{jane}");
        assert_eq!(jane, name("CN=Jane@example.com,O=dev", &key));
        assert_ne!(jane, name("CN=Jane@example.com,O=ops", &key));
        let other = KeyType::EcdsaP256.generate().unwrap();
        assert_ne!(jane, name("CN=Jane@example.com,O=dev", &other));
        let long = name(&format!("CN={}", "x".repeat(60)), &key);
        assert_eq!(long.len(), NAME_LENGTH + 1 + 2 * DIGEST_LENGTH);
    }

    #[test]
    fn an_earlier_request_is_taken_for_ours_only_if_it_asks_the_same() {
        let key = KeyType::EcdsaP256.generate().unwrap();
        let (_, wanted) = object("CN=jane", &key);
        assert!(asks_the_same(&object("CN=jane", &key).1, &wanted));
        assert!(!asks_the_same(&object("CN=joe", &key).1, &wanted));
        let mut other = wanted.clone();
        other.spec.expiration_seconds = Some(600);
        assert!(!asks_the_same(&other, &wanted));
    }
}
