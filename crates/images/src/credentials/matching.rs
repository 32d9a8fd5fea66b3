//! Which images a credential is for: `*.r.io:5000/team` is for each image of that
//! team at any host directly below `r.io`, on that port.

/// Where a credential is for, or where an image is: no scheme, and a path that is
/// empty or begins with a slash.
#[derive(Debug, PartialEq, Eq)]
struct Location<'a> {
    host: &'a str,
    port: &'a str,
    path: &'a str,
}

impl<'a> Location<'a> {
    fn read(text: &'a str) -> Self {
        let slash = text.find('/').unwrap_or(text.len());
        let (authority, path) = text.split_at_checked(slash).unwrap_or((text, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address are no mark of a port.
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, ""),
        };
        // Or they would be read as a pattern.
        let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let host = address.filter(|it| it.contains(':')).unwrap_or(host);
        Self { host, port, path }
    }
}

/// The key that an entry of a docker configuration is found by: its host and its
/// path, less scheme and the version of the registry's API. `None` if it is no
/// address of a registry.
pub(crate) fn key(entry: &str) -> Option<String> {
    let schemeless = ["https://", "http://"]
        .iter()
        .find_map(|scheme| entry.strip_prefix(scheme))
        .unwrap_or(entry);
    let address = schemeless.split(['?', '#']).next().unwrap_or_default();
    let slash = address.find('/').unwrap_or(address.len());
    let (authority, path) = address.split_at_checked(slash)?;
    let (user, authority) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !user.chars().all(is_of_user) || !is_plausible(&Location::read(authority)) {
        return None;
    }
    let path = ["/v1/", "/v2/"]
        .iter()
        .find_map(|version| path.strip_prefix(version))
        // With the slash that the version ended in.
        .map_or(path.to_owned(), |rest| format!("/{rest}"));
    let path = if path == "/" { String::new() } else { path };
    Some(format!("{authority}{path}"))
}

/// An entry of a docker configuration as people may see it: before its host there may be a
/// user, and a password.
pub(crate) fn shown(entry: &str) -> &str {
    entry.rsplit_once('@').map_or(entry, |(_, address)| address)
}

/// Whether a pattern for images is an address, if one with stars.
pub(crate) fn is_address(pattern: &str) -> bool {
    key(pattern).is_some()
}

/// Only what Go takes for a host: for anything else a kubelet sends no password,
/// and neither do we.
fn is_plausible(location: &Location<'_>) -> bool {
    let is_address = location.host.contains(':');
    let of_address = |letter: char| letter.is_ascii_hexdigit() || ":.".contains(letter);
    let of_name = |letter: char| {
        letter.is_ascii_alphanumeric()
            || !letter.is_ascii()
            || "-_.~!$&'()*+,;=<>\"".contains(letter)
    };
    let is_host = if is_address {
        location.host.chars().all(of_address)
    } else {
        location.host.chars().all(of_name)
    };
    is_host && location.port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_of_user(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter)
}

/// Whether the image `name` (registry and path) is one that `key` is for.
pub(crate) fn matches(key: &str, name: &str) -> bool {
    let (key, name) = (Location::read(key), Location::read(name));
    if key.port != name.port || !name.path.starts_with(key.path) {
        return false;
    }
    let mut globs = key.host.split('.');
    let mut labels = name.host.split('.');
    loop {
        match (globs.next(), labels.next()) {
            (None, None) => return true,
            (Some(pattern), Some(label)) if glob(pattern, label) => {}
            _ => return false,
        }
    }
}

/// Whether an image is at the registry that has no name of its own in old
/// configurations.
pub(crate) fn at_default_registry(name: &str) -> bool {
    match name.split_once('/') {
        None => !name.is_empty(),
        Some(("docker.io" | "index.docker.io", _)) => true,
        Some((host, _)) => !host.is_empty() && !host.contains(['.', ':']),
    }
}

/// `*` stands for any letters. (Other wildcards cannot stand in an address.)
///
/// Patterns and names are both a pod's: so only the last star is tried again, and
/// the work is bounded by the product of their lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut token, mut at) = (0, 0);
    // Behind the last star, and up to where it reaches.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(token), text.get(at)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                token += 1;
                retry = Some((token, at));
            }
            (Some(wanted), Some(letter)) if wanted == letter => {
                token += 1;
                at += 1;
            }
            _ => match &mut retry {
                Some((behind, reach)) if *reach < text.len() => {
                    *reach += 1;
                    (token, at) = (*behind, *reach);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_its_host_and_path() {
        for (entry, expected) in [
            ("r.io", Some("r.io")),
            ("https://r.io", Some("r.io")),
            ("http://r.io/", Some("r.io")),
            ("https://index.docker.io/v1/", Some("index.docker.io")),
            ("r.io/v2/team", Some("r.io/team")),
            ("r.io/v1", Some("r.io/v1")),
            ("r.io:5000/team/", Some("r.io:5000/team/")),
            ("https://user@r.io/team?x=y#z", Some("r.io/team")),
            ("[::1]:5000", Some("[::1]:5000")),
            ("*.r.io", Some("*.r.io")),
            ("r.io:port", None),
            ("r .io", None),
            ("[a-c].r.io", None),
            ("\\r.io", None),
            ("us er@r.io", None),
            ("user:8@r.io", Some("r.io")),
        ] {
            assert_eq!(key(entry).as_deref(), expected, "{entry}");
        }
    }

    #[test]
    fn hosts_match_by_label_ports_are_equal_and_paths_begin_alike() {
        for (key, name, expected) in [
            ("r.io", "r.io/a", true),
            ("r.io", "x.r.io/a", false),
            ("*.r.io", "x.r.io/a", true),
            ("*.r.io", "r.io/a", false),
            ("*.r.io", "x.y.r.io/a", false),
            ("*.*.r.io", "x.y.r.io/a", true),
            ("pre*fix.r.io", "pre-and-fix.r.io/a", true),
            ("***.r.io", "b.r.io/a", true),
            ("r.io:5000", "r.io/a", false),
            ("r.io:5000", "r.io:5000/a", true),
            ("*.io:5000", "r.io:5000/a", true),
            ("r.io", "r.io:5000/a", false),
            ("r.io/team", "r.io/team/app", true),
            ("r.io/team", "r.io/teams/app", true),
            ("r.io/team", "r.io/other", false),
            ("r.io/*", "r.io/other", false),
            ("[::1]:5000", "[::1]:5000/a", true),
            ("[::1]", "[::1]/a", true),
            ("[::1]", "[::2]/a", false),
        ] {
            assert_eq!(matches(key, name), expected, "{key} for {name}");
        }
    }

    #[test]
    fn a_pattern_made_to_take_for_ever_is_done_at_once() {
        let pattern = "*a".repeat(2000) + "b";
        let label = "a".repeat(20_000);
        assert!(!matches(&pattern, &format!("{label}/app")));
        assert!(matches(&pattern, &format!("{label}b/app")));
    }

    #[test]
    fn the_default_registry_is_known_by_its_names_and_by_having_none() {
        for (name, expected) in [
            ("docker.io/library/a", true),
            ("index.docker.io/a", true),
            ("a", true),
            ("user/a", true),
            ("r.io/a", false),
            ("host:5000/a", false),
            ("", false),
            ("/a", false),
        ] {
            assert_eq!(at_default_registry(name), expected, "{name}");
        }
    }
}
