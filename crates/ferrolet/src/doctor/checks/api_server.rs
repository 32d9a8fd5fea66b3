//! Whether the API server can be reached, and knows the node.

use crate::doctor::finding::Finding;
use crate::local_node::cluster::{Reach, Welcome};

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) server: Option<String>,
    pub(in crate::doctor) kubeconfig: String,
    pub(in crate::doctor) reach: Reach,
    pub(in crate::doctor) welcome: Welcome,
    /// The certificate is good, as far as the machine can tell.
    pub(in crate::doctor) certificate_is_good: bool,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let server = facts.server.clone().unwrap_or_default();
    match (&facts.reach, &facts.welcome) {
        (Reach::Silent(cause), _) => {
            let cause = format!("it does not answer: {cause}");
            let command = format!("curl --insecure --max-time 5 {server}/livez");
            vec![Finding::error(server, cause).mended_by(command)]
        }
        // What is wrong with the certificate is told with it.
        (Reach::Answers { .. }, Welcome::Refused) if facts.certificate_is_good => {
            let cause = format!(
                "it does not know the credentials in {}: its authority was replaced, or it is another cluster's; see who signed them, then join anew",
                facts.kubeconfig
            );
            vec![Finding::error(server, cause).mended_by("ferrolet certs check")]
        }
        (Reach::Answers { .. }, Welcome::Forbidden(cause)) => {
            let cause = format!(
                "it knows the credentials in {}, and forbids the node to see itself ({cause}): they are another node's, or the API server lacks --authorization-mode=Node,RBAC",
                facts.kubeconfig
            );
            vec![Finding::error(server, cause).mended_by("ferrolet certs status")]
        }
        _ => Vec::new(),
    }
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let server = facts.server.as_deref().unwrap_or("none is named");
    match (&facts.reach, &facts.welcome) {
        (Reach::Answers { .. }, Welcome::Known) => format!("{server} knows the node"),
        (Reach::Answers { .. }, _) => format!("{server} answers"),
        _ => server.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::summary;

    #[test]
    fn a_server_answers_and_knows_the_node() {
        let answers = || Reach::Answers { skew: None };
        let silent = || Reach::Silent("connection refused".to_owned());
        let untried = || Welcome::Untried("no file".to_owned());
        for (reach, welcome, certificate_is_good, expected) in [
            (answers(), Welcome::Known, true, ""),
            (Reach::NoServer, untried(), true, ""),
            (answers(), untried(), false, ""),
            (answers(), Welcome::Refused, false, ""),
            (
                answers(),
                Welcome::Refused,
                true,
                "error https://h:1: it does not know the credentials in /k",
            ),
            (
                answers(),
                Welcome::Forbidden("no".to_owned()),
                true,
                "error https://h:1: it knows",
            ),
            (
                silent(),
                untried(),
                true,
                "error https://h:1: it does not answer: connection refused => curl --insecure --max-time 5 https://h:1/livez",
            ),
        ] {
            let facts = Facts {
                server: Some("https://h:1".to_owned()),
                kubeconfig: "/k".to_owned(),
                reach,
                welcome,
                certificate_is_good,
            };
            let found = summary(&judge(&facts));
            assert_eq!(found.is_empty(), expected.is_empty(), "{facts:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }
}
