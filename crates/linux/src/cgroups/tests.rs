use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::testing::{put, tree};

const POD: &str = "/kubepods/pod1";

const MOUNTINFO: &str = "\
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 / /mnt/elsewhere/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 25 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 25 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
35 25 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
36 25 0:33 / /proc rw - proc proc rw
";

fn version_1() -> (TempDir, Files) {
    let root = tree(&[
        ("proc/self/mountinfo", MOUNTINFO),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.shares", "1024"),
        ("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "9"),
        ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n"),
        ("sys/fs/cgroup/cpuset/cpuset.mems", "0\n"),
        ("sys/fs/cgroup/systemd/tasks", ""),
    ]);
    let files = Files::new(root.path().to_owned());
    (root, files)
}

fn version_2() -> (TempDir, Files) {
    let root = tree(&[
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids io\n"),
        ("sys/fs/cgroup/cgroup.subtree_control", ""),
        ("proc/self/cgroup", "0::/system.slice/me\n"),
    ]);
    let files = Files::new(root.path().to_owned());
    (root, files)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_controllers_of_version_1_come_from_its_mounts_the_shortest_of_each() {
    let (root, files) = version_1();
    let hierarchies = Hierarchies::look(&files).unwrap();
    let facts = hierarchies.facts(&files).unwrap();
    assert_eq!(facts.version, CgroupVersion::V1);
    assert_eq!(
        facts.controllers,
        names(&["cpu", "cpuacct", "cpuset", "memory"])
    );
    assert!(facts.swap);
    let cpu = hierarchies.of("cpu").unwrap();
    assert_eq!(cpu.root, root.path().join("sys/fs/cgroup/cpu,cpuacct"));
}

#[test]
fn the_controllers_of_version_2_are_those_of_its_root() {
    let (root, files) = version_2();
    let look = || Hierarchies::look(&files).unwrap().facts(&files).unwrap();
    assert_eq!(look().version, CgroupVersion::V2);
    assert_eq!(look().controllers, names(&["cpu", "io", "memory", "pids"]));
    assert!(!look().swap);
    put(
        root.path(),
        "sys/fs/cgroup/system.slice/me/memory.swap.max",
        "max",
    );
    assert!(look().swap);
}

#[test]
fn a_machine_without_cgroups_says_what_to_do() {
    let root = tree(&[(
        "proc/self/mountinfo",
        "36 25 0:33 / /proc rw - proc proc rw\n",
    )]);
    let error = Hierarchies::look(&Files::new(root.path().to_owned())).unwrap_err();
    assert!(error.to_string().contains("mount cgroup2"), "{error}");
}

#[test]
fn a_group_of_version_1_is_made_in_every_hierarchy_with_its_parents_cpus() {
    let (root, files) = version_1();
    let hierarchies = Hierarchies::look(&files).unwrap();
    // The kernel would put these files into a new group.
    for group in ["kubepods", "kubepods/pod1"] {
        put(
            root.path(),
            &format!("sys/fs/cgroup/cpuset/{group}/cpuset.cpus"),
            "\n",
        );
        put(
            root.path(),
            &format!("sys/fs/cgroup/cpuset/{group}/cpuset.mems"),
            "\n",
        );
    }
    assert!(!hierarchies.has(Path::new(POD)).unwrap());
    hierarchies.make(Path::new(POD)).unwrap();
    hierarchies.make(Path::new(POD)).unwrap();
    for hierarchy in ["cpu,cpuacct", "memory", "cpuset", "systemd"] {
        let group = root
            .path()
            .join("sys/fs/cgroup")
            .join(hierarchy)
            .join("kubepods/pod1");
        assert!(group.is_dir(), "{group:?}");
    }
    let cpuset = files
        .text("/sys/fs/cgroup/cpuset/kubepods/pod1/cpuset.cpus")
        .unwrap();
    assert_eq!(cpuset, "0-3");
    assert!(hierarchies.has(Path::new(POD)).unwrap());
}

#[test]
fn a_group_of_version_2_gets_every_controller_of_those_above() {
    let (root, files) = version_2();
    put(
        root.path(),
        "sys/fs/cgroup/kubepods/cgroup.subtree_control",
        "",
    );
    let hierarchies = Hierarchies::look(&files).unwrap();
    hierarchies.make(Path::new(POD)).unwrap();
    for above in ["", "kubepods/"] {
        let file = format!("/sys/fs/cgroup/{above}cgroup.subtree_control");
        assert_eq!(files.text(file).unwrap(), "+cpu +io +memory +pids");
    }
    assert!(
        !hierarchies.has(Path::new(POD)).unwrap(),
        "not without controllers"
    );
    let controllers = "sys/fs/cgroup/kubepods/pod1/cgroup.controllers";
    put(root.path(), controllers, "cpu memory\n");
    assert!(
        !hierarchies.has(Path::new(POD)).unwrap(),
        "not without pids"
    );
    put(root.path(), controllers, "cpu memory pids\n");
    assert!(
        hierarchies.has(Path::new(POD)).unwrap(),
        "nobody relies on io"
    );
}

#[test]
fn values_go_to_the_files_of_their_controllers_and_none_is_made() {
    let (root, files) = version_1();
    let hierarchies = Hierarchies::look(&files).unwrap();
    let shares = "sys/fs/cgroup/cpu,cpuacct/kubepods/pod1/cpu.shares";
    put(root.path(), shares, "1024");
    put(root.path(), "sys/fs/cgroup/memory/kubepods/pod1/tasks", "");
    let write = |value: CgroupValue| hierarchies.write(Path::new(POD), &[value]);
    write(CgroupValue::new("cpu.shares", 2)).unwrap();
    assert_eq!(files.text(format!("/{shares}")).unwrap(), "2");
    // No such controller; no such file, and nobody minds; no such file.
    write(CgroupValue::new("hugetlb.2MB.limit_in_bytes", 0)).unwrap();
    write(CgroupValue::new("memory.limit_in_bytes", 5).optional()).unwrap();
    let error = write(CgroupValue::new("memory.limit_in_bytes", 5)).unwrap_err();
    assert!(
        error.what.ends_with("pod1/memory.limit_in_bytes"),
        "{error}"
    );
    let made = root
        .path()
        .join("sys/fs/cgroup/memory/kubepods/pod1/memory.limit_in_bytes");
    assert!(!made.exists());
}

#[test]
fn groups_are_listed_from_all_hierarchies_and_removed_with_those_below() {
    let (root, files) = version_1();
    let hierarchies = Hierarchies::look(&files).unwrap();
    let parent = Path::new("/kubepods");
    assert_eq!(hierarchies.below(parent).unwrap(), [""; 0]);
    hierarchies.make(&parent.join("pod1/container")).unwrap();
    let stray = root.path().join("sys/fs/cgroup/memory/kubepods/pod2");
    fs::create_dir(stray).unwrap();
    assert_eq!(hierarchies.below(parent).unwrap(), ["pod1", "pod2"]);
    hierarchies.remove(&parent.join("pod1")).unwrap();
    hierarchies.remove(&parent.join("pod1")).unwrap();
    assert_eq!(hierarchies.below(parent).unwrap(), ["pod2"]);
}

#[test]
fn what_is_left_in_a_group_is_killed() {
    let (root, files) = version_2();
    let mut left = Command::new("sleep").arg("600").spawn().unwrap();
    let list = "sys/fs/cgroup/kubepods/pod1/container/cgroup.procs";
    put(root.path(), list, &format!("{}\n", left.id()));
    let hierarchies = Hierarchies::look(&files).unwrap();
    // A group that stands in a real directory cannot be removed with its files.
    assert!(hierarchies.remove(Path::new(POD)).is_err());
    assert_eq!(left.wait().unwrap().signal(), Some(9));
}

#[test]
fn neither_init_nor_ourselves_are_among_the_processes_of_a_group() {
    let found = processes("0\n1\n-4\n17\nx\n\n18\n");
    let found: Vec<i32> = found
        .into_iter()
        .map(Pid::as_raw_nonzero)
        .map(i32::from)
        .collect();
    assert_eq!(found, [17, 18]);
}
