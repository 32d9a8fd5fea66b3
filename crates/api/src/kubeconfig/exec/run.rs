//! One run of a plugin's program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::{ExecPlugin, ExecProblem, printable};
use crate::Secret;

/// Far above any credential.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// How much of its complaints an error repeats.
const COMPLAINT_LIMIT: u64 = 2048;

/// Where the program is: as named if there is a slash in the name, else in one of the absolute
/// directories of `PATH`.
pub(super) fn find(command: &Path, environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    if command.components().count() > 1 || command.is_absolute() {
        return is_program(command).then(|| command.to_owned());
    }
    let path = environment.get(OsStr::new("PATH"))?;
    env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(command))
        .find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// All that a run needs.
pub(super) struct Call<'a> {
    pub(super) program: PathBuf,
    pub(super) plugin: &'a ExecPlugin,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) interactive: bool,
}

impl Call<'_> {
    /// What the program prints. It and its children are killed when it takes too long, and when
    /// the future is dropped.
    pub(super) async fn output(self, timeout: Duration) -> Result<Secret<Vec<u8>>, ExecProblem> {
        let mut child = self.start()?;
        let mut group = Group((!self.interactive).then(|| pid(&child)).flatten());
        let output = tokio::time::timeout(timeout, finish(&mut child))
            .await
            .map_err(|_| ExecProblem::TimedOut { after: timeout })??;
        group.0 = None;
        Ok(output)
    }

    fn start(&self) -> Result<Child, ExecProblem> {
        let mut command = Command::new(&self.program);
        command
            .arg0(&self.plugin.command)
            .args(&self.plugin.args)
            .env_clear()
            .envs(&self.environment)
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if self.interactive {
            // It asks on the terminal, so it stays in the group that may read from there.
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .process_group(0);
        }
        command.spawn().map_err(ExecProblem::Start)
    }
}

async fn finish(child: &mut Child) -> Result<Secret<Vec<u8>>, ExecProblem> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = async {
        read(stdout, OUTPUT_LIMIT)
            .await
            .map_err(ExecProblem::Output)
    };
    let complaint = async {
        read(stderr, COMPLAINT_LIMIT)
            .await
            .map_err(ExecProblem::Output)
    };
    let status = async { child.wait().await.map_err(ExecProblem::Output) };
    let (output, complaint, status) = tokio::try_join!(output, complaint, status)?;
    if !status.success() {
        let said = printable(String::from_utf8_lossy(&complaint.0).trim());
        return Err(ExecProblem::Failed { status, said });
    }
    if output.1 {
        return Err(ExecProblem::TooLong {
            limit: OUTPUT_LIMIT,
        });
    }
    Ok(Secret::new(output.0))
}

/// Reads to the end, so that the writer never waits for us; keeps the first `limit` bytes, and
/// tells if there were more.
async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    limit: u64,
) -> std::io::Result<(Vec<u8>, bool)> {
    let Some(pipe) = pipe else {
        return Ok((Vec::new(), false));
    };
    let mut kept = Vec::new();
    let mut start = pipe.take(limit);
    start.read_to_end(&mut kept).await?;
    let rest = tokio::io::copy(&mut start.into_inner(), &mut tokio::io::sink()).await?;
    Ok((kept, rest > 0))
}

/// The process group of a running plugin, killed when dropped. It is dropped before the child is
/// reaped, so the number cannot mean another group.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may be gone already, which is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}
