//! What an `httpGet` asks for: whom, and with which words. Pure.
//!
//! Addresses and paths are written as Go writes them, as servers see them and users
//! read them in messages.

use http::header::{ACCEPT, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

use super::reference::Target;

/// On whose behalf somebody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    Hook,
    Probe,
}

impl Asker {
    /// How it introduces itself.
    pub(crate) fn agent(self) -> &'static str {
        match self {
            Self::Hook => "kube-lifecycle/1.36",
            Self::Probe => "kube-probe/1.36",
        }
    }
}

/// One GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    pub asker: Asker,
    pub https: bool,
    /// IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// The path as it is asked for, with its query; may be empty.
    pub path: String,
    pub headers: HeaderMap,
    /// Other words in the place of the host that is asked.
    pub host_header: Option<HeaderValue>,
}

/// Why nobody can be asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GetError {
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    NoPort(String),
    #[error("invalid port number: {0}")]
    Port(i64),
    /// There is somebody to ask, but not in this way.
    #[error("Get {url:?}: {cause}")]
    Unsendable { url: String, cause: Unsendable },
}

/// What keeps a request from being sent. Of a value no more is told: it may be a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unsendable {
    #[error("net/http: invalid header field name {0:?}")]
    HeaderName(String),
    #[error("net/http: invalid header field value for {0:?}")]
    HeaderValue(String),
    #[error("http: no Host in request URL")]
    NoHost,
}

impl Get {
    /// Of an action of a container: its pod is asked unless the action names a host.
    pub fn of(
        action: &HTTPGetAction,
        container: &Container,
        ip: &str,
        asker: Asker,
    ) -> Result<Self, GetError> {
        let scheme = action.scheme.as_deref().unwrap_or_default();
        let host = action.host.as_deref().filter(|host| !host.is_empty());
        let target = Target::of(action.path.as_deref().unwrap_or_default());
        let mut get = Self {
            asker,
            https: scheme.eq_ignore_ascii_case("https"),
            host: host.unwrap_or(ip).to_owned(),
            port: port(&action.port, container)?,
            path: String::new(),
            headers: HeaderMap::new(),
            host_header: None,
        };
        let opaque = match target {
            Target::Path(path) => {
                get.path = path;
                None
            }
            Target::Opaque(rest) => Some(format!("{}:{rest}", get.scheme())),
        };
        let unsendable = |cause| GetError::Unsendable {
            url: opaque.clone().unwrap_or_else(|| get.url()),
            cause,
        };
        let (headers, host_header) = headers(action, asker.agent()).map_err(unsendable)?;
        if opaque.is_some() {
            return Err(unsendable(Unsendable::NoHost));
        }
        Ok(Self {
            headers,
            host_header,
            ..get
        })
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.authority(), self.path)
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

/// `host:port`, as Go joins them.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A number, or the name that the container gives to one.
pub(crate) fn port(wanted: &IntOrString, container: &Container) -> Result<u16, GetError> {
    let number = match wanted {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name));
            match named {
                Some(port) => i64::from(port.container_port),
                None => name.parse().map_err(|_| GetError::NoPort(name.clone()))?,
            }
        }
    };
    let fits = u16::try_from(number).ok().filter(|port| *port > 0);
    fits.ok_or(GetError::Port(number))
}

fn headers(
    action: &HTTPGetAction,
    agent: &'static str,
) -> Result<(HeaderMap, Option<HeaderValue>), Unsendable> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let bad_name = |_| Unsendable::HeaderName(header.name.clone());
        let name = HeaderName::try_from(&header.name).map_err(bad_name)?;
        let bad_value = |_| Unsendable::HeaderValue(canonical(&name));
        let value = HeaderValue::try_from(&header.value).map_err(bad_value)?;
        headers.append(name, value);
    }
    let host = headers.remove(HOST).filter(|host| !host.is_empty());
    for (name, usual) in [(USER_AGENT, agent), (ACCEPT, "*/*")] {
        match headers.get(&name) {
            None => {
                headers.insert(name, HeaderValue::from_static(usual));
            }
            // It was expressly not wanted.
            Some(value) if value.is_empty() => {
                headers.remove(name);
            }
            Some(_) => {}
        }
    }
    Ok((headers, host))
}

/// As Go writes the name of a header: each word begins with a capital.
fn canonical(name: &HeaderName) -> String {
    let mut out = String::with_capacity(name.as_str().len());
    let mut begins = true;
    for letter in name.as_str().chars() {
        out.push(if begins {
            letter.to_ascii_uppercase()
        } else {
            letter
        });
        begins = letter == '-';
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AGENT: &str = "kube-lifecycle/1.36";

    fn get(action: &Value) -> Result<Get, GetError> {
        let action: HTTPGetAction = serde_json::from_value(action.clone()).unwrap();
        let container = json!({
            "name": "app",
            "ports": [{ "name": "web", "containerPort": 8080 }, { "containerPort": 9 }],
        });
        let container: Container = serde_json::from_value(container).unwrap();
        Get::of(&action, &container, "10.0.0.7", Asker::Hook)
    }

    #[test]
    fn who_is_asked_is_written_as_go_writes_it() {
        for (action, url) in [
            (json!({ "port": 80 }), "http://10.0.0.7:80"),
            (json!({ "port": 80, "path": "/" }), "http://10.0.0.7:80/"),
            (
                json!({ "port": "web", "path": "/x" }),
                "http://10.0.0.7:8080/x",
            ),
            (json!({ "port": "81", "path": "x" }), "http://10.0.0.7:81/x"),
            (
                json!({ "port": 1, "path": "/", "scheme": "HTTPS", "host": "example.com" }),
                "https://example.com:1/",
            ),
            (
                json!({ "port": 1, "path": "/", "host": "fd00::1" }),
                "http://[fd00::1]:1/",
            ),
            (
                json!({ "port": 80, "path": "https://localhost:8443/healthz" }),
                "http://10.0.0.7:80/healthz",
            ),
        ] {
            assert_eq!(get(&action).unwrap().url(), url, "{action}");
        }
    }

    #[test]
    fn a_port_that_is_none_is_told_in_upstreams_words() {
        for (port, text) in [
            (
                json!("none"),
                "strconv.Atoi: parsing \"none\": invalid syntax",
            ),
            (json!(0), "invalid port number: 0"),
            (json!("65536"), "invalid port number: 65536"),
            (json!(-1), "invalid port number: -1"),
        ] {
            let error = get(&json!({ "port": port })).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn headers_are_the_usual_ones_unless_the_action_says_otherwise() {
        let header = |name: &str, value: &str| json!({ "name": name, "value": value });
        let cases = [
            (vec![], vec![("user-agent", AGENT), ("accept", "*/*")], None),
            (
                vec![header("user-agent", "me"), header("Accept", "text/plain")],
                vec![("user-agent", "me"), ("accept", "text/plain")],
                None,
            ),
            (
                vec![header("User-Agent", ""), header("ACCEPT", "")],
                vec![],
                None,
            ),
            (
                vec![
                    header("X-A", "1"),
                    header("x-a", "2"),
                    header("Host", "other"),
                ],
                vec![
                    ("x-a", "1"),
                    ("x-a", "2"),
                    ("user-agent", AGENT),
                    ("accept", "*/*"),
                ],
                Some("other"),
            ),
        ];
        for (given, wanted, host) in cases {
            let get = get(&json!({ "port": 80, "httpHeaders": given })).unwrap();
            let headers = get.headers.iter();
            let headers: Vec<(&str, &str)> = headers
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                .collect();
            assert_eq!(headers, wanted, "{given:?}");
            let found = get
                .host_header
                .as_ref()
                .map(|value| value.to_str().unwrap());
            assert_eq!(found, host, "{given:?}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_told_in_gos_words() {
        let header = |name: &str, value: &str| json!({ "name": name, "value": value });
        for (path, header, text) in [
            (
                "/x",
                header("a b", "c"),
                "Get \"http://10.0.0.7:80/x\": net/http: invalid header field name \"a b\"",
            ),
            (
                "/x",
                header("x-tOKEN", "abc\n"),
                "Get \"http://10.0.0.7:80/x\": net/http: invalid header field value for \"X-Token\"",
            ),
            (
                "localhost:81/x",
                header("a", "b"),
                "Get \"http:81/x\": http: no Host in request URL",
            ),
        ] {
            let action = json!({ "port": 80, "path": path, "httpHeaders": [header] });
            assert_eq!(get(&action).unwrap_err().to_string(), text);
        }
        let action = json!({ "port": "none", "httpHeaders": [header("a", "b\n")] });
        let error = get(&action).unwrap_err();
        assert_eq!(
            error,
            GetError::NoPort("none".to_owned()),
            "the port is first"
        );
    }
}
