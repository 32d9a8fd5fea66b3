//! The report: a line for each check, then what was found, each with the command that
//! mends it.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::checks::{Checked, Facts};
use super::finding::{Finding, Severity};
use crate::kubelet::wrapped;
use crate::output::printable;

const WIDTH: usize = 80;

/// Everything that is told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) node: String,
    /// The agent's process.
    pub(super) process: Option<u32>,
    /// Whether the machine belongs to a cluster, or is told to.
    pub(super) member: bool,
    /// Where the cluster is kept, if it is one of `ferrolet up`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<PathBuf>,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    pub(super) checks: Vec<Checked>,
}

impl Report {
    pub(super) fn new(facts: &Facts, checks: Vec<Checked>) -> Self {
        let count = |severity| {
            let findings = checks.iter().flat_map(|check| &check.findings);
            findings
                .filter(|finding| finding.severity == severity)
                .count()
        };
        Self {
            node: facts.node_name.clone(),
            process: facts.agent.agent.as_ref().map(|(id, _)| *id),
            member: facts.membership.is_some(),
            cluster: facts.cluster.clone(),
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            checks,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let cluster = self.cluster.as_ref();
        let cluster = cluster.map(|root| format!(" of the cluster in {}", root.display()));
        let head = match (self.member, self.process) {
            (true, _) => format!("node {}{}", self.node, cluster.unwrap_or_default()),
            (false, Some(_)) => format!("machine {}, whose agent belongs to no cluster", self.node),
            (false, None) => format!("machine {}, which has joined no cluster", self.node),
        };
        let _ = writeln!(text, "{}\n", printable(&head));
        for check in &self.checks {
            row(&mut text, check);
        }
        text.push('\n');
        let findings = self.checks.iter().flat_map(|check| &check.findings);
        let mut findings: Vec<&Finding> = findings.collect();
        // What comes first in the list is oftener the cause of the rest.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        for finding in findings {
            found(&mut text, finding);
        }
        let _ = writeln!(text, "{}", self.sum());
        self.hidden(&mut text);
        text
    }

    fn sum(&self) -> String {
        let many = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            _ => format!("{count} {word}s"),
        };
        match (self.errors, self.warnings) {
            (0, 0) => "nothing found".to_owned(),
            (0, warnings) => many(warnings, "warning"),
            (errors, 0) => many(errors, "error"),
            (errors, warnings) => {
                format!("{}, {}", many(errors, "error"), many(warnings, "warning"))
            }
        }
    }

    fn hidden(&self, text: &mut String) {
        let hidden = self.checks.iter().flat_map(|check| {
            let named = check.not_seen.iter().map(|hidden| (check.name, hidden));
            named.collect::<Vec<_>>()
        });
        let hidden: Vec<_> = hidden.collect();
        if hidden.is_empty() {
            return;
        }
        text.push_str("\nnot seen\n");
        let mut commands: Vec<&str> = Vec::new();
        for (name, hidden) in hidden {
            paragraph(text, &format!("{name}: {}", hidden.why), "  - ", "    ");
            commands.extend(hidden.command.as_deref());
        }
        // Several are often shown by one.
        commands.sort_unstable();
        commands.dedup();
        for command in commands {
            let _ = writeln!(text, "      {}", printable(command));
        }
    }
}

fn row(text: &mut String, check: &Checked) {
    let mark = match check.worst() {
        Some(severity) => severity.word(),
        None if check.not_seen.is_empty() => "ok",
        None => "-",
    };
    let line = format!("{:<14} {mark:<8} {}", check.name, check.seen);
    let line = printable(&line).replace('\n', " ");
    let _ = writeln!(text, "{}", cut(line.trim_end()));
}

/// A row is a line: the whole is told below, or in the other form.
fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let kept: String = line.chars().take(WIDTH - 1).collect();
    format!("{kept}…")
}

fn found(text: &mut String, finding: &Finding) {
    let head = format!("{:<8} {}", finding.severity.word(), finding.object);
    let _ = writeln!(text, "{}", printable(&head).replace('\n', " "));
    paragraph(text, &finding.cause, "    ", "    ");
    // Never wrapped: it is there to be copied.
    if let Some(command) = &finding.command {
        let _ = writeln!(text, "      {}", printable(command));
    }
    text.push('\n');
}

fn paragraph(text: &mut String, told: &str, first: &str, others: &str) {
    let told = printable(told);
    for (index, line) in wrapped(&told, WIDTH - 4).iter().enumerate() {
        let start = if index == 0 { first } else { others };
        let _ = writeln!(text, "{start}{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_node::look::Hidden;

    fn report(findings: Vec<Finding>, not_seen: Vec<Hidden>) -> Report {
        let count = |severity| {
            let found = findings
                .iter()
                .filter(|finding| finding.severity == severity);
            found.count()
        };
        Report {
            node: "n1".to_owned(),
            process: Some(7),
            member: true,
            cluster: None,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            checks: vec![Checked {
                name: "lease",
                seen: "renewed 3m ago".to_owned(),
                findings,
                not_seen,
            }],
        }
    }

    #[test]
    fn a_node_that_is_well_has_nothing_below_its_lines() {
        let text = report(Vec::new(), Vec::new()).text();
        assert_eq!(
            text,
            "node n1\n\nlease          ok       renewed 3m ago\n\nnothing found\n"
        );
    }

    #[test]
    fn what_is_found_is_told_with_its_command_and_the_worst_first() {
        let findings = vec![
            Finding::warning("a", "so\u{1b}[2J"),
            Finding::error("lease x", "old").mended_by("systemctl start kubelet"),
        ];
        let hidden = Hidden::new("not for this user", Some("sudo ferrolet doctor"));
        let text = report(findings, vec![hidden]).text();
        let expected = "error    lease x\n    old\n      systemctl start kubelet\n\nwarning  a\n    so\u{fffd}[2J\n\n1 error, 1 warning\n\nnot seen\n  - lease: not for this user\n      sudo ferrolet doctor\n";
        assert!(text.ends_with(expected), "{text}");
        let json = serde_json::to_value(report(vec![Finding::error("lease x", "old")], Vec::new()));
        let json = json.unwrap();
        assert_eq!(json["errors"], 1);
        assert_eq!(json["checks"][0]["findings"][0]["severity"], "error");
    }

    #[test]
    fn no_line_but_a_command_is_wider_than_a_terminal() {
        let long = "word ".repeat(60);
        let text = report(vec![Finding::error("x", &long)], Vec::new()).text();
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let mut wide = report(Vec::new(), Vec::new());
        wide.checks[0].seen = "x".repeat(200);
        assert!(wide.text().contains('…'));
    }
}
