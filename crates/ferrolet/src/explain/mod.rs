//! `ferrolet explain`: what a node does, step by step, with the objects of this
//! machine's node where there is one. [`live`] is what was seen; each walk is a pure
//! function of it.

mod bootstrap;
mod heartbeat;
mod live;
mod pod;
mod rotation;
mod walk;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::task::spawn_blocking;

use self::live::Live;
use self::walk::Walk;
use crate::certs::look::Looked;
use crate::local_node::cluster::{Cluster, Reach, options};
use crate::local_node::look::Look;
use crate::local_node::{self, LocalNode, NodeArguments, Remedies, WHERE_FROM};
use crate::output::{Failure, ended, print};

/// For one question to the API server.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Subcommand)]
pub(crate) enum Topic {
    /// From a token to a node: the first certificate, and who approves it
    #[command(after_help = WHERE_FROM)]
    Bootstrap(NodeArguments),
    /// What keeps a node Ready: lease, status, and what silence leads to
    #[command(after_help = WHERE_FROM)]
    Heartbeat(NodeArguments),
    /// From the scheduler to the end of the last container
    #[command(after_help = WHERE_FROM)]
    Pod(PodArguments),
    /// How certificates are renewed, and what happens if they are not
    #[command(after_help = WHERE_FROM)]
    Rotation(NodeArguments),
}

#[derive(Args)]
pub(crate) struct PodArguments {
    /// A pod of this node [default: the newest]
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pod: Option<String>,
    #[command(flatten)]
    node: NodeArguments,
}

pub(crate) fn run(topic: &Topic) -> ExitCode {
    ended(local_node::block_on(explain(topic)))
}

async fn explain(topic: &Topic) -> Result<(), Failure> {
    let (arguments, pod) = match topic {
        Topic::Bootstrap(node) | Topic::Heartbeat(node) | Topic::Rotation(node) => {
            (node, WantedPod::None)
        }
        Topic::Pod(PodArguments { pod, node }) => match pod {
            None => (node, WantedPod::Newest),
            Some(pod) => (node, WantedPod::Named(pod.clone())),
        },
    };
    let (live, head) = Box::pin(look(arguments, &pod)).await?;
    let live = live.as_ref();
    let walk: Walk = match topic {
        Topic::Bootstrap(_) => bootstrap::walk(live),
        Topic::Heartbeat(_) => heartbeat::walk(live),
        Topic::Pod(_) => pod::walk(live),
        Topic::Rotation(_) => rotation::walk(live),
    };
    let walk = match live {
        Some(live) => walk.of_node(&live.remedies),
        None => walk,
    };
    print(&walk.text(&head))
}

/// Which pod is told of.
#[derive(Debug, PartialEq, Eq)]
enum WantedPod {
    None,
    Newest,
    Named(String),
}

/// The node of this machine, and a sentence about it.
async fn look(
    arguments: &NodeArguments,
    wanted: &WantedPod,
) -> Result<(Option<Live>, String), Failure> {
    let options = options();
    let given = arguments.clone();
    let node = spawn_blocking(move || LocalNode::find(&given)).await?;
    if node.agent.is_none() && !node.is_member {
        let head = "No agent of yours runs on this machine, and it has joined no cluster: names in capital letters stand for yours. `ferrolet up` makes one to look at.";
        return Ok((None, head.to_owned()));
    }
    let now = Timestamp::try_from(options.clock.now()).unwrap_or_default();
    let places = node.places.clone();
    let looked = spawn_blocking(move || Looked::at(&places, now)).await?;
    let mut live = Live::new(&node, looked, now);
    let mut head = match &node.agent {
        Some(agent) => format!(
            "With the objects of node {}, agent {}, process {}.",
            node.told(),
            agent.name(),
            agent.id
        ),
        None => format!(
            "With the objects of node {}, whose agent does not run.",
            node.name
        ),
    };
    if let Some(others) = others(&node) {
        let _ = write!(head, " {others}");
    }
    let cluster = Cluster::open(&node, &options, PATIENCE);
    let reach = cluster.reach().await;
    if let (Reach::Answers { .. }, WantedPod::Named(pod)) = (&reach, wanted) {
        let (namespace, name) = parts(pod);
        let there = cluster.node_of_pod(namespace, name, &node.name).await;
        // All nodes of an `up` are this machine's.
        if let Some(other) = there.filter(|other| *other != node.name)
            && node.embedded.is_some()
            && !arguments.names_node()
        {
            cluster.close().await;
            return Box::pin(look(&arguments.of_node(other), wanted)).await;
        }
    }
    let seen = match reach {
        Reach::Answers { .. } => Box::pin(ask(&cluster, &mut live, wanted)).await,
        Reach::Silent(cause) => {
            let _ = write!(
                head,
                " The API server does not answer ({cause}): what it knows is missing."
            );
            Ok(())
        }
        Reach::NoServer => {
            head.push_str(" It belongs to no cluster: what an API server knows is missing.");
            Ok(())
        }
    };
    cluster.close().await;
    seen?;
    Ok((Some(live), head))
}

/// Where several clusters run, how the others are chosen.
fn others(node: &LocalNode) -> Option<String> {
    let others = &node.embedded.as_ref()?.others;
    let other = others.first()?;
    Some(format!(
        "{} more of `ferrolet up` here; choose one with `export KUBECONFIG={}`.",
        match others.len() {
            1 => "There is one cluster".to_owned(),
            count => format!("There are {count} clusters"),
        },
        other.display()
    ))
}

async fn ask(cluster: &Cluster, live: &mut Live, wanted: &WantedPod) -> Result<(), Failure> {
    let (node, lease, requests) = tokio::join!(cluster.node(), cluster.lease(), cluster.requests());
    live.node = node.1.seen().cloned().flatten();
    live.lease = lease.seen().cloned().flatten();
    live.requests = requests.seen().cloned().unwrap_or_default();
    if *wanted == WantedPod::None {
        return Ok(());
    }
    let pods = match cluster.pods().await {
        Look::Seen(pods) => pods,
        Look::Hidden(hidden) => {
            return Err(Failure::Failed(format!(
                "its pods cannot be seen: {}",
                hidden.why
            )));
        }
        Look::Skipped => Vec::new(),
    };
    let chosen = chosen(pods, wanted);
    live.pod = match (chosen, wanted) {
        (None, WantedPod::Named(pod)) => {
            let (namespace, name) = parts(pod);
            let there = cluster.node_of_pod(namespace, name, &live.name).await;
            return Err(Failure::Failed(not_here(
                pod,
                &live.name,
                there.as_deref(),
                &live.remedies,
            )));
        }
        (chosen, _) => chosen,
    };
    if let Some(pod) = &live.pod {
        live.events = cluster.events(pod).await;
    }
    Ok(())
}

/// The pod that is named, or the newest.
fn chosen(pods: Vec<Pod>, wanted: &WantedPod) -> Option<Pod> {
    let WantedPod::Named(wanted) = wanted else {
        let made = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        return pods.into_iter().max_by_key(made);
    };
    let (namespace, name) = parts(wanted);
    let fits = |pod: &Pod| {
        pod.metadata.name.as_deref() == Some(name)
            && (namespace.is_none() || pod.metadata.namespace.as_deref() == namespace)
    };
    pods.into_iter().find(fits)
}

/// The namespace, if one is given, and the name.
fn parts(wanted: &str) -> (Option<&str>, &str) {
    match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    }
}

/// `there` is the node that has the pod, if anybody knows.
fn not_here(wanted: &str, node: &str, there: Option<&str>, remedies: &Remedies) -> String {
    if let Some(there) = there {
        return format!(
            "pod {wanted} is on node {there}, not on {node}: ask on that machine, or here with \
             --node-name {there} if its files are here, too"
        );
    }
    let list = format!("get pods --all-namespaces --field-selector spec.nodeName={node}");
    let list = remedies.kubectl(&list);
    format!("node {node} has no pod {wanted}; `{list}` lists those that it has")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_walk_can_be_told_without_a_node() {
        for walk in [
            bootstrap::walk(None),
            heartbeat::walk(None),
            pod::walk(None),
            rotation::walk(None),
        ] {
            let text = walk.text("Nothing is here.");
            assert!(walk.steps.len() >= 5, "{text}");
            assert!(!text.contains("     here "), "{text}");
            assert!(text.contains("     look "), "{text}");
        }
        let text = bootstrap::walk(None).text("");
        assert!(text.contains("system:node:NODE"), "{text}");
    }

    fn pod(namespace: &str, name: &str, made: i64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.metadata.name = Some(name.to_owned());
        let made = Timestamp::from_second(made).unwrap();
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(made);
        pod.metadata.creation_timestamp = Some(time);
        pod
    }

    #[test]
    fn a_pod_is_named_with_or_without_its_namespace_or_is_the_newest() {
        let pods = || vec![pod("a", "x", 10), pod("b", "y", 30), pod("b", "x", 20)];
        let name = |wanted: Option<&str>| {
            let wanted = wanted.map_or(WantedPod::Newest, |name| WantedPod::Named(name.to_owned()));
            let found = chosen(pods(), &wanted).unwrap();
            let metadata = found.metadata;
            format!("{}/{}", metadata.namespace.unwrap(), metadata.name.unwrap())
        };
        assert_eq!(name(None), "b/y");
        assert_eq!(name(Some("x")), "a/x");
        assert_eq!(name(Some("b/x")), "b/x");
        assert_eq!(chosen(pods(), &WantedPod::Named("z".to_owned())), None);
        assert_eq!(chosen(Vec::new(), &WantedPod::Newest), None);
    }

    #[test]
    fn of_a_pod_that_is_elsewhere_it_is_told_where() {
        let joined = Remedies::new(true, None, &[]);
        let of_up = Remedies::of_up_in("/d".into());
        for (remedies, list) in [
            (&joined, "`kubectl get pods "),
            (&of_up, "`kubectl --kubeconfig /d/kubeconfig get pods "),
        ] {
            let said = not_here("z", "n1", None, remedies);
            assert!(said.contains("node n1 has no pod z"), "{said}");
            assert!(said.contains(list), "{said}");
        }
        let said = not_here("z", "n1", Some("n2"), &joined);
        assert!(
            said.contains("is on node n2") && said.contains("--node-name n2"),
            "{said}"
        );
    }
}
