//! The words of `ferrolet join`, and what they ask for.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use api::kubeconfig::{AddressError, Unusable};
use clap::{Args, ValueEnum};
use cluster::cluster_info::{DiscoveryError, DiscoveryFile, DiscoveryFileError, Pinning};
use cluster::pin::PinFormatError;
use cluster::preflight::{self, IgnoreError};
use cluster::token::TokenFormatError;
use cluster::{CaPin, Token};
use thiserror::Error;
use types::duration::GoDuration;

use super::connection;
use crate::kubelet::working_directory;

const EXAMPLE: &str = "\
Example, with the line that `ferrolet token create --print-join-command` or
`kubeadm token create --print-join-command` prints in the cluster:
  ferrolet join 10.0.0.1:6443 --token abcdef.0123456789abcdef \\
      --discovery-token-ca-cert-hash sha256:5cd252fb0ce8932436faf8ccd1040981b89ee4ad6b9fe9e2a2b7e71aacb27cd3

`ferrolet reset --node` undoes it. Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// What the command line says.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// The API server
    #[arg(value_name = "HOST:PORT", required_unless_present = "discovery_file")]
    endpoint: Option<String>,
    /// The bootstrap token: it proves the cluster to the node, and the node to the cluster
    #[arg(long)]
    token: Option<String>,
    /// A file that holds the token, so that it is in no process list
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// The hash of the cluster's CA, sha256:HEX; may be given more than once
    #[arg(long, value_name = "HASH")]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Go on without a hash: whoever knows the token can then pretend to be the cluster
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// A kubeconfig that names the cluster and its CA, instead of HOST:PORT and hash
    #[arg(long, value_name = "FILE", conflicts_with_all = ["endpoint", "discovery_token_ca_cert_hash"])]
    discovery_file: Option<PathBuf>,
    /// The token to ask for the certificate with [default: --token]
    #[arg(long, value_name = "TOKEN")]
    tls_bootstrap_token: Option<String>,
    /// The node's name [default: the machine's]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// The container runtime's socket [default: the one that is there]
    #[arg(long, value_name = "SOCKET")]
    cri_socket: Option<String>,
    /// Check, find the cluster, and print what would be done; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Steps to leave out
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STEPS")]
    skip_phases: Vec<Skippable>,
    /// Checks whose errors are warnings, by name; `all` for every one
    #[arg(long, value_delimiter = ',', value_name = "CHECKS")]
    ignore_preflight_errors: Vec<String>,
    /// How long to wait for the cluster, for the certificate, and for the node to be Ready, each
    #[arg(long, default_value = "5m", value_parser = patience)]
    timeout: Duration,
    /// How the node's agent is started [default: systemd where it runs, else detached]
    #[arg(long, value_enum, value_name = "WAY")]
    start: Option<Start>,
    /// Where the machine's files are, for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    root: PathBuf,
}

/// A step that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Skippable {
    /// The checks of the machine
    Preflight,
    /// Whether the node's name is free
    NodeName,
    /// The cluster's configuration for kubelets: without it, kubeadm's defaults
    KubeletConfig,
    /// As --start no
    Start,
    /// Waiting for the certificate, and for what comes after it
    Certificate,
    /// Waiting for the node to be Ready
    Ready,
}

/// How the node's agent is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Start {
    /// As the service kubelet
    Systemd,
    /// In the place of this command, once the node has joined
    Foreground,
    /// In the background, with a log in /var/log/ferrolet-kubelet.log
    Detached,
    /// By somebody else: nothing is started, and nothing waited for
    No,
}

/// What is asked for.
pub(super) struct Request {
    pub(super) source: Source,
    /// What the node asks for its certificate with; `None` where the discovery file says it.
    pub(super) token: Option<Token>,
    pub(super) node_name: Option<String>,
    pub(super) cri_socket: Option<String>,
    pub(super) dry_run: bool,
    pub(super) skipped: Vec<Skippable>,
    pub(super) ignored_checks: Vec<String>,
    pub(super) timeout: Duration,
    pub(super) start: Option<Start>,
    pub(super) root: PathBuf,
}

/// Where the node learns of its cluster.
pub(super) enum Source {
    Token {
        /// A URL.
        server: String,
        token: Token,
        pinning: Pinning,
    },
    File(Box<DiscoveryFile>),
}

/// Why the words cannot be followed. A token is never repeated.
#[derive(Debug, Error)]
pub(super) enum UsageError {
    #[error("{option}: {cause}")]
    Token {
        option: &'static str,
        cause: TokenFormatError,
    },
    #[error("--token-file {path}: {cause}", path = path.display())]
    TokenFile { path: PathBuf, cause: io::Error },
    #[error(
        "no token is given; `ferrolet token create --print-join-command` prints the whole line"
    )]
    NoToken,
    #[error("--discovery-token-ca-cert-hash: {0}")]
    Pin(#[from] PinFormatError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    File(#[from] DiscoveryFileError),
    #[error(
        "the endpoint {0:?} is not of the form HOST:PORT; the API server's port is 6443 in most clusters"
    )]
    Endpoint(String),
    #[error("the endpoint {endpoint:?} cannot be used: {cause}; give HOST:PORT")]
    Address {
        endpoint: String,
        cause: AddressError,
    },
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    #[error("--root is for tests, where no agent can be started: give --start no with it")]
    StartBelowRoot,
}

impl Arguments {
    pub(super) fn request(self) -> Result<Request, UsageError> {
        let here = working_directory();
        let token = self.token(&here)?;
        let tls_token = parsed("--tls-bootstrap-token", self.tls_bootstrap_token.as_deref())?;
        let source = match &self.discovery_file {
            Some(path) => Source::File(Box::new(DiscoveryFile::read(&here.join(path))?)),
            None => self.by_token(token.clone().ok_or(UsageError::NoToken)?)?,
        };
        preflight::ignore(&mut [], &self.ignore_preflight_errors)?;
        let mut start = self.start;
        if self.skip_phases.contains(&Skippable::Start) {
            start = Some(Start::No);
        }
        if self.root != Path::new("/") && start != Some(Start::No) {
            return Err(UsageError::StartBelowRoot);
        }
        Ok(Request {
            source,
            token: tls_token.or(token),
            node_name: self.node_name,
            cri_socket: self.cri_socket,
            dry_run: self.dry_run,
            skipped: self.skip_phases,
            ignored_checks: self.ignore_preflight_errors,
            timeout: self.timeout,
            start,
            root: here.join(self.root),
        })
    }

    fn token(&self, here: &Path) -> Result<Option<Token>, UsageError> {
        let Some(path) = &self.token_file else {
            return parsed("--token", self.token.as_deref());
        };
        let path = here.join(path);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) => return Err(UsageError::TokenFile { path, cause }),
        };
        parsed("--token-file", Some(text.trim()))
    }

    fn by_token(&self, token: Token) -> Result<Source, UsageError> {
        let pins: Result<Vec<CaPin>, _> = self
            .discovery_token_ca_cert_hash
            .iter()
            .map(|text| text.parse())
            .collect();
        let skip = self.discovery_token_unsafe_skip_ca_verification;
        Ok(Source::Token {
            server: server(self.endpoint.as_deref().unwrap_or_default())?,
            token,
            pinning: Pinning::to(pins?, skip)?,
        })
    }
}

impl Request {
    pub(super) fn skips(&self, step: Skippable) -> bool {
        self.skipped.contains(&step)
    }

    /// The URL of the API server, as far as it is known before anybody was asked.
    pub(super) fn server(&self) -> &str {
        match &self.source {
            Source::Token { server, .. } => server,
            Source::File(file) => file.endpoint.server(),
        }
    }
}

fn parsed(option: &'static str, text: Option<&str>) -> Result<Option<Token>, UsageError> {
    let token = text.map(str::parse).transpose();
    token.map_err(|cause| UsageError::Token { option, cause })
}

/// The URL for HOST:PORT. People paste URLs, too.
fn server(endpoint: &str) -> Result<String, UsageError> {
    let host_port = endpoint.strip_prefix("https://").unwrap_or(endpoint);
    let host_port = host_port.trim_end_matches('/');
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let whole = host_port
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && is_port(port));
    // An IPv6 address without brackets would pass its last group off as a port.
    let bare_ipv6 = host_port.matches(':').count() > 1 && !host_port.starts_with('[');
    if !whole || bare_ipv6 || host_port.contains('/') {
        return Err(UsageError::Endpoint(endpoint.to_owned()));
    }
    let url = format!("https://{host_port}");
    match connection::check_address(&url) {
        Ok(()) => Ok(url),
        Err(Unusable::Server { source, .. }) => Err(UsageError::Address {
            endpoint: endpoint.to_owned(),
            cause: source,
        }),
        Err(_) => Err(UsageError::Endpoint(endpoint.to_owned())),
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|cause: types::duration::DurationError| cause.to_string())?;
    match duration.to_std() {
        Some(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("it must be more than nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    const TOKEN: &str = "abcdef.0123456789abcdef";
    const HASH: &str = "sha256:5cd252fb0ce8932436faf8ccd1040981b89ee4ad6b9fe9e2a2b7e71aacb27cd3";

    fn request(words: &[&str]) -> Result<Request, UsageError> {
        let words = ["join"].iter().chain(words);
        Line::try_parse_from(words).unwrap().arguments.request()
    }

    fn refusal(words: &[&str]) -> String {
        request(words).err().unwrap().to_string()
    }

    #[test]
    fn the_line_that_kubeadm_prints_is_understood() {
        let hash = ["--discovery-token-ca-cert-hash", HASH];
        let line = ["10.0.0.1:6443", "--token", TOKEN];
        let request = request(&[&line[..], &hash].concat()).unwrap();
        assert_eq!(request.server(), "https://10.0.0.1:6443");
        assert_eq!(request.timeout, Duration::from_secs(300));
        let Source::Token { pinning, .. } = request.source else {
            panic!("a token was given");
        };
        assert_eq!(pinning, Pinning::Pins(vec![HASH.parse().unwrap()]));
        assert_eq!(request.token.unwrap().expose(), TOKEN);
    }

    #[test]
    fn a_bad_token_is_refused_and_not_repeated() {
        let told = refusal(&["h:1", "--token", "abcdef.0123456789abcde"]);
        assert!(told.starts_with("--token: "), "{told}");
        assert!(!told.contains("0123456789abcde;"), "{told}");
        let told = refusal(&["h:1", "--token", TOKEN, "--tls-bootstrap-token", "x"]);
        assert!(told.starts_with("--tls-bootstrap-token: "), "{told}");
        assert!(refusal(&["h:1"]).contains("no token is given"));
    }

    #[test]
    fn without_a_hash_the_risk_must_be_taken_by_name() {
        let told = refusal(&["h:1", "--token", TOKEN]);
        assert!(told.contains("no --discovery-token-ca-cert-hash"), "{told}");
        let skip = "--discovery-token-unsafe-skip-ca-verification";
        assert!(request(&["h:1", "--token", TOKEN, skip]).is_ok());
        let short = ["--discovery-token-ca-cert-hash", "sha256:12"];
        let told = refusal(&[&["h:1", "--token", TOKEN][..], &short].concat());
        assert!(told.contains("64 are needed"), "{told}");
    }

    #[test]
    fn endpoints_have_a_host_and_a_port() {
        for good in ["h:6443", "[::1]:6443", "https://h:6443/", "10.0.0.1:1"] {
            assert!(server(good).is_ok(), "{good}");
        }
        for bad in [
            "h",
            ":6443",
            "h:",
            "h:0",
            "h:70000",
            "::1",
            "fe80::1:6443",
            "h:1/x",
            "a b:1",
        ] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_can_come_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, format!("{TOKEN}\n")).unwrap();
        let skip = "--discovery-token-unsafe-skip-ca-verification";
        let path = path.to_str().unwrap();
        let found = request(&["h:1", skip, "--token-file", path]).unwrap();
        assert_eq!(found.token.unwrap().expose(), TOKEN);
        let told = refusal(&["h:1", skip, "--token-file", "/nonexistent"]);
        assert!(told.contains("/nonexistent"), "{told}");
    }

    #[test]
    fn every_check_is_ignored_or_some_by_name() {
        let skip = "--discovery-token-unsafe-skip-ca-verification";
        let ignoring = |names| {
            let words = [
                "h:1",
                "--token",
                TOKEN,
                skip,
                "--ignore-preflight-errors",
                names,
            ];
            request(&words).map(|request| request.ignored_checks)
        };
        assert_eq!(ignoring("Swap,CRI").unwrap(), ["Swap", "CRI"]);
        assert!(matches!(ignoring("all,CRI"), Err(UsageError::Ignore(_))));
    }

    #[test]
    fn nothing_is_started_below_another_root() {
        let skip = "--discovery-token-unsafe-skip-ca-verification";
        let words = ["h:1", "--token", TOKEN, skip, "--root", "/tmp"];
        assert!(refusal(&words).contains("--start no"));
        let words = [&words[..], &["--skip-phases", "start,ready"]].concat();
        assert_eq!(request(&words).unwrap().start, Some(Start::No));
    }
}
