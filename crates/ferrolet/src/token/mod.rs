//! `ferrolet token`: the bootstrap tokens of a cluster.

mod create;
mod list;

use std::process::ExitCode;

use clap::Subcommand;
use cluster::Token;
use cluster::token::{TokenFormatError, TokenId};

use crate::cluster_access::{self, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, ListFormat, ended, print, printable};

/// What the names of token Secrets begin with, as `token list -o name` prints them.
const SECRET_PREFIX: &str = "secret/bootstrap-token-";

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make a bootstrap token known to the cluster, and print it
    #[command(
        after_help = "Example:\n  ferrolet token create --ttl 2h --description \"rack 7\" --print-join-command"
    )]
    Create(create::Wanted),
    /// List the cluster's bootstrap tokens
    #[command(after_help = "Example:\n  ferrolet token list")]
    List {
        #[command(flatten)]
        cluster: ClusterArguments,
        /// In a form for programs
        #[arg(short, long, value_enum)]
        output: Option<ListFormat>,
    },
    /// Take bootstrap tokens away; nodes that joined with them stay
    #[command(after_help = "Example:\n  ferrolet token delete abcdef")]
    Delete {
        /// Tokens, or their ids (the part before the dot)
        #[arg(required = true, value_name = "TOKEN|ID")]
        tokens: Vec<String>,
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Print a fresh token that no cluster knows yet
    #[command(
        after_help = "Example:\n  TOKEN=$(ferrolet token generate) && ferrolet token create \"$TOKEN\""
    )]
    Generate,
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    ended(match verb {
        Verb::Create(wanted) => create::run(&wanted),
        Verb::List { cluster, output } => list::run(&cluster, output),
        Verb::Delete { tokens, cluster } => delete(&tokens, &cluster),
        Verb::Generate => generate(),
    })
}

fn generate() -> Result<(), Failure> {
    print(&(Token::generate()?.expose() + "\n"))
}

/// Nothing is deleted before all of them can be read as tokens; then each for itself.
fn delete(tokens: &[String], cluster: &ClusterArguments) -> Result<(), Failure> {
    let ids: Vec<TokenId> = tokens
        .iter()
        .map(|text| read_id(text).map_err(Failure::usage))
        .collect::<Result<_, _>>()?;
    cluster_access::run(cluster, async |access| {
        let mut all_done = true;
        for id in &ids {
            match cluster::token::delete(&access.client, id).await {
                Ok(()) => print(&format!("bootstrap token {:?} deleted\n", id.as_str()))?,
                Err(error) => {
                    say(&format!("error: {}", printable(&error.to_string())));
                    all_done = false;
                }
            }
        }
        if all_done { Ok(()) } else { Err(Failure::Told) }
    })
}

fn read_id(text: &str) -> Result<TokenId, TokenFormatError> {
    let text = text.strip_prefix(SECRET_PREFIX).unwrap_or(text);
    // What is longer than an id may be a token without its dot, and is not repeated.
    if text.len() > 6 && !text.contains('.') {
        return Err(TokenFormatError::Token);
    }
    TokenId::of_token_or_id(text)
}
