//! The addresses of pods.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// Where pods get their addresses from: one range for each family, and the first
/// is that of the pod's main address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNetwork(Vec<Range>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// The address of the range itself.
    base: IpAddr,
    /// How many bits tell its addresses apart.
    host_bits: u32,
}

/// Why a pod has no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    #[error("{0:?} is no range of addresses; give one such as 10.88.0.0/24 or fd00::/64")]
    NotARange(String),
    #[error("no IP addresses available in range set: {0}; remove pods or widen the range")]
    Exhausted(String),
    #[error("cni plugin not initialized: no pod CIDR was told yet")]
    NotReady,
}

impl Default for PodNetwork {
    fn default() -> Self {
        Self(vec![Range {
            base: IpAddr::V4(Ipv4Addr::new(10, 88, 0, 0)),
            host_bits: 16,
        }])
    }
}

impl FromStr for PodNetwork {
    type Err = NetworkError;

    /// Of a list with commas, as a kubelet tells it, the first of each family.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let mut ranges: Vec<Range> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let range =
                Range::parse(part).ok_or_else(|| NetworkError::NotARange(part.to_owned()))?;
            if ranges
                .iter()
                .all(|known| known.base.is_ipv4() != range.base.is_ipv4())
            {
                ranges.push(range);
            }
        }
        Ok(Self(ranges))
    }
}

impl PodNetwork {
    /// One address of each range that nobody has. Like the plugins of a real
    /// node it goes on from the last one, so that an address is not used again
    /// at once.
    pub(super) fn take(
        &self,
        last: &mut u32,
        taken: &BTreeSet<IpAddr>,
    ) -> Result<Box<[IpAddr]>, NetworkError> {
        let narrowest = self.0.iter().map(Range::last).min().unwrap_or_default();
        // The first of a range is the range's own name, the second its gateway.
        let places = narrowest.saturating_sub(FIRST - 1);
        if places == 0 {
            return Err(self.exhausted());
        }
        let next = |place: u32| FIRST + (place.max(FIRST) - FIRST + 1) % places;
        let mut place = if *last < FIRST { FIRST } else { next(*last) };
        // As many are tried as can be taken, and one more.
        let tries = usize::try_from(places)
            .unwrap_or(usize::MAX)
            .min(taken.len() + 1);
        for _ in 0..tries {
            let addresses: Box<[IpAddr]> = self.0.iter().map(|range| range.at(place)).collect();
            if addresses.iter().all(|address| !taken.contains(address)) {
                *last = place;
                return Ok(addresses);
            }
            place = next(place);
        }
        Err(self.exhausted())
    }

    fn exhausted(&self) -> NetworkError {
        let ranges: Vec<String> = self.0.iter().map(Range::text).collect();
        NetworkError::Exhausted(ranges.join(", "))
    }
}

const FIRST: u32 = 2;

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = width.checked_sub(length.parse().ok()?)?;
        let base = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(host_bits).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Some(Self { base, host_bits })
    }

    /// The number of its last address that a pod can have.
    fn last(&self) -> u32 {
        let highest = 1_u32
            .checked_shl(self.host_bits)
            .map_or(u32::MAX, |size| size - 1);
        // The highest of the old family means all of them.
        highest.saturating_sub(u32::from(self.base.is_ipv4()))
    }

    fn at(&self, place: u32) -> IpAddr {
        match self.base {
            IpAddr::V4(base) => IpAddr::V4(Ipv4Addr::from_bits(base.to_bits() | place)),
            IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits() | u128::from(place))),
        }
    }

    fn text(&self) -> String {
        let width = if self.base.is_ipv4() { 32 } else { 128 };
        format!("{}/{}", self.base, width - self.host_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(addresses: &[IpAddr]) -> Vec<String> {
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_has_an_address_of_each_family() {
        let network: PodNetwork = "10.1.2.3/24, fd00:1::/64,10.9.0.0/16".parse().unwrap();
        let taken = BTreeSet::new();
        let mut last = 0;
        let first = network.take(&mut last, &taken).unwrap();
        assert_eq!(texts(&first), ["10.1.2.2", "fd00:1::2"]);
        let second = network.take(&mut last, &taken).unwrap();
        assert_eq!(texts(&second), ["10.1.2.3", "fd00:1::3"]);
    }

    #[test]
    fn a_full_range_says_so_and_goes_on_when_one_is_given_back() {
        let network: PodNetwork = "192.0.2.0/29".parse().unwrap();
        let mut taken = BTreeSet::new();
        let mut last = 0;
        for place in 2..=6 {
            let address = network.take(&mut last, &taken).unwrap()[0];
            assert_eq!(address.to_string(), format!("192.0.2.{place}"));
            taken.insert(address);
        }
        let refused = network.take(&mut last, &taken).unwrap_err();
        assert_eq!(refused, NetworkError::Exhausted("192.0.2.0/29".to_owned()));
        taken.remove(&"192.0.2.4".parse().unwrap());
        let again = network.take(&mut last, &taken).unwrap();
        assert_eq!(texts(&again), ["192.0.2.4"]);
    }

    #[test]
    fn a_range_without_room_has_no_address_for_anybody() {
        for text in [
            "192.0.2.1/32",
            "192.0.2.0/31",
            "192.0.2.0/30",
            "fd00::1/128",
        ] {
            let network: PodNetwork = text.parse().unwrap();
            let mut last = 0;
            let mut taken = BTreeSet::new();
            // Of four addresses one is left: the others are the range, its
            // gateway and the broadcast.
            let room = usize::from(text.ends_with("/30"));
            for _ in 0..room {
                taken.extend(network.take(&mut last, &taken).unwrap());
            }
            assert!(network.take(&mut last, &taken).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/24,x",
            "fd00::/129",
            "/8",
        ] {
            assert!(text.parse::<PodNetwork>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_widest_range_has_room() {
        let network: PodNetwork = "::/0".parse().unwrap();
        let mut last = u32::MAX;
        assert!(network.take(&mut last, &BTreeSet::new()).is_ok());
    }
}
