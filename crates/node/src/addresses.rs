//! The addresses of the node: those that it was given, or one that it finds out.

use std::net::{IpAddr, Ipv6Addr};

use k8s_openapi::api::core::v1::NodeAddress;
use seams::host::{DefaultRoute, Interface};
use thiserror::Error;

/// What `--node-ip` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeIp {
    /// Find out one, IPv4 preferred.
    #[default]
    Unset,
    /// `0.0.0.0` or `::`: find out one, that family preferred.
    AnyOf(Family),
    One(IpAddr),
    /// One of each family, the first preferred.
    Two(IpAddr, IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Why a `--node-ip` cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NodeIpError {
    #[error("--node-ip {0:?} must be a single IP, or one of each family with a comma between them")]
    NotAPair(String),
    #[error("--node-ip {0:?}: a pair of addresses cannot include 0.0.0.0 or ::; name both")]
    UnspecifiedInPair(String),
}

/// Why the node has no addresses to tell of at this moment.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("--node-ip {address} cannot be used: {fault}")]
    NodeIp { address: IpAddr, fault: Fault },
    #[error(
        "no address of node {node} can be found: {cause}; give the machine a default route or the node a --node-ip"
    )]
    NoneFound { node: String, cause: NoneFound },
}

/// What is wrong with an address as that of a node.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    #[error("it is a loopback address")]
    Loopback,
    #[error("it is a multicast address")]
    Multicast,
    #[error("it is a link-local address")]
    LinkLocal,
    #[error("it is the address that stands for none")]
    Unspecified,
    #[error("no network interface of this machine has it")]
    NotHere,
}

/// Why looking at routes and interfaces found nothing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoneFound {
    #[error("there are no default routes")]
    NoRoutes,
    #[error("no interface of a default route has a global address")]
    NoAddress,
    #[error("no interface has a global address")]
    NoInterface,
}

/// How the machine is connected, as looked at a moment ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    pub interfaces: Vec<Interface>,
    /// `None` without a routing table.
    pub routes: Option<Vec<DefaultRoute>>,
    /// What the resolver says of the node's name; empty if it knows nothing.
    pub looked_up: Vec<IpAddr>,
}

/// Who a node is on the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub node_name: String,
    pub hostname: String,
    pub node_ip: NodeIp,
    /// `--cloud-provider=external`: somebody else tells of addresses.
    pub external_cloud: bool,
}

/// What the node's object should say.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// `None`: leave what is there.
    pub addresses: Option<Vec<NodeAddress>>,
    /// The value of the annotation [`crate::labels::PROVIDED_NODE_IP`]; `None`: take it away.
    pub provided: Option<String>,
}

impl Family {
    pub fn of(address: IpAddr) -> Self {
        // Go takes an IPv4 address in IPv6 clothes for IPv4.
        if address.to_canonical().is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    fn both(self) -> [Self; 2] {
        match self {
            Self::V4 => [Self::V4, Self::V6],
            Self::V6 => [Self::V6, Self::V4],
        }
    }
}

impl NodeIp {
    /// Reads the flag. What is no address is left out, and returned beside, to
    /// be warned of.
    pub fn read(text: &str) -> Result<(Self, Vec<String>), NodeIpError> {
        let (mut addresses, mut ignored) = (Vec::new(), Vec::new());
        for part in text.split(',').filter(|_| !text.is_empty()) {
            match read_address(part.trim()) {
                Some(address) => addresses.push(address),
                None => ignored.push(part.trim().to_owned()),
            }
        }
        let node_ip = match addresses[..] {
            [] => Self::Unset,
            [one] if one.is_unspecified() => Self::AnyOf(Family::of(one)),
            [one] => Self::One(one),
            [first, second] if Family::of(first) != Family::of(second) => {
                if first.is_unspecified() || second.is_unspecified() {
                    return Err(NodeIpError::UnspecifiedInPair(text.to_owned()));
                }
                Self::Two(first, second)
            }
            _ => return Err(NodeIpError::NotAPair(text.to_owned())),
        };
        Ok((node_ip, ignored))
    }

    /// The family that is looked for first.
    fn preferred(&self) -> Family {
        match self {
            Self::Unset => Family::V4,
            Self::AnyOf(family) => *family,
            Self::One(address) | Self::Two(address, _) => Family::of(*address),
        }
    }

    /// Whether it names an address.
    pub fn is_specific(&self) -> bool {
        matches!(self, Self::One(_) | Self::Two(..))
    }

    fn given(&self) -> Vec<IpAddr> {
        match self {
            Self::Unset | Self::AnyOf(_) => Vec::new(),
            Self::One(address) => vec![*address],
            Self::Two(first, second) => vec![*first, *second],
        }
    }
}

/// As upstream reads addresses: leading zeros in IPv4 are let pass.
fn read_address(text: &str) -> Option<IpAddr> {
    let parsed: Option<IpAddr> = text.parse().ok();
    parsed.map(|address| address.to_canonical()).or_else(|| {
        let octets: Vec<&str> = text.split('.').collect();
        let digits = |octet: &&str| {
            let plain = octet.len() <= 4 && octet.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| octet.parse::<u8>().ok()).flatten()
        };
        let octets: Vec<u8> = octets.iter().filter_map(digits).collect();
        let octets: [u8; 4] = (text.split('.').count() == 4)
            .then(|| octets.try_into().ok())
            .flatten()?;
        Some(IpAddr::from(octets))
    })
}

/// What to tell of the node's addresses. `present`: the object has some already.
pub fn told(identity: &Identity, network: &Network, present: bool) -> Result<Told, AddressError> {
    let given = identity.node_ip.given();
    for &address in &given {
        network
            .check(address)
            .map_err(|fault| AddressError::NodeIp { address, fault })?;
    }
    let written: Vec<String> = given.iter().map(ToString::to_string).collect();
    let provided = (identity.external_cloud && !given.is_empty()).then(|| written.join(","));
    let leave = |addresses| Told {
        addresses,
        provided: provided.clone(),
    };
    if identity.external_cloud && present {
        return Ok(leave(None));
    }
    if identity.external_cloud && identity.node_ip == NodeIp::Unset {
        return Ok(leave(Some(identity.listed(&[]))));
    }
    let internal = if given.is_empty() {
        vec![identity.found(network)?.to_string()]
    } else {
        written
    };
    Ok(leave(Some(identity.listed(&internal))))
}

impl Identity {
    /// Whether the resolver must be asked.
    pub fn needs_lookup(&self) -> bool {
        !self.node_ip.is_specific() && read_address(&self.hostname).is_none()
    }

    fn listed(&self, internal: &[String]) -> Vec<NodeAddress> {
        let entry = |kind: &str, address: &str| NodeAddress {
            type_: kind.to_owned(),
            address: address.to_owned(),
        };
        let mut listed: Vec<NodeAddress> = internal
            .iter()
            .map(|address| entry("InternalIP", address))
            .collect();
        listed.push(entry("Hostname", &self.hostname));
        listed
    }

    /// The one address of a node that was given none.
    fn found(&self, network: &Network) -> Result<IpAddr, AddressError> {
        if let Some(address) = read_address(&self.hostname) {
            return Ok(address);
        }
        let preferred = self.node_ip.preferred();
        if let Some(address) = network.looked_up(preferred) {
            return Ok(address);
        }
        network
            .routed(preferred)
            .map_err(|cause| AddressError::NoneFound {
                node: self.node_name.clone(),
                cause,
            })
    }
}

impl Network {
    /// Whether `address` can be that of this node.
    fn check(&self, address: IpAddr) -> Result<(), Fault> {
        let fault = match address {
            _ if address.is_loopback() => Some(Fault::Loopback),
            _ if address.is_multicast() => Some(Fault::Multicast),
            _ if is_link_local(address) => Some(Fault::LinkLocal),
            _ if address.is_unspecified() => Some(Fault::Unspecified),
            _ => None,
        };
        let mut here = self
            .interfaces
            .iter()
            .flat_map(|interface| &interface.addresses);
        match fault {
            Some(fault) => Err(fault),
            None if here.any(|other| other.to_canonical() == address.to_canonical()) => Ok(()),
            None => Err(Fault::NotHere),
        }
    }

    /// What the resolver says of this machine: the first of the preferred family,
    /// else the first.
    fn looked_up(&self, preferred: Family) -> Option<IpAddr> {
        let looked_up = self.looked_up.iter().map(IpAddr::to_canonical);
        let valid: Vec<IpAddr> = looked_up
            .filter(|address| self.check(*address).is_ok())
            .collect();
        let of_family = valid
            .iter()
            .find(|address| Family::of(**address) == preferred);
        of_family.or(valid.first()).copied()
    }

    /// The address of the interface that leads out.
    fn routed(&self, preferred: Family) -> Result<IpAddr, NoneFound> {
        let Some(routes) = &self.routes else {
            let mut all = preferred.both().into_iter();
            return all
                .find_map(|family| self.any_address(family))
                .ok_or(NoneFound::NoInterface);
        };
        if routes.is_empty() {
            return Err(NoneFound::NoRoutes);
        }
        for family in preferred.both() {
            let of_family = routes
                .iter()
                .filter(|route| route.ipv6 == (family == Family::V6));
            for route in of_family {
                // Where links have no addresses of their own (RFC 5549), the
                // machine's is on its loopback interface.
                let found = self
                    .address_on(family, |interface| interface.name == route.interface)
                    .or_else(|| self.address_on(family, |interface| interface.loopback));
                if let Some(address) = found {
                    return Ok(address);
                }
            }
        }
        Err(NoneFound::NoAddress)
    }

    fn any_address(&self, family: Family) -> Option<IpAddr> {
        self.address_on(family, |interface| {
            !interface.loopback && !interface.point_to_point
        })
    }

    /// The first global address on the interfaces that are up and chosen.
    fn address_on(&self, family: Family, chosen: impl Fn(&Interface) -> bool) -> Option<IpAddr> {
        self.interfaces
            .iter()
            .filter(|interface| interface.up && chosen(interface))
            .flat_map(|interface| &interface.addresses)
            .map(IpAddr::to_canonical)
            .find(|address| Family::of(*address) == family && is_global(*address))
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => is_unicast_link_local(address),
    }
}

fn is_unicast_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Go's global unicast: private addresses are global, too.
fn is_global(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local(address)
}

#[cfg(test)]
mod tests;
