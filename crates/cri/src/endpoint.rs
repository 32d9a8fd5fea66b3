//! Where a runtime listens, as the kubelet reads it: a URL of scheme `unix`, or
//! a bare path as kubelets of old took it.

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use thiserror::Error;

/// A socket that a runtime listens at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    path: PathBuf,
    notice: Option<String>,
}

/// An endpoint that cannot be dialled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    #[error(
        "the container runtime's endpoint is empty: set containerRuntimeEndpoint, e.g. to \
         unix:///run/containerd/containerd.sock"
    )]
    Empty,
    #[error(
        "container runtime endpoint {0:?} names no socket: write unix:// and the absolute path, \
         e.g. unix:///run/containerd/containerd.sock"
    )]
    NoPath(String),
    #[error(
        "container runtime endpoint {endpoint:?}: scheme {scheme:?} is not supported, only unix \
         sockets are: write unix:// and the absolute path of the socket"
    )]
    Scheme { endpoint: String, scheme: String },
    #[error(
        "container runtime endpoint {0:?} cannot be read as a URL: a % in it must be followed by \
         two hexadecimal digits, and the whole must be UTF-8"
    )]
    Encoding(String),
}

impl Endpoint {
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        match split_scheme(text) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("unix") => {
                Self::from_rest(text, rest)
            }
            Some((scheme, _)) => Err(EndpointError::Scheme {
                endpoint: text.to_owned(),
                scheme: scheme.to_ascii_lowercase(),
            }),
            None => {
                let mut endpoint = Self::from_rest(text, &format!("//{text}"))?;
                endpoint.notice.get_or_insert_with(|| {
                    format!(
                        "container runtime endpoint {text:?} is taken as a path, which is \
                         deprecated: write {endpoint}",
                        endpoint = Unix(&endpoint.path)
                    )
                });
                Ok(endpoint)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the operator should know of how it was read.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Of what stands behind `unix:`. As in every URL there may be a host, which
    /// is ignored, and a query or fragment, which are no part of the path.
    fn from_rest(text: &str, rest: &str) -> Result<Self, EndpointError> {
        let rest = rest.split('#').next().unwrap_or_default();
        let rest = rest.split('?').next().unwrap_or_default();
        let (host, encoded) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        if !encoded.starts_with('/') {
            return Err(EndpointError::NoPath(text.to_owned()));
        }
        let path = decode(encoded).ok_or_else(|| EndpointError::Encoding(text.to_owned()))?;
        // Two slashes where three were meant: upstream dials what is left of it
        // without a word.
        let notice = (!host.is_empty()).then(|| {
            format!(
                "container runtime endpoint {text:?} has a host, {host:?}, which is ignored: the \
                 socket is {}; if that is not meant, write unix:///{host}{encoded}",
                path.display()
            )
        });
        Ok(Self { path, notice })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Unix(&self.path).fmt(formatter)
    }
}

struct Unix<'a>(&'a Path);

impl fmt::Display for Unix<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unix://{}", self.0.display())
    }
}

/// A scheme is a letter, then letters, digits, `+`, `-` and `.`, up to a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let fits =
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(plain);
    fits.then_some((scheme, rest))
}

fn decode(encoded: &str) -> Option<PathBuf> {
    // The decoder leaves a stray % as it is; a URL cannot have one.
    for tail in encoded.split('%').skip(1) {
        let digits = tail.as_bytes().get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
    }
    let path = percent_decode_str(encoded).decode_utf8().ok()?;
    Some(PathBuf::from(path.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_or_a_bare_path_names_the_socket() {
        for (text, path, notice) in [
            (
                "unix:///run/containerd/containerd.sock",
                "/run/containerd/containerd.sock",
                "",
            ),
            ("unix:/run/crio/crio.sock", "/run/crio/crio.sock", ""),
            ("UNIX:///run/a.sock", "/run/a.sock", ""),
            ("unix:///run/with%20space.sock", "/run/with space.sock", ""),
            ("unix:///run/a.sock?x=1#y", "/run/a.sock", ""),
            ("/run/a.sock", "/run/a.sock", "write unix:///run/a.sock"),
            ("/run/a:b.sock", "/run/a:b.sock", "deprecated"),
            (
                "unix://run/containerd.sock",
                "/containerd.sock",
                "write unix:///run/containerd.sock",
            ),
            ("unix://localhost/run/a.sock", "/run/a.sock", "is ignored"),
            ("run/a.sock", "/a.sock", "write unix:///run/a.sock"),
        ] {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!(endpoint.path(), Path::new(path), "{text}");
            let said = endpoint.notice().unwrap_or_default();
            assert_eq!(said.is_empty(), notice.is_empty(), "{text}: {said}");
            assert!(said.contains(notice), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_no_unix_socket_is_refused_with_the_way_to_write_one() {
        for (text, words) in [
            ("", "is empty"),
            ("tcp://127.0.0.1:1234", "scheme \"tcp\" is not supported"),
            ("npipe:////./pipe/x", "scheme \"npipe\" is not supported"),
            ("C:\\containerd", "scheme \"c\" is not supported"),
            ("unix://", "names no socket"),
            ("unix:", "names no socket"),
            ("unix:@abstract", "names no socket"),
            ("containerd.sock", "names no socket"),
            ("unix:///run/50%.sock", "cannot be read"),
            ("unix:///run/%f", "cannot be read"),
            ("unix:///run/%ff.sock", "cannot be read"),
        ] {
            let error = Endpoint::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn it_is_shown_as_a_url() {
        let endpoint = Endpoint::parse("/run/a.sock").unwrap();
        assert_eq!(endpoint.to_string(), "unix:///run/a.sock");
    }
}
