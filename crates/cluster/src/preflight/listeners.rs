//! Who listens on which port, from /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// A TCP socket that waits for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: IpAddr,
    pub port: u16,
    /// By which its process can be found.
    pub inode: u64,
}

/// The process that a socket belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub process: u32,
    pub name: String,
}

/// Every listening socket of the network that the machine below `root` sees.
pub fn listeners(root: &Path) -> Vec<Listener> {
    let table = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let mut found = parsed(&table("proc/net/tcp"));
    found.extend(parsed(&table("proc/net/tcp6")));
    found
}

/// The processes of sockets, by inode. Those of other users are seen by root only.
pub fn owners(root: &Path, inodes: &BTreeSet<u64>) -> BTreeMap<u64, Owner> {
    let mut found = BTreeMap::new();
    if inodes.is_empty() {
        return found;
    }
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten();
    for entry in processes.filter_map(Result::ok) {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten();
        for file in files.filter_map(Result::ok) {
            let Some(inode) = fs::read_link(file.path()).ok().and_then(|to| inode(&to)) else {
                continue;
            };
            if inodes.contains(&inode) {
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                let name = name.trim().to_owned();
                found.entry(inode).or_insert(Owner { process, name });
            }
        }
    }
    found
}

/// Of a link's target, `socket:[1234]`.
fn inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`, where
/// an address is HEX:PORT.
fn parsed(table: &str) -> Vec<Listener> {
    let listener = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (fields.get(1)?, fields.get(3)?);
        if *state != LISTEN {
            return None;
        }
        let (address, port) = local.rsplit_once(':')?;
        Some(Listener {
            address: read_address(address)?,
            port: u16::from_str_radix(port, 16).ok()?,
            inode: fields
                .get(9)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
        })
    };
    table.lines().skip(1).filter_map(listener).collect()
}

/// Words of 32 bits, each as the machine keeps it in memory.
fn read_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let octets: [u8; 16] = words.try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_kernels_table_is_read_as_it_is_written() {
        let port = |listener: std::io::Result<TcpListener>| {
            let listener = listener.unwrap();
            (listener.local_addr().unwrap(), listener)
        };
        let (address, kept) = port(TcpListener::bind("127.0.0.1:0"));
        let found = listeners(Path::new("/"));
        let own = found.iter().find(|one| one.port == address.port()).unwrap();
        assert_eq!(own.address, address.ip());
        let owners = owners(Path::new("/"), &[own.inode].into());
        assert_eq!(owners[&own.inode].process, std::process::id());
        drop(kept);
    }

    #[test]
    fn an_address_of_version_six_has_four_words() {
        let line = "sl\n 0: 00000000000000000000000001000000:2808 0:0 0A 0:0 0:0 0 0 0 77 1\n";
        let found = parsed(line);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].address, IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!((found[0].port, found[0].inode), (10248, 77));
        assert_eq!(parsed("sl\n 0: 01:2808 0:0 01 0 0 0 0 0 77\n"), []);
    }

    #[test]
    fn the_owner_is_whoever_has_the_socket_open() {
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/12");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), "nginx\n").unwrap();
        symlink("socket:[77]", process.join("fd/3")).unwrap();
        symlink("pipe:[78]", process.join("fd/4")).unwrap();
        let found = owners(root.path(), &[77, 78].into());
        let owner = Owner {
            process: 12,
            name: "nginx".to_owned(),
        };
        assert_eq!(found, [(77, owner)].into());
    }
}
