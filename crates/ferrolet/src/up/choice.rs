//! Which runtime the first node gets: what is asked for, and what is there.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use cri::{Client, Config};
use seams::cri::{ListPodSandboxRequest, PodSandbox, PodSandboxState, StatusRequest};
use seams::{Runtime as _, SharedClock, start, timeout};
use tokio::net::UnixStream;

use super::arguments::Wanted;
use crate::join::machine::SOCKETS;
use crate::output::Failure;

/// Where containerd listens, unless it was told otherwise.
const SOCKET: &str = SOCKETS[0];

/// For one call. A runtime that takes longer is none to start with.
const PATIENCE: Duration = Duration::from_secs(2);

/// The label by which a sandbox tells whose it is.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// What runs the first node's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    Containerd {
        endpoint: String,
        version: String,
    },
    Simulated {
        /// Why it is not containerd; `None`: it was asked for.
        why: Option<Unusable>,
    },
}

/// Why containerd cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    NotThere,
    NotRoot,
    Forbidden,
    Silent(String),
    NoNetwork(String),
    /// Pods that this cluster knows nothing of, by name and ID: its node would end them.
    Occupied(Vec<String>),
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => write!(
                formatter,
                "there is no socket {SOCKET}: install and start containerd"
            ),
            Self::NotRoot => write!(
                formatter,
                "containerd is here, and a node on it needs root: run this with sudo"
            ),
            Self::Forbidden => write!(
                formatter,
                "the socket {SOCKET} may not be used: run this as root"
            ),
            Self::Silent(cause) => write!(
                formatter,
                "containerd does not answer as a runtime of pods: {cause}"
            ),
            Self::NoNetwork(cause) => write!(
                formatter,
                "containerd has no network for pods ({cause}): put a CNI configuration into /etc/cni/net.d"
            ),
            Self::Occupied(pods) => write!(
                formatter,
                "containerd has {} pods of another node or cluster, which this one would end: {}; \
                 `crictl pods` shows them, `crictl rmp -f ID...` removes those that nobody needs",
                pods.len(),
                some_of(pods)
            ),
        }
    }
}

/// So many names are told.
const TOLD: usize = 3;

fn some_of(names: &[String]) -> String {
    let told = names.iter().take(TOLD).map(String::as_str);
    let more = match names.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", told.collect::<Vec<_>>().join(", "))
}

/// Looks, if that matters, and chooses. `own` are the pods of this machine, by their UIDs, if
/// it was the cluster's node before.
pub(super) async fn choose(
    wanted: Wanted,
    own: Option<&BTreeSet<String>>,
    clock: &SharedClock,
) -> Result<Chosen, Failure> {
    if wanted == Wanted::Sim {
        return Ok(Chosen::Simulated { why: None });
    }
    let root = rustix::process::geteuid().is_root();
    let found = look(Path::new(SOCKET), root, own, clock).await;
    decide(wanted, own.is_some(), found)
}

/// `returns`: this machine was the cluster's node before. `found` is containerd's version, or
/// why it cannot be used.
fn decide(
    wanted: Wanted,
    returns: bool,
    found: Result<String, (Unusable, Option<String>)>,
) -> Result<Chosen, Failure> {
    let containerd = |version| Chosen::Containerd {
        endpoint: format!("unix://{SOCKET}"),
        version,
    };
    match (wanted, found) {
        (Wanted::Sim, _) => Ok(Chosen::Simulated { why: None }),
        (_, Ok(version)) => Ok(containerd(version)),
        // Whoever asks for it may have pods that need no network, or be about to bring it.
        (Wanted::Containerd, Err((Unusable::NoNetwork(_), Some(version)))) => {
            Ok(containerd(version))
        }
        (Wanted::Containerd, Err((why, _))) => {
            Err(Failure::Failed(format!("{why}; or choose --runtime sim")))
        }
        // Its own pods may be there, too: the node that they are of would be gone from the
        // API server, and they with it, while their containers run on.
        (Wanted::Auto, Err((why @ Unusable::Occupied(_), _))) if returns => {
            Err(Failure::Failed(format!(
                "{why}; this cluster's node was on containerd before, so it is simulated only \
                 if you say so: --runtime sim"
            )))
        }
        (Wanted::Auto, Err((why, _))) => Ok(Chosen::Simulated { why: Some(why) }),
    }
}

async fn look(
    socket: &Path,
    root: bool,
    own: Option<&BTreeSet<String>>,
    clock: &SharedClock,
) -> Result<String, (Unusable, Option<String>)> {
    let without = |why| (why, None);
    if !socket.exists() {
        return Err(without(Unusable::NotThere));
    }
    if !root {
        return Err(without(Unusable::NotRoot));
    }
    let silent = |cause: &dyn fmt::Display| without(Unusable::Silent(cause.to_string()));
    match timeout(&**clock, PATIENCE, UnixStream::connect(socket)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(without(Unusable::Forbidden));
        }
        Ok(Err(error)) => return Err(silent(&error)),
        Err(_) => return Err(silent(&"it takes no connections")),
    }
    let config = Config {
        runtime_endpoint: format!("unix://{}", socket.display()),
        request_timeout: PATIENCE,
        ..Config::default()
    };
    let client = Client::new(&config, clock.clone()).map_err(|error| silent(&error))?;
    let asked = ask(&client, own).await;
    client.close().await;
    asked
}

async fn ask(
    client: &Client,
    own: Option<&BTreeSet<String>>,
) -> Result<String, (Unusable, Option<String>)> {
    let silent = |cause: String| (Unusable::Silent(cause), None);
    let version = start::check(client).await;
    let version = version.map_err(|error| silent(error.to_string()))?;
    let version = version.runtime_version;
    let pods = client.list_pod_sandbox(ListPodSandboxRequest::default());
    let pods = pods.await.map_err(|error| silent(error.to_string()))?;
    let foreign = foreign(&pods.items, own);
    if !foreign.is_empty() {
        return Err((Unusable::Occupied(foreign), None));
    }
    let status = client.status(StatusRequest { verbose: false }).await;
    let status = status.map_err(|error| silent(error.to_string()))?.status;
    let conditions = status.into_iter().flat_map(|status| status.conditions);
    let mut network = conditions.filter(|condition| condition.r#type == "NetworkReady");
    match network.next() {
        Some(ready) if !ready.status => {
            let why = Unusable::NoNetwork(ready.message);
            Err((why, Some(version)))
        }
        _ => Ok(version),
    }
}

/// Those that are not the cluster's. Of a node that returns, sandboxes that have ended do not
/// count: those of its own pods outlive the pods' directories.
fn foreign(sandboxes: &[PodSandbox], own: Option<&BTreeSet<String>>) -> Vec<String> {
    let is_foreign = |sandbox: &&PodSandbox| match own {
        None => true,
        Some(own) => {
            let uid = sandbox.labels.get(POD_UID);
            sandbox.state() == PodSandboxState::SandboxReady
                && !uid.is_some_and(|uid| own.contains(uid))
        }
    };
    sandboxes.iter().filter(is_foreign).map(named).collect()
}

/// The ID as `crictl` shortens it, which is how it takes it, too.
fn named(sandbox: &PodSandbox) -> String {
    let id: String = sandbox.id.chars().take(13).collect();
    match &sandbox.metadata {
        Some(pod) => format!("{}/{} ({id})", pod.namespace, pod.name),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use seams::cri::PodSandboxMetadata;

    use super::*;

    #[test]
    fn pods_that_the_cluster_has_no_directory_of_are_somebody_elses() {
        let sandbox = |uid: Option<&str>, state: PodSandboxState| PodSandbox {
            labels: uid
                .map(|uid| (POD_UID.to_owned(), uid.to_owned()))
                .into_iter()
                .collect(),
            state: state.into(),
            ..PodSandbox::default()
        };
        let (ready, ended) = (
            PodSandboxState::SandboxReady,
            PodSandboxState::SandboxNotready,
        );
        let own = BTreeSet::from(["u-1".to_owned()]);
        for (uid, state, returns, count) in [
            (Some("u-1"), ready, true, 0),
            (Some("u-2"), ready, true, 1),
            (None, ready, true, 1),
            (Some("u-2"), ended, true, 0),
            (Some("u-1"), ready, false, 1),
            (Some("u-2"), ended, false, 1),
        ] {
            let found = foreign(&[sandbox(uid, state)], returns.then_some(&own));
            assert_eq!(found.len(), count, "{uid:?} {state:?} {returns}");
        }
    }

    #[test]
    fn containerd_is_taken_where_it_can_be_used_and_its_lack_is_told() {
        let fit = || Ok("2.1".to_owned());
        let bare = || Err((Unusable::NoNetwork("x".to_owned()), Some("2.1".to_owned())));
        let none = || Err((Unusable::NotThere, None));
        let occupied = || Err((Unusable::Occupied(vec!["a/b (1)".to_owned()]), None));
        let name = |wanted, returns, found| match decide(wanted, returns, found) {
            Ok(Chosen::Containerd { .. }) => "containerd",
            Ok(Chosen::Simulated { why: None }) => "simulated",
            Ok(Chosen::Simulated { why: Some(_) }) => "simulated, told why",
            Err(_) => "refused",
        };
        let why = "simulated, told why";
        let asked = ["containerd", "containerd", "refused", "refused"];
        for (wanted, returns, outcomes) in [
            (Wanted::Auto, false, ["containerd", why, why, why]),
            (Wanted::Auto, true, ["containerd", why, why, "refused"]),
            (Wanted::Containerd, false, asked),
            (Wanted::Containerd, true, asked),
            (Wanted::Sim, false, ["simulated"; 4]),
            (Wanted::Sim, true, ["simulated"; 4]),
        ] {
            let found = [fit(), bare(), none(), occupied()];
            let found = found.map(|found| name(wanted, returns, found));
            assert_eq!(found, outcomes, "{wanted:?} {returns}");
        }
    }

    #[test]
    fn who_returns_among_pods_of_others_is_told_which_and_what_there_is_to_do() {
        let sandbox = |number: usize| PodSandbox {
            id: format!("0123456789abcdef-{number}"),
            metadata: Some(PodSandboxMetadata {
                name: format!("p-{number}"),
                namespace: "web".to_owned(),
                ..PodSandboxMetadata::default()
            }),
            state: PodSandboxState::SandboxReady.into(),
            ..PodSandbox::default()
        };
        for (count, names) in [
            (1, ": web/p-0 (0123456789abc); "),
            (5, ", web/p-2 (0123456789abc) and 2 more; "),
        ] {
            let sandboxes: Vec<_> = (0..count).map(sandbox).collect();
            let found = Unusable::Occupied(foreign(&sandboxes, Some(&BTreeSet::new())));
            let Err(Failure::Failed(told)) = decide(Wanted::Auto, true, Err((found, None))) else {
                panic!("nobody is told of {count}");
            };
            assert!(
                told.starts_with(&format!("containerd has {count} pods")),
                "{told}"
            );
            assert!(
                told.contains(names) && told.ends_with("--runtime sim"),
                "{told}"
            );
        }
    }
}
