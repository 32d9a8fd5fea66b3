//! How many CPUs there are, counted as upstream counts them: those of the NUMA
//! nodes that are online and have a place in the topology. It need not be what
//! this process may run on.

use seams::host::HostError;
use types::CpuSet;

use crate::files::{Files, Malformed};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

pub(crate) fn count(files: &Files) -> Result<u32, HostError> {
    let nodes = numbered(files, NODES, "node")?;
    let online = online(files)?;
    let mut count = 0;
    for node in nodes {
        let directory = format!("{NODES}/node{node}");
        for cpu in numbered(files, &directory, "cpu")? {
            let is_online = online.as_ref().is_none_or(|online| online.contains(cpu));
            if is_online && has_place(files, &format!("{directory}/cpu{cpu}"))? {
                count += 1;
            }
        }
    }
    if count > 0 {
        return Ok(count);
    }
    // Kernels without NUMA, and guests that show no topology.
    let cpus = numbered(files, CPUS, "cpu")?;
    files.parsed(CPUS, "", |_| match u32::try_from(cpus.len()) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Malformed("it has no CPUs".to_owned())),
    })
}

/// The numbers in `prefix0`, `prefix1`, …; nothing else in the directory counts.
fn numbered(files: &Files, directory: &str, prefix: &str) -> Result<Vec<u32>, HostError> {
    let names = files.names(directory)?.unwrap_or_default();
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_prefix(prefix))
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|digits| digits.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// `None` where CPUs cannot be put off line.
fn online(files: &Files) -> Result<Option<CpuSet>, HostError> {
    let path = format!("{CPUS}/online");
    let Some(text) = files.optional_text(&path)? else {
        return Ok(None);
    };
    files
        .parsed(&path, &text, |text| {
            let list = text.trim();
            let cpus: Result<CpuSet, _> = list.parse();
            cpus.map_err(|error| Malformed(format!("no list of CPUs, {list:?}: {error}")))
        })
        .map(Some)
}

fn has_place(files: &Files, cpu: &str) -> Result<bool, HostError> {
    for file in ["core_id", "physical_package_id"] {
        let path = format!("{cpu}/topology/{file}");
        if files.optional_text(path)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{put, tree};

    fn machine(nodes: &[(u32, &[u32])]) -> tempfile::TempDir {
        let root = tree(&[]);
        for (node, cpus) in nodes {
            put(
                root.path(),
                &format!("sys/devices/system/node/node{node}/meminfo"),
                "",
            );
            for cpu in *cpus {
                for file in ["core_id", "physical_package_id"] {
                    let path =
                        format!("sys/devices/system/node/node{node}/cpu{cpu}/topology/{file}");
                    put(root.path(), &path, "0\n");
                }
                put(
                    root.path(),
                    &format!("sys/devices/system/cpu/cpu{cpu}/uevent"),
                    "",
                );
            }
        }
        root
    }

    fn counted(root: &tempfile::TempDir) -> Result<u32, HostError> {
        count(&Files::new(root.path().to_owned()))
    }

    #[test]
    fn the_cpus_of_all_nodes_count_if_they_are_online() {
        let root = machine(&[(0, &[0, 1]), (1, &[2, 3]), (2, &[])]);
        assert_eq!(counted(&root).unwrap(), 4);
        put(root.path(), "sys/devices/system/node/has_cpu", "0-1\n");
        put(root.path(), "sys/devices/system/cpu/cpufreq/x", "");
        for (online, expected) in [("0-3\n", 4), ("0-1,3\n", 3), ("2\n", 1)] {
            put(root.path(), "sys/devices/system/cpu/online", online);
            assert_eq!(counted(&root).unwrap(), expected, "{online}");
        }
        for bad in ["a\n", "3-1\n", "1-\n"] {
            put(root.path(), "sys/devices/system/cpu/online", bad);
            let error = counted(&root).unwrap_err();
            assert!(error.what.ends_with("cpu/online"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn a_cpu_without_a_place_in_the_topology_does_not_count() {
        let root = machine(&[(0, &[0, 1])]);
        let core = "sys/devices/system/node/node0/cpu1/topology/core_id";
        std::fs::remove_file(root.path().join(core)).unwrap();
        assert_eq!(counted(&root).unwrap(), 1);
    }

    #[test]
    fn without_nodes_all_cpus_count() {
        let root = machine(&[(0, &[0, 1, 2])]);
        put(root.path(), "sys/devices/system/cpu/cpuidle/x", "");
        std::fs::remove_dir_all(root.path().join("sys/devices/system/node")).unwrap();
        assert_eq!(counted(&root).unwrap(), 3);
        std::fs::remove_dir_all(root.path().join("sys/devices/system/cpu")).unwrap();
        let error = counted(&root).unwrap_err().to_string();
        assert!(error.contains("it has no CPUs"), "{error}");
    }
}
