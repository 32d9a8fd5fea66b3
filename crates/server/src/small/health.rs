//! `/healthz` of the node's own port: every check, or one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use tracing::info;

use crate::answer::{Answer, text, unguessed};
use crate::figures::Slis;
use crate::healthz::asked;

/// What is wrong, if anything is.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What a node suffers from without being ill.
pub type Notes = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The checks, in the order in which they are told.
#[derive(Clone)]
pub struct Health {
    pub checks: Vec<(&'static str, Check)>,
    pub notes: Notes,
    /// Where verdicts are counted.
    pub slis: Slis,
}

impl fmt::Debug for Health {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.checks.iter().map(|(name, _)| name);
        formatter.debug_list().entries(names).finish()
    }
}

impl Health {
    /// All checks but those that the query leaves out.
    pub(crate) fn all(&self, query: &str) -> Answer {
        let asked = asked(query);
        let excluded = asked.iter().filter(|(name, _)| name == "exclude");
        let excluded: BTreeSet<&str> = excluded.map(|(_, value)| value.as_str()).collect();
        let mut unknown = excluded.clone();
        let (mut lines, mut failed) = (String::new(), Vec::new());
        for (name, check) in &self.checks {
            if excluded.contains(name) {
                unknown.remove(name);
                lines.extend(["[+]", name, " excluded: ok\n"]);
                continue;
            }
            let verdict = check();
            self.slis.checked(name, verdict.is_ok());
            match verdict {
                Ok(()) => lines.extend(["[+]", name, " ok\n"]),
                Err(reason) => {
                    // Whoever may know asks for that check.
                    lines.extend(["[-]", name, " failed: reason withheld\n"]);
                    failed.push(format!("{name}: {reason}"));
                }
            }
        }
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            lines.push_str("warn: some health checks cannot be excluded: no matches for ");
            lines.push_str(&names.join(","));
            lines.push('\n');
        }
        for note in (self.notes)() {
            lines.extend(["note: ", &note, "\n"]);
        }
        if !failed.is_empty() {
            info!(v = 2, failed = failed.join("; "), "the node is not healthy");
            let body = lines + "healthz check failed\n";
            return unguessed(text(StatusCode::INTERNAL_SERVER_ERROR, body));
        }
        let verbose = asked.iter().any(|(name, _)| name == "verbose");
        let body = if verbose {
            lines + "healthz check passed\n"
        } else {
            "ok".to_owned()
        };
        unguessed(text(StatusCode::OK, body))
    }

    /// One check, with what is wrong.
    pub(crate) fn one(&self, wanted: &str) -> Answer {
        let check = self.checks.iter().find(|(name, _)| *name == wanted);
        match check.map_or(Ok(()), |(_, check)| check()) {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(reason) => {
                let body = format!("internal server error: {reason}\n");
                unguessed(text(StatusCode::INTERNAL_SERVER_ERROR, body))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn asked_of(health: &Health, query: &str) -> (u16, String) {
        let answer = health.all(query);
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// A pod that the runtime does not answer for is that pod's problem: who asks how the
    /// node fares in detail is told of it, and the node is well.
    #[tokio::test]
    async fn what_is_stuck_is_named_to_who_asks_for_more_and_makes_nobody_ill() {
        let stuck = "the container runtime does not answer ContainerStatus for pod ns/web(u-1)";
        let note = format!("note: {stuck}\n");
        for (is_well, query, status, body) in [
            (true, "", 200, "ok".to_owned()),
            (
                true,
                "verbose",
                200,
                format!("[+]ping ok\n{note}healthz check passed\n"),
            ),
            (
                true,
                "verbose&exclude=ping",
                200,
                format!("[+]ping excluded: ok\n{note}healthz check passed\n"),
            ),
            // What may be behind it is told along with what is wrong.
            (
                false,
                "",
                500,
                format!("[-]ping failed: reason withheld\n{note}healthz check failed\n"),
            ),
        ] {
            let verdict = if is_well {
                Ok(())
            } else {
                Err("no".to_owned())
            };
            let health = Health {
                checks: vec![("ping", Arc::new(move || verdict.clone()))],
                notes: Arc::new(|| vec![stuck.to_owned()]),
                slis: Slis::default(),
            };
            let said = asked_of(&health, query).await;
            assert_eq!(said, (status, body), "{query}, well: {is_well}");
        }
    }
}
