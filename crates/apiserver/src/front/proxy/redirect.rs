//! Where a node sends its clients on to: the paths of its own port are behind the proxy for those
//! who came by it.

use http::{HeaderMap, HeaderValue, header, request};

/// Puts a `Location` of the node's own behind the path by which the client came.
pub(super) fn behind_proxy(headers: &mut HeaderMap, asked: &request::Parts, node: &str) {
    let host = asked.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.or(asked.uri.authority().map(http::uri::Authority::as_str));
    let location = headers.get(header::LOCATION);
    let rewritten = location
        .and_then(|location| location.to_str().ok())
        .and_then(|location| {
            let prefix = up_to_proxy(asked.uri.path())?;
            rewritten(location, prefix, &[Some(node), host])
        });
    if let Some(location) = rewritten.and_then(|location| HeaderValue::try_from(location).ok()) {
        headers.insert(header::LOCATION, location);
    }
}

/// `/api/v1/nodes/NAME/proxy`.
fn up_to_proxy(path: &str) -> Option<&str> {
    let behind = path.match_indices('/').nth(5);
    let prefix = behind.map_or(path, |(end, _)| &path[..end]);
    prefix.ends_with("/proxy").then_some(prefix)
}

/// `None` for one that leads where it says: to somebody else, or to a place beside what was asked
/// for. `own` are the names by which the node was reached.
fn rewritten(location: &str, prefix: &str, own: &[Option<&str>]) -> Option<String> {
    let local = match location.split_once("//") {
        Some(("" | "http:" | "https:", rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            if !own.contains(&Some(authority)) {
                return None;
            }
            path
        }
        _ => location,
    };
    if !local.starts_with('/') || local.starts_with(prefix) {
        return None;
    }
    Some(format!("{prefix}{local}"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_node_sends_on_to_what_is_behind_the_proxy() {
        let prefix = "/api/v1/nodes/n/proxy";
        for (path, location, expected) in [
            ("/logs", "/logs/", "/api/v1/nodes/n/proxy/logs/"),
            ("/logs", "/logs/?a=/b", "/api/v1/nodes/n/proxy/logs/?a=/b"),
            ("/a/proxy/b", "/c", "/api/v1/nodes/n/proxy/c"),
            ("", "/", "/api/v1/nodes/n/proxy/"),
            (
                "/logs",
                "https://10.0.0.1:10250/logs/",
                "/api/v1/nodes/n/proxy/logs/",
            ),
            ("/logs", "//10.0.0.1:10250/x", "/api/v1/nodes/n/proxy/x"),
            ("/logs", "https://api:6443/x", "/api/v1/nodes/n/proxy/x"),
            // Beside what was asked for, somewhere else, or where it belongs already.
            ("/logs", "pods/", "pods/"),
            ("/logs", "https://other/logs/", "https://other/logs/"),
            ("/logs", "//other/logs/", "//other/logs/"),
            ("/x", "/api/v1/nodes/n/proxy/x/", "/api/v1/nodes/n/proxy/x/"),
        ] {
            let request = Request::builder()
                .uri(format!("{prefix}{path}"))
                .header(header::HOST, "api:6443");
            let (asked, ()) = request.body(()).unwrap().into_parts();
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
            behind_proxy(&mut headers, &asked, "10.0.0.1:10250");
            assert_eq!(headers[header::LOCATION], expected, "{path} {location}");
        }
    }
}
