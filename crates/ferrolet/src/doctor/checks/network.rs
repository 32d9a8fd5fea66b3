//! Whether pods can have a network: a configuration, the programs that it names, and
//! packets that are passed on.

use std::path::PathBuf;

use cluster::preflight::{Outcome, checks};

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// What the runtime says of the network; `None` where it was not asked.
    pub(in crate::doctor) ready: Option<Result<(), String>>,
    /// Where configurations are looked for, and programs.
    pub(in crate::doctor) directory: PathBuf,
    pub(in crate::doctor) programs: Vec<PathBuf>,
    pub(in crate::doctor) found: Found,
    /// `None` where it cannot be read.
    pub(in crate::doctor) ip_forward: Option<bool>,
    pub(in crate::doctor) remedies: Remedies,
}

/// The configuration that counts: the first by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum Found {
    Nothing,
    /// Not for this user.
    Forbidden,
    Configuration {
        name: String,
        /// Programs that are in none of the directories.
        missing: Vec<String>,
    },
    Broken {
        name: String,
        cause: String,
    },
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let directory = facts.directory.display().to_string();
    let unready = match &facts.ready {
        Some(Err(cause)) => Some(cause),
        _ => None,
    };
    // Where nobody runs DaemonSets, none has put anything there.
    let look = (!facts.remedies.is_up()).then(|| {
        let words = "get daemonsets --all-namespaces";
        facts.remedies.kubectl(words)
    });
    let mended = |finding: Finding| match &look {
        Some(look) => finding.mended_by(look),
        None => finding,
    };
    match &facts.found {
        Found::Nothing => {
            let cause = format!(
                "there is no configuration of a pod network here, so that only pods on the host's network start; {}",
                if facts.remedies.is_up() {
                    "put one here by hand, such as that of the plugin `bridge`: a cluster of `ferrolet up` has no DaemonSet that would"
                } else {
                    "install the cluster's network, whose DaemonSet puts it here"
                }
            );
            let finding = match facts.ready {
                // A runtime may look elsewhere.
                Some(Ok(())) => None,
                Some(Err(_)) => Some(Finding::error(&directory, cause)),
                None => Some(Finding::warning(&directory, cause)),
            };
            findings.extend(finding.map(mended));
        }
        Found::Broken { name, cause } => {
            let object = format!("{directory}/{name}");
            let cause = format!("it cannot be read as a configuration of a pod network: {cause}");
            findings.push(
                Finding::error(&object, cause).mended_by(format!("mv {object} {object}.broken")),
            );
        }
        Found::Configuration { name, missing } if !missing.is_empty() => {
            let places: Vec<_> = facts
                .programs
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let cause = format!(
                "the programs that it names are not in {}: {}",
                places.join(" or "),
                missing.join(", ")
            );
            let object = format!("{directory}/{name}");
            let finding = match facts.ready {
                Some(_) => Finding::error(object, cause),
                // Where the runtime looks is not known, only where runtimes usually do.
                None => Finding::warning(object, cause),
            };
            findings.push(mended(finding));
        }
        Found::Configuration { .. } | Found::Forbidden => {}
    }
    if let (Some(cause), true) = (unready, findings.is_empty()) {
        let cause = format!("the runtime says that the pod network is not ready: {cause}");
        findings.push(mended(Finding::error(&directory, cause)));
    }
    let forwarding = checks::ip_forward(facts.ip_forward);
    if forwarding.outcome != Outcome::Ok {
        let cause = format!("{}; keep the line in /etc/sysctl.d, too", forwarding.seen);
        findings.push(
            Finding::error("net.ipv4.ip_forward", cause)
                .mended_by("sysctl -w net.ipv4.ip_forward=1"),
        );
    }
    findings
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match &facts.found {
        Found::Configuration { name, .. } | Found::Broken { name, .. } => {
            format!("{}/{name}", facts.directory.display())
        }
        Found::Nothing => format!("nothing in {}", facts.directory.display()),
        Found::Forbidden => match &facts.ready {
            Some(Ok(())) => "ready, says the runtime".to_owned(),
            _ => format!("{} may not be read", facts.directory.display()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{of_up, remedies, summary};

    fn configured(missing: &[&str]) -> Found {
        Found::Configuration {
            name: "10-a.conflist".to_owned(),
            missing: missing.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn facts(ready: Option<Result<(), String>>, found: Found) -> Facts {
        Facts {
            ready,
            directory: "/etc/cni/net.d".into(),
            programs: vec!["/opt/cni/bin".into()],
            found,
            ip_forward: Some(true),
            remedies: remedies(),
        }
    }

    #[test]
    fn a_cluster_without_controllers_is_not_asked_for_daemonsets() {
        let mut facts = facts(None, Found::Nothing);
        let told = |facts: &Facts| summary(&judge(facts)).join(" ");
        let said = told(&facts);
        assert!(
            said.ends_with("=> kubectl get daemonsets --all-namespaces"),
            "{said}"
        );
        facts.remedies = of_up();
        let said = told(&facts);
        assert!(said.contains("by hand") && said.ends_with("=> -"), "{said}");
    }

    #[test]
    fn what_stops_pods_from_having_a_network_is_named() {
        let unready = || Some(Err("no network config found".to_owned()));
        let broken = Found::Broken {
            name: "10-a.conf".to_owned(),
            cause: "no JSON".to_owned(),
        };
        for (ready, found, expected) in [
            (Some(Ok(())), configured(&[]), vec![]),
            (None, configured(&[]), vec![]),
            (Some(Ok(())), Found::Nothing, vec![]),
            (None, Found::Forbidden, vec![]),
            (
                unready(),
                Found::Nothing,
                vec!["error /etc/cni/net.d: there is no"],
            ),
            (
                None,
                Found::Nothing,
                vec!["warning /etc/cni/net.d: there is no"],
            ),
            (
                unready(),
                configured(&["calico"]),
                vec!["error /etc/cni/net.d/10-a.conflist: the programs"],
            ),
            (
                None,
                configured(&["calico"]),
                vec!["warning /etc/cni/net.d/10-a.conflist: the programs"],
            ),
            (
                unready(),
                configured(&[]),
                vec!["error /etc/cni/net.d: the runtime says"],
            ),
            (
                unready(),
                broken,
                vec!["error /etc/cni/net.d/10-a.conf: it cannot be read"],
            ),
        ] {
            let facts = facts(ready, found);
            let found = summary(&judge(&facts));
            assert_eq!(found.len(), expected.len(), "{facts:?}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }

    #[test]
    fn packets_must_be_passed_on() {
        let facts = Facts {
            ip_forward: Some(false),
            ..facts(Some(Ok(())), configured(&[]))
        };
        let found = &judge(&facts)[0];
        assert_eq!(
            found.command.as_deref(),
            Some("sysctl -w net.ipv4.ip_forward=1")
        );
    }
}
