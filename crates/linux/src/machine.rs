//! What the machine is made of. Every source is the one that upstream's kubelet
//! reads, so that a node keeps its ids when it changes its agent.

use seams::host::{HostError, MachineFacts};

use crate::files::{Files, Malformed};
use crate::{cpus, huge_pages, selinux};

const MEMORY: &str = "/proc/meminfo";

/// The first that can be read counts.
const APP_ARMOR: &str = "/sys/kernel/security/apparmor";
const APP_ARMOR_SAYS: &str = "/sys/module/apparmor/parameters/enabled";

const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// Firmware of PCs and servers; then of POWER, of POWER guests; and for those
/// whose firmware gives none, the id of the installed system.
const SYSTEM_UUIDS: [&str; 4] = [
    "/sys/class/dmi/id/product_uuid",
    "/proc/device-tree/system-id",
    "/proc/device-tree/vm,uuid",
    "/etc/machine-id",
];

/// A machine with version 2 alone has it at the root of its tree.
const UNIFIED: &str = "/sys/fs/cgroup/cgroup.controllers";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

const OS_RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

pub(crate) fn look(files: &Files) -> Result<MachineFacts, HostError> {
    let kernel = rustix::system::uname();
    let memory = files.text(MEMORY)?;
    Ok(MachineFacts {
        hostname: kernel.nodename().to_string_lossy().into_owned(),
        machine_id: first_readable(files, &MACHINE_IDS),
        system_uuid: first_readable(files, &SYSTEM_UUIDS),
        boot_id: first_readable(files, &[BOOT_ID]),
        kernel_release: kernel.release().to_string_lossy().into_owned(),
        os_image: os_image(files),
        architecture: go_architecture(std::env::consts::ARCH, cfg!(target_endian = "little"))
            .to_owned(),
        cpus: cpus::count(files)?,
        memory: files.parsed(MEMORY, &memory, |text| {
            kibibytes(text, "MemTotal")?.ok_or_else(|| Malformed("it has no MemTotal".to_owned()))
        })?,
        // Kernels without swap may leave it out.
        swap: files
            .parsed(MEMORY, &memory, |text| kibibytes(text, "SwapTotal"))?
            .unwrap_or(0),
        page: rustix::param::page_size() as u64,
        huge_pages: huge_pages::look(files)?,
        cgroup_v1: !files.path(UNIFIED).exists(),
        selinux: selinux::is_on(files),
        app_armor: has_app_armor(files),
    })
}

/// It has its files, and says yes.
fn has_app_armor(files: &Files) -> bool {
    let says = files.text(APP_ARMOR_SAYS).unwrap_or_default();
    files.path(APP_ARMOR).exists() && says.len() > 1 && says.starts_with('Y')
}

/// Empty if none can be read: no id is no reason not to be a node.
fn first_readable(files: &Files, paths: &[&str]) -> String {
    let mut texts = paths.iter().filter_map(|path| files.text(path).ok());
    let text = texts.next().unwrap_or_default();
    // Device trees end their strings with a zero byte.
    text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0')
        .to_owned()
}

/// The name that the distribution gives itself: `Linux` where it gives none, and
/// `Unknown` where it does not say who it is at all.
fn os_image(files: &Files) -> String {
    let mut releases = OS_RELEASES.iter();
    releases
        .find_map(|path| files.text(path).ok())
        .map_or_else(|| "Unknown".to_owned(), |text| pretty_name(&text))
}

fn pretty_name(release: &str) -> String {
    let mut lines = release.lines();
    let value = lines.find_map(|line| line.trim_start().strip_prefix("PRETTY_NAME="));
    let name = value.unwrap_or_default().trim().trim_matches(['"', '\'']);
    if name.is_empty() {
        "Linux".to_owned()
    } else {
        name.to_owned()
    }
}

/// A line `name:   123 kB`, in bytes; `None` if there is no such line.
fn kibibytes(memory: &str, name: &str) -> Result<Option<u64>, Malformed> {
    let mut lines = memory.lines().filter_map(|line| line.split_once(':'));
    let Some((_, value)) = lines.find(|(found, _)| *found == name) else {
        return Ok(None);
    };
    let number = value.trim().strip_suffix("kB");
    let number = number.and_then(|number| number.trim_end().parse::<u64>().ok());
    let bytes = number.and_then(|number| number.checked_mul(1024));
    bytes
        .map(Some)
        .ok_or_else(|| Malformed(format!("{name} is no number of kB:{value}")))
}

/// What Go calls the architecture that Rust calls `rust`: the names that images
/// and node labels use.
fn go_architecture(rust: &str, little_endian: bool) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" if little_endian => "ppc64le",
        "powerpc64" => "ppc64",
        "loongarch64" => "loong64",
        "mips64" if little_endian => "mips64le",
        // arm, riscv64, s390x: the same in both.
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::testing::{put, tree};

    const MEMINFO: &str = "MemTotal:        2048 kB\nMemFree:  7 kB\nSwapTotal:       4 kB\n";

    fn files_of(root: &tempfile::TempDir) -> Files {
        Files::new(root.path().to_owned())
    }

    #[test]
    fn app_armor_is_on_where_it_has_files_and_says_so() {
        let says = "sys/module/apparmor/parameters/enabled";
        let files = "sys/kernel/security/apparmor/profiles";
        for (made, on) in [
            (vec![(says, "Y\n"), (files, "")], true),
            (vec![(says, "N\n"), (files, "")], false),
            (vec![(says, "Y\n")], false),
            (vec![(files, "")], false),
        ] {
            let root = tree(&made);
            let found = has_app_armor(&Files::new(root.path().to_owned()));
            assert_eq!(found, on, "{made:?}");
        }
    }

    #[test]
    fn a_machine_is_the_sum_of_its_files() {
        let root = tree(&[
            ("proc/meminfo", MEMINFO),
            ("etc/machine-id", "0123\n"),
            ("sys/class/dmi/id/product_uuid", "AB-CD\n"),
            ("proc/sys/kernel/random/boot_id", "b-1\n"),
            ("etc/os-release", "ID=x\nPRETTY_NAME=\"X Linux 1\"\n"),
            ("sys/devices/system/cpu/cpu0/uevent", ""),
            (
                "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                "3\n",
            ),
        ]);
        let facts = look(&files_of(&root)).unwrap();
        assert_eq!(facts.machine_id, "0123");
        assert_eq!(facts.system_uuid, "AB-CD");
        assert_eq!(facts.boot_id, "b-1");
        assert_eq!(facts.os_image, "X Linux 1");
        assert_eq!(facts.cpus, 1);
        assert_eq!((facts.memory, facts.swap), (2048 * 1024, 4096));
        assert_eq!(facts.huge_pages.len(), 1);
        assert!(facts.cgroup_v1);
        put(root.path(), "sys/fs/cgroup/cgroup.controllers", "cpu\n");
        assert!(!look(&files_of(&root)).unwrap().cgroup_v1);
        assert!(!facts.hostname.is_empty() && !facts.kernel_release.is_empty());
    }

    #[test]
    fn a_machine_without_memory_figures_is_an_error_that_names_the_file() {
        let root = tree(&[("sys/devices/system/cpu/cpu0/uevent", "")]);
        let files = files_of(&root);
        assert!(look(&files).unwrap_err().what.ends_with("/proc/meminfo"));
        put(root.path(), "proc/meminfo", "SwapTotal: 4 kB\n");
        let error = look(&files).unwrap_err().to_string();
        assert!(
            error.contains("/proc/meminfo: it has no MemTotal"),
            "{error}"
        );
        put(root.path(), "proc/meminfo", "MemTotal: 4 kB\n");
        assert_eq!(look(&files).unwrap().swap, 0);
    }

    #[test]
    fn ids_come_from_the_first_file_that_there_is() {
        let root = tree(&[]);
        let files = files_of(&root);
        assert_eq!(first_readable(&files, &MACHINE_IDS), "");
        put(root.path(), "var/lib/dbus/machine-id", " dbus \n");
        assert_eq!(first_readable(&files, &MACHINE_IDS), "dbus");
        put(root.path(), "etc/machine-id", "etc\n");
        assert_eq!(first_readable(&files, &MACHINE_IDS), "etc");
        assert_eq!(first_readable(&files, &SYSTEM_UUIDS), "etc");
        put(root.path(), "proc/device-tree/vm,uuid", "guest\0");
        assert_eq!(first_readable(&files, &SYSTEM_UUIDS), "guest");
        put(root.path(), "proc/device-tree/system-id", "IBM,1\0");
        assert_eq!(first_readable(&files, &SYSTEM_UUIDS), "IBM,1");
    }

    #[test]
    fn the_os_image_is_the_distributions_pretty_name() {
        for (release, name) in [
            (
                "PRETTY_NAME=\"Debian GNU/Linux 12\"\n",
                "Debian GNU/Linux 12",
            ),
            ("NAME=x\nPRETTY_NAME='Single'\nPRETTY_NAME=no\n", "Single"),
            ("PRETTY_NAME=Bare", "Bare"),
            ("# PRETTY_NAME=no\nOLD_PRETTY_NAME=no\n", "Linux"),
            ("PRETTY_NAME=\"\"\n", "Linux"),
            ("", "Linux"),
        ] {
            assert_eq!(pretty_name(release), name, "{release:?}");
        }
        let root = tree(&[]);
        assert_eq!(os_image(&files_of(&root)), "Unknown");
        put(root.path(), "usr/lib/os-release", "PRETTY_NAME=Stateless\n");
        assert_eq!(os_image(&files_of(&root)), "Stateless");
    }

    #[test]
    fn sizes_are_kibibytes_or_an_error() {
        assert_eq!(kibibytes(MEMINFO, "MemTotal"), Ok(Some(2048 * 1024)));
        assert_eq!(kibibytes(MEMINFO, "Mem"), Ok(None));
        for bad in [
            "MemTotal: 5\n",
            "MemTotal: kB\n",
            "MemTotal: -5 kB\n",
            "MemTotal: 18446744073709551615 kB\n",
            "MemTotal:",
        ] {
            assert!(kibibytes(bad, "MemTotal").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn architectures_have_gos_names() {
        for (rust, little_endian, go) in [
            ("x86_64", true, "amd64"),
            ("aarch64", true, "arm64"),
            ("powerpc64", true, "ppc64le"),
            ("powerpc64", false, "ppc64"),
            ("s390x", false, "s390x"),
            ("riscv64", true, "riscv64"),
        ] {
            assert_eq!(go_architecture(rust, little_endian), go);
        }
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let facts = look(&Files::new(PathBuf::from("/"))).unwrap();
        assert!(facts.cpus > 0 && facts.memory > 0, "{facts:?}");
        assert_eq!(facts.boot_id.len(), 36, "{facts:?}");
    }
}
