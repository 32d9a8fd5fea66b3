//! The ports of a node, and who has them.

use std::net::IpAddr;

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) wanted: Vec<Wanted>,
    pub(in crate::doctor) taken: Vec<Taken>,
    /// The agent's process.
    pub(in crate::doctor) agent: Option<u32>,
    pub(in crate::doctor) remedies: Remedies,
}

/// A port that the agent is to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Wanted {
    pub(in crate::doctor) setting: &'static str,
    pub(in crate::doctor) address: IpAddr,
    pub(in crate::doctor) port: u16,
}

/// A port that somebody listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Taken {
    pub(in crate::doctor) address: IpAddr,
    pub(in crate::doctor) port: u16,
    /// The process and its name, where this user may see them.
    pub(in crate::doctor) owner: Option<(u32, String)>,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let verdicts = facts.wanted.iter().map(|wanted| one(facts, wanted));
    verdicts.flatten().collect()
}

/// How a port is.
enum State<'a> {
    Free,
    Agents,
    /// Somebody else has it.
    Taken(&'a Taken),
    /// The agent runs, and does not have it.
    Unheard,
}

fn state<'a>(facts: &'a Facts, wanted: &Wanted) -> State<'a> {
    let holders = || facts.taken.iter().filter(|taken| taken.meets(wanted));
    let stranger = holders().find(|taken| match &taken.owner {
        Some((id, _)) => Some(*id) != facts.agent,
        // Whoever runs as another user may be the agent.
        None => facts.agent.is_none(),
    });
    match (stranger, facts.agent) {
        (Some(stranger), _) => State::Taken(stranger),
        (None, None) => State::Free,
        (None, Some(_)) if holders().next().is_none() => State::Unheard,
        (None, Some(_)) => State::Agents,
    }
}

fn one(facts: &Facts, wanted: &Wanted) -> Option<Finding> {
    let port = wanted.port;
    let object = format!("port {port} ({})", wanted.setting);
    match state(facts, wanted) {
        State::Free | State::Agents => None,
        State::Taken(stranger) => Some(match &stranger.owner {
            Some((id, name)) => {
                let cause = format!(
                    "{name} (process {id}) has it; end that, or give one of the two another port"
                );
                Finding::error(object, cause).mended_by(format!("kill {id}"))
            }
            None => Finding::error(object, "somebody has it; see who").mended_by(format!(
                "sudo ss --listening --tcp --numeric --processes 'sport = :{port}'"
            )),
        }),
        State::Unheard => {
            let cause = "the agent runs, and does not listen on it; its log says why";
            Some(Finding::error(object, cause).mended_by(facts.remedies.log()))
        }
    }
}

impl Taken {
    /// Both cannot be had.
    fn meets(&self, wanted: &Wanted) -> bool {
        let everywhere = self.address.is_unspecified() || wanted.address.is_unspecified();
        self.port == wanted.port && (everywhere || self.address == wanted.address)
    }
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let mut states: Vec<(&str, Vec<String>)> = Vec::new();
    for wanted in &facts.wanted {
        let word = match state(facts, wanted) {
            State::Free => "free",
            State::Agents => "the agent's",
            State::Taken(_) => "taken",
            State::Unheard => "not listened on",
        };
        let port = wanted.port.to_string();
        match states.iter_mut().find(|(known, _)| *known == word) {
            Some((_, ports)) => ports.push(port),
            None => states.push((word, vec![port])),
        }
    }
    let states = states
        .iter()
        .map(|(word, ports)| format!("{}: {word}", ports.join(", ")));
    states.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::doctor::checks::testing::{remedies, summary};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const EVERYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    fn facts(agent: Option<u32>, taken: &[(IpAddr, Option<u32>)]) -> Facts {
        let taken = taken.iter().map(|(address, owner)| Taken {
            address: *address,
            port: 10248,
            owner: owner.map(|id| (id, "nginx".to_owned())),
        });
        Facts {
            wanted: vec![Wanted {
                setting: "healthzPort",
                address: HERE,
                port: 10248,
            }],
            taken: taken.collect(),
            agent,
            remedies: remedies(),
        }
    }

    #[test]
    fn a_port_is_the_agents_or_free() {
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        for (agent, taken, expected) in [
            (None, vec![], ""),
            (Some(7), vec![(HERE, Some(7))], ""),
            (Some(7), vec![(EVERYWHERE, Some(7))], ""),
            (Some(7), vec![(HERE, None)], ""),
            (None, vec![(other, Some(12))], ""),
            (
                None,
                vec![(EVERYWHERE, Some(12))],
                "error port 10248 (healthzPort): nginx (process 12) has it",
            ),
            (
                Some(7),
                vec![(HERE, Some(12))],
                "error port 10248 (healthzPort): nginx",
            ),
            (
                None,
                vec![(HERE, None)],
                "error port 10248 (healthzPort): somebody",
            ),
            (
                Some(7),
                vec![],
                "error port 10248 (healthzPort): the agent runs",
            ),
        ] {
            let found = summary(&judge(&facts(agent, &taken)));
            assert_eq!(found.is_empty(), expected.is_empty(), "{agent:?} {taken:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
            }
        }
        let found = judge(&facts(None, &[(HERE, Some(12))]));
        assert_eq!(found[0].command.as_deref(), Some("kill 12"));
    }

    #[test]
    fn the_table_says_of_each_port_what_the_findings_say() {
        for (agent, taken, expected) in [
            (None, vec![], "10248: free; 10250: taken"),
            (None, vec![(HERE, Some(12))], "10248, 10250: taken"),
            (
                Some(7),
                vec![(HERE, Some(7))],
                "10248: the agent's; 10250: taken",
            ),
            (Some(7), vec![], "10248: not listened on; 10250: taken"),
        ] {
            let mut facts = facts(agent, &taken);
            facts.wanted.push(Wanted {
                setting: "port",
                address: EVERYWHERE,
                port: 10250,
            });
            facts.taken.push(Taken {
                address: EVERYWHERE,
                port: 10250,
                owner: Some((12, "kubelet".to_owned())),
            });
            assert_eq!(told(&facts), expected);
        }
    }
}
