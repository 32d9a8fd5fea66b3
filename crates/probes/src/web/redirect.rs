//! Where an answer points: followed while it stays with the host that was asked, as
//! nobody may send the node elsewhere. Pure.

use std::fmt::Write as _;

use http::header::{HeaderValue, REFERER};
use http::{StatusCode, Uri};

use super::reference::{bad_escape, parted, scheme_of};
use super::request::Get;

/// What comes after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is the last.
    Stay,
    Go(Box<Get>),
    /// Where it points nobody can go: the place that was tried, and why not, in Go's words.
    Nowhere {
        url: String,
        why: String,
    },
}

pub(super) fn next(get: &Get, status: StatusCode, location: Option<&[u8]>) -> Next {
    let points = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = location.filter(|location| points && !location.is_empty());
    let Some(location) = location else {
        return Next::Stay;
    };
    if let Some(fault) = fault(location) {
        let shown = String::from_utf8_lossy(location);
        return Next::Nowhere {
            url: get.url(),
            why: format!("failed to parse Location header {shown:?}: parse {shown:?}: {fault}"),
        };
    }
    match follow(get, &escaped(location)) {
        Next::Go(next) => Next::Go(Box::new(referred(get, *next))),
        next => next,
    }
}

/// What Go finds wrong with a URL, as far as servers are known to get it wrong.
fn fault(location: &[u8]) -> Option<String> {
    if location.iter().any(u8::is_ascii_control) {
        return Some("net/url: invalid control character in URL".to_owned());
    }
    let text = String::from_utf8_lossy(location);
    let (whole, fragment) = text.split_once('#').unwrap_or((&text, ""));
    let (path, _) = parted(whole);
    if path.starts_with(':') {
        return Some("missing protocol scheme".to_owned());
    }
    let first = path.split('/').next().unwrap_or_default();
    if first.contains(':') && scheme_of(path).is_none() {
        return Some("first path segment in URL cannot contain colon".to_owned());
    }
    let escape = [path, fragment].into_iter().find_map(bad_escape);
    escape.map(|escape| format!("invalid URL escape {escape:?}"))
}

/// With what has no place in a request written as Go writes it.
fn escaped(location: &[u8]) -> String {
    let mut out = String::with_capacity(location.len());
    for &byte in location {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Into a text nothing fails to be written.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The next one is told who sent us; not what was protected, over a way that is not.
fn referred(from: &Get, mut to: Get) -> Get {
    if from.https && !to.https {
        to.headers.remove(REFERER);
    } else if !to.headers.contains_key(REFERER)
        && let Ok(url) = HeaderValue::try_from(from.url())
    {
        to.headers.insert(REFERER, url);
    }
    to
}

/// To stay is the course where that is somebody else's place.
fn follow(get: &Get, location: &str) -> Next {
    let (location, _) = location.split_once('#').unwrap_or((location, ""));
    let scheme = if get.https { "https:" } else { "http:" };
    let whole = if location.starts_with("//") {
        format!("{scheme}{location}")
    } else if scheme_of(location).is_some() {
        location.to_owned()
    } else {
        return Next::Go(Box::new(Get {
            path: resolved(&get.path, location),
            ..get.clone()
        }));
    };
    let Ok(uri) = whole.parse::<Uri>() else {
        return Next::Stay;
    };
    // Without slashes behind it nothing of it is a host.
    let Some(scheme) = uri.scheme_str() else {
        return Next::Stay;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    if host != get.host {
        return Next::Stay;
    }
    let https = match scheme {
        "https" => true,
        "http" => false,
        scheme => {
            return Next::Nowhere {
                why: format!("unsupported protocol scheme {scheme:?}"),
                url: whole,
            };
        }
    };
    let usual = if https { 443 } else { 80 };
    Next::Go(Box::new(Get {
        https,
        host: host.to_owned(),
        port: uri.port_u16().unwrap_or(usual),
        path: uri.path_and_query().map_or_else(String::new, |path| {
            let (path, query) = parted(path.as_str());
            format!("{}{query}", without_dots(path))
        }),
        // What stood for the first place says nothing of this one.
        host_header: None,
        ..get.clone()
    }))
}

/// A path as seen from another, both with what they ask for, as Go resolves it.
fn resolved(base: &str, reference: &str) -> String {
    let (base, before) = parted(base);
    let (path, query) = parted(reference);
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else if path.is_empty() {
        base.to_owned()
    } else {
        let directory = base.rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{directory}/{path}")
    };
    let query = if reference.is_empty() { before } else { query };
    format!("{}{query}", without_dots(&whole))
}

/// A path from the root on without `.` and `..`; nothing is above the root.
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    for name in path.split('/') {
        match name {
            "." => {}
            ".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    // Where the dots led to is a directory.
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    let joined = kept.join("/");
    if joined.starts_with('/') {
        return joined;
    }
    format!("/{joined}")
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::web::request::Asker;

    fn get() -> Get {
        Get {
            asker: Asker::Probe,
            https: false,
            host: "10.0.0.7".to_owned(),
            port: 8080,
            path: "/a/b?c".to_owned(),
            headers: HeaderMap::new(),
            host_header: Some(HeaderValue::from_static("other")),
        }
    }

    #[test]
    fn a_redirect_is_followed_as_long_as_it_stays_with_the_host() {
        for (status, location, wanted) in [
            (200, "/x", None),
            (304, "/x", None),
            (302, "", None),
            (301, "/x?y#z", Some("http://10.0.0.7:8080/x?y")),
            (302, "x", Some("http://10.0.0.7:8080/a/x")),
            (302, "?x", Some("http://10.0.0.7:8080/a/b?x")),
            (302, "#z", Some("http://10.0.0.7:8080/a/b?c")),
            (
                302,
                "/login?next=http://x/",
                Some("http://10.0.0.7:8080/login?next=http://x/"),
            ),
            (
                302,
                "login?next=http://x/../y",
                Some("http://10.0.0.7:8080/a/login?next=http://x/../y"),
            ),
            (302, "?to=//x", Some("http://10.0.0.7:8080/a/b?to=//x")),
            (302, "../x", Some("http://10.0.0.7:8080/x")),
            (302, "./x/.", Some("http://10.0.0.7:8080/a/x/")),
            (302, "/x/../../y/..", Some("http://10.0.0.7:8080/")),
            (
                302,
                "http://10.0.0.7/x/../y?z/..",
                Some("http://10.0.0.7:80/y?z/.."),
            ),
            (302, "HTTP://10.0.0.7:9/x", Some("http://10.0.0.7:9/x")),
            (302, "http:/x", None),
            (302, "mailto:x@10.0.0.7", None),
            (303, "http://10.0.0.7/x", Some("http://10.0.0.7:80/x")),
            (307, "https://10.0.0.7:9/x", Some("https://10.0.0.7:9/x")),
            (308, "//10.0.0.7:9/x", Some("http://10.0.0.7:9/x")),
            (302, "http://10.0.0.8:8080/x", None),
            (302, "//elsewhere/x", None),
            (
                302,
                "/\u{e9} {x}?y|z",
                Some("http://10.0.0.7:8080/%C3%A9%20%7Bx%7D?y%7Cz"),
            ),
            (302, "/%e9?%zz", Some("http://10.0.0.7:8080/%e9?%zz")),
            (302, "localhost:8080/x", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let url = match next(&get(), status, Some(location.as_bytes())) {
                Next::Stay => None,
                Next::Go(get) => Some(get.url()),
                Next::Nowhere { why, .. } => panic!("{location}: {why}"),
            };
            assert_eq!(url.as_deref(), wanted, "{status} {location}");
        }
        assert_eq!(next(&get(), StatusCode::FOUND, None), Next::Stay);
    }

    #[test]
    fn a_redirect_that_leads_nowhere_says_why_as_go_does() {
        let asked = "http://10.0.0.7:8080/a/b?c";
        for (location, at, wanted) in [
            (
                "ftp://10.0.0.7/x",
                "ftp://10.0.0.7/x",
                "unsupported protocol scheme \"ftp\"",
            ),
            (
                "/%zz",
                asked,
                "failed to parse Location header \"/%zz\": parse \"/%zz\": invalid URL escape \"%zz\"",
            ),
            ("/x%4", asked, "invalid URL escape \"%4\""),
            ("/x#%", asked, "invalid URL escape \"%\""),
            (
                "10.0.0.7:8080/x",
                asked,
                "first path segment in URL cannot contain colon",
            ),
            ("://x", asked, "missing protocol scheme"),
            ("/a\tb", asked, "net/url: invalid control character in URL"),
        ] {
            let found = next(&get(), StatusCode::FOUND, Some(location.as_bytes()));
            let Next::Nowhere { url, why } = found else {
                panic!("{location}: {found:?}");
            };
            assert_eq!(url, at, "{location}");
            assert!(why.ends_with(wanted), "{location}: {why}");
        }
    }

    #[test]
    fn who_sent_us_is_told_unless_that_was_protected() {
        let mut from = get();
        for (https, location, referer) in [
            (false, "/x", Some("http://10.0.0.7:8080/a/b?c")),
            (
                false,
                "https://10.0.0.7:9/x",
                Some("http://10.0.0.7:8080/a/b?c"),
            ),
            (true, "/x", Some("https://10.0.0.7:8080/a/b?c")),
            (true, "http://10.0.0.7:9/x", None),
        ] {
            from.https = https;
            let Next::Go(to) = next(&from, StatusCode::FOUND, Some(location.as_bytes())) else {
                panic!("{location}");
            };
            let found = to.headers.get(REFERER);
            let found = found.map(|value| value.to_str().unwrap());
            assert_eq!(found, referer, "{https} {location}");
        }
    }

    #[test]
    fn another_name_for_the_host_holds_on_the_same_place_only() {
        for (location, keeps) in [("/x", true), ("http://10.0.0.7:8080/x", false)] {
            let Next::Go(get) = next(&get(), StatusCode::FOUND, Some(location.as_bytes())) else {
                panic!("{location}");
            };
            assert_eq!(get.host_header.is_some(), keeps, "{location}");
        }
    }
}
