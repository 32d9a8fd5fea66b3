//! `ferrolet kubeconfig`: kubeconfigs made from their parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cluster::kubeconfig::{self, DEFAULT_CLUSTER_NAME, Endpoint};

use crate::given;
use crate::kubelet::working_directory;
use crate::new_file;
use crate::output::{Failure, ended, print};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make the kubeconfig with which a node asks for its first certificate
    #[command(
        after_help = "Example:\n  ferrolet kubeconfig bootstrap --server https://10.0.0.1:6443 --ca ca.crt \\\n    --token abcdef.0123456789abcdef --out /etc/kubernetes/bootstrap-kubelet.conf"
    )]
    Bootstrap(Wanted),
}

#[derive(Args)]
pub(crate) struct Wanted {
    /// The API server: https://HOST:PORT or HOST:PORT
    #[arg(long, value_name = "URL")]
    server: String,
    /// The cluster's certificate authority, PEM
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The bootstrap token, - for standard input
    #[arg(long, allow_hyphen_values = true)]
    token: String,
    /// What the cluster is called in it
    #[arg(long, default_value = DEFAULT_CLUSTER_NAME, value_name = "NAME")]
    cluster_name: String,
    /// Where to put it; a file that is there is not overwritten [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    let Verb::Bootstrap(wanted) = verb;
    ended(bootstrap(&wanted))
}

fn bootstrap(wanted: &Wanted) -> Result<(), Failure> {
    let token = given::token(&wanted.token)?;
    let directory = working_directory();
    let authority = read_authority(&directory.join(&wanted.ca))?;
    let endpoint = if wanted.server.contains("://") {
        Endpoint::new(&wanted.server, &authority)
    } else {
        Endpoint::at_host_port(&wanted.server, &authority)
    };
    let text = kubeconfig::bootstrap(&endpoint?, &wanted.cluster_name, &token)?;
    match &wanted.out {
        None => print(text.expose()),
        Some(out) => {
            let path = directory.join(out);
            let outcome = new_file::put(&path, text.expose().as_bytes(), 0o600)?;
            print(&format!("{} {outcome}\n", path.display()))
        }
    }
}

fn read_authority(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|cause| {
        Failure::Failed(format!(
            "the certificate authority {} cannot be read: {cause}; give --ca the cluster's (kubeadm keeps it in /etc/kubernetes/pki/ca.crt)",
            path.display()
        ))
    })
}
