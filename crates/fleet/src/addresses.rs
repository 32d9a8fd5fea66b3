//! Where hollow nodes are to be found: each at a port of its own, at the one address of the
//! machine that they all run on; or, where they have no ports, each at an address of its own,
//! from a range that nobody routes (198.18.0.0/15 is set aside for benchmarks).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 1]);
const LAST: u32 = u32::from_be_bytes([198, 19, 255, 254]);

/// Hands out addresses, the lowest that is free first.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// `None`: nobody listens.
    ports: Option<(IpAddr, RangeInclusive<u16>)>,
    /// Below this one, those that are free are in `returned`.
    next: u32,
    returned: BTreeSet<u32>,
}

impl Addresses {
    pub(crate) fn new(ports: Option<(IpAddr, RangeInclusive<u16>)>) -> Self {
        Self {
            ports,
            next: 0,
            returned: BTreeSet::new(),
        }
    }

    /// `None` when all are taken. With port 0, nobody is to listen there.
    pub(crate) fn take(&mut self) -> Option<SocketAddr> {
        if let Some(number) = self.returned.pop_first() {
            return self.at(number);
        }
        let address = self.at(self.next)?;
        self.next += 1;
        Some(address)
    }

    fn at(&self, number: u32) -> Option<SocketAddr> {
        if let Some((address, ports)) = &self.ports {
            let port = u32::from(*ports.start()).checked_add(number)?;
            let port = u16::try_from(port).ok()?;
            return ports
                .contains(&port)
                .then(|| SocketAddr::new(*address, port));
        }
        let number = FIRST.checked_add(number)?;
        let address = IpAddr::V4(Ipv4Addr::from_bits(number));
        (number <= LAST).then(|| SocketAddr::new(address, 0))
    }

    pub(crate) fn give_back(&mut self, address: SocketAddr) {
        let number = match (&self.ports, address.ip()) {
            (Some((_, ports)), _) => u32::from(address.port()).checked_sub((*ports.start()).into()),
            (None, IpAddr::V4(address)) => address.to_bits().checked_sub(FIRST),
            (None, IpAddr::V6(_)) => None,
        };
        self.returned.extend(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MOST_NODES;

    #[test]
    fn each_address_is_handed_out_once_until_it_comes_back() {
        let mut addresses = Addresses::new(None);
        let taken: BTreeSet<SocketAddr> = std::iter::from_fn(|| addresses.take()).collect();
        assert!(taken.len() >= MOST_NODES, "{}", taken.len());
        assert!(taken.iter().all(|address| address.port() == 0));
        assert_eq!(addresses.take(), None);
        let back = SocketAddr::from(([198, 18, 3, 4], 0));
        addresses.give_back(back);
        assert_eq!(addresses.take(), Some(back));
        assert_eq!(addresses.take(), None);
    }

    #[test]
    fn where_they_listen_they_have_one_address_and_a_port_each() {
        let machine = IpAddr::from([192, 0, 2, 7]);
        let mut addresses = Addresses::new(Some((machine, 65_533..=65_535)));
        let at = |port| Some(SocketAddr::new(machine, port));
        assert_eq!(addresses.take(), at(65_533));
        assert_eq!(addresses.take(), at(65_534));
        assert_eq!(addresses.take(), at(65_535));
        assert_eq!(addresses.take(), None);
        addresses.give_back(SocketAddr::new(machine, 65_534));
        assert_eq!(addresses.take(), at(65_534));
        assert_eq!(addresses.take(), None);
    }
}
