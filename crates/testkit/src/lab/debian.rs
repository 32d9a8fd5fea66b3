//! What the lab takes from Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs::fresh_dir;
use crate::command;

/// A file that shows that a package is there, and the package.
const PACKAGES: &[(&str, &str)] = &[
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/bin/nsenter", "util-linux"),
    ("/usr/bin/awk", "mawk"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/curl", "curl"),
    // What a runc of our own is built with.
    ("/usr/bin/gcc", "gcc"),
    ("/usr/include/stdio.h", "libc6-dev"),
    ("/usr/bin/pkg-config", "pkgconf"),
    ("/usr/include/seccomp.h", "libseccomp-dev"),
];

/// Installs the packages that are missing.
pub fn install_packages() -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(file, _)| !is_there(file))
        .map(|&(_, package)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("lab: installing {} …", missing.join(", "));
    update_package_lists()?;
    command::run(
        Command::new("apt-get")
            .args(["install", "--yes", "--no-install-recommends"])
            .args(&missing)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .with_context(|| format!("the lab needs these packages: {}", missing.join(" ")))?;
    for (file, package) in PACKAGES {
        if !is_there(file) {
            bail!("package {package} is installed and did not bring {file}");
        }
    }
    Ok(())
}

/// On a machine without merged /usr a program may be at the older place.
fn is_there(file: &str) -> bool {
    Path::new(file).exists()
        || file
            .strip_prefix("/usr")
            .is_some_and(|old| Path::new(old).exists())
}

/// Debian's own containerd, the second runtime that we support. Unpacked, not
/// installed: its package would start a service on the host.
pub(super) fn containerd(cache: &Path) -> Result<PathBuf> {
    let finished = cache.join("programs/containerd-debian");
    if finished.exists() {
        return Ok(finished);
    }
    println!("lab: unpacking Debian's containerd …");
    let unpacked = fresh_dir(&finished.with_extension("unpacked"))?;
    let download = || {
        command::run(
            Command::new("apt-get")
                .args(["download", "containerd"])
                .current_dir(&unpacked),
        )
    };
    if download().is_err() {
        // Without package lists nothing is found.
        update_package_lists()?;
        download().context("the lab needs Debian's containerd package")?;
    }
    let package = fs::read_dir(&unpacked)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    command::run(Command::new("dpkg").arg("-x").arg(&package).arg(&unpacked))?;
    let version = command::run(Command::new(unpacked.join("usr/bin/containerd")).arg("--version"))?;
    if !version.contains(" 1.6.") {
        bail!(
            "this Debian's containerd is not 1.6, which the lab tests as the second runtime \
             (Debian 12 has it): {version}"
        );
    }
    let unfinished = fresh_dir(&finished.with_extension("new"))?;
    for program in ["containerd", "containerd-shim-runc-v2", "ctr"] {
        fs::rename(
            unpacked.join("usr/bin").join(program),
            unfinished.join(program),
        )
        .with_context(|| format!("Debian's containerd package has no {program}"))?;
    }
    fs::remove_dir_all(&unpacked)?;
    fs::rename(&unfinished, &finished)?;
    Ok(finished)
}

fn update_package_lists() -> Result<()> {
    command::run(Command::new("apt-get").arg("update"))
        .context("cannot read Debian's package lists: the lab runs on Debian, as root")?;
    Ok(())
}
