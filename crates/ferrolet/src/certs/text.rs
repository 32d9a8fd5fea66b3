//! The report for people.

use std::fmt::Write;

use identity::Purpose;
use identity::decide::state::State;

use super::judge::Problem;
use super::kubeconfig::{BootstrapLook, KubeconfigLook, Shows, Verdict};
use super::look::{AgentLook, CertificateLook, Content, Details, Life, Looked, Origin};
use super::span::{Moment, length, relative};
use crate::kubelet::wrapped;

const WIDTH: usize = 96;
const INDENT: usize = 12;

pub(super) fn report(looked: &Looked, problems: &[Problem]) -> String {
    let mut text = String::new();
    certificate(&mut text, "client certificate", &looked.client, looked.now);
    text.push('\n');
    certificate(
        &mut text,
        "serving certificate",
        &looked.serving,
        looked.now,
    );
    text.push('\n');
    kubeconfig(&mut text, &looked.kubeconfig);
    text.push('\n');
    agent(&mut text, &looked.agent, looked.now);
    text.push('\n');
    to_do(&mut text, problems);
    text
}

fn certificate(text: &mut String, name: &str, look: &CertificateLook, now: Moment) {
    let head = match &look.content {
        Content::Nothing => "none".to_owned(),
        Content::Forbidden => "not to be read by this user".to_owned(),
        Content::Broken { .. } => "unusable".to_owned(),
        Content::Certificate(details) => life(details, now),
    };
    heading(text, name, &head);
    if name.starts_with("serving")
        && look.target.is_none()
        && matches!(look.content, Content::Nothing)
    {
        let note = "made or asked for when the agent starts, unless tlsCertFile names one";
        return row(text, "note", note);
    }
    let target = look.target.as_ref().map_or(String::new(), |target| {
        let beside = target.parent() == look.file.parent();
        let shown = match target.file_name() {
            Some(name) if beside => name.to_string_lossy(),
            _ => target.to_string_lossy(),
        };
        format!(" -> {shown}")
    });
    whole(text, "file", &format!("{}{target}", look.file.display()));
    match &look.content {
        Content::Nothing | Content::Forbidden => {}
        Content::Broken { cause } => row(text, "cause", cause),
        Content::Certificate(details) => rows_of(text, details, look.origin, now),
    }
}

fn rows_of(text: &mut String, details: &Details, origin: Origin, now: Moment) {
    row(text, "subject", &details.subject);
    row(text, "issuer", &details.issuer);
    let place = match origin {
        Origin::Store => "",
        Origin::Kubeconfig => "the kubeconfig shows it; there is none in the certificate directory",
        Origin::SelfSigned => "signed by the node itself, and not renewed",
    };
    row(text, "origin", place);
    let told = |moment: Moment| format!("{moment} ({})", relative(moment.0, now.0));
    row(text, "from", &told(details.not_before));
    row(text, "until", &told(details.not_after));
    if origin == Origin::SelfSigned {
        if details.life == Life::Expired {
            row(
                text,
                "note",
                "it is used on; for a new one, remove kubelet.crt and kubelet.key and restart the agent",
            );
        }
        return;
    }
    row(
        text,
        "renewal",
        &format!(
            "{} to {}",
            told(details.renewal_from),
            told(details.renewal_until)
        ),
    );
}

fn life(details: &Details, now: Moment) -> String {
    let distance = |moment: Moment| length(moment.0, now.0);
    match details.life {
        Life::Valid => format!("valid for {} more", distance(details.not_after)),
        Life::Expired => format!("expired {} ago", distance(details.not_after)),
        Life::NotYetValid => format!("not valid yet, for {} more", distance(details.not_before)),
    }
}

fn kubeconfig(text: &mut String, look: &KubeconfigLook) {
    let head = match look.verdict {
        Verdict::Valid => "valid",
        Verdict::Absent => "none",
        Verdict::Forbidden => "not to be read by this user",
        Verdict::NoCertificate => "without a valid certificate",
        Verdict::Unusable => "unusable",
    };
    heading(text, "kubeconfig", head);
    whole(text, "file", &look.file.display().to_string());
    if !matches!(look.verdict, Verdict::Valid | Verdict::Absent) {
        row(text, "cause", &look.told);
    }
    let shows = match &look.shows {
        None => String::new(),
        Some(Shows::Store) => "the client certificate above, through its link".to_owned(),
        Some(Shows::File(file)) => format!("the certificate in {}", file.display()),
        Some(Shows::Embedded) => "a certificate that stands in the kubeconfig itself".to_owned(),
        Some(Shows::NoCertificate) => "no certificate: a token, a plugin, or nothing".to_owned(),
    };
    row(text, "shows", &shows);
    row(text, "bootstrap", &bootstrap(&look.bootstrap));
}

fn bootstrap(look: &BootstrapLook) -> String {
    let told = match (look.needed, look.present, &look.fault) {
        (false, true, _) => "not needed".to_owned(),
        (false, false, _) => "not there, and not needed".to_owned(),
        (true, _, Some(fault)) => format!("needed, and unusable: {fault}"),
        (true, true, None) => "would be used at the next start".to_owned(),
        (true, false, None) => "not there: the next start cannot ask for a certificate".to_owned(),
    };
    format!("{}: {told}", look.file.display())
}

fn agent(text: &mut String, look: &AgentLook, now: Moment) {
    let Some(published) = &look.published else {
        let head = match &look.fault {
            Some(_) => "unknown",
            None => "none has published its state here",
        };
        heading(text, "agent", head);
        whole(text, "file", &look.file.display().to_string());
        row(text, "cause", look.fault.as_deref().unwrap_or_default());
        return;
    };
    let head = if look.runs() { "runs" } else { "does not run" };
    heading(text, "agent", head);
    row(text, "node", &published.node_name);
    let written = Moment::of(published.written_at);
    let process = format!(
        "{}, as of {written} ({})",
        published.process_id,
        relative(written.0, now.0)
    );
    row(text, "process", &process);
    let state = |state: &Option<State>, purpose: Purpose, without: &str| match state {
        None => without.to_owned(),
        Some(state) => format!("{}: {}", state.name(), state.advice(purpose).sentence),
    };
    row(
        text,
        "client",
        &state(&published.client, Purpose::Client, "not renewed by it"),
    );
    row(
        text,
        "serving",
        &state(&published.serving, Purpose::Serving, "not from a signer"),
    );
}

fn to_do(text: &mut String, problems: &[Problem]) {
    if problems.is_empty() {
        text.push_str("nothing to do\n");
        return;
    }
    text.push_str("to do\n");
    for problem in problems {
        for (index, line) in wrapped(&problem.sentence, WIDTH - 4).iter().enumerate() {
            let mark = if index == 0 { "  - " } else { "    " };
            let _ = writeln!(text, "{mark}{line}");
        }
        // Never wrapped: it is there to be copied.
        if let Some(command) = &problem.command {
            let _ = writeln!(text, "      {command}");
        }
    }
}

fn heading(text: &mut String, name: &str, told: &str) {
    let _ = writeln!(text, "{name}: {told}");
}

/// A row that is not broken: paths are there to be copied.
fn whole(text: &mut String, name: &str, told: &str) {
    let _ = writeln!(text, "  {name:<9} {told}");
}

/// A name and what there is to say of it; nothing to say is no row.
fn row(text: &mut String, name: &str, told: &str) {
    if told.is_empty() {
        return;
    }
    for (index, line) in wrapped(told, WIDTH - INDENT).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let _ = writeln!(text, "  {name:<9} {line}");
    }
}
