//! The default routes, of the kernel's two tables.

use seams::host::{DefaultRoute, HostError};

use crate::files::{Files, Malformed};

const IPV4: &str = "/proc/net/route";
const IPV6: &str = "/proc/net/ipv6_route";

/// Flags of a route, the same in both tables.
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

pub(crate) fn default_routes(files: &Files) -> Result<Option<Vec<DefaultRoute>>, HostError> {
    let Some(ipv4) = files.optional_text(IPV4)? else {
        return Ok(None);
    };
    let mut routes = files.parsed(IPV4, &ipv4, ipv4_routes)?;
    // Not there where IPv6 is switched off.
    if let Some(ipv6) = files.optional_text(IPV6)? {
        routes.extend(files.parsed(IPV6, &ipv6, ipv6_routes)?);
    }
    Ok(Some(routes))
}

/// Interface, destination, gateway, flags, …: a default route goes to 0.0.0.0,
/// through a gateway or straight onto the link.
fn ipv4_routes(table: &str) -> Result<Vec<DefaultRoute>, Malformed> {
    let mut routes = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with("Iface")) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[interface, destination, gateway, flags, ..] = fields.as_slice() else {
            return Err(strange(line));
        };
        let destination = hexadecimal(destination, 8).ok_or_else(|| strange(line))?;
        hexadecimal(gateway, 8).ok_or_else(|| strange(line))?;
        if destination == 0 && is_usable(flags, line)? {
            routes.push(route(false, interface));
        }
    }
    Ok(routes)
}

/// Destination, its length, source, its length, gateway, metric, references,
/// uses, flags, interface. A default route goes to `::` through a gateway: the
/// others to `::` are the kernel's own.
fn ipv6_routes(table: &str) -> Result<Vec<DefaultRoute>, Malformed> {
    let mut routes = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[destination, _, _, _, gateway, _, _, _, flags, interface, ..] = fields.as_slice()
        else {
            return Err(strange(line));
        };
        let destination = hexadecimal(destination, 32).ok_or_else(|| strange(line))?;
        let gateway = hexadecimal(gateway, 32).ok_or_else(|| strange(line))?;
        if destination == 0 && gateway != 0 && is_usable(flags, line)? {
            routes.push(route(true, interface));
        }
    }
    Ok(routes)
}

/// A route that is down or that refuses packets leads nowhere.
fn is_usable(flags: &str, line: &str) -> Result<bool, Malformed> {
    let flags = u32::from_str_radix(flags, 16).map_err(|_| strange(line))?;
    Ok(flags & UP != 0 && flags & REJECT == 0)
}

/// An address as the table writes it: this many digits. Its byte order does not
/// matter to whether it is zero.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

fn strange(line: &str) -> Malformed {
    Malformed(format!("no route: {line:?}"))
}

fn route(ipv6: bool, interface: &str) -> DefaultRoute {
    DefaultRoute {
        ipv6,
        interface: interface.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{put, tree};

    const IPV4_TABLE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
wg0\t00000000\t00000000\t0001\t0\t0\t200\t00000000\t0\t0\t0
eth2\t00000000\t010200C0\t0002\t0\t0\t300\t00000000\t0\t0\t0
*\t00000000\t00000000\t0201\t0\t0\t400\t00000000\t0\t0\t0
eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

    const ZERO: &str = "00000000000000000000000000000000";
    const GATEWAY: &str = "fd000000000000000000000000000001";

    fn ipv6_line(destination: &str, gateway: &str, flags: &str, interface: &str) -> String {
        format!(
            "{destination} 00 {ZERO} 00 {gateway} 00000400 00000003 00000000 {flags}     {interface}\n"
        )
    }

    fn interfaces(routes: &[DefaultRoute]) -> Vec<&str> {
        routes
            .iter()
            .map(|found| found.interface.as_str())
            .collect()
    }

    #[test]
    fn ipv4_default_routes_are_those_to_zero_that_are_up() {
        let routes = ipv4_routes(IPV4_TABLE).unwrap();
        assert_eq!(interfaces(&routes), ["eth1", "wg0"]);
        assert!(routes.iter().all(|found| !found.ipv6));
        assert_eq!(ipv4_routes(""), Ok(Vec::new()));
    }

    #[test]
    fn ipv6_default_routes_are_those_to_zero_through_a_gateway() {
        let table = [
            ipv6_line(GATEWAY, ZERO, "00000001", "eth0"),
            ipv6_line(ZERO, GATEWAY, "00000003", "eth1"),
            ipv6_line(ZERO, ZERO, "00200200", "lo"),
            ipv6_line(ZERO, GATEWAY, "00000002", "eth2"),
        ];
        let routes = ipv6_routes(&table.concat()).unwrap();
        assert_eq!(routes, [route(true, "eth1")]);
    }

    #[test]
    fn a_line_that_is_no_route_is_an_error_that_shows_it() {
        for bad in [
            "eth0",
            "eth0 0000 00000000 0001",
            "eth0 0000000g 00000000 0001",
            "eth0 00000000 0 0001",
            "eth0 00000000 00000000 up",
            "\n",
        ] {
            assert!(ipv4_routes(bad).is_err(), "{bad:?}");
        }
        for bad in [
            ipv6_line("00", GATEWAY, "00000003", "eth0"),
            ipv6_line(ZERO, "+1", "00000003", "eth0"),
            ipv6_line(ZERO, GATEWAY, "x", "eth0"),
            ipv6_line(ZERO, GATEWAY, "00000003", ""),
        ] {
            assert!(ipv6_routes(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_tables_are_joined_and_either_may_be_missing() {
        let root = tree(&[]);
        let files = Files::new(root.path().to_owned());
        assert_eq!(default_routes(&files).unwrap(), None);
        let ipv6 = ipv6_line(ZERO, GATEWAY, "00000003", "eth9");
        put(root.path(), "proc/net/ipv6_route", &ipv6);
        assert_eq!(default_routes(&files).unwrap(), None);
        put(root.path(), "proc/net/route", IPV4_TABLE);
        let routes = default_routes(&files).unwrap().unwrap();
        assert_eq!(interfaces(&routes), ["eth1", "wg0", "eth9"]);
        std::fs::remove_file(root.path().join("proc/net/ipv6_route")).unwrap();
        let routes = default_routes(&files).unwrap().unwrap();
        assert_eq!(interfaces(&routes), ["eth1", "wg0"]);
        put(root.path(), "proc/net/route", "nonsense\n");
        let error = default_routes(&files).unwrap_err().to_string();
        assert!(
            error.contains("/proc/net/route: no route: \"nonsense\""),
            "{error}"
        );
    }
}
