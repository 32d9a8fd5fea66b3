//! A cluster in the background: started, watched until its nodes are Ready, and left.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::place::{PlaceError, choose, log_file, ready_file, refuse_busy};
use crate::output::{Failure, print};

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// For the nodes to be Ready, and for each of them. It is left running if they are not.
const PATIENCE: Duration = Duration::from_secs(60);
const PER_NODE: Duration = Duration::from_millis(200);

pub(super) fn begin(arguments: &Arguments) -> Result<(), Failure> {
    let root = choose(arguments)?;
    refuse_busy(&root)?;
    let (log, ready) = (log_file(&root), ready_file(&root));
    let failed = |verb, path: &Path, cause| PlaceError::File {
        verb,
        path: path.to_owned(),
        cause,
    };
    let output = File::create(&log).map_err(|cause| failed("write", &log, cause))?;
    let mut said = File::open(&log).map_err(|cause| failed("read", &log, cause))?;
    // One of before says nothing of this one.
    let _ = fs::remove_file(&ready);
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments.in_background(&root))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    let number = child.id();
    let patience = PATIENCE + PER_NODE * u32::from(arguments.nodes);
    let outcome = follow(&mut child, &mut said, &ready, patience);
    pass_on(&mut said);
    let is_ready = outcome?;
    print(&format!(
        "process {number} goes on in the background; `kill {number}` ends it, its log is {}\n",
        log.display()
    ))?;
    if is_ready {
        return Ok(());
    }
    Err(Failure::Failed(
        "not every node is Ready yet; the log says how far they are".to_owned(),
    ))
}

/// Whether the nodes are Ready; if the process ends, it has said why.
fn follow(
    child: &mut Child,
    said: &mut File,
    ready: &Path,
    patience: Duration,
) -> Result<bool, Failure> {
    let began = Instant::now();
    while began.elapsed() < patience {
        pass_on(said);
        if child.try_wait()?.is_some() {
            return Err(Failure::Told);
        }
        if ready.exists() {
            return Ok(true);
        }
        std::thread::sleep(LOOK);
    }
    Ok(false)
}

/// What it has said since the last look.
fn pass_on(said: &mut File) {
    let mut text = Vec::new();
    // Whoever reads it may be gone; the cluster goes on.
    let _ = said.read_to_end(&mut text);
    let _ = io::stderr().write_all(&text);
}

/// Away from the terminal and whoever sits there. Only the process itself can do it.
pub(super) fn leave_terminal() -> Result<(), Failure> {
    rustix::process::setsid()
        .map(drop)
        .map_err(|cause| Failure::Failed(format!("the terminal cannot be left: {cause}")))
}
