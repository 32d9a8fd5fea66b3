//! The network interfaces, in the kernel's order, each with its addresses.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use seams::host::{HostError, Interface};

pub(crate) fn list() -> Result<Vec<Interface>, HostError> {
    let entries = getifaddrs()
        .map_err(|cause| HostError::new("the network interfaces", io::Error::from(cause)))?;
    Ok(grouped(entries.map(Entry::from)))
}

/// One line of the kernel's answer: a link, or an address on one.
struct Entry {
    name: String,
    flags: InterfaceFlags,
    address: Option<IpAddr>,
}

impl From<InterfaceAddress> for Entry {
    fn from(entry: InterfaceAddress) -> Self {
        let address = entry.address.and_then(|address| {
            let ipv4 = address.as_sockaddr_in().map(|found| found.ip().into());
            ipv4.or_else(|| address.as_sockaddr_in6().map(|found| found.ip().into()))
        });
        Self {
            name: entry.interface_name,
            flags: entry.flags,
            address,
        }
    }
}

fn grouped(entries: impl Iterator<Item = Entry>) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for entry in entries {
        // An address may have a label of its own, `eth0:1`: it is still on
        // `eth0`. Links cannot have a colon in their name.
        let name = entry.name.split(':').next().unwrap_or_default();
        let place = interfaces.iter().position(|found| found.name == name);
        let interface = if let Some(place) = place {
            &mut interfaces[place]
        } else {
            interfaces.push(Interface {
                name: name.to_owned(),
                up: entry.flags.contains(InterfaceFlags::IFF_UP),
                loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                point_to_point: entry.flags.contains(InterfaceFlags::IFF_POINTOPOINT),
                addresses: Vec::new(),
            });
            let last = interfaces.len() - 1;
            &mut interfaces[last]
        };
        interface.addresses.extend(entry.address);
    }
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, flags: InterfaceFlags, address: Option<&str>) -> Entry {
        Entry {
            name: name.to_owned(),
            flags,
            address: address.map(|address| address.parse().unwrap()),
        }
    }

    #[test]
    fn addresses_are_gathered_below_their_links_in_order() {
        let up = InterfaceFlags::IFF_UP;
        let lo = up | InterfaceFlags::IFF_LOOPBACK;
        let tunnel = up | InterfaceFlags::IFF_POINTOPOINT;
        let interfaces = grouped(
            [
                entry("lo", lo, None),
                entry("eth0", up, None),
                entry("eth1", InterfaceFlags::empty(), None),
                entry("wg0", tunnel, None),
                entry("lo", lo, Some("127.0.0.1")),
                entry("eth0", up, Some("192.0.2.1")),
                entry("eth0:1", up, Some("192.0.2.2")),
                entry("eth0", up, Some("2001:db8::1")),
            ]
            .into_iter(),
        );
        let names: Vec<&str> = interfaces.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["lo", "eth0", "eth1", "wg0"]);
        assert!(interfaces[0].loopback && interfaces[0].up);
        assert_eq!(
            interfaces[1].addresses,
            ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|ip| ip.parse::<IpAddr>().unwrap())
        );
        assert!(!interfaces[1].loopback && !interfaces[1].point_to_point);
        assert!(!interfaces[2].up);
        assert!(interfaces[3].point_to_point);
    }

    #[test]
    fn this_machine_has_a_loopback() {
        let interfaces = list().unwrap();
        let lo = interfaces.iter().find(|found| found.loopback).unwrap();
        assert_eq!(lo.name, "lo");
    }
}
