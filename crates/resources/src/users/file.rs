//! The file in a pod's directory that says which ids are its own: upstream's.

use serde::Deserialize;
use thiserror::Error;

use super::IdRange;

/// Why a file does not say it.
#[derive(Debug, Error)]
pub enum BadFile {
    #[error("invalid user namespace mappings file: {0}")]
    NoJson(#[from] serde_json::Error),
    #[error("invalid user namespace configuration: no more than one mapping allowed.")]
    Several,
    #[error("invalid user namespace configuration: GID and UID mappings should be identical.")]
    Differing,
    #[error("invalid user namespace configuration: UID 0 must be mapped")]
    NoRoot,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

pub(super) fn text(range: IdRange) -> String {
    let IdRange { first, length } = range;
    let mapping = format!("{{\"hostId\":{first},\"containerId\":0,\"length\":{length}}}");
    format!("{{\"uidMappings\":[{mapping}],\"gidMappings\":[{mapping}]}}")
}

/// An empty file says nothing, as one that is not there.
pub(super) fn parse(content: &[u8]) -> Result<Option<IdRange>, BadFile> {
    if content.is_empty() {
        return Ok(None);
    }
    let mappings: Mappings = serde_json::from_slice(content)?;
    let [users] = mappings.uid_mappings[..] else {
        return Err(BadFile::Several);
    };
    if mappings.gid_mappings[..] != [users] {
        return Err(BadFile::Differing);
    }
    if users.container_id != 0 {
        return Err(BadFile::NoRoot);
    }
    Ok(Some(IdRange {
        first: users.host_id,
        length: users.length,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: IdRange = IdRange {
        first: 131_072,
        length: 65_536,
    };

    const UPSTREAMS: &str = r#"{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}"#;

    #[test]
    fn what_is_written_is_what_upstream_writes_and_reads() {
        assert_eq!(parse(UPSTREAMS.as_bytes()).unwrap(), Some(RANGE));
        assert_eq!(text(RANGE), UPSTREAMS);
        assert_eq!(parse(b"").unwrap(), None);
    }

    #[test]
    fn a_file_that_nobody_wrote_is_refused_in_upstreams_words() {
        let one = r#"{"hostId":131072,"containerId":0,"length":65536}"#;
        let moved = one.replace("131072", "196608");
        let inner = one.replace("\"containerId\":0", "\"containerId\":1");
        let file = |users: &str, groups: &str| {
            format!("{{\"uidMappings\":[{users}],\"gidMappings\":[{groups}]}}")
        };
        let same =
            "invalid user namespace configuration: GID and UID mappings should be identical.";
        let several = "invalid user namespace configuration: no more than one mapping allowed.";
        let root = "invalid user namespace configuration: UID 0 must be mapped";
        for (content, text) in [
            (file("", ""), several),
            (file(&format!("{one},{moved}"), one), several),
            (file(one, ""), same),
            (file(one, &moved), same),
            (file(&inner, &inner), root),
        ] {
            let error = parse(content.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), text, "{content}");
        }
        let error = parse(b"{").unwrap_err().to_string();
        let start = "invalid user namespace mappings file: ";
        assert!(error.starts_with(start), "{error}");
    }
}
