//! The cases: small text files that say what both programs are given.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail};
use testkit::lab::Machine;

/// What a file gets in front that does not bring its own head.
pub(crate) const HEAD: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
/// Given to both programs first, so that upstream shows what it resolved and
/// does not mind the cgroup version of the machine. A case can override them.
pub(crate) const SHOWING: [&str; 2] = ["-v=5", "--fail-cgroupv1=false"];

/// How a program takes a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepts,
    Refuses,
    Panics,
}

impl Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Accepts => "accepts",
            Self::Refuses => "refuses",
            Self::Panics => "panics",
        })
    }
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// What upstream does with it: a slip in a case must not pass because both
    /// programs refuse the slip.
    pub(crate) expected: Verdict,
    pub(crate) arguments: Vec<String>,
    files: Vec<(String, String)>,
    /// Symbolic links: where they are, and where they lead.
    links: Vec<(String, String)>,
    directory: String,
}

impl Case {
    /// Writes its files in the machine and answers the directory they are in.
    pub(crate) fn install(&self, machine: &Machine) -> Result<String> {
        fs::create_dir_all(machine.root(&self.directory))?;
        for (path, text) in &self.files {
            machine.write(&format!("{}/{path}", self.directory), text)?;
        }
        for (path, target) in &self.links {
            let link = machine.root(&format!("{}/{path}", self.directory));
            if let Some(parent) = link.parent() {
                fs::create_dir_all(parent)?;
            }
            symlink(target, link)?;
        }
        Ok(self.directory.clone())
    }
}

/// A command line of these flags and then those.
pub(crate) fn arguments(first: &[&str], then: &[&str]) -> Vec<String> {
    first.iter().chain(then).map(ToString::to_string).collect()
}

/// Reads every topic of a directory beside this file. Both programs get the
/// flags `first`, unless a case forbids it.
pub(crate) fn read(directory: &str, first: &[&str]) -> Result<Vec<Case>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("config_differential")
        .join(directory);
    let mut topics = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "case")
        {
            topics.push(path);
        }
    }
    topics.sort();
    let mut cases = Vec::new();
    for path in topics {
        let text = fs::read_to_string(&path)?;
        let topic = path.file_stem().unwrap_or_default().to_string_lossy();
        let read = parse(&topic, &text, first).with_context(|| format!("in {}", path.display()))?;
        cases.extend(read);
    }
    let mut names = BTreeSet::new();
    if let Some(case) = cases.iter().find(|case| !names.insert(&case.name)) {
        bail!("there are two cases \"{}\"", case.name);
    }
    Ok(cases)
}

fn parse(topic: &str, text: &str, first: &[&str]) -> Result<Vec<Case>> {
    // What stands before the first case is a comment.
    let parts = format!("\n{text}");
    parts
        .split("\n### ")
        .skip(1)
        .enumerate()
        .map(|(index, part)| {
            let (title, body) = part.split_once('\n').unwrap_or((part, ""));
            parse_case(&format!("/opt/cases/{topic}-{index}"), title, body, first)
                .with_context(|| format!("in the case \"{title}\""))
        })
        .collect()
}

fn parse_case(directory: &str, title: &str, body: &str, first: &[&str]) -> Result<Case> {
    let (verdict, name) = title
        .split_once(": ")
        .context("no verdict before a colon")?;
    let expected = [Verdict::Accepts, Verdict::Refuses, Verdict::Panics]
        .into_iter()
        .find(|known| known.to_string() == verdict)
        .with_context(|| format!("{verdict:?} is not accepts, refuses or panics"))?;
    let mut files: Vec<(String, String)> = Vec::new();
    let mut links = Vec::new();
    let mut arguments = arguments(first, &[]);
    let mut given = Vec::new();
    for line in body.lines() {
        if let Some(words) = line.strip_prefix("$! ") {
            arguments.clear();
            given.extend(split(words));
        } else if let Some(words) = line.strip_prefix("$ ") {
            given.extend(split(words));
        } else if let Some(link) = line.strip_prefix("@@@ ") {
            let (path, target) = link.split_once(" -> ").context("a link has an arrow")?;
            links.push((path.to_owned(), target.to_owned()));
        } else if let Some(path) = line.strip_prefix("--- ") {
            files.push((path.to_owned(), HEAD.to_owned()));
        } else if let Some(path) = line.strip_prefix("=== ") {
            files.push((path.to_owned(), String::new()));
        } else {
            if files.is_empty() && !line.is_empty() {
                files.push(("config.yaml".to_owned(), HEAD.to_owned()));
            }
            if let Some((_, text)) = files.last_mut() {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    for (_, text) in &mut files {
        // The blank line before the next case or file is not the file's.
        text.truncate(text.trim_end_matches('\n').len());
        if !text.is_empty() {
            text.push('\n');
        }
    }
    if files.iter().any(|(path, _)| path == "config.yaml") {
        arguments.push("--config=config.yaml".to_owned());
    }
    if files
        .iter()
        .chain(&links)
        .any(|(path, _)| path.starts_with("conf.d/"))
    {
        arguments.push("--config-dir=conf.d".to_owned());
    }
    arguments.extend(given);
    Ok(Case {
        name: name.to_owned(),
        expected,
        arguments,
        files,
        links,
        directory: directory.to_owned(),
    })
}

/// The words of a command line; `'…'` holds blanks.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
