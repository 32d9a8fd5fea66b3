//! `ferrolet certs`: the node's certificates, for people and scripts.
//!
//! [`look`] gathers what there is, [`judge`] says what is wrong with it and what
//! to do, [`text`] prints it. Nothing is changed on the way.

pub(crate) mod judge;
pub(crate) mod kubeconfig;
pub(crate) mod look;
pub(crate) mod process;
pub(crate) mod span;
mod text;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use cluster::layout::{BOOTSTRAP_KUBECONFIG, CERTIFICATES, KUBECONFIG};
use jiff::Timestamp;

use self::look::Looked;
use crate::kubelet::{say, working_directory};

/// Something needs an operator.
const NEEDS_OPERATOR: u8 = 1;

/// Where kubeadm keeps the CA that signs client certificates.
const USUAL_CA: &str = "/etc/kubernetes/pki/ca.crt";

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// Where the node keeps its identity; the defaults are kubeadm's.
#[derive(Args, Clone, Debug)]
pub(crate) struct Places {
    /// The kubelet's --cert-dir
    #[arg(long, default_value = "/var/lib/kubelet/pki", value_name = "DIR")]
    pub(crate) cert_dir: PathBuf,
    /// The kubelet's --kubeconfig
    #[arg(
        long,
        default_value = "/etc/kubernetes/kubelet.conf",
        value_name = "FILE"
    )]
    pub(crate) kubeconfig: PathBuf,
    /// The kubelet's --bootstrap-kubeconfig
    #[arg(
        long,
        default_value = "/etc/kubernetes/bootstrap-kubelet.conf",
        value_name = "FILE"
    )]
    pub(crate) bootstrap_kubeconfig: PathBuf,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the node's certificates, and what they wait for
    Status {
        #[command(flatten)]
        places: Places,
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Say what is wrong with them, a line for each problem; nothing if all is well
    Check {
        #[command(flatten)]
        places: Places,
        /// The CA that must have signed the client certificate
        /// [default: /etc/kubernetes/pki/ca.crt, if it exists]
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    let now = Timestamp::now();
    match verb {
        Verb::Status { places, output } => status(places, output, now),
        Verb::Check { places, ca } => check(places, ca, now),
    }
}

fn status(places: Places, format: Format, now: Timestamp) -> ExitCode {
    let looked = Looked::at(&places.absolute(), now);
    let problems = judge::problems(&looked);
    let shown = match format {
        Format::Text => text::report(&looked, &problems),
        Format::Json => json(&looked, &problems),
    };
    ended(&shown, problems.is_empty())
}

fn check(places: Places, ca: Option<PathBuf>, now: Timestamp) -> ExitCode {
    let looked = Looked::at(&places.absolute(), now);
    let mut problems = judge::problems(&looked);
    let usual = || Some(PathBuf::from(USUAL_CA)).filter(|path| path.exists());
    if let Some(ca) = ca.or_else(usual) {
        problems.extend(judge::signer(&looked, &working_directory().join(ca)));
    }
    let mut lines = String::new();
    for problem in &problems {
        // Causes come from many places, and a line must stay one.
        lines.push_str(&problem.to_string().replace('\n', " "));
        lines.push('\n');
    }
    ended(&lines, problems.is_empty())
}

fn json(looked: &Looked, problems: &[judge::Problem]) -> String {
    #[derive(serde::Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        looked: &'a Looked,
        problems: &'a [judge::Problem],
    }
    let report = Report { looked, problems };
    serde_json::to_string_pretty(&report).map_or_else(
        |error| {
            say(&format!("error: this cannot be told as JSON: {error}"));
            String::new()
        },
        |text| text + "\n",
    )
}

fn ended(shown: &str, well: bool) -> ExitCode {
    match (io::stdout().write_all(shown.as_bytes()), well) {
        (Ok(()), true) => ExitCode::SUCCESS,
        _ => ExitCode::from(NEEDS_OPERATOR),
    }
}

impl Places {
    /// What shows the certificates that are here.
    pub(crate) fn status_command(&self) -> String {
        let mut command = "ferrolet certs status".to_owned();
        for (flag, path, usual) in [
            ("cert-dir", &self.cert_dir, CERTIFICATES),
            ("kubeconfig", &self.kubeconfig, KUBECONFIG),
            (
                "bootstrap-kubeconfig",
                &self.bootstrap_kubeconfig,
                BOOTSTRAP_KUBECONFIG,
            ),
        ] {
            if path != Path::new(usual) {
                let _ = write!(command, " --{flag} {}", path.display());
            }
        }
        command
    }

    fn absolute(self) -> Self {
        let here = working_directory();
        Self {
            cert_dir: here.join(self.cert_dir),
            kubeconfig: here.join(self.kubeconfig),
            bootstrap_kubeconfig: here.join(self.bootstrap_kubeconfig),
        }
    }
}
