use std::path::PathBuf;

use seams::Host as _;
use seams::host::{
    CpuFigures, Depth, DiskActivity, GroupFigures, GroupLimits, InterfaceFigures, IoCost,
    MemoryFigures, MoreOperations, Operations, Pressure, ProcessFigures, Traffic, Waits,
};
use tempfile::TempDir;

use super::parse;
use crate::LinuxHost;
use crate::testing::{put, tree};

const MOUNTS: &str = "\
30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 25 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 25 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
";

const POD: &str = "kubepods/pod1";

fn host(root: &TempDir) -> LinuxHost {
    LinuxHost::new(root.path().to_owned())
}

fn look(root: &TempDir, group: &str, depth: Depth) -> Option<GroupFigures> {
    let path = PathBuf::from("/").join(group);
    let found = host(root).group_figures(&path, depth).unwrap();
    // As old as the test.
    found.map(|found| GroupFigures {
        created: None,
        ..found
    })
}

fn version_1() -> TempDir {
    let root = tree(&[("proc/self/mountinfo", MOUNTS)]);
    let files = [
        ("cpu,cpuacct", "cpuacct.usage", "123456789\n"),
        ("cpu,cpuacct", "cpuacct.stat", "user 7\nsystem 5\n"),
        (
            "cpu,cpuacct",
            "cpu.stat",
            "nr_periods 10\nnr_throttled 3\nthrottled_time 99\nnr_bursts 1\nburst_time 8\n",
        ),
        ("cpu,cpuacct", "cpu.shares", "512\n"),
        ("cpu,cpuacct", "cpu.cfs_period_us", "100000\n"),
        ("cpu,cpuacct", "cpu.cfs_quota_us", "-1\n"),
        ("memory", "cgroup.procs", "41\n42\n"),
        (
            "memory",
            "memory.stat",
            "cache 1\nrss 2\npgfault 11\npgmajfault 12\ntotal_cache 300\ntotal_rss 400\n\
             total_swap 50\ntotal_mapped_file 60\ntotal_inactive_file 70\ntotal_active_file 80\n\
             total_pgfault 1000\n",
        ),
        ("memory", "memory.usage_in_bytes", "1000\n"),
        ("memory", "memory.max_usage_in_bytes", "2000\n"),
        ("memory", "memory.failcnt", "4\n"),
        ("memory", "memory.kmem.usage_in_bytes", "33\n"),
        ("memory", "memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory", "memory.memsw.limit_in_bytes", "5000\n"),
        ("memory", "memory.soft_limit_in_bytes", "6000\n"),
        (
            "memory",
            "memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        ),
        ("pids", "pids.current", "9\n"),
        ("pids", "pids.max", "max\n"),
        (
            "blkio",
            "blkio.throttle.io_serviced_recursive",
            "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 0\n8:0 Discard 0\n8:0 Total 3\nTotal 3\n",
        ),
        (
            "blkio",
            "blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 1\n8:0 Async 2\n8:0 Discard 3\n8:0 Total 12288\nTotal 12288\n",
        ),
    ];
    for (hierarchy, file, content) in files {
        let path = format!("sys/fs/cgroup/{hierarchy}/{POD}/{file}");
        put(root.path(), &path, content);
    }
    root
}

/// A process of which the kernel shows what it has open.
fn process(root: &TempDir, number: u32, links: &[&str]) {
    let own = root.path().join(format!("proc/{number}"));
    std::fs::create_dir_all(own.join("fd")).unwrap();
    for (index, link) in links.iter().enumerate() {
        std::os::unix::fs::symlink(link, own.join(format!("fd/{index}"))).unwrap();
    }
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                  Max open files            1024                 4096                 files\n";
    std::fs::write(own.join("limits"), limits).unwrap();
}

#[test]
fn a_group_of_version_1_is_read_from_every_hierarchy() {
    let root = version_1();
    process(&root, 41, &["/dev/null", "socket:[1]", "pipe:[2]"]);
    let memory = MemoryFigures {
        usage: 1000,
        peak: 2000,
        refusals: 4,
        cache: 300,
        rss: 400,
        swap: 50,
        kernel: 33,
        mapped_files: 60,
        active_files: 80,
        inactive_files: 70,
        page_faults: 11,
        major_page_faults: 12,
        killed: 2,
    };
    assert_eq!(memory.working_set(), 930);
    let wanted = GroupFigures {
        cpu: CpuFigures {
            total: 123_456_789,
            user: 70_000_000,
            system: 50_000_000,
            periods: 10,
            throttled_periods: 3,
            throttled: 99,
            burst_periods: 1,
            burst: 8,
        },
        memory,
        limits: GroupLimits {
            cpu_shares: 512,
            cpu_period: 100_000,
            cpu_quota: None,
            memory: 9_223_372_036_854_771_712,
            swap: 5000,
            reserved_memory: 6000,
            threads: None,
        },
        processes: ProcessFigures {
            count: 2,
            first: Some(41),
            threads: 9,
            open_files: 3,
            sockets: 1,
            most_open_files: Some(1024),
        },
        disks: vec![DiskActivity {
            major: 8,
            minor: 0,
            bytes: Operations {
                read: 4096,
                write: 8192,
                more: Some(MoreOperations {
                    sync: 1,
                    async_: 2,
                    discard: 3,
                    total: 12288,
                }),
            },
            operations: Operations {
                read: 1,
                write: 2,
                more: Some(MoreOperations {
                    sync: 3,
                    total: 3,
                    ..MoreOperations::default()
                }),
            },
            cost: None,
        }],
        ..GroupFigures::default()
    };
    assert_eq!(look(&root, POD, Depth::Everything), Some(wanted.clone()));
    let less = look(&root, POD, Depth::Usage).unwrap();
    assert_eq!(less.cpu.total, wanted.cpu.total);
    assert_eq!(less.memory.working_set(), 930);
    assert_eq!((less.cpu.user, less.processes.count), (0, 0));
    let between = look(&root, POD, Depth::Processes).unwrap();
    assert_eq!(
        (between.processes.count, between.processes.open_files),
        (2, 0)
    );
    assert_eq!(look(&root, "kubepods/pod2", Depth::Usage), None);
    let host = host(&root);
    let time = |path: &str| host.cpu_time(&PathBuf::from(path)).unwrap();
    assert_eq!(time("/kubepods/pod1"), Some(123_456_789));
    assert_eq!(time("/kubepods/pod2"), None);
    let first = |path: &str| host.first_process(&PathBuf::from(path)).unwrap();
    assert_eq!(first("/kubepods/pod1"), Some(41));
    assert_eq!(first("/kubepods/pod2"), None);
}

#[test]
fn a_swap_limit_of_version_1_is_not_asked_for_where_nothing_above_has_one_either() {
    let own = 5000;
    for (above, wanted) in [
        ("", own),
        ("hierarchical_memsw_limit 4000\n", own),
        (
            "hierarchical_memsw_limit 9223372036854771712\n",
            9_223_372_036_854_771_712,
        ),
        // With pages of 64 KiB.
        (
            "hierarchical_memsw_limit 9223372036854710272\n",
            9_223_372_036_854_710_272,
        ),
    ] {
        let root = version_1();
        let file = format!("sys/fs/cgroup/memory/{POD}/memory.stat");
        put(
            root.path(),
            &file,
            &format!("cache 1\n{above}total_cache 300\n"),
        );
        let found = look(&root, POD, Depth::Usage).unwrap();
        assert_eq!(
            (found.limits.swap, found.memory.cache),
            (wanted, 300),
            "{above:?}"
        );
    }
}

fn version_2() -> TempDir {
    let root = tree(&[("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n")]);
    let files = [
        (
            "cpu.stat",
            "usage_usec 2000\nuser_usec 1200\nsystem_usec 800\nnr_periods 5\nnr_throttled 2\n\
             throttled_usec 30\nnr_bursts 1\nburst_usec 4\n",
        ),
        ("cpu.weight", "100\n"),
        ("cpu.max", "50000 100000\n"),
        (
            "cpu.pressure",
            "some avg10=1.50 avg60=0.25 avg300=0.10 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
        ),
        (
            "memory.stat",
            "anon 400\nfile 300\nkernel 33\nfile_mapped 60\ninactive_file 70\nactive_file 80\n\
             pgfault 11\npgmajfault 12\n",
        ),
        ("memory.current", "1000\n"),
        ("memory.peak", "2000\n"),
        ("memory.max", "max\n"),
        ("memory.min", "6000\n"),
        ("memory.swap.current", "50\n"),
        ("memory.swap.max", "0\n"),
        ("memory.events", "low 0\nhigh 0\nmax 0\noom 3\noom_kill 2\n"),
        ("pids.current", "9\n"),
        ("pids.max", "100\n"),
        ("cgroup.procs", "41\n"),
        (
            "io.stat",
            "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0 cost.usage=6\n254:16 \n",
        ),
    ];
    for (file, content) in files {
        put(root.path(), &format!("sys/fs/cgroup/{POD}/{file}"), content);
    }
    root
}

#[test]
fn a_group_of_version_2_tells_the_same_and_of_pressure() {
    let root = version_2();
    let found = look(&root, POD, Depth::Everything).unwrap();
    let wanted = GroupFigures {
        cpu: CpuFigures {
            total: 2_000_000,
            user: 1_200_000,
            system: 800_000,
            periods: 5,
            throttled_periods: 2,
            throttled: 30_000,
            burst_periods: 1,
            burst: 4000,
        },
        memory: MemoryFigures {
            usage: 1000,
            peak: 2000,
            refusals: 0,
            cache: 300,
            rss: 400,
            swap: 50,
            kernel: 33,
            mapped_files: 60,
            active_files: 80,
            inactive_files: 70,
            page_faults: 11,
            major_page_faults: 12,
            killed: 2,
        },
        limits: GroupLimits {
            cpu_shares: 2597,
            cpu_period: 100_000,
            cpu_quota: Some(50_000),
            memory: u64::MAX,
            swap: 0,
            reserved_memory: 6000,
            threads: Some(100),
        },
        processes: ProcessFigures {
            count: 1,
            first: Some(41),
            threads: 9,
            ..ProcessFigures::default()
        },
        disks: vec![
            DiskActivity {
                major: 8,
                minor: 0,
                bytes: Operations {
                    read: 4096,
                    write: 8192,
                    more: None,
                },
                operations: Operations {
                    read: 1,
                    write: 2,
                    more: None,
                },
                cost: Some(IoCost {
                    usage: 6,
                    ..IoCost::default()
                }),
            },
            DiskActivity {
                major: 254,
                minor: 16,
                ..DiskActivity::default()
            },
        ],
        pressure: seams::host::Pressures {
            cpu: Pressure {
                full: Waits {
                    total: 5,
                    ..Waits::default()
                },
                some: Waits {
                    total: 77,
                    of_10: 1.5,
                    of_60: 0.25,
                    of_300: 0.1,
                },
            },
            ..seams::host::Pressures::default()
        },
        created: None,
    };
    assert_eq!(found, wanted);
    let time = host(&root).cpu_time(&PathBuf::from("/kubepods/pod1"));
    assert_eq!(time.unwrap(), Some(2_000_000));
}

#[test]
fn the_root_of_version_2_has_no_limits_and_its_use_is_summed_up() {
    let root = version_2();
    put(root.path(), "sys/fs/cgroup/cpu.stat", "usage_usec 9\n");
    put(
        root.path(),
        "sys/fs/cgroup/memory.stat",
        "anon 400\nfile 300\ninactive_file 100\n",
    );
    put(
        root.path(),
        "proc/meminfo",
        "MemTotal:  100 kB\nSwapTotal:      10 kB\nSwapFree:       4 kB\n",
    );
    let found = look(&root, "", Depth::Usage).unwrap();
    assert_eq!(found.memory.usage, 700);
    assert_eq!(found.memory.working_set(), 600);
    assert_eq!(found.memory.swap, 6 * 1024);
    assert_eq!(found.cpu.total, 9000);
}

#[test]
fn a_group_knows_when_it_was_made() {
    for root in [version_1(), version_2()] {
        let path = PathBuf::from("/").join(POD);
        let found = host(&root).group_figures(&path, Depth::Processes).unwrap();
        assert!(found.unwrap().created.is_some());
    }
}

#[test]
fn interfaces_are_those_that_carry_something_of_the_pods() {
    let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0: 2000       20    2    3    0     0          0         0     4000      40    4    5    0     0       0          0
veth12:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
";
    let root = tree(&[("proc/7/net/dev", text)]);
    let wanted = InterfaceFigures {
        name: "eth0".to_owned(),
        received: Traffic {
            bytes: 2000,
            packets: 20,
            errors: 2,
            dropped: 3,
        },
        sent: Traffic {
            bytes: 4000,
            packets: 40,
            errors: 4,
            dropped: 5,
        },
    };
    let host = host(&root);
    assert_eq!(host.network_figures(7).unwrap(), Some(vec![wanted]));
    assert_eq!(host.network_figures(8).unwrap(), None);
}

#[test]
fn what_nobody_understands_is_passed_over() {
    assert_eq!(parse::number("max\n"), Some(u64::MAX));
    assert_eq!(parse::number("-1\n"), None);
    assert_eq!(parse::pressure("half avg10=1\n"), Pressure::default());
    assert_eq!(parse::cpu_max("max 100000\n"), Some((None, 100_000)));
    assert_eq!(parse::cpu_max(""), None);
    for (weight, shares) in [(0, 0), (1, 2), (100, 2597), (10_000, 262_144), (10_001, 0)] {
        assert_eq!(parse::shares_of_weight(weight), shares);
    }
    assert_eq!(parse::processes("0.1 0.2 0.3 1/345 99\n"), Some(345));
    let limits = "Max open files            unlimited            unlimited            files\n";
    assert_eq!(parse::most_open_files(limits), Some(u64::MAX));
    assert_eq!(parse::most_open_files(""), None);
    let mut disks = Vec::new();
    parse::block_io_2("nonsense a=b\n8:x rbytes=1\n", &mut disks);
    assert!(disks.is_empty());
}

/// On the machine that runs the tests, whichever version it has.
#[test]
fn this_machines_root_tells_of_itself() {
    let host = LinuxHost::new(PathBuf::from("/"));
    let Ok(Some(found)) = host.group_figures(&PathBuf::from("/"), Depth::Everything) else {
        return;
    };
    assert!(found.cpu.total > 0, "{found:?}");
    assert!(found.memory.usage >= found.memory.working_set());
    assert!(found.processes.count > 0, "{found:?}");
}
