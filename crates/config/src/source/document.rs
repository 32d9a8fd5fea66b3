//! What reading a file gives: its tree, the keys written twice, or the reason why it cannot be read.

use std::fmt;

use super::tree::{Node, Place};
use super::{json, text, yaml};

/// How deep lists and maps may nest, as upstream has it for YAML and for JSON.
pub const MAX_DEPTH: usize = 10_000;

/// How many duplicates are described; a file with more has made its point.
pub(super) const MAX_DUPLICATES: usize = 100;

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub root: Node,
    /// Keys that occur twice in their map, the first hundred of them. The tree holds the later
    /// value; in JSON, and only there, a map that is written twice is merged, as upstream does.
    pub duplicates: Vec<Duplicate>,
    /// Where text begins that upstream does not read, and neither do we: a second YAML document,
    /// or a line that is indented less than the first one of the file.
    pub ignored: Option<Place>,
}

/// A key that occurs twice in its map, directly or through a YAML merge (`<<`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The way to the key from the root, itself included: `authentication.webhook.enabled`.
    pub path: String,
    pub key: String,
    pub first: Place,
    pub second: Place,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            first,
            second,
            ..
        } = self;
        write!(formatter, "{path} is set at {first} and again at {second}")
    }
}

/// Why a file cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub place: Place,
    /// What is wrong and, where it is known, what to do about it.
    pub message: String,
}

impl SyntaxError {
    pub(super) fn new(place: Place, message: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
        }
    }

    pub(super) fn too_deep(place: Place) -> Self {
        Self::new(
            place,
            format!("lists and maps are nested more than {MAX_DEPTH} levels deep"),
        )
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads a configuration file. A file without content, or with comments only, holds null.
pub fn parse(bytes: &[u8]) -> Result<Document, SyntaxError> {
    if json::is_json(bytes) {
        json::parse(bytes)
    } else {
        yaml::parse(&text::decode(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIGURATION: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: &authentication
  anonymous: {enabled: false}
  x509:
    clientCAFile: \"/etc/kubernetes/pki/ca.crt\" # the cluster's
clusterDNS:
- 10.96.0.10
evictionHard:
  memory.available: '100Mi'
  <<: {nodefs.available: 10%}
maxPods: 0x6e
shutdownGracePeriod: 0s
text: |
  one
  two
again: *authentication
";

    /// Pieces that matter to YAML or JSON, to make mutations that reach further than noise does.
    const PIECES: [&str; 32] = [
        "\n", "\n  ", " ", "- ", ": ", ":", "#", "\"", "'", "[", "]", "{", "}", ",", "&a ", "*a",
        "!!int ", "!", "|", ">-\n", "? ", "\t", "<<: ", "---\n", "...\n", "\\", "\\u00", "%",
        "\u{85}", "é", "1e9", "~",
    ];

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_soup_of_indicators_is_read_or_refused(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..40),
            json: bool,
        ) {
            let opening = if json { "{" } else { "" };
            let _ = parse(format!("{opening}{}", pieces.concat()).as_bytes());
        }

        #[test]
        fn a_mutated_configuration_is_read_or_refused(
            mutations in prop::collection::vec(
                (0..CONFIGURATION.len(), 0..12_usize, prop::sample::select(PIECES.to_vec())),
                1..6,
            ),
        ) {
            let mut bytes = CONFIGURATION.as_bytes().to_vec();
            for (start, removed, inserted) in mutations {
                let start = start.min(bytes.len());
                let end = (start + removed).min(bytes.len());
                bytes.splice(start..end, inserted.bytes());
            }
            let _ = parse(&bytes);
        }

        #[test]
        fn what_is_printed_as_json_reads_back_the_same(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..20),
        ) {
            let text = format!("a: b\n{}", pieces.concat());
            if let Ok(document) = parse(text.as_bytes()) {
                let printed = document.root.value.to_string();
                let again = parse(printed.as_bytes()).map(|document| document.root.value.to_string());
                prop_assert_eq!(again, Ok(printed));
            }
        }
    }

    #[test]
    fn the_first_brace_decides_between_json_and_yaml() {
        assert!(parse(b"[{a: b}]").is_ok());
        assert!(parse(b" {a: b}").is_err());
        assert!(parse(b" {\"a\": \"b\"}").is_ok());
    }

    #[test]
    fn an_error_begins_with_its_place() {
        let error = parse(b"a:\n\tb: 1\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2, column 1: there is a tab where only spaces may indent a line; replace it by spaces"
        );
    }

    #[test]
    fn a_realistic_configuration_is_read_as_upstream_reads_it() {
        let document = parse(CONFIGURATION.as_bytes()).unwrap();
        let authentication = r#"{"anonymous":{"enabled":false},"x509":{"clientCAFile":"/etc/kubernetes/pki/ca.crt"}}"#;
        assert_eq!(
            document.root.value.to_string(),
            format!(
                "{{\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"kind\":\"KubeletConfiguration\",\
                 \"authentication\":{authentication},\"clusterDNS\":[\"10.96.0.10\"],\
                 \"evictionHard\":{{\"memory.available\":\"100Mi\",\"nodefs.available\":\"10%\"}},\
                 \"maxPods\":110,\"shutdownGracePeriod\":\"0s\",\"text\":\"one\\ntwo\\n\",\
                 \"again\":{authentication}}}"
            )
        );
        assert_eq!(document.duplicates, []);
        assert_eq!(document.ignored, None);
    }
}
