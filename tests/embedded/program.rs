//! `ferrolet up` as a process that can be killed.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// For things that take a moment on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Below those from which the kernel takes ports for connections: while nobody listens, one of
/// a client that tries again could be connected to itself.
const PORTS: std::ops::Range<u16> = 10_000..20_000;

/// A cluster's directory and port, for one start after the other.
pub(crate) struct Home {
    directory: TempDir,
    port: u16,
}

/// A start of it. Dropped, it is killed.
pub(crate) struct Started {
    child: Child,
    /// Right before it was started.
    pub(crate) began: Instant,
    said: PathBuf,
}

impl Home {
    pub(crate) fn new(random: &mut fastrand::Rng) -> Result<Self> {
        let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let mut some = std::iter::repeat_with(|| random.u16(PORTS));
        let port = some.by_ref().take(100).find(free).context("a free port")?;
        Ok(Self {
            directory: tempfile::tempdir()?,
            port,
        })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data().join("kubeconfig")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn start(&self) -> Result<Started> {
        let program = program()?;
        let said = self.directory.path().join("said");
        let output = File::create(&said)?;
        let began = Instant::now();
        let child = Command::new(program)
            .args(["up", "--runtime=sim", "--data-dir"])
            .arg(self.data())
            .arg(format!("--port={}", self.port))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Started { child, began, said })
    }
}

impl Started {
    /// As the kernel ends it when memory is short, or a person with `kill -9`.
    pub(crate) fn kill(mut self) -> Result<()> {
        // One that has ended by itself has not been killed: it was broken.
        if let Some(status) = self.child.try_wait()? {
            return Err(anyhow!("it ended by itself, {status}: {}", self.said()));
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// As Ctrl-C does.
    pub(crate) fn end(mut self) -> Result<String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT)?;
        let status = self.child.wait()?;
        let said = self.said();
        ensure!(status.success(), "{status}: {said}");
        Ok(said)
    }

    /// That it still runs.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(anyhow!("it ended by itself, {status}: {}", self.said())),
            None => Ok(()),
        }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Built once, by whoever needs it first.
fn program() -> Result<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = PROGRAM
        .get_or_init(|| testkit::cargo::program("ferrolet").map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|error| anyhow!("{error}"))
}
