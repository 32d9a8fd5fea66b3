//! `ferrolet csr`: certificate signing requests, made, looked into and decided.

mod create;
mod decide;
mod files;
mod list;
mod show;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use cluster::csr::{Decision, Word};

use crate::cluster_access::ClusterArguments;
use crate::output::{Format, ListFormat, ended};

/// What kubectl puts before the names of requests.
const KIND: &str = "certificatesigningrequest.certificates.k8s.io";

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Get a certificate: makes the key, hands in the request, waits, and writes the files
    #[command(after_help = create::HELP)]
    Create(create::Wanted),
    /// List the requests: who asks for what, and what became of it
    #[command(after_help = "Example:\n  ferrolet csr list")]
    List {
        #[command(flatten)]
        cluster: ClusterArguments,
        /// In a form for programs
        #[arg(short, long, value_enum)]
        output: Option<ListFormat>,
    },
    /// Show what a request asks for, and whether the cluster would approve it by itself
    #[command(after_help = "Example:\n  ferrolet csr show csr-8q2xw")]
    Show {
        /// The request's name
        name: String,
        #[command(flatten)]
        cluster: ClusterArguments,
        /// In a form for programs
        #[arg(short, long, value_enum)]
        output: Option<Format>,
    },
    /// Approve requests, by name or as nodes' serving requests that are in order
    #[command(
        after_help = "Examples:\n  ferrolet csr approve csr-8q2xw\n  ferrolet csr approve --watch --kubelet-serving\n\nWith --kubelet-serving, a request is approved if its node itself makes it and every name in it\nis an address of that Node. A node reports its addresses itself, unless a cloud provider does."
    )]
    Approve {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        words: Words,
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Deny requests; this cannot be taken back
    #[command(
        after_help = "Example:\n  ferrolet csr deny csr-8q2xw --reason Unknown --message \"nobody knows this machine\""
    )]
    Deny {
        /// Requests, by name
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        words: Words,
        #[command(flatten)]
        cluster: ClusterArguments,
    },
}

/// Which requests to approve.
#[derive(Args)]
pub(crate) struct Which {
    /// Requests, by name
    #[arg(value_name = "NAME", required_unless_present = "kubelet_serving")]
    names: Vec<String>,
    /// All requests for nodes' serving certificates whose names are addresses of their Nodes
    #[arg(long, conflicts_with_all = ["names", "reason", "message"])]
    kubelet_serving: bool,
    /// Go on until SIGINT or SIGTERM
    #[arg(long, requires = "kubelet_serving", conflicts_with = "names")]
    watch: bool,
}

/// Why, as the request will tell.
#[derive(Args)]
pub(crate) struct Words {
    /// One word for machines
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// A sentence for people
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

impl Words {
    fn decision(self, word: Word) -> Decision {
        let usual = match word {
            Word::Approve => Decision::approve(),
            Word::Deny => Decision::deny(),
        };
        Decision {
            word,
            reason: self.reason.unwrap_or(usual.reason),
            message: self.message.unwrap_or(usual.message),
        }
    }
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    ended(match verb {
        Verb::Create(wanted) => create::run(&wanted),
        Verb::List { cluster, output } => list::run(&cluster, output),
        Verb::Show {
            name,
            cluster,
            output,
        } => show::run(bare(&name), &cluster, output),
        Verb::Approve { which, cluster, .. } if which.watch => watch::run(&cluster),
        Verb::Approve { which, cluster, .. } if which.kubelet_serving => watch::once(&cluster),
        Verb::Approve {
            which,
            words,
            cluster,
        } => decide::run(&which.names, &words.decision(Word::Approve), &cluster),
        Verb::Deny {
            names,
            words,
            cluster,
        } => decide::run(&names, &words.decision(Word::Deny), &cluster),
    })
}

/// A name as `-o name` prints it, or alone.
fn bare(name: &str) -> &str {
    let kinds = [KIND, "certificatesigningrequest", "csr"];
    name.split_once('/')
        .filter(|(kind, _)| kinds.contains(kind))
        .map_or(name, |(_, name)| name)
}
