//! The proxy that a process's environment names for a server, read as Go's
//! programs read it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;

use super::server::{AddressError, Proxy, Server};
use crate::Secret;

impl Proxy {
    /// The proxy for `server` in `environment`: `HTTPS_PROXY` (or `HTTP_PROXY`
    /// for a plain server), unless `NO_PROXY` names the server. This machine
    /// itself is never reached through a proxy.
    pub fn from_environment(
        server: &Server,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<Option<Self>, AddressError> {
        let variable = |upper: &str| {
            let value = |name: &str| {
                environment
                    .get(OsStr::new(name))
                    .filter(|text| !text.is_empty())
            };
            let found = value(upper).or_else(|| value(&upper.to_ascii_lowercase()));
            found.map(|text| text.to_string_lossy().into_owned())
        };
        let name = if server.is_https() {
            "HTTPS_PROXY"
        } else {
            "HTTP_PROXY"
        };
        let Some(text) = variable(name) else {
            return Ok(None);
        };
        let host = server.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = server
            .uri
            .port_u16()
            .unwrap_or(if server.is_https() { 443 } else { 80 });
        if is_this_machine(host) || is_exempt(host, port, &variable("NO_PROXY").unwrap_or_default())
        {
            return Ok(None);
        }
        // A bare HOST:PORT means a plain proxy.
        let text = if text.contains("://") {
            text
        } else {
            format!("http://{text}")
        };
        Self::parse(&Secret::new(text)).map(Some)
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// `list` is comma-separated: `*`, addresses, networks, names (with all below
/// them), `.names` (only those below); all but networks may have a port.
fn is_exempt(host: &str, port: u16, list: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let address: Option<IpAddr> = host.parse().ok();
    let mut entries = list
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase());
    entries.any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = entry.split_once('/') {
            return address.is_some_and(|address| contains(network, bits, address));
        }
        let (name, wanted_port) = split_port(&entry);
        if wanted_port.is_some_and(|wanted| wanted != port) || name.is_empty() {
            return false;
        }
        if let Ok(exempt) = name.parse::<IpAddr>() {
            return address == Some(exempt);
        }
        let suffix = name.strip_prefix('*').unwrap_or(name);
        match suffix.strip_prefix('.') {
            Some(_) => host.ends_with(suffix),
            None => {
                host == suffix
                    || host
                        .strip_suffix(suffix)
                        .is_some_and(|rest| rest.ends_with('.'))
            }
        }
    })
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (name, port) = rest.split_once(']').unwrap_or((rest, ""));
        return (
            name,
            port.strip_prefix(':').and_then(|port| port.parse().ok()),
        );
    }
    match entry.rsplit_once(':') {
        // More than one colon is an IPv6 address without a port.
        Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
        _ => (entry, None),
    }
}

fn contains(network: &str, bits: &str, address: IpAddr) -> bool {
    let shift = |width: u32| {
        bits.parse::<u32>()
            .ok()
            .filter(|bits| *bits <= width)
            .map(|bits| width - bits)
    };
    match (network.parse::<IpAddr>(), address) {
        (Ok(IpAddr::V4(network)), IpAddr::V4(address)) => shift(32).is_some_and(|shift| {
            let cut = |value: u32| value.checked_shr(shift).unwrap_or_default();
            cut(network.to_bits()) == cut(address.to_bits())
        }),
        (Ok(IpAddr::V6(network)), IpAddr::V6(address)) => shift(128).is_some_and(|shift| {
            let cut = |value: u128| value.checked_shr(shift).unwrap_or_default();
            cut(network.to_bits()) == cut(address.to_bits())
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, variables: &[(&str, &str)]) -> Option<String> {
        let environment = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let server = Server::parse(server).unwrap();
        let proxy = Proxy::from_environment(&server, &environment.collect()).unwrap();
        proxy.map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_variable_follows_from_the_servers_scheme() {
        let https = [
            ("HTTPS_PROXY", "http://p:3128"),
            ("HTTP_PROXY", "http://q:1"),
        ];
        assert_eq!(
            chosen("https://api.example:6443", &https).as_deref(),
            Some("http://p:3128")
        );
        assert_eq!(
            chosen("http://api.example:8080", &https).as_deref(),
            Some("http://q:1")
        );
        assert_eq!(
            chosen("https://api.example", &[("https_proxy", "p:3128")]).as_deref(),
            Some("http://p:3128")
        );
        assert_eq!(chosen("https://api.example", &[("HTTPS_PROXY", "")]), None);
        assert_eq!(
            chosen("https://api.example", &[("HTTP_PROXY", "http://q:1")]),
            None
        );
        assert_eq!(
            chosen("https://api.example", &[("HTTPS_PROXY", "socks5://s")]).as_deref(),
            Some("socks5://s:1080")
        );
    }

    #[test]
    fn this_machine_is_never_behind_a_proxy() {
        for server in [
            "https://localhost:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
        ] {
            assert_eq!(
                chosen(server, &[("HTTPS_PROXY", "http://p:1")]),
                None,
                "{server}"
            );
        }
    }

    #[test]
    fn exemptions_are_read_as_go_reads_them() {
        let cases = [
            ("api.example", "example", true),
            ("api.example", ".example", true),
            ("example", ".example", false),
            ("api.example", "*.example", true),
            ("api.example", "i.example", false),
            ("API.example.", "api.example", true),
            ("api.example", "other, api.example", true),
            ("api.example", "api.example:6443", true),
            ("api.example", "api.example:443", false),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("10.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3:1", false),
            ("fd00::1", "fd00::/16", true),
            ("fd00::1", "fd00::1", true),
            ("fd00::1", "[fd00::1]:6443", true),
            ("api.example", "*", true),
            ("api.example", "", false),
            ("api.example", ",,", false),
            ("10.1.2.3", "10.0.0.0/99", false),
        ];
        for (host, list, exempt) in cases {
            assert_eq!(is_exempt(host, 6443, list), exempt, "{host} {list}");
        }
    }
}
