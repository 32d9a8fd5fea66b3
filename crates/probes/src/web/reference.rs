//! What somebody who names a place on a server means by it: a path, or a whole URL of
//! which the path counts. Pure; texts are taken apart as Go's `url.Parse` does it.

use std::net::Ipv6Addr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What a path is written with, beside letters and digits.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// What a path that is written already may have beside that.
const ALSO_IN_PATH: &[u8] = b"!'()*[]%";

/// What a query must not have, however it was given.
const QUERY: &AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>');

/// What a host may have, beside letters and digits.
const HOST: &[u8] = b"!\"$&'()*+,-.:;<=>[]_~";

/// What stands before the host for somebody may have, beside letters and digits.
const USER: &[u8] = b"-._:~!$&'()*+,;=%@";

/// What of a text is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// With its query; may be empty.
    Path(String),
    /// It has a scheme, and no place on any server behind it: that, with its query.
    Opaque(String),
}

impl Target {
    /// What cannot be taken apart is a path as a whole.
    pub(super) fn of(given: &str) -> Self {
        let whole = || Self::Path(rooted(utf8_percent_encode(given, PATH).to_string()));
        taken_apart(given).unwrap_or_else(whole)
    }
}

/// Without a scheme and a host that it may have; `None`: it is no URL.
fn taken_apart(given: &str) -> Option<Target> {
    let (text, fragment) = given.split_once('#').unwrap_or((given, ""));
    let is_odd = text.starts_with(':') || text.bytes().any(|byte| byte.is_ascii_control());
    if is_odd || bad_escape(fragment).is_some() {
        return None;
    }
    let (scheme, rest) = match scheme_of(text) {
        Some(scheme) => (Some(scheme), &text[scheme.len() + 1..]),
        None => (None, text),
    };
    let (rest, query) = parted(rest);
    let query = utf8_percent_encode(query, QUERY);
    if !rest.is_empty() && !rest.starts_with('/') {
        if scheme.is_some() {
            return Some(Target::Opaque(format!("{rest}{query}")));
        }
        if rest.split('/').next()?.contains(':') {
            return None;
        }
    }
    // Three slashes with nothing before them are a path.
    let has_host = scheme.is_some() || !rest.starts_with("///");
    let path = match rest.strip_prefix("//").filter(|_| has_host) {
        Some(place) => {
            let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
            is_authority(scheme, authority).then_some(path)?
        }
        None => rest,
    };
    if bad_escape(path).is_some() {
        return None;
    }
    Some(Target::Path(format!("{}{query}", rooted(written(path)))))
}

/// As it was given if it can be asked for, else written anew.
fn written(path: &str) -> String {
    let is_written = path.bytes().all(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
        plain || ALSO_IN_PATH.contains(&byte)
    });
    if is_written {
        return path.to_owned();
    }
    let meant = percent_decode_str(path).collect::<Vec<u8>>();
    percent_encoding::percent_encode(&meant, PATH).to_string()
}

fn rooted(path: String) -> String {
    if path.is_empty() || path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    }
}

/// The name that it begins with, if `:` follows. What is behind a slash or a question mark
/// may hold the whole of another URL.
pub(super) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    let is_name = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    (is_name && scheme.chars().all(allowed)).then_some(scheme)
}

/// The path, and what is asked for from the question mark on.
pub(super) fn parted(path: &str) -> (&str, &str) {
    path.split_at(path.find('?').unwrap_or(path.len()))
}

/// The first `%` without two digits behind it, with what is in their place.
pub(super) fn bad_escape(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        rest = &rest[at..];
        let found: String = rest.chars().take(3).collect();
        let mut digits = found.chars().skip(1);
        let is_digit = |digit: Option<char>| digit.is_some_and(|digit| digit.is_ascii_hexdigit());
        if !(is_digit(digits.next()) && is_digit(digits.next())) {
            return Some(found);
        }
        rest = &rest[1..];
    }
    None
}

/// Whether it is `host`, `host:port`, or that with somebody before an `@`.
fn is_authority(scheme: Option<&str>, text: &str) -> bool {
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    let known = |byte: u8| byte.is_ascii_alphanumeric() || USER.contains(&byte);
    if !user.bytes().all(known) || bad_escape(user).is_some() {
        return false;
    }
    match host.rfind('[') {
        Some(0) => is_bracketed(host),
        Some(_) => false,
        None => {
            let is_web = scheme.is_some_and(|scheme| {
                ["http", "https"]
                    .iter()
                    .any(|web| scheme.eq_ignore_ascii_case(web))
            });
            // Elsewhere several hosts may stand there, each with its port.
            let colon = if is_web {
                host.find(':')
            } else {
                host.rfind(':')
            };
            let port = colon.map_or("", |colon| &host[colon..]);
            is_port(port) && is_host(host)
        }
    }
}

/// `[address]` or `[address]:port`; the address may be one of a link (`%25eth0`).
fn is_bracketed(host: &str) -> bool {
    let Some((address, port)) = host[1..].rsplit_once(']') else {
        return false;
    };
    let (address, link) = match address.split_once("%25") {
        Some((address, link)) => (address, Some(link)),
        None => (address, None),
    };
    let is_link = |link: &str| !link.is_empty() && is_host(link);
    address.parse::<Ipv6Addr>().is_ok() && link.is_none_or(is_link) && is_port(port)
}

/// Nothing, or `:` with a number or without.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    }
}

/// Whether it has nothing but what a host may have: what it could write plainly it must.
fn is_host(text: &str) -> bool {
    let plain = |byte: u8| {
        !byte.is_ascii() || byte.is_ascii_alphanumeric() || byte == b'%' || HOST.contains(&byte)
    };
    let mut escapes = text.split('%').skip(1);
    let is_ascii = |escape: &str| escape.starts_with(|digit| ('0'..='7').contains(&digit));
    let is_needed = |escape: &str| escape.starts_with("25") || !is_ascii(escape);
    text.bytes().all(plain) && bad_escape(text).is_none() && escapes.all(is_needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(given: &str) -> String {
        match Target::of(given) {
            Target::Path(path) => path,
            Target::Opaque(rest) => format!("opaque {rest}"),
        }
    }

    #[test]
    fn a_path_is_asked_for_as_it_was_written_if_that_is_possible() {
        for (given, written) in [
            ("", ""),
            ("/a/b.c", "/a/b.c"),
            ("a", "/a"),
            ("*", "/*"),
            ("/a?b=c&d=/e", "/a?b=c&d=/e"),
            ("/a?", "/a?"),
            ("/a#part", "/a"),
            ("?q", "?q"),
            ("/a b", "/a%20b"),
            ("/a%20b", "/a%20b"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%2Fb c", "/a/b%20c"),
            ("/(a)!", "/(a)!"),
            ("/(a)! b", "/%28a%29%21%20b"),
            ("/é", "/%C3%A9"),
            ("/100%", "/100%25"),
            ("/100%?q", "/100%25%3Fq"),
            ("/100%#part", "/100%25%23part"),
            ("/a#%", "/a%23%25"),
            ("/a\n?q", "/a%0A%3Fq"),
            ("/a?b c", "/a?b%20c"),
        ] {
            assert_eq!(path(given), written, "{given}");
        }
    }

    #[test]
    fn of_a_whole_url_the_path_is_asked_for() {
        for (given, wanted) in [
            ("http://localhost/healthz", "/healthz"),
            ("HTTPS://localhost:8443/healthz?a=/b", "/healthz?a=/b"),
            ("http://me:secret@localhost/x", "/x"),
            ("http://[::1]:80/x", "/x"),
            ("http://[fe80::1%25eth0]/x", "/x"),
            ("http://localhost", ""),
            ("http://localhost?q", "?q"),
            ("http:/x", "/x"),
            ("http:", ""),
            ("http:///x", "/x"),
            ("db://a:1,b:2/x", "/x"),
            ("//healthz", ""),
            ("//a/b", "/b"),
            ("//a//b", "//b"),
            ("//caf%C3%A9/x", "/x"),
            ("///a/b", "///a/b"),
            ("/a//b", "/a//b"),
            ("/a?to=http://b/c", "/a?to=http://b/c"),
            ("a/http://b", "/a/http://b"),
            // Those name no place on a server.
            ("localhost:8080/healthz?q", "opaque 8080/healthz?q"),
            ("mailto:x", "opaque x"),
        ] {
            assert_eq!(path(given), wanted, "{given}");
        }
    }

    #[test]
    fn what_is_no_url_is_a_path_as_a_whole() {
        for (given, wanted) in [
            ("//a b/c", "//a%20b/c"),
            ("http://a b/c", "/http://a%20b/c"),
            ("http://a:web/c?q", "/http://a:web/c%3Fq"),
            ("http://a:1:2/c", "/http://a:1:2/c"),
            ("http://a[::1]/c", "/http://a%5B::1%5D/c"),
            ("http://[::1/c", "/http://%5B::1/c"),
            ("http://[1.2.3.4]/c", "/http://%5B1.2.3.4%5D/c"),
            ("http://[::1]x/c", "/http://%5B::1%5Dx/c"),
            ("http://m e@a/c", "/http://m%20e@a/c"),
            ("//%41/c", "//%2541/c"),
            ("//a/%", "//a/%25"),
            (":a", "/:a"),
            ("1a:b", "/1a:b"),
        ] {
            assert_eq!(path(given), wanted, "{given}");
        }
    }
}
