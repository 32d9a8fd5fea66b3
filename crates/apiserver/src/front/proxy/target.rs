//! Where at which node a request goes on to.

use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::failure::Failure;
use crate::front::attributes::Attributes;
use crate::front::query::Query;
use crate::kinds::{Kind, NODES};
use crate::rest::Objects;
use crate::store::Key;

const DEFAULT_PORT: u64 = 10250;

/// In the order in which they are tried; kubeadm's.
const ADDRESSES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

const VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    port: u64,
    pub(super) uri: Uri,
}

impl Target {
    /// `None` when there is nobody to ask yet.
    pub(super) fn find(
        objects: &Objects,
        kind: &'static Kind,
        asked: &Attributes,
        query: &Query,
        uri: &Uri,
    ) -> Result<Option<Self>, Failure> {
        if kind.kind == "Node" {
            let (name, port) = node_and_port(&asked.name)?;
            let node = objects.get(&Key::global(&NODES, name))?.value();
            let path = behind_proxy(uri);
            return Self::at(&node, port, &path).map(Some);
        }
        let key = Key::new(kind, asked.namespace.as_str(), asked.name.as_str());
        let pod = objects.get(&key)?.value();
        let path = pod_path(&pod, asked, query)?;
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            if asked.subresource == "log" {
                return Ok(None);
            }
            let message = format!("pod {} does not have a host assigned", asked.name);
            return Err(Failure::bad_request(message));
        }
        let node = objects.get(&Key::global(&NODES, node))?.value();
        Self::at(&node, None, &path).map(Some)
    }

    fn at(node: &Value, port: Option<u64>, path: &str) -> Result<Self, Failure> {
        let status = &node["status"];
        let list = || status["addresses"].as_array().into_iter().flatten();
        let by_type = |kind: &&str| list().find(|address| address["type"] == **kind);
        let address = ADDRESSES.iter().find_map(by_type);
        let host = address.and_then(|address| address["address"].as_str());
        let host = host.ok_or_else(|| {
            Failure::internal("no preferred addresses found; known addresses: []")
        })?;
        let own_port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let port = port
            .or(own_port)
            .filter(|port| *port > 0)
            .unwrap_or(DEFAULT_PORT);
        let uri = path.parse().map_err(|error| {
            Failure::bad_request(format!("the path cannot be passed on: {error}"))
        })?;
        Ok(Self {
            host: host.to_owned(),
            port,
            uri,
        })
    }

    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// `name`, `name:port` or `https:name:port`.
fn node_and_port(text: &str) -> Result<(&str, Option<u64>), Failure> {
    let invalid = || Failure::bad_request(format!("invalid node request {text:?}"));
    let words: Vec<&str> = text.split(':').collect();
    let (name, port) = match *words.as_slice() {
        [name] => (name, ""),
        [name, port] | ["https", name, port] => (name, port),
        _ => return Err(invalid()),
    };
    match port {
        "" => Ok((name, None)),
        port => Ok((name, Some(port.parse().map_err(|_| invalid())?))),
    }
}

/// What is behind `/api/v1/nodes/NAME/proxy`, as it was written.
fn behind_proxy(uri: &Uri) -> String {
    let mut parts = uri.path().splitn(7, '/').skip(6);
    let rest = parts.next().unwrap_or_default();
    match uri.query() {
        Some(query) => format!("/{rest}?{query}"),
        None => format!("/{rest}"),
    }
}

fn pod_path(pod: &Value, asked: &Attributes, query: &Query) -> Result<String, Failure> {
    let Attributes {
        namespace,
        name,
        subresource,
        ..
    } = asked;
    let mut parameters = Parameters::default();
    let path = match subresource.as_str() {
        "log" => {
            let container = container(pod, query.text("container"))?;
            for flag in ["follow", "previous", "timestamps"] {
                if query.flag(flag) {
                    parameters.add(flag, "true");
                }
            }
            for value in [
                "sinceSeconds",
                "sinceTime",
                "tailLines",
                "limitBytes",
                "stream",
            ] {
                if let Some(text) = query.get(value).filter(|text| !text.is_empty()) {
                    parameters.add(value, text);
                }
            }
            format!("/containerLogs/{namespace}/{name}/{container}")
        }
        "portforward" => {
            let ports: Vec<&str> = query.all("ports").collect();
            if !ports.is_empty() {
                parameters.add("port", &ports.join(","));
            }
            format!("/portForward/{namespace}/{name}")
        }
        stream => {
            let container = container(pod, query.text("container"))?;
            for (given, passed) in [
                ("stdin", "input"),
                ("stdout", "output"),
                ("stderr", "error"),
                ("tty", "tty"),
            ] {
                if query.flag(given) {
                    parameters.add(passed, "1");
                }
            }
            for word in query.all("command") {
                parameters.add("command", word);
            }
            format!("/{stream}/{namespace}/{name}/{container}")
        }
    };
    Ok(format!("{path}{}", parameters.0))
}

#[derive(Default)]
struct Parameters(String);

impl Parameters {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, VALUE));
    }
}

/// The one that is named, or the only one.
fn container(pod: &Value, wanted: &str) -> Result<String, Failure> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names = |list: &str| -> Vec<String> {
        let list = pod["spec"][list].as_array().into_iter().flatten();
        list.filter_map(|one| one["name"].as_str().map(str::to_owned))
            .collect()
    };
    let own = names("containers");
    if wanted.is_empty() {
        if let [only] = own.as_slice() {
            return Ok(only.clone());
        }
        let message = format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            own.join(" ")
        );
        let init = names("initContainers");
        let message = if init.is_empty() {
            message
        } else {
            format!(
                "{message} or one of the init containers: [{}]",
                init.join(" ")
            )
        };
        return Err(Failure::bad_request(message));
    }
    let all = [own, names("initContainers"), names("ephemeralContainers")].concat();
    if all.iter().any(|one| one == wanted) {
        Ok(wanted.to_owned())
    } else {
        Err(Failure::bad_request(format!(
            "container {wanted} is not valid for pod {name}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(subresource: &str, query: &str) -> Result<String, String> {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "a"}, {"name": "b"}],
            "ephemeralContainers": [{"name": "e"}],
        }});
        let asked = Attributes {
            namespace: "n".to_owned(),
            name: "p".to_owned(),
            subresource: subresource.to_owned(),
            ..Attributes::default()
        };
        pod_path(&pod, &asked, &Query::parse(query)).map_err(|failure| failure.message)
    }

    #[test]
    fn a_nodes_paths_and_parameters_are_its_own() {
        for (subresource, query, expected) in [
            (
                "log",
                "container=a&follow=true&tailLines=5",
                "/containerLogs/n/p/a?follow=true&tailLines=5",
            ),
            (
                "exec",
                "container=e&stdin=true&stdout=1&command=ls&command=-l+%2F",
                "/exec/n/p/e?input=1&output=1&command=ls&command=-l%20%2F",
            ),
            ("attach", "container=b&tty=true", "/attach/n/p/b?tty=1"),
            (
                "portforward",
                "ports=80&ports=81",
                "/portForward/n/p?port=80%2C81",
            ),
        ] {
            assert_eq!(path(subresource, query), Ok(expected.to_owned()));
        }
        let must_choose = "a container name must be specified for pod p, choose one of: [a b]";
        assert_eq!(path("log", ""), Err(must_choose.to_owned()));
        assert_eq!(
            path("log", "container=x"),
            Err("container x is not valid for pod p".to_owned())
        );
    }

    #[test]
    fn a_node_is_reached_at_the_address_and_port_that_it_names() {
        let node = json!({"status": {
            "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "fd00::1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 7}},
        }});
        let target = Target::at(&node, None, "/x").unwrap();
        assert_eq!(target.authority(), "[fd00::1]:7");
        assert!(Target::at(&json!({}), None, "/x").is_err());
        assert_eq!(node_and_port("https:a:10").ok(), Some(("a", Some(10))));
        assert_eq!(node_and_port("a").ok(), Some(("a", None)));
        assert!(node_and_port("a:b").is_err());
        let uri: Uri = "/api/v1/nodes/a/proxy/stats/summary?x=1".parse().unwrap();
        assert_eq!(behind_proxy(&uri), "/stats/summary?x=1");
        assert_eq!(behind_proxy(&"/api/v1/nodes/a/proxy".parse().unwrap()), "/");
    }
}
