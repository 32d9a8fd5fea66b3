//! The node's certificates and kubeconfigs: what `ferrolet certs status` finds, by weight.

use identity::Purpose;

use crate::certs::judge::{self as certs, Problem};
use crate::certs::kubeconfig::Verdict;
use crate::certs::look::{Content, Life, Looked};
use crate::certs::span::relative;
use crate::doctor::finding::{Finding, Severity};
use crate::local_node::Remedies;
use crate::local_node::look::Hidden;

#[derive(Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) looked: Looked,
    pub(in crate::doctor) remedies: Remedies,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let looked = &facts.looked;
    let valid = client_is_valid(looked);
    let client = certs::client(looked).filter(|_| !is_hidden(&looked.client.content));
    let client = client.map(|problem| {
        let object = object(looked, Purpose::Client, "client certificate");
        let finding = facts.told(Finding::error(object, &problem.sentence), &problem);
        // One that is still good is to be renewed, no more.
        let severity = if valid {
            Severity::Warning
        } else {
            Severity::Error
        };
        Finding {
            severity,
            ..finding
        }
    });
    let serving = certs::serving(looked).filter(|_| !is_hidden(&looked.serving.content));
    let serving = serving.map(|problem| {
        let object = object(looked, Purpose::Serving, "serving certificate");
        facts.told(Finding::error(object, &problem.sentence), &problem)
    });
    let kubeconfig = certs::kubeconfig(looked)
        .filter(|_| looked.kubeconfig.verdict != Verdict::Forbidden)
        .map(|problem| facts.told(Finding::error("kubeconfig", &problem.sentence), &problem));
    let bootstrap = certs::bootstrap(looked).map(|problem| {
        facts.told(
            Finding::warning("bootstrap kubeconfig", &problem.sentence),
            &problem,
        )
    });
    let links = [
        (&looked.client, Purpose::Client),
        (&looked.serving, Purpose::Serving),
    ];
    let links = links.map(|(look, purpose)| {
        let problem = certs::not_a_link(looked, look, purpose)?;
        let object = look.file.display().to_string();
        Some(facts.told(Finding::warning(object, &problem.sentence), &problem))
    });
    let found = [client, kubeconfig, bootstrap, serving].into_iter();
    found.chain(links).flatten().collect()
}

impl Facts {
    fn told(&self, finding: Finding, problem: &Problem) -> Finding {
        Finding {
            command: problem
                .command
                .as_deref()
                .map(|command| self.remedies.here(command)),
            ..finding
        }
    }
}

/// A request that waits is the thing to look at, not the certificate.
fn object(looked: &Looked, purpose: Purpose, name: &str) -> String {
    let state = looked.agent.state(purpose);
    match state.and_then(|state| state.waiting()) {
        Some(wait) => format!("CSR {}", wait.csr),
        None => name.to_owned(),
    }
}

fn is_hidden(content: &Content) -> bool {
    matches!(content, Content::Forbidden)
}

pub(in crate::doctor) fn client_is_valid(looked: &Looked) -> bool {
    let details = looked.client.details();
    details.is_some_and(|details| details.life == Life::Valid)
}

/// What this user may not read.
pub(in crate::doctor) fn hidden(facts: &Facts) -> Vec<Hidden> {
    let looked = &facts.looked;
    let mut files = Vec::new();
    if is_hidden(&looked.client.content) {
        files.push(looked.client.file.display().to_string());
    }
    if is_hidden(&looked.serving.content) {
        files.push(looked.serving.file.display().to_string());
    }
    if looked.kubeconfig.verdict == Verdict::Forbidden && files.is_empty() {
        files.push(looked.kubeconfig.file.display().to_string());
    }
    let hidden = files.iter().map(|file| {
        Hidden::new(
            format!("{file} may not be read by this user"),
            Some("sudo ferrolet doctor"),
        )
    });
    hidden.collect()
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let looked = &facts.looked;
    let Some(details) = looked.client.details() else {
        return "no client certificate".to_owned();
    };
    let now = looked.now.0;
    match details.life {
        Life::Valid => format!(
            "client's ends {}, renewed from {}",
            relative(details.not_after.0, now),
            relative(details.renewal_from.0, now).trim_start_matches("in ")
        ),
        Life::Expired => format!("client's expired {}", relative(details.not_after.0, now)),
        Life::NotYetValid => "client's is not valid yet".to_owned(),
    }
}
