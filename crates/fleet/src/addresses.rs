//! The addresses of simulated machines: each its own, from a range that nobody
//! routes (198.18.0.0/15 is set aside for benchmarks).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 1]);
const LAST: u32 = u32::from_be_bytes([198, 19, 255, 254]);

/// Hands out addresses, the lowest that is free first.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Below this one, those that are free are in `returned`.
    next: u32,
    returned: BTreeSet<u32>,
}

impl Addresses {
    /// `None` when all are taken.
    pub(crate) fn take(&mut self) -> Option<IpAddr> {
        let number = if let Some(number) = self.returned.pop_first() {
            number
        } else {
            let number = FIRST.checked_add(self.next)?;
            self.next += 1;
            (number <= LAST).then_some(number)?
        };
        Some(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    pub(crate) fn give_back(&mut self, address: IpAddr) {
        if let IpAddr::V4(address) = address {
            self.returned.insert(address.to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MOST_NODES;

    #[test]
    fn each_address_is_handed_out_once_until_it_comes_back() {
        let mut addresses = Addresses::default();
        let taken: BTreeSet<IpAddr> = std::iter::from_fn(|| addresses.take()).collect();
        assert!(taken.len() >= MOST_NODES, "{}", taken.len());
        assert_eq!(addresses.take(), None);
        let back = IpAddr::from([198, 18, 3, 4]);
        addresses.give_back(back);
        assert_eq!(addresses.take(), Some(back));
        assert_eq!(addresses.take(), None);
    }
}
