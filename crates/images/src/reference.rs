//! Names of images: which texts are names, and what their parts are.
//!
//! The grammar is that of the `distribution` project, which the kubelet and the
//! runtimes read names with; refusals have its words.

use std::fmt;

use thiserror::Error;

const DEFAULT_REGISTRY: &str = "docker.io";
const OLD_DEFAULT_REGISTRY: &str = "index.docker.io";
/// Where names without a user live at the default registry.
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const LONGEST_PATH: usize = 255;
const LONGEST_TAG: usize = 128;

/// A name in full: `busybox` is `docker.io/library/busybox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The host of the registry, with its port.
    pub registry: String,
    /// The repository at that registry.
    pub path: String,
    pub tag: Option<String>,
    /// With its algorithm: `sha256:…`.
    pub digest: Option<String>,
}

/// Why a text is no name of an image.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("couldn't parse image name {text:?}: {flaw}")]
pub struct BadReference {
    pub text: String,
    pub flaw: Flaw,
}

/// What is wrong with it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Flaw {
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    LooksLikeAnId(String),
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    RepositoryNotLowercase(String),
    #[error("repository name must be lowercase")]
    NotLowercase,
    #[error("repository name must have at least one component")]
    Empty,
    #[error("repository name must not be more than 255 characters")]
    TooLong,
    #[error("invalid reference format")]
    Malformed,
    #[error("invalid checksum digest length")]
    DigestLength,
    #[error("invalid checksum digest format")]
    DigestFormat,
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
}

impl Reference {
    /// Reads a name as a pod has it.
    pub fn parse(text: &str) -> Result<Self, BadReference> {
        Self::read(text).map_err(|flaw| BadReference {
            text: text.to_owned(),
            flaw,
        })
    }

    fn read(text: &str) -> Result<Self, Flaw> {
        if text.len() == 64 && text.bytes().all(is_lower_hex) {
            return Err(Flaw::LooksLikeAnId(text.to_owned()));
        }
        let (registry, rest) = split_registry(text);
        let repository = rest.split_once(':').map_or(&*rest, |(before, _)| before);
        if repository.to_lowercase() != repository {
            return Err(Flaw::RepositoryNotLowercase(repository.to_owned()));
        }
        let full = format!("{registry}/{rest}");
        let parts = Parts::read(&full)?;
        let (registry, path) = parts.name.split_once('/').ok_or(Flaw::Malformed)?;
        Ok(Self {
            registry: registry.to_owned(),
            path: path.to_owned(),
            tag: parts.tag.map(str::to_owned),
            digest: parts.digest.map(str::to_owned),
        })
    }

    /// Registry and path, as credentials are matched with it.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }
}

/// In full, and with the tag that counts where none is written.
impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.path)?;
        match (&self.tag, &self.digest) {
            (None, None) => write!(formatter, ":{DEFAULT_TAG}"),
            (tag, digest) => {
                if let Some(tag) = tag {
                    write!(formatter, ":{tag}")?;
                }
                digest.iter().try_for_each(|it| write!(formatter, "@{it}"))
            }
        }
    }
}

/// The name with `:latest` where it has neither tag nor digest. No registry is
/// put before it: which one a short name means is for the runtime to say.
pub fn with_default_tag(text: &str) -> Result<String, BadReference> {
    let reference = Reference::parse(text)?;
    Ok(match (&reference.tag, &reference.digest) {
        (None, None) => format!("{text}:{DEFAULT_TAG}"),
        _ => text.to_owned(),
    })
}

/// The name as it is written, less tag and digest.
pub fn without_tag(text: &str) -> Result<&str, BadReference> {
    let parts = Parts::read(text).map_err(|flaw| BadReference {
        text: text.to_owned(),
        flaw,
    })?;
    Ok(parts.name)
}

/// What of a name is the registry is guessed as `docker` does it.
fn split_registry(text: &str) -> (String, String) {
    let first = text.split_once('/');
    let (registry, rest) = match first {
        Some((OLD_DEFAULT_REGISTRY, rest)) => (DEFAULT_REGISTRY, rest),
        Some((host, rest))
            if host == "localhost" || host.contains(['.', ':']) || host.to_lowercase() != host =>
        {
            (host, rest)
        }
        _ => (DEFAULT_REGISTRY, text),
    };
    let official = registry == DEFAULT_REGISTRY && !rest.contains('/');
    let prefix = if official { OFFICIAL } else { "" };
    (registry.to_owned(), format!("{prefix}{rest}"))
}

/// A name by the grammar alone, with nothing guessed.
struct Parts<'a> {
    name: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Result<Self, Flaw> {
        if text.is_empty() {
            return Err(Flaw::Empty);
        }
        let Some(parts) = Self::split(text) else {
            let lower = text.to_lowercase();
            let flaw = match Parts::split(&lower) {
                Some(_) => Flaw::NotLowercase,
                None => Flaw::Malformed,
            };
            return Err(flaw);
        };
        if path_of(parts.name).len() > LONGEST_PATH {
            return Err(Flaw::TooLong);
        }
        parts.digest.map_or(Ok(()), check_digest)?;
        Ok(parts)
    }

    /// `[registry/]path[:tag][@digest]`. Neither the name nor a tag has an `@`, and
    /// a colon behind the last slash cannot belong to a port.
    fn split(text: &'a str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let last = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest.get(last..)?.find(':') {
            Some(colon) => (rest.get(..last + colon)?, rest.get(last + colon + 1..)),
            None => (rest, None),
        };
        let well_formed = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
        well_formed.then_some(Self { name, tag, digest })
    }
}

/// The part of a name behind the registry, if it has one.
fn path_of(name: &str) -> &str {
    match name.split_once('/') {
        Some((host, path)) if is_host_and_port(host) => path,
        _ => name,
    }
}

fn is_name(name: &str) -> bool {
    let path = path_of(name);
    is_path(path) || is_path(name)
}

fn is_path(path: &str) -> bool {
    path.split('/').all(is_path_component)
}

/// Lower-case words joined by a dot, one or two underscores, or dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    if !ends.is_some_and(|(&first, &last)| is_word(first) && is_word(last)) {
        return false;
    }
    component
        .split(|letter: char| u8::try_from(letter).is_ok_and(is_word))
        .filter(|separator| !separator.is_empty())
        .all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_host_and_port(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let has_port = port.is_none_or(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()));
    has_port && (is_domain(host) || is_bracketed_address(host))
}

fn is_domain(host: &str) -> bool {
    host.split('.').all(|label| {
        let bytes = label.as_bytes();
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        !label.is_empty()
            && bytes.iter().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

fn is_bracketed_address(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let of_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    inner.is_some_and(|it| !it.is_empty() && it.bytes().all(of_address))
}

fn is_tag(tag: &str) -> bool {
    let of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(of_word)
        && tag
            .bytes()
            .all(|byte| of_word(byte) || b".-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, encoded)) = digest.split_once(':') else {
        return false;
    };
    let is_component = |component: &str| {
        component.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && component.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(is_component)
        && encoded.len() >= 32
        && encoded.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A digest of the right form must also be one that can be computed.
fn check_digest(digest: &str) -> Result<(), Flaw> {
    let (algorithm, encoded) = digest.split_once(':').ok_or(Flaw::DigestFormat)?;
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(Flaw::DigestAlgorithm),
    };
    if encoded.len() != length {
        return Err(Flaw::DigestLength);
    }
    if !encoded.bytes().all(is_lower_hex) {
        return Err(Flaw::DigestFormat);
    }
    Ok(())
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256() -> String {
        format!("sha256:{}", "0a".repeat(32))
    }

    #[test]
    fn a_name_is_read_in_full_with_what_it_leaves_out() {
        let digest = sha256();
        let with_digest = format!("r.io/a/b:1@{digest}");
        for (text, registry, path, tag, has_digest) in [
            ("busybox", "docker.io", "library/busybox", None, false),
            (
                "busybox:1.36",
                "docker.io",
                "library/busybox",
                Some("1.36"),
                false,
            ),
            ("user/app", "docker.io", "user/app", None, false),
            (
                "index.docker.io/app",
                "docker.io",
                "library/app",
                None,
                false,
            ),
            ("docker.io/app", "docker.io", "library/app", None, false),
            ("localhost/app", "localhost", "app", None, false),
            ("host:5000/app:x", "host:5000", "app", Some("x"), false),
            ("Host/app", "Host", "app", None, false),
            (
                "[::1]:5000/a__b/c-d.e",
                "[::1]:5000",
                "a__b/c-d.e",
                None,
                false,
            ),
            (&*with_digest, "r.io", "a/b", Some("1"), true),
        ] {
            let reference = Reference::parse(text).unwrap();
            assert_eq!(reference.registry, registry, "{text}");
            assert_eq!(reference.path, path, "{text}");
            assert_eq!(reference.tag.as_deref(), tag, "{text}");
            assert_eq!(
                reference.digest,
                has_digest.then(|| digest.clone()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_name_is_refused_in_the_words_that_users_know() {
        let id = "ab".repeat(32);
        let long = "a/".repeat(128) + "a";
        let odd = format!("a@md5:{}", "0".repeat(32));
        let short = format!("a@sha256:{}", "0".repeat(40));
        let upper = format!("a@sha256:{}", "0A".repeat(32));
        for (text, words) in [
            ("", "invalid reference format"),
            (":tag", "invalid reference format"),
            ("a b", "invalid reference format"),
            ("a\n", "invalid reference format"),
            ("a:", "invalid reference format"),
            ("a:-x", "invalid reference format"),
            ("a:b:c", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("a___b", "invalid reference format"),
            ("a/-b", "invalid reference format"),
            ("-r.io/a", "invalid reference format"),
            ("r.io:x/a", "invalid reference format"),
            ("a@sha256:12", "invalid reference format"),
            ("ä", "invalid reference format"),
            ("https://r.io/a", "invalid reference format"),
            (
                "r.io/App",
                "invalid reference format: repository name (App) must be lowercase",
            ),
            (
                &*id,
                &*format!(
                    "invalid repository name ({id}), cannot specify 64-byte hexadecimal strings"
                ),
            ),
            (
                &*long,
                "repository name must not be more than 255 characters",
            ),
            (&*odd, "unsupported digest algorithm"),
            (&*short, "invalid checksum digest length"),
            (&*upper, "invalid checksum digest format"),
        ] {
            let refused = Reference::parse(text).unwrap_err();
            let expected = format!("couldn't parse image name {text:?}: {words}");
            assert_eq!(refused.to_string(), expected);
        }
    }

    #[test]
    fn the_default_tag_is_put_behind_the_text_as_it_stands() {
        let digest = sha256();
        let pinned = format!("busybox@{digest}");
        for (text, tagged) in [
            ("busybox", "busybox:latest"),
            ("host:5000/app", "host:5000/app:latest"),
            ("app:1", "app:1"),
            ("app:latest", "app:latest"),
            (&*pinned, &*pinned),
        ] {
            assert_eq!(with_default_tag(text).unwrap(), tagged);
        }
        assert!(with_default_tag("A b").is_err());
    }

    #[test]
    fn a_name_loses_its_tag_and_digest_and_nothing_else() {
        let digest = sha256();
        for (text, bare) in [
            ("busybox", "busybox"),
            ("busybox:1", "busybox"),
            ("host:5000/app", "host:5000/app"),
            (&*format!("hello:latest@{digest}"), "hello"),
            (&*format!("host:5000/a/b@{digest}"), "host:5000/a/b"),
        ] {
            assert_eq!(without_tag(text).unwrap(), bare);
        }
        let refused = without_tag("").unwrap_err();
        assert_eq!(refused.flaw, Flaw::Empty);
        let refused = without_tag("Ab").unwrap_err();
        assert_eq!(refused.flaw, Flaw::NotLowercase);
    }

    #[test]
    fn a_name_in_full_is_what_a_runtime_lists() {
        for (text, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("r.io/a:1", "r.io/a:1"),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), full);
        }
        let pinned = format!("r.io/a@{}", sha256());
        assert_eq!(Reference::parse(&pinned).unwrap().to_string(), pinned);
    }
}
