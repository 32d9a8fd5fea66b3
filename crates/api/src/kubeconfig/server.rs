//! The addresses in a kubeconfig: the API server's and the proxy's.

use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;
use percent_encoding::percent_decode_str;

use crate::Secret;

/// The API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// As the file has it, less what follows a path. This is what is written down again.
    pub text: String,
    /// Scheme, authority and the path before every request's own; no query.
    pub uri: Uri,
}

impl Server {
    pub fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&http::uri::Scheme::HTTPS)
    }

    /// An address without a scheme is a host (and a port) that speaks plain HTTP, as upstream
    /// has it: credentials are not sent there.
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        let uri = match text.parse::<Uri>() {
            Ok(uri)
                if uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()) =>
            {
                uri
            }
            _ => {
                let uri: Uri = format!("http://{text}")
                    .parse()
                    .map_err(|_| AddressError::Malformed)?;
                if uri.path() != "/" || text.contains("//") {
                    return Err(AddressError::Malformed);
                }
                uri
            }
        };
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(AddressError::ServerScheme);
        }
        let authority = uri.authority().ok_or(AddressError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        if bad_port(authority) {
            return Err(AddressError::Malformed);
        }
        let has_path = uri.path().len() > 1;
        let text = if has_path {
            until(text, &['?', '#'])
        } else {
            text
        };
        let mut parts = uri.clone().into_parts();
        let path = uri.path().trim_end_matches('/');
        let path = if path.is_empty() { "/" } else { path };
        parts.path_and_query =
            Some(PathAndQuery::try_from(path).map_err(|_| AddressError::Malformed)?);
        let uri = Uri::from_parts(parts).map_err(|_| AddressError::Malformed)?;
        Ok(Self {
            text: text.to_owned(),
            uri,
        })
    }
}

/// The proxy that every request goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub scheme: ProxyScheme,
    pub host: String,
    pub port: u16,
    /// User and password.
    pub credentials: Option<(String, Secret<String>)>,
    /// As the file has it, for credential plugins.
    pub(super) text: Secret<String>,
}

/// How the proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyScheme {
    /// CONNECT over plain HTTP.
    Http,
    /// CONNECT over TLS.
    Https,
    /// SOCKS5; the proxy resolves names.
    Socks5,
}

impl ProxyScheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Socks5 => 1080,
        }
    }
}

impl Proxy {
    pub(super) fn parse(text: &Secret<String>) -> Result<Self, AddressError> {
        let uri: Uri = text.expose().parse().map_err(|_| AddressError::Malformed)?;
        let scheme = match uri.scheme_str().map(str::to_ascii_lowercase).as_deref() {
            Some("http") => ProxyScheme::Http,
            Some("https") => ProxyScheme::Https,
            Some("socks5") => ProxyScheme::Socks5,
            _ => return Err(AddressError::ProxyScheme),
        };
        let authority = uri.authority().ok_or(AddressError::Malformed)?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        if host.is_empty() || bad_port(authority) {
            return Err(AddressError::Malformed);
        }
        let credentials = authority.as_str().rsplit_once('@').map(|(credentials, _)| {
            let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
            (
                percent_decoded(user),
                Secret::new(percent_decoded(password)),
            )
        });
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(scheme.default_port()),
            credentials,
            text: text.clone(),
        })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            ProxyScheme::Http => "http",
            ProxyScheme::Https => "https",
            ProxyScheme::Socks5 => "socks5",
        };
        let (open, close) = if self.host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        write!(
            formatter,
            "{scheme}://{open}{}{close}:{}",
            self.host, self.port
        )
    }
}

/// Why an address cannot be used. It does not quote the address, which may hold a password.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("it is no address; write https://HOST:PORT")]
    Malformed,
    #[error("only http and https are spoken; write https://HOST:PORT")]
    ServerScheme,
    #[error("only http, https and socks5 proxies are spoken to; write http://HOST:PORT")]
    ProxyScheme,
    #[error("it holds a user name; put credentials into the user's entry")]
    Credentials,
}

/// `http::Uri` takes any digits for a port.
fn bad_port(authority: &http::uri::Authority) -> bool {
    let after_user = authority
        .as_str()
        .rsplit_once('@')
        .map_or(authority.as_str(), |(_, rest)| rest);
    let after_host = after_user.get(authority.host().len()..).unwrap_or_default();
    // Go takes `host:` for `host`.
    !matches!(after_host, "" | ":") && authority.port_u16().is_none()
}

fn until<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split(ends).next().unwrap_or(text)
}

fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_as_upstream_reads_it() {
        let cases = [
            ("https://192.0.2.10:6443", Ok("https://192.0.2.10:6443/")),
            ("https://api.example", Ok("https://api.example/")),
            (
                "https://[2001:db8::1]:6443",
                Ok("https://[2001:db8::1]:6443/"),
            ),
            ("https://api/a/b/?x=y", Ok("https://api/a/b")),
            ("https://api?x=y", Ok("https://api/")),
            ("HTTPS://api", Ok("https://api/")),
            ("http://localhost:8080", Ok("http://localhost:8080/")),
            ("localhost:8080", Ok("http://localhost:8080/")),
            ("192.0.2.10:6443", Ok("http://192.0.2.10:6443/")),
            ("api", Ok("http://api/")),
            ("api:6443/path", Err(AddressError::Malformed)),
            ("https://", Err(AddressError::Malformed)),
            ("https://api:port", Err(AddressError::Malformed)),
            ("https://api:66000", Err(AddressError::Malformed)),
            ("https://a b", Err(AddressError::Malformed)),
            ("ftp://api", Err(AddressError::ServerScheme)),
            ("https://me:pw@api", Err(AddressError::Credentials)),
        ];
        for (text, expected) in cases {
            let server = Server::parse(text).map(|server| server.uri.to_string());
            assert_eq!(server, expected.map(str::to_owned), "{text}");
        }
        assert_eq!(
            Server::parse("https://api/a?x=y").unwrap().text,
            "https://api/a"
        );
    }

    #[test]
    fn a_proxy_is_read_with_its_default_port_and_its_credentials() {
        let proxy = |text: &str| Proxy::parse(&Secret::new(text.to_owned()));
        let cases = [
            ("http://p", Ok("http://p:80")),
            ("https://p/", Ok("https://p:443")),
            ("socks5://p", Ok("socks5://p:1080")),
            ("SOCKS5://p:9", Ok("socks5://p:9")),
            ("http://[::1]:3128", Ok("http://[::1]:3128")),
            ("ftp://p", Err(AddressError::ProxyScheme)),
            ("p:3128", Err(AddressError::ProxyScheme)),
            ("http://", Err(AddressError::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(
                proxy(text).map(|proxy| proxy.to_string()),
                expected.map(str::to_owned),
                "{text}"
            );
        }
        let proxy = proxy("http://me:hunter%322@p").unwrap();
        assert_eq!(
            proxy.credentials,
            Some(("me".to_owned(), Secret::new("hunter22".to_owned())))
        );
        assert!(!format!("{proxy:?} {proxy}").contains("hunter"));
    }
}
