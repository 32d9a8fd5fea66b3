//! What every request carries: the server's address and path, our name, and whom we speak for.

use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::identity::Signature;
use super::link::RequestBody;
use crate::kubeconfig::{Impersonation, Server};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_UID: HeaderName = HeaderName::from_static("impersonate-uid");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// The bytes that a header's name cannot hold; `%` is one since it escapes the others.
const NOT_IN_A_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Why a request cannot be addressed.
#[derive(Debug, thiserror::Error)]
pub enum AddressingError {
    #[error("{0:?} is no path for a request")]
    Path(String),
    #[error("the kubeconfig's {field} holds characters that a header cannot carry")]
    Header { field: &'static str },
    #[error("the user agent {0:?} holds characters that a header cannot carry")]
    UserAgent(String),
}

/// The part of requests that is the same for all.
#[derive(Debug)]
pub(super) struct Addressing {
    base: Uri,
    /// As upstream's metrics print it.
    pub(super) host: String,
    prefix: String,
    user_agent: HeaderValue,
    impersonation: HeaderMap,
}

impl Addressing {
    pub(super) fn new(
        server: &Server,
        user_agent: &str,
        impersonation: Option<&Impersonation>,
    ) -> Result<Self, AddressingError> {
        let host = server.uri.authority().map(ToString::to_string);
        Ok(Self {
            base: server.uri.clone(),
            host: host.unwrap_or_default(),
            prefix: server.uri.path().trim_end_matches('/').to_owned(),
            user_agent: HeaderValue::from_str(user_agent)
                .map_err(|_| AddressingError::UserAgent(user_agent.to_owned()))?,
            impersonation: impersonation
                .map(impersonation_headers)
                .transpose()?
                .unwrap_or_default(),
        })
    }

    /// Turns a request for a path of the API into one for this server.
    pub(super) fn address(&self, parts: &mut request::Parts) -> Result<(), AddressingError> {
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = format!("{}{path}", self.prefix);
        let path =
            PathAndQuery::try_from(path.as_str()).map_err(|_| AddressingError::Path(path))?;
        let mut uri = self.base.clone().into_parts();
        uri.path_and_query = Some(path);
        parts.uri =
            Uri::from_parts(uri).map_err(|_| AddressingError::Path(parts.uri.path().to_owned()))?;
        parts
            .headers
            .entry(USER_AGENT)
            .or_insert_with(|| self.user_agent.clone());
        if !parts.headers.contains_key(IMPERSONATE_USER) {
            parts.headers.extend(self.impersonation.clone());
        }
        Ok(())
    }
}

/// The request as it goes out over one connection.
pub(super) fn on_the_wire(
    parts: &request::Parts,
    body: &RequestBody,
    signature: &Signature,
    multiplexed: bool,
) -> http::Request<RequestBody> {
    let mut parts = parts.clone();
    if let Some(header) = &signature.header {
        parts
            .headers
            .entry(AUTHORIZATION)
            .or_insert_with(|| header.clone());
    }
    if !multiplexed {
        // HTTP/1.1 names the host in a header, and the path alone in its first line.
        if let Some(authority) = parts.uri.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            parts.headers.entry(HOST).or_insert(host);
        }
        if let Some(path) = parts.uri.path_and_query() {
            parts.uri = Uri::from(path.clone());
        }
    }
    http::Request::from_parts(parts, body.clone())
}

/// A watch stays open for as long as the server wishes.
pub(super) fn is_watch(parts: &request::Parts) -> bool {
    parts.method == Method::GET
        && parts.uri.query().is_some_and(|query| {
            query
                .split('&')
                .any(|pair| matches!(pair, "watch=true" | "watch=1"))
        })
}

fn impersonation_headers(impersonation: &Impersonation) -> Result<HeaderMap, AddressingError> {
    let value = |field, text: &str| {
        HeaderValue::from_str(text).map_err(|_| AddressingError::Header { field })
    };
    let mut headers = HeaderMap::new();
    headers.insert(IMPERSONATE_USER, value("as", &impersonation.user)?);
    if let Some(uid) = &impersonation.uid {
        headers.insert(IMPERSONATE_UID, value("as-uid", uid)?);
    }
    for group in &impersonation.groups {
        headers.append(IMPERSONATE_GROUP, value("as-groups", group)?);
    }
    for (key, values) in &impersonation.extra {
        let field = "as-user-extra";
        let name = format!(
            "impersonate-extra-{}",
            utf8_percent_encode(key, NOT_IN_A_NAME)
        );
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| AddressingError::Header { field })?;
        for text in values {
            headers.append(name.clone(), value(field, text)?);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn watches_are_told_by_their_query() {
        for (uri, expected) in [
            ("/api/v1/pods?watch=true", true),
            ("/api/v1/pods?a=b&watch=1&c=d", true),
            ("/api/v1/pods?watch=false", false),
            ("/api/v1/pods?rewatch=true", false),
            ("/api/v1/pods", false),
        ] {
            let (parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
            assert_eq!(is_watch(&parts), expected, "{uri}");
        }
        let (parts, ()) = Request::post("/x?watch=true")
            .body(())
            .unwrap()
            .into_parts();
        assert!(!is_watch(&parts));
    }

    #[test]
    fn extra_keys_are_escaped_for_a_header() {
        let headers = impersonation_headers(&Impersonation {
            user: "u".to_owned(),
            uid: None,
            groups: Vec::new(),
            extra: vec![("example.org/a%b c".to_owned(), vec!["1".to_owned()])],
        })
        .unwrap();
        assert_eq!(headers["impersonate-extra-example.org%2fa%25b%20c"], "1");
    }
}
