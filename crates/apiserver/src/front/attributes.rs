//! What a request asks for, as authorization sees it.

use http::Method;

use super::query::Query;

/// Of a request for a resource, or of one for another path (`resource` is empty then and
/// `verb` is the HTTP method in lower case).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    /// Of lists, watches and collections that are deleted.
    pub field_selector: String,
    pub label_selector: String,
}

impl Attributes {
    /// Upstream's reading of a path, and what is left of it behind the subresource.
    pub(super) fn of(method: &Method, path: &str, query: &Query) -> (Self, Vec<String>) {
        let mut asked = Self {
            verb: method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            ..Self::default()
        };
        let words: Vec<String> = path
            .split('/')
            .filter(|word| !word.is_empty())
            .map(decoded)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let rest = match words.as_slice() {
            ["api", version, rest @ ..] => {
                (*version).clone_into(&mut asked.version);
                rest
            }
            ["apis", group, version, rest @ ..] => {
                (asked.group, asked.version) = ((*group).to_owned(), (*version).to_owned());
                rest
            }
            _ => return (asked, Vec::new()),
        };
        if rest.is_empty() {
            (asked.group, asked.version) = (String::new(), String::new());
            return (asked, Vec::new());
        }
        let rest = match rest {
            // The namespace itself, or something of it that is no resource.
            ["namespaces", name] | ["namespaces", name, "status" | "finalize", ..] => {
                (*name).clone_into(&mut asked.namespace);
                rest
            }
            ["namespaces", name, inside @ ..] => {
                (*name).clone_into(&mut asked.namespace);
                inside
            }
            rest => rest,
        };
        let mut rest = rest.iter().map(|word| (*word).to_owned());
        asked.resource = rest.next().unwrap_or_default();
        asked.name = rest.next().unwrap_or_default();
        asked.subresource = rest.next().unwrap_or_default();
        verb(method, !asked.name.is_empty(), query).clone_into(&mut asked.verb);
        if asked.name.is_empty() {
            query
                .text("fieldSelector")
                .clone_into(&mut asked.field_selector);
            query
                .text("labelSelector")
                .clone_into(&mut asked.label_selector);
            // A list of the one object of this name is a look at that object.
            if matches!(asked.verb.as_str(), "list" | "watch" | "deletecollection")
                && let Some(name) = asked.field_selector.strip_prefix("metadata.name=")
                && !name.contains([',', '=', '\\'])
            {
                asked.name = name.to_string();
            }
        }
        (asked, rest.collect())
    }

    pub(super) fn is_for_resource(&self) -> bool {
        !self.resource.is_empty()
    }
}

fn verb(method: &Method, named: bool, query: &Query) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD if query.flag("watch") => "watch",
        Method::GET | Method::HEAD => "list",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

fn decoded(word: &str) -> String {
    let bytes = percent_encoding::percent_decode_str(word);
    bytes.decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "what is written in place is read better without a reference"
    )]
    fn asked(method: Method, uri: &str) -> [String; 7] {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let (asked, rest) = Attributes::of(&method, path, &Query::parse(query));
        [
            asked.verb,
            asked.group,
            asked.namespace,
            asked.resource,
            asked.name,
            asked.subresource,
            rest.join("/"),
        ]
    }

    #[test]
    fn paths_are_read_as_upstream_reads_them() {
        let get = Method::GET;
        for (method, uri, expected) in [
            (
                get.clone(),
                "/api/v1/pods",
                ["list", "", "", "pods", "", "", ""],
            ),
            (
                get.clone(),
                "/api/v1/pods?watch=true",
                ["watch", "", "", "pods", "", "", ""],
            ),
            (
                get.clone(),
                "/api/v1/pods?watch=0",
                ["list", "", "", "pods", "", "", ""],
            ),
            (
                get.clone(),
                "/api/v1/namespaces",
                ["list", "", "", "namespaces", "", "", ""],
            ),
            (
                get.clone(),
                "/api/v1/namespaces/a",
                ["get", "", "a", "namespaces", "a", "", ""],
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                ["update", "", "a", "namespaces", "a", "finalize", ""],
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                ["deletecollection", "", "a", "pods", "", "", ""],
            ),
            (
                Method::PATCH,
                "/api/v1/nodes/n%2F1/status",
                ["patch", "", "", "nodes", "n/1", "status", ""],
            ),
            (
                get.clone(),
                "/api/v1/nodes/n/proxy/stats/summary",
                ["get", "", "", "nodes", "n", "proxy", "stats/summary"],
            ),
            (
                get.clone(),
                "/apis/coordination.k8s.io/v1/namespaces/x/leases/y",
                ["get", "coordination.k8s.io", "x", "leases", "y", "", ""],
            ),
            (
                get.clone(),
                "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Da",
                ["watch", "", "", "pods", "a", "", ""],
            ),
            (get.clone(), "/healthz", ["get", "", "", "", "", "", ""]),
            (get.clone(), "/api/v1", ["get", "", "", "", "", "", ""]),
            (get, "/apis/apps", ["get", "", "", "", "", "", ""]),
        ] {
            assert_eq!(asked(method, uri), expected, "{uri}");
        }
    }
}
