//! A machine of the lab: namespaces of its own for mounts, network, host name,
//! processes and cgroups, with an init. The control plane lives in one, each
//! node in another. Its end is certain: kill its cgroup, and the kernel takes
//! processes, mounts and links with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

use super::cgroup::Cgroup;
use super::daemon::Daemon;
use super::layout::{self, Layout};
use crate::{command, wait};

const BOOT: &str = include_str!("../../../../lab/machine/boot.sh");
const LAUNCH: &str = include_str!("../../../../lab/machine/launch.sh");
const ENTER: &str = include_str!("../../../../lab/machine/enter.sh");

/// All that decides how a machine is made.
pub(super) const SCRIPTS: [&str; 3] = [BOOT, LAUNCH, ENTER];

/// Where a machine finds the lab's programs, and `PATH` in it.
pub(super) const PROGRAMS: &str = "/opt/lab/bin";
const PATH: &str = "/opt/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Clone, Debug)]
pub struct Machine {
    name: String,
    dir: PathBuf,
    cgroup: Cgroup,
    init: Pid,
}

impl Machine {
    /// Boots a machine. What it shall find in its files is written with
    /// [`Machine::write`] afterwards.
    pub fn boot(layout: &Layout, name: &str, programs: &Path) -> Result<Self> {
        let dir = layout.machine_dir(name);
        let cgroup = cgroup_of(layout, name);
        fs::create_dir_all(dir.join("fs/opt/lab/run"))?;
        cgroup.create()?;
        let log = fs::File::create(dir.join("boot.log"))?;
        let mut launcher = Command::new("setsid");
        launcher
            .args(["--fork", "sh", "-c", LAUNCH, "launch", cgroup.path(), BOOT])
            .args([&dir, Path::new(name), programs, &layout::workspace()])
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let status = launcher
            .status()
            .with_context(|| format!("cannot run {}", command::line(&launcher)))?;
        if !status.success() {
            bail!("cannot start lab machine {name}: {status}");
        }
        wait::until(
            &format!("lab machine {name} to boot"),
            Duration::from_secs(60),
            || {
                Self::open(layout, name)?
                    .with_context(|| fs::read_to_string(dir.join("boot.log")).unwrap_or_default())
            },
        )
    }

    /// The machine of that name, if it runs.
    pub fn open(layout: &Layout, name: &str) -> Result<Option<Self>> {
        let dir = layout.machine_dir(name);
        let cgroup = cgroup_of(layout, name);
        let Ok(text) = fs::read_to_string(dir.join("init.pid")) else {
            return Ok(None);
        };
        let init = text.trim().parse().ok().and_then(Pid::from_raw);
        // The id may be stale, even another program's by now: only a process
        // in the machine's cgroup is its init.
        Ok(init.filter(|&pid| cgroup.holds(pid)).map(|init| Self {
            name: name.to_owned(),
            dir,
            cgroup,
            init,
        }))
    }

    /// Ends it with all that runs in it and removes what it left on disk.
    /// Works as well on what a crash left of one.
    pub fn destroy(layout: &Layout, name: &str) -> Result<()> {
        cgroup_of(layout, name).destroy()?;
        let dir = layout.machine_dir(name);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", dir.display()))
            }
            _ => Ok(()),
        }
    }

    /// Of everything in it.
    pub(super) fn cpu(&self) -> Result<Duration> {
        self.cgroup.cpu()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host's id of its first process.
    pub fn init(&self) -> Pid {
        self.init
    }

    /// Where the host finds a file of the machine's `/var` or `/opt`.
    pub fn file(&self, path: &str) -> PathBuf {
        below(&self.dir.join("fs"), path)
    }

    /// Where the host finds any file of the machine, through its own mounts:
    /// for `/run`, for volumes, for sockets.
    pub fn root(&self, path: &str) -> PathBuf {
        let init = self.init.as_raw_nonzero();
        below(&PathBuf::from(format!("/proc/{init}/root")), path)
    }

    /// Writes a file as seen from inside, with its directories.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let target = self.root(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))
    }

    /// A command that will run inside, with the lab's programs on its `PATH`
    /// and nothing else of the caller's environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", ENTER, "enter", self.cgroup.path()])
            .arg(self.init.as_raw_nonzero().to_string())
            .arg(program)
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/var/tmp");
        command
    }

    /// Runs `program` inside to its end and answers what it printed.
    pub fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<String> {
        command::run(self.command(program).args(arguments))
            .with_context(|| format!("in lab machine {}", self.name))
    }

    /// Runs `ip -batch` in its network with these lines; processes, to whom
    /// links may be given, are named by the host's ids.
    pub fn ip(&self, lines: &[String]) -> Result<()> {
        let init = self.init.as_raw_nonzero().to_string();
        let mut ip = Command::new("nsenter");
        ip.args(["--target", &init, "--net", "ip", "-batch", "-"]);
        command::run_with_input(&mut ip, lines.join("\n").as_bytes())
            .with_context(|| format!("in lab machine {}: {lines:?}", self.name))?;
        Ok(())
    }

    pub fn daemon(&self, name: &str) -> Daemon {
        Daemon::new(self.clone(), name)
    }

    /// Every daemon that was ever started in it.
    pub fn daemons(&self) -> Result<Vec<Daemon>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.file("/opt/lab/run"))? {
            let file_name = entry?.file_name();
            names.extend(
                file_name
                    .to_string_lossy()
                    .strip_suffix(".json")
                    .map(str::to_owned),
            );
        }
        names.sort();
        Ok(names.iter().map(|name| self.daemon(name)).collect())
    }
}

fn cgroup_of(layout: &Layout, machine: &str) -> Cgroup {
    Cgroup::new(format!("{}/{machine}", layout.cgroup()))
}

fn below(top: &Path, path: &str) -> PathBuf {
    top.join(path.trim_start_matches('/'))
}
