//! Variables that come from files of volumes (`fileKeyRef`): upstream's strict subset
//! of what a shell reads, in which every value stands in single quotes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;
use thiserror::Error;

/// The longest line that upstream's reader takes.
const LONGEST_LINE: usize = 65_535;

/// More of a file is not read.
pub const MOST: usize = 16 << 20;

/// What the files are that a container's variables come from: by volume, and by path
/// in it. A volume that is not there has none.
pub type EnvFiles = BTreeMap<(String, String), EnvFile>;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFile {
    /// Where it is on the machine.
    pub path: PathBuf,
    /// `None` if it could not be read.
    pub content: Option<Vec<u8>>,
}

/// What is wrong with a file: told to nobody but the log.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BadEnvFile {
    #[error("invalid environment variable format at line {0}: missing '='")]
    NoSign(usize),
    #[error("invalid environment variable format at line {0}: empty variable name")]
    NoName(usize),
    #[error(
        "invalid environment variable format at line {0}: whitespace before '=' is not allowed"
    )]
    Space(usize),
    #[error(
        "invalid environment variable format at line {0}: value must be enclosed in single quotes"
    )]
    NoQuote(usize),
    #[error(
        "invalid environment variable format at line {0}: unexpected content after closing quote"
    )]
    Rest(usize),
    #[error("invalid environment variable format starting at line {0}: unclosed single quote")]
    Open(usize),
    #[error("line {0} is longer than {LONGEST_LINE} bytes")]
    Long(usize),
}

/// The files that a container's variables come from: volumes, and paths in them.
pub fn wanted(container: &Container) -> Vec<(String, String)> {
    let variables = container.env.iter().flatten();
    let sources = variables.filter_map(|variable| variable.value_from.as_ref());
    let selectors = sources.filter_map(|source| source.file_key_ref.as_ref());
    selectors
        .map(|selector| (selector.volume_name.clone(), selector.path.clone()))
        .collect()
}

/// The value of `key`; `None` if the file has none, or an empty one. What is wrong
/// behind it is not looked at.
pub(super) fn value(content: &[u8], key: &str) -> Result<Option<Vec<u8>>, BadEnvFile> {
    let mut lines = Lines::new(content);
    while let Some(line) = lines.next()? {
        let line = trim_start(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let number = lines.number;
        let sign = line.iter().position(|byte| *byte == b'=');
        let sign = sign.ok_or(BadEnvFile::NoSign(number))?;
        let (name, rest) = (&line[..sign], &line[sign + 1..]);
        match name.last() {
            None => return Err(BadEnvFile::NoName(number)),
            Some(b' ' | b'\t') => return Err(BadEnvFile::Space(number)),
            Some(_) => {}
        }
        let value = match rest.first() {
            // As a shell: nothing is assigned, and what follows is a command.
            Some(b' ' | b'\t') => Vec::new(),
            Some(b'\'') => quoted(&rest[1..], &mut lines)?,
            _ => return Err(BadEnvFile::NoQuote(number)),
        };
        if name == key.as_bytes() {
            return Ok(Some(value).filter(|value| !value.is_empty()));
        }
    }
    Ok(None)
}

/// What stands between quotes; lines may pass before the second one.
fn quoted(first: &[u8], lines: &mut Lines<'_>) -> Result<Vec<u8>, BadEnvFile> {
    let start = lines.number;
    let mut value = Vec::new();
    let mut line = first;
    loop {
        if let Some(end) = line.iter().position(|byte| *byte == b'\'') {
            value.extend_from_slice(&line[..end]);
            let behind = trim_start(&line[end + 1..]);
            if !behind.is_empty() && !behind.starts_with(b"#") {
                return Err(BadEnvFile::Rest(lines.number));
            }
            return Ok(value);
        }
        value.extend_from_slice(line);
        value.push(b'\n');
        line = lines.next()?.ok_or(BadEnvFile::Open(start))?;
    }
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    start.map_or(&[], |start| &text[start..])
}

/// The lines of a file, as Go's scanner has them.
struct Lines<'a> {
    rest: &'a [u8],
    /// Of the last line that was read.
    number: usize,
}

impl<'a> Lines<'a> {
    fn new(content: &'a [u8]) -> Self {
        Self {
            rest: content,
            number: 0,
        }
    }

    fn next(&mut self) -> Result<Option<&'a [u8]>, BadEnvFile> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        if line.len() > LONGEST_LINE {
            return Err(BadEnvFile::Long(self.number));
        }
        self.rest = rest;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::testing;

    fn of(content: &str, key: &str) -> Result<Option<String>, BadEnvFile> {
        let found = value(content.as_bytes(), key)?;
        Ok(found.map(|value| String::from_utf8(value).unwrap()))
    }

    #[test]
    fn values_stand_in_single_quotes_and_are_taken_as_they_are() {
        for (content, key, wanted) in [
            ("A='1'\n", "A", Some("1")),
            ("A='1'", "A", Some("1")),
            ("A='1'\r\nB='2'\r\n", "B", Some("2")),
            (" \tA='1'\n\n\t\n# B='3'\n  # c\nB='2'\n", "B", Some("2")),
            ("A='$X \\n \"q\" #no'\n", "A", Some("$X \\n \"q\" #no")),
            ("A='1' # said\nB='2'#too\n", "B", Some("2")),
            ("A='a\n b\r\n\n# c'\nB='2'", "A", Some("a\n b\n\n# c")),
            ("A='a\nB='\nB='2'", "B", Some("2")),
            ("A B='1'\n", "A B", Some("1")),
            // The first one counts.
            ("A='1'\nA='2'\n", "A", Some("1")),
            ("A= '1'\nB='2'\n", "A", None),
            ("A=\t'1'\nB='2'\n", "B", Some("2")),
            ("A=''\n", "A", None),
            ("A='1'\n", "B", None),
            ("", "A", None),
            // What is wrong behind it is not looked at.
            ("A='1'\nnonsense\n", "A", Some("1")),
        ] {
            let wanted = Ok(wanted.map(str::to_owned));
            assert_eq!(of(content, key), wanted, "{content:?} {key}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_line() {
        for (content, wanted) in [
            ("A\n", BadEnvFile::NoSign(1)),
            ("\n='1'\n", BadEnvFile::NoName(2)),
            (" \t='1'\n", BadEnvFile::NoName(1)),
            ("A ='1'\n", BadEnvFile::Space(1)),
            ("A = '1'\n", BadEnvFile::Space(1)),
            ("A=1\n", BadEnvFile::NoQuote(1)),
            ("A=\n", BadEnvFile::NoQuote(1)),
            ("A=\"1\"\n", BadEnvFile::NoQuote(1)),
            ("A='1'x\n", BadEnvFile::Rest(1)),
            ("A='1\n2' x\n", BadEnvFile::Rest(2)),
            ("A='1'\nB='\n\n", BadEnvFile::Open(2)),
        ] {
            assert_eq!(of(content, "Z"), Err(wanted), "{content:?}");
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_upstream_reads() {
        let line = |length: usize| format!("A='{}'\nB='2'\n", "x".repeat(length - 4));
        assert_eq!(of(&line(LONGEST_LINE), "B"), Ok(Some("2".to_owned())));
        let error = of(&line(LONGEST_LINE + 1), "B");
        assert_eq!(error, Err(BadEnvFile::Long(1)));
    }

    #[test]
    fn a_container_wants_the_files_that_its_variables_name() {
        let reference = json!({ "volumeName": "v", "path": "a/b.env", "key": "K" });
        let container = testing::container(&json!({ "env": [
            { "name": "A", "value": "1" },
            { "name": "B", "valueFrom": { "fileKeyRef": reference } },
        ] }));
        let expected = [("v".to_owned(), "a/b.env".to_owned())];
        assert_eq!(wanted(&container), expected);
    }
}
