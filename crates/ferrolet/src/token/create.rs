//! `ferrolet token create`.

use std::path::Path;
use std::time::Duration;

use api::kubeconfig::Kubeconfig;
use clap::Args;
use cluster::cluster_info::{self, ClusterInfo};
use cluster::kubeconfig::Endpoint;
use cluster::token::{DEFAULT_GROUP, JoinCommand, TokenSpec, Usage};
use cluster::{CallError, Token};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use crate::cluster_access::{self, ClusterAccess, ClusterArguments};
use crate::given;
use crate::kubelet::say;
use crate::output::{Failure, print};

#[derive(Args)]
pub(crate) struct Wanted {
    /// The token, - for standard input [default: a fresh one]
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    token: Option<String>,
    /// How long it lives; 0 for ever
    #[arg(long, default_value = "24h", value_name = "SPAN", value_parser = given::span)]
    ttl: Duration,
    /// What it may be used for
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "signing,authentication",
        value_name = "USAGE,…"
    )]
    usages: Vec<Usage>,
    /// The groups that whoever logs in with it is in, besides system:bootstrappers
    /// [default: system:bootstrappers:kubeadm:default-node-token, if it may be used for
    /// authentication]
    #[arg(long, value_delimiter = ',', value_name = "GROUP,…")]
    groups: Option<Vec<String>>,
    /// What it is for, in words
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    description: String,
    /// Print the whole command that joins a node, instead of the token
    #[arg(long)]
    print_join_command: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) fn run(wanted: &Wanted) -> Result<(), Failure> {
    let token = match &wanted.token {
        Some(text) => given::token(text)?,
        None => Token::generate()?,
    };
    let spec = wanted.spec();
    spec.validate().map_err(Failure::usage)?;
    cluster_access::run(&wanted.cluster, async |access| {
        // Before anything is made: a token that nobody is told of would be left behind.
        let printed = if wanted.print_join_command {
            JoinCommand::for_cluster(&public_endpoint(access).await?, &token)?.to_string()
        } else {
            token.expose()
        };
        cluster::token::create(&access.client, &token, &spec, access.now()).await?;
        print(&(printed + "\n"))
    })
}

impl Wanted {
    fn spec(&self) -> TokenSpec {
        let logs_in = self.usages.contains(&Usage::Authentication);
        let groups = match &self.groups {
            Some(groups) => groups.clone(),
            None if logs_in => vec![DEFAULT_GROUP.to_owned()],
            None => Vec::new(),
        };
        TokenSpec {
            ttl: Some(self.ttl),
            usages: self.usages.clone(),
            groups: groups
                .into_iter()
                .filter(|group| !group.is_empty())
                .collect(),
            description: self.description.clone(),
        }
    }
}

/// Where new nodes find the cluster: what it tells them itself, in cluster-info,
/// else what the kubeconfig says, which may be an address for this machine only.
async fn public_endpoint(access: &ClusterAccess) -> Result<Endpoint, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(access.client.clone(), cluster_info::NAMESPACE);
    let found = maps.get_opt(cluster_info::NAME).await;
    let found = found.map_err(|cause| CallError::new("read", cluster_info::NAME, &cause))?;
    if let Some(object) = found {
        return endpoint_of(&ClusterInfo::of(&object));
    }
    say(&format!(
        "warning: the cluster has no {} in {}, which joining with a token needs; the address below is the one of {}",
        cluster_info::NAME,
        cluster_info::NAMESPACE,
        access.kubeconfig.display()
    ));
    access.endpoint()
}

fn endpoint_of(info: &ClusterInfo) -> Result<Endpoint, Failure> {
    let origin = Path::new("in cluster-info");
    let parsed = Kubeconfig::parse(info.kubeconfig.as_bytes(), origin)?;
    let cluster = parsed.clusters.values().next();
    let server = cluster.and_then(|cluster| cluster.server.as_deref());
    let authority = cluster.and_then(|cluster| cluster.certificate_authority_data.as_deref());
    Ok(Endpoint::new(
        server.unwrap_or_default(),
        authority.unwrap_or_default(),
    )?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        wanted: Wanted,
    }

    fn spec(words: &[&str]) -> TokenSpec {
        let words = ["create"].iter().chain(words);
        Line::try_parse_from(words).unwrap().wanted.spec()
    }

    #[test]
    fn without_a_word_the_token_is_kubeadms() {
        assert_eq!(spec(&[]), TokenSpec::default());
    }

    #[test]
    fn a_token_that_only_signs_is_in_no_group() {
        let spec = spec(&["--usages", "signing", "--ttl", "0"]);
        assert_eq!((spec.groups.len(), spec.ttl), (0, Some(Duration::ZERO)));
        assert_eq!(spec.validate(), Ok(()));
    }

    #[test]
    fn groups_are_given_with_commas_or_one_by_one_and_may_be_none() {
        let two = ["system:bootstrappers:a", "system:bootstrappers:b"];
        assert_eq!(spec(&["--groups", &two.join(",")]).groups, two);
        let given = spec(&["--groups", two[0], "--groups", two[1]]);
        assert_eq!(given.groups, two);
        assert_eq!(spec(&["--groups", ""]).groups, Vec::<String>::new());
    }
}
