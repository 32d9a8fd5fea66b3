//! `ferrolet rbac`: the roles and bindings by which nodes come in.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use cluster::rbac::{Applied, BootstrapRbac, Outcome, RbacObject};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde::Serialize;

use crate::cluster_access::{self, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, Format, ended, print, rendered, rendered_list};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Let bootstrap tokens ask for node certificates, have these and their renewals approved by
    /// the cluster, and let the API server into the nodes
    #[command(
        after_help = "Example:\n  ferrolet rbac bootstrap --group system:bootstrappers:rack7 --dry-run -o yaml"
    )]
    Bootstrap(Wanted),
}

#[derive(Args)]
pub(crate) struct Wanted {
    /// A group of tokens that may bring in nodes; may be given several times
    /// [default: system:bootstrappers:kubeadm:default-node-token]
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Show what would be made; the cluster is not asked
    #[arg(long)]
    dry_run: bool,
    /// Print the objects
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    let Verb::Bootstrap(wanted) = verb;
    ended(bootstrap(&wanted))
}

fn bootstrap(wanted: &Wanted) -> Result<(), Failure> {
    let rbac = match wanted.groups.as_slice() {
        [] => BootstrapRbac::default(),
        groups => BootstrapRbac::for_groups(groups).map_err(Failure::usage)?,
    };
    let objects = rbac.objects();
    if wanted.dry_run {
        for object in &objects {
            tell(wanted, object, "created (dry run)")?;
        }
    } else {
        make(wanted, &objects)?;
    }
    match wanted.output {
        Some(format) => print(&documents(format, &objects)?),
        None => Ok(()),
    }
}

/// One by one, so that what was made is told even if the next one fails.
fn make(wanted: &Wanted, objects: &[RbacObject]) -> Result<(), Failure> {
    cluster_access::run(&wanted.cluster, async |access| {
        for object in objects {
            let applied =
                cluster::rbac::apply(&access.client, std::slice::from_ref(object)).await?;
            for Applied { outcome, .. } in &applied {
                tell(wanted, object, &became(outcome))?;
            }
        }
        Ok(())
    })
}

fn became(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Created => "created".to_owned(),
        Outcome::Present { also } if also.is_empty() => "unchanged".to_owned(),
        Outcome::Present { also } => format!("unchanged (it also has {})", also.join(", ")),
    }
}

/// In kubectl's words; beside the objects, if these are to be printed.
fn tell(wanted: &Wanted, object: &RbacObject, became: &str) -> Result<(), Failure> {
    let kind = object.kind().to_ascii_lowercase();
    let line = format!(
        "{kind}.rbac.authorization.k8s.io/{} {became}",
        object.name()
    );
    if wanted.output.is_some() {
        say(&line);
        return Ok(());
    }
    print(&(line + "\n"))
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Role(&'a ClusterRole),
    Binding(&'a ClusterRoleBinding),
}

fn documents(format: Format, objects: &[RbacObject]) -> Result<String, Failure> {
    let written: Vec<_> = objects
        .iter()
        .map(|object| match object {
            RbacObject::Role(role) => Written::Role(role),
            RbacObject::Binding(binding) => Written::Binding(binding),
        })
        .collect();
    match format {
        Format::Json => rendered_list(format, &written),
        Format::Yaml => {
            let documents: Result<Vec<_>, _> =
                written.iter().map(|one| rendered(format, one)).collect();
            Ok(documents?.join("---\n"))
        }
    }
}
