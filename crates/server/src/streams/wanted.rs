//! What a request for streams asks for: from its path and its query.

use http::Uri;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::upgrade::is_websocket;

/// Why a request cannot be understood, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Misunderstood {
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStream,
    #[error("query parameter \"port\" is required")]
    NoPort,
    #[error("query parameter \"port\" cannot be empty")]
    EmptyPort,
    #[error("unable to parse {text:?} as a port: strconv.ParseUint: parsing {port:?}: {cause}")]
    BadPort {
        text: String,
        port: String,
        cause: &'static str,
    },
    #[error("port {0:?} must be > 0")]
    ZeroPort(String),
}

/// Whose container, as a path names it: `/exec/NAMESPACE/POD[/UID]/CONTAINER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InPod {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: Option<String>,
    /// Not of a request that is about the pod's network.
    pub(crate) container: String,
}

impl InPod {
    /// From the words that follow the endpoint's own name. `None`: a path of another
    /// shape.
    pub(crate) fn container(words: &[String]) -> Option<Self> {
        Some(match words {
            [namespace, pod, container] => Self::new(namespace, pod, None, container),
            [namespace, pod, uid, container] => Self::new(namespace, pod, Some(uid), container),
            _ => return None,
        })
    }

    /// The same without a container.
    pub(crate) fn network(words: &[String]) -> Option<Self> {
        Some(match words {
            [namespace, pod] => Self::new(namespace, pod, None, ""),
            [namespace, pod, uid] => Self::new(namespace, pod, Some(uid), ""),
            _ => return None,
        })
    }

    fn new(namespace: &str, pod: &str, uid: Option<&String>, container: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.cloned(),
            container: container.to_owned(),
        }
    }

    /// As upstream's messages have it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}_{}", self.pod, self.namespace)
    }
}

/// Which streams of a process are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a parameter of the request"
)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

impl Wanted {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Misunderstood> {
        let is_set = |name: &str| values(uri, name).next().as_deref() == Some("1");
        let tty = is_set("tty");
        let wanted = Self {
            stdin: is_set("input"),
            stdout: is_set("output"),
            // A terminal has one output.
            stderr: is_set("error") && !tty,
            tty,
        };
        let any = wanted.stdin || wanted.stdout || wanted.stderr;
        any.then_some(wanted).ok_or(Misunderstood::NoStream)
    }
}

/// Which ports are named beforehand: those of a WebSocket that has a channel for each.
pub(crate) fn ports(request: &Parts) -> Result<Vec<i32>, Misunderstood> {
    if !is_websocket(&request.headers) {
        return Ok(Vec::new());
    }
    let mut ports = Vec::new();
    let mut named = false;
    for text in values(&request.uri, "port") {
        named = true;
        if text.is_empty() {
            return Err(Misunderstood::EmptyPort);
        }
        for one in text.split(',') {
            ports.push(port(&text, one)?);
        }
    }
    if named {
        Ok(ports)
    } else {
        Err(Misunderstood::NoPort)
    }
}

fn port(text: &str, one: &str) -> Result<i32, Misunderstood> {
    let digits = !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit());
    let cause = if digits {
        "value out of range"
    } else {
        "invalid syntax"
    };
    let number = if digits {
        one.parse::<u16>().ok()
    } else {
        None
    };
    match number {
        Some(0) => Err(Misunderstood::ZeroPort(text.to_owned())),
        Some(number) => Ok(number.into()),
        None => Err(Misunderstood::BadPort {
            text: text.to_owned(),
            port: one.to_owned(),
            cause,
        }),
    }
}

/// The values that a query gives to a name, in order.
pub(crate) fn values(uri: &Uri, name: &str) -> impl Iterator<Item = String> {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key) == name).then(|| decoded(value))
    })
}

/// As forms write it.
fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_names_a_pod_perhaps_its_uid_and_a_container() {
        let words = |path: &str| -> Vec<String> { path.split('/').map(str::to_owned).collect() };
        let named = InPod::container(&words("shop/web/app")).unwrap();
        assert_eq!(named, InPod::new("shop", "web", None, "app"));
        let named = InPod::container(&words("shop/web/1-2/app")).unwrap();
        assert_eq!(
            named,
            InPod::new("shop", "web", Some(&"1-2".to_owned()), "app")
        );
        for other in ["shop/web", "a/b/c/d/e"] {
            assert_eq!(InPod::container(&words(other)), None, "{other}");
        }
        let named = InPod::network(&words("shop/web/1")).unwrap();
        assert_eq!(
            (named.full_name().as_str(), named.uid.as_deref()),
            ("web_shop", Some("1"))
        );
        assert_eq!(InPod::network(&words("shop")), None);
        assert_eq!(InPod::network(&words("a/b/c/d")), None);
    }

    #[test]
    fn streams_are_wanted_by_a_one() {
        let wanted = |query: &str| {
            let wanted = Wanted::of(&uri(&format!("/exec/a/b/c?{query}")))?;
            Ok([wanted.stdin, wanted.stdout, wanted.stderr, wanted.tty])
        };
        for (query, expected) in [
            ("output=1", Ok([false, true, false, false])),
            ("input=1&output=1&error=1", Ok([true, true, true, false])),
            (
                "input=1&output=1&error=1&tty=1",
                Ok([true, true, false, true]),
            ),
            ("error=1&output=0", Ok([false, false, true, false])),
            ("input=1&input=0", Ok([true, false, false, false])),
            ("input=true", Err(Misunderstood::NoStream)),
            ("error=1&tty=1", Err(Misunderstood::NoStream)),
            ("", Err(Misunderstood::NoStream)),
        ] {
            assert_eq!(wanted(query), expected, "{query}");
        }
    }

    #[test]
    fn ports_are_read_of_websockets_only() {
        let ports_of = |query: &str, websocket: bool| {
            let mut request = Request::get(format!("/portForward/a/b?{query}"));
            if websocket {
                request = request
                    .header("Connection", "Upgrade")
                    .header("Upgrade", "websocket");
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            ports(&parts).map_err(|error| error.to_string())
        };
        assert_eq!(ports_of("port=x", false), Ok(vec![]));
        for (query, expected) in [
            ("port=80,443&port=65535", Ok(vec![80, 443, 65535])),
            ("", Err("query parameter \"port\" is required")),
            ("port=", Err("query parameter \"port\" cannot be empty")),
            ("port=0", Err("port \"0\" must be > 0")),
            (
                "port=1,x",
                Err(
                    "unable to parse \"1,x\" as a port: strconv.ParseUint: parsing \"x\": invalid syntax",
                ),
            ),
            (
                "port=65536",
                Err(
                    "unable to parse \"65536\" as a port: strconv.ParseUint: parsing \"65536\": value out of range",
                ),
            ),
            (
                "port=%2B1",
                Err(
                    "unable to parse \"+1\" as a port: strconv.ParseUint: parsing \"+1\": invalid syntax",
                ),
            ),
        ] {
            assert_eq!(
                ports_of(query, true),
                expected.map_err(str::to_owned),
                "{query}"
            );
        }
    }

    #[test]
    fn a_command_keeps_its_words_apart() {
        let uri = uri("/exec/a/b/c?command=sh&command=-c&command=echo+a%26b+%2B&output=1");
        let command: Vec<String> = values(&uri, "command").collect();
        assert_eq!(command, ["sh", "-c", "echo a&b +"]);
    }
}
