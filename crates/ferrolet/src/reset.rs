//! `ferrolet reset --node`: undoes a join. It lists what it will remove, asks,
//! ends what the join started, removes, and says what it left alone.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cluster::FileError;
use cluster::layout::{Removal, ResetError, ResetPlan, UNIT_PATH};
use cluster::preflight::{self, KUBELET_PORT};
use linux::SystemClock;
use thiserror::Error;
use tokio::runtime;

use crate::join::agent::{self, AgentError, BackgroundAgent, LOG_FILE, PID_FILE};
use crate::join::below;
use crate::join::machine::has_systemd;
use crate::join::systemd::{Systemd, SystemdError};
use crate::kubelet::say;

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

const EXAMPLE: &str = "\
Example: see what would go, then let it go
  ferrolet reset --node --dry-run
  ferrolet reset --node --yes

Exit codes: 0 done, 1 failed or refused, 2 wrong usage.";

/// What the command line says.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Undo `ferrolet join` on this machine
    #[arg(long, required = true)]
    node: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// List what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Where the machine's files are, for tests
    #[arg(long, hide = true, default_value = "/", value_name = "DIR")]
    root: PathBuf,
}

/// Why a join is not undone, or not to the end. A second run goes on.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Reset(#[from] ResetError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error("{0}, which no join has started; stop it first, and run the same command again")]
    Stranger(String),
    #[error("the process cannot be set up: {0}")]
    Process(#[from] io::Error),
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let failed = |failure: Failure| {
        say(&format!("error: {failure}"));
        ExitCode::from(FAILURE)
    };
    let reset = match Reset::look(&arguments.root) {
        Ok(reset) => reset,
        Err(failure) => return failed(failure),
    };
    if reset.is_empty() {
        say("there is nothing of a join on this machine");
        return ExitCode::SUCCESS;
    }
    // Whoever read it may be gone.
    let _ = io::stdout().write_all(reset.list().as_bytes());
    if arguments.dry_run {
        say("dry run: nothing was removed");
        return ExitCode::SUCCESS;
    }
    let answer = if arguments.yes { Answer::Yes } else { ask() };
    match answer {
        Answer::Yes => {}
        Answer::No => {
            say("nothing was removed");
            return ExitCode::from(FAILURE);
        }
        Answer::Nobody => {
            say("error: there is no terminal to ask on; give --yes to go on without asking");
            return ExitCode::from(USAGE);
        }
    }
    match reset.execute() {
        Ok(()) => {
            say("the join is undone; what is listed under keep was not touched");
            ExitCode::SUCCESS
        }
        Err(failure) => failed(failure),
    }
}

/// What a person says to the list.
enum Answer {
    Yes,
    No,
    /// There is nobody.
    Nobody,
}

fn ask() -> Answer {
    if !io::stdin().is_terminal() {
        return Answer::Nobody;
    }
    let _ = write!(io::stderr(), "Remove these? [y/N] ");
    let mut line = String::new();
    let _ = io::stdin().lock().read_line(&mut line);
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        _ => Answer::No,
    }
}

/// A join, to be undone.
struct Reset {
    root: PathBuf,
    plan: ResetPlan,
    agent: Option<BackgroundAgent>,
    /// What a join in the background leaves beside the node's files.
    traces: Vec<&'static str>,
}

impl Reset {
    /// A machine of the control plane is refused before anything is listed or ended.
    fn look(root: &Path) -> Result<Self, Failure> {
        let plan = ResetPlan::look(root)?;
        if let Some(sign) = plan.control_plane() {
            return Err(ResetError::ControlPlane(sign.to_owned()).into());
        }
        let traces = [PID_FILE, LOG_FILE].into_iter();
        let reset = Self {
            agent: BackgroundAgent::find(root),
            traces: traces.filter(|path| below(root, path).exists()).collect(),
            root: root.to_owned(),
            plan,
        };
        match reset.stranger() {
            Some(stranger) if !reset.is_empty() => Err(Failure::Stranger(stranger)),
            _ => Ok(reset),
        }
    }

    /// A kubelet that this reset would not end: it would miss its files, and make
    /// them anew.
    fn stranger(&self) -> Option<String> {
        if self.agent.is_some() || self.has_service() {
            return None;
        }
        if let Some(agent) = BackgroundAgent::published(&self.root) {
            return Some(format!("an agent runs here as process {}", agent.id()));
        }
        let ports = preflight::gather(&self.root, "", None).listening_ports;
        let taken = ports.contains(&KUBELET_PORT);
        taken.then(|| format!("a kubelet runs here (port {KUBELET_PORT} is in use)"))
    }

    /// Directories alone may be anybody's.
    fn is_empty(&self) -> bool {
        let is_file = |removal: &Removal| matches!(removal, Removal::File(_));
        self.agent.is_none() && self.traces.is_empty() && !self.plan.removals().iter().any(is_file)
    }

    fn list(&self) -> String {
        let mut lines = String::new();
        if self.has_service() {
            lines.push_str("stop    the service kubelet\n");
        }
        if let Some(agent) = &self.agent {
            let _ = writeln!(lines, "stop    the agent, process {}", agent.id());
        }
        for path in &self.traces {
            let _ = writeln!(lines, "remove  {path}");
        }
        lines + &self.plan.to_string()
    }

    /// Whether the unit is there, and of a join.
    fn has_service(&self) -> bool {
        let unit = Removal::File(UNIT_PATH.into());
        self.plan.removals().contains(&unit) && has_systemd(&self.root)
    }

    /// Ends first, then removes: an agent at work would write its files anew.
    fn execute(&self) -> Result<(), Failure> {
        let systemd = Systemd::new();
        if self.has_service() {
            systemd.stop()?;
        }
        if let Some(agent) = &self.agent {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(agent.stop(&SystemClock::start()))?;
        }
        for path in &self.traces {
            agent::remove(&below(&self.root, path))?;
        }
        self.plan.execute()?;
        if self.has_service() {
            systemd.reload()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &Path, path: &str, content: &str) {
        let path = below(root, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn everything_that_goes_is_listed_before_it_goes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(Reset::look(root).unwrap().is_empty());
        put(root, "/etc/kubernetes/kubelet.conf", "x");
        put(root, LOG_FILE, "x");
        let reset = Reset::look(root).unwrap();
        let list = reset.list();
        assert!(
            list.contains("remove  /var/log/ferrolet-kubelet.log\n"),
            "{list}"
        );
        assert!(
            list.contains("remove  /etc/kubernetes/kubelet.conf\n"),
            "{list}"
        );
        assert!(!list.contains("stop"), "{list}");
        reset.execute().unwrap();
        assert!(Reset::look(root).unwrap().is_empty());
        assert!(!below(root, LOG_FILE).exists());
    }

    #[test]
    fn a_machine_of_the_control_plane_is_refused_before_anything_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, "/etc/kubernetes/admin.conf", "x");
        let failure = Reset::look(root).err().unwrap();
        assert!(failure.to_string().contains("control plane"), "{failure}");
    }

    #[test]
    fn files_are_not_taken_from_a_kubelet_at_work() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, "/etc/kubernetes/kubelet.conf", "x");
        let listening =
            "  sl  local_address rem_address   st\n   0: 00000000:280A 00000000:0000 0A 0\n";
        put(root, "/proc/net/tcp", listening);
        let failure = Reset::look(root).err().unwrap();
        assert!(failure.to_string().contains("port 10250"), "{failure}");
    }
}
