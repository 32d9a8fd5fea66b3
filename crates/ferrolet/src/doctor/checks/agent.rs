//! Whether an agent runs, one only, and answers.

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// Its process and the name of its program.
    pub(in crate::doctor) agent: Option<(u32, String)>,
    /// Processes that are agents, too.
    pub(in crate::doctor) others: Vec<u32>,
    /// It should run: the machine has joined a cluster, or was told to.
    pub(in crate::doctor) wanted: bool,
    /// What its health port says: `None` if it has none, or if nobody was asked.
    pub(in crate::doctor) health: Option<Result<(), String>>,
    pub(in crate::doctor) remedies: Remedies,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some((id, name)) = &facts.agent else {
        if facts.wanted {
            let cause = "no agent runs on this machine, which has joined a cluster";
            findings.push(Finding::error("kubelet", cause).mended_by(facts.remedies.start()));
        }
        return findings;
    };
    if !facts.others.is_empty() {
        let ids: Vec<String> = facts.others.iter().map(u32::to_string).collect();
        let cause = format!(
            "beside process {id} there are more agents, which remove each other's pods: {}",
            ids.join(", ")
        );
        findings
            .push(Finding::error("kubelet", cause).mended_by(format!("kill {}", ids.join(" "))));
    }
    if let Some(Err(cause)) = &facts.health {
        let object = format!("process {id} ({name})");
        let cause = format!("its health port does not answer well: {cause}");
        findings.push(Finding::error(object, cause).mended_by(facts.remedies.log()));
    }
    findings
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match (&facts.agent, &facts.health) {
        (None, _) => "none runs".to_owned(),
        (Some((id, name)), Some(Ok(()))) => format!("{name}, process {id}, healthy"),
        (Some((id, name)), _) => format!("{name}, process {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{remedies, summary};

    #[test]
    fn one_agent_runs_where_one_should() {
        let well = Facts {
            agent: Some((812, "kubelet".to_owned())),
            others: Vec::new(),
            wanted: true,
            health: Some(Ok(())),
            remedies: remedies(),
        };
        assert_eq!(judge(&well), []);
        let gone = Facts {
            agent: None,
            ..well.clone()
        };
        assert_eq!(
            summary(&judge(&gone)),
            [
                "error kubelet: no agent runs on this machine, which has joined a cluster => systemctl start kubelet"
            ]
        );
        let machine = Facts {
            wanted: false,
            ..gone
        };
        assert_eq!(judge(&machine), []);
        let two = Facts {
            others: vec![900, 901],
            ..well.clone()
        };
        assert_eq!(judge(&two)[0].command.as_deref(), Some("kill 900 901"));
        let ill = Facts {
            health: Some(Err("connection refused".to_owned())),
            ..well
        };
        assert!(judge(&ill)[0].cause.contains("connection refused"));
    }
}
