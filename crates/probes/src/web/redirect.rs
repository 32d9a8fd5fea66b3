//! Where an answer points: followed while it stays with the host that was asked, as
//! nobody may send the node elsewhere. Pure.

use http::header::{HeaderValue, REFERER};
use http::{StatusCode, Uri};

use super::request::Get;

/// What comes after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is the last.
    Stay,
    Go(Box<Get>),
}

pub(super) fn next(get: &Get, status: StatusCode, location: Option<&str>) -> Next {
    let points = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = location.filter(|location| points && !location.is_empty());
    let elsewhere = location.and_then(|location| follow(get, location));
    let elsewhere = elsewhere.map(|next| referred(get, next));
    elsewhere.map_or(Next::Stay, |get| Next::Go(Box::new(get)))
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

/// `None`: that is no place, or somebody else's.
fn follow(get: &Get, location: &str) -> Option<Get> {
    let (location, _) = location.split_once('#').unwrap_or((location, ""));
    let scheme = if get.https { "https:" } else { "http:" };
    let whole = if location.starts_with("//") {
        format!("{scheme}{location}")
    } else if has_scheme(location) {
        location.to_owned()
    } else {
        return Some(Get {
            path: resolved(&get.path, location),
            ..get.clone()
        });
    };
    let uri: Uri = whole.parse().ok()?;
    let https = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let host = uri.host()?.trim_matches(['[', ']']);
    if host != get.host {
        return None;
    }
    let usual = if https { 443 } else { 80 };
    Some(Get {
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
    })
}

/// Whether it begins with `name:`. What is behind a slash or a question mark may hold
/// the whole of another URL.
fn has_scheme(location: &str) -> bool {
    let scheme = location.split_once(':').map_or("", |(scheme, _)| scheme);
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(allowed)
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

/// The path, and what is asked for from the question mark on.
fn parted(path: &str) -> (&str, &str) {
    path.split_at(path.find('?').unwrap_or(path.len()))
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
            (302, "ftp://10.0.0.7/x", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let url = match next(&get(), status, Some(location)) {
                Next::Stay => None,
                Next::Go(get) => Some(get.url()),
            };
            assert_eq!(url.as_deref(), wanted, "{status} {location}");
        }
        assert_eq!(next(&get(), StatusCode::FOUND, None), Next::Stay);
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
            let Next::Go(to) = next(&from, StatusCode::FOUND, Some(location)) else {
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
            let Next::Go(get) = next(&get(), StatusCode::FOUND, Some(location)) else {
                panic!("{location}");
            };
            assert_eq!(get.host_header.is_some(), keeps, "{location}");
        }
    }
}
