//! Which ports the agent is to have, and who has them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use cluster::preflight::{listeners, owners};
use config::settings::Settings;

use crate::doctor::checks::ports::{Taken, Wanted};

pub(super) fn wanted(settings: &Settings) -> Vec<Wanted> {
    let serves = settings.bool("enableServer");
    let ports = [
        ("port", "address", serves),
        ("healthzPort", "healthzBindAddress", true),
        ("readOnlyPort", "address", serves),
    ];
    let wanted = ports.into_iter().filter_map(|(setting, address, on)| {
        let port = u16::try_from(settings.int(setting)).unwrap_or_default();
        let address = settings.text(address).parse();
        (on && port != 0).then(|| Wanted {
            setting,
            address: address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            port,
        })
    });
    wanted.collect()
}

pub(super) fn taken(wanted: &[Wanted]) -> Vec<Taken> {
    let root = Path::new("/");
    let mut found = listeners(root);
    found.retain(|one| wanted.iter().any(|wanted| wanted.port == one.port));
    let inodes: BTreeSet<u64> = found.iter().map(|one| one.inode).collect();
    let owners = owners(root, &inodes);
    let taken = found.into_iter().map(|one| Taken {
        address: one.address,
        port: one.port,
        owner: owners
            .get(&one.inode)
            .map(|owner| (owner.process, owner.name.clone())),
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use config::load::built_in_defaults;

    use super::*;

    #[test]
    fn a_kubelet_with_a_file_has_two_ports() {
        let wanted = wanted(&built_in_defaults(false));
        let ports: Vec<_> = wanted.iter().map(|one| (one.setting, one.port)).collect();
        assert_eq!(ports, [("port", 10250), ("healthzPort", 10248)]);
        assert!(wanted[0].address.is_unspecified());
        assert!(wanted[1].address.is_loopback());
    }
}
