//! A program that runs in the background of a machine: started, stopped,
//! frozen, cut off and restarted by name, from any process on the host, since
//! all that is known of it lies in files of the machine.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use crate::{command, wait};

const DAEMON: &str = include_str!("../../../../lab/machine/daemon.sh");
const STOP_GRACE: Duration = Duration::from_secs(15);

/// How a daemon is started, kept so that it can be started again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Spec {
    pub program: String,
    pub arguments: Vec<String>,
    /// Variables beside `PATH` and `HOME`.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// What the packet filter knows it by when it is cut off; 0 for a daemon
    /// that is cut off with its whole machine.
    #[serde(default)]
    pub group: u32,
    /// TCP ports that it listens on.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Host port whose listening socket it gets as standard input.
    #[serde(default)]
    pub host_port: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct Daemon {
    machine: Machine,
    name: String,
}

impl Daemon {
    pub(super) fn new(machine: Machine, name: &str) -> Self {
        Self {
            machine,
            name: name.to_owned(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its output goes.
    pub fn log_file(&self) -> PathBuf {
        self.state_file("log")
    }

    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Starts it as `spec` says, and remembers that.
    pub fn start(&self, spec: &Spec) -> Result<()> {
        fs::write(self.state_file("json"), serde_json::to_vec_pretty(spec)?)?;
        self.launch(spec)
    }

    /// Starts it again as it was started last.
    pub fn start_again(&self) -> Result<()> {
        self.launch(&self.spec()?)
    }

    pub fn spec(&self) -> Result<Spec> {
        let file = self.state_file("json");
        let text = fs::read(&file).with_context(|| {
            format!("{} was never started in {}", self.name, self.machine.name())
        })?;
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", file.display()))
    }

    /// The host's id of its process, if it runs.
    pub fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.state_file("pid")).ok()?;
        host_pid(self.machine.init(), text.trim().parse().ok()?)
    }

    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// Asks it to end; kills it if it has not within its time.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::TERM)?;
        // A frozen process hears of it once it runs again.
        self.signal(Signal::CONT)?;
        let ended = wait::until("the daemon to stop", STOP_GRACE, || self.ended());
        if ended.is_err() {
            eprintln!(
                "lab: {} did not end within {STOP_GRACE:?}, and is killed",
                self.name
            );
            self.kill()?;
        }
        Ok(())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)?;
        wait::until("a killed daemon to be gone", STOP_GRACE, || self.ended())
    }

    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    /// Restarts it with other arguments: `--name=value` takes the place of an
    /// argument of that name. The change stays.
    pub fn restart_with(&self, arguments: &[&str]) -> Result<()> {
        let mut spec = self.spec()?;
        spec.arguments = overridden(spec.arguments, arguments);
        self.stop()?;
        self.start(&spec)
    }

    /// Stops its clock: it keeps its connections and answers nothing.
    pub fn freeze(&self) -> Result<()> {
        if !self.is_running() {
            bail!("{} does not run: there is nothing to freeze", self.name);
        }
        self.signal(Signal::STOP)
    }

    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Lets its packets vanish, both ways, without a word to the other end.
    pub fn cut_off(&self) -> Result<()> {
        for rule in self.filter_rules()? {
            if !self.is_filtered(&rule) {
                self.filter("-A", &rule)?;
            }
        }
        Ok(())
    }

    pub fn reconnect(&self) -> Result<()> {
        for rule in self.filter_rules()? {
            if self.is_filtered(&rule) {
                self.filter("-D", &rule)?;
            }
        }
        Ok(())
    }

    fn is_filtered(&self, rule: &[String]) -> bool {
        self.filter("-C", rule).is_ok()
    }

    fn filter(&self, verb: &str, rule: &[String]) -> Result<()> {
        let words = ["-w", verb]
            .into_iter()
            .chain(rule.iter().map(String::as_str));
        self.machine.run("iptables", words).map(drop)
    }

    fn filter_rules(&self) -> Result<Vec<Vec<String>>> {
        let spec = self.spec()?;
        if spec.group == 0 {
            bail!(
                "{} has no group of its own to cut off: cut off its machine {}",
                self.name,
                self.machine.name()
            );
        }
        let mut rules = vec![format!(
            "OUTPUT -m owner --gid-owner {} -j DROP",
            spec.group
        )];
        let inbound = spec.ports.iter();
        rules.extend(inbound.map(|port| format!("INPUT -p tcp --dport {port} -j DROP")));
        Ok(rules
            .iter()
            .map(|rule| rule.split(' ').map(str::to_owned).collect())
            .collect())
    }

    fn launch(&self, spec: &Spec) -> Result<()> {
        if let Some(pid) = self.pid() {
            bail!(
                "{} runs already in {} ({pid:?})",
                self.name,
                self.machine.name()
            );
        }
        let stdin = match spec.host_port {
            None => Stdio::null(),
            Some(port) => Stdio::from(OwnedFd::from(
                TcpListener::bind(("127.0.0.1", port))
                    .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?,
            )),
        };
        let pid_file = self.state_file("pid");
        let _ = fs::remove_file(&pid_file);
        let mut launcher = self.machine.command("setsid");
        launcher
            .args(["--fork", "sh", "-c", DAEMON, "daemon", &self.name])
            .arg(spec.group.to_string())
            .arg(&spec.program)
            .args(&spec.arguments)
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::null())
            // Until it runs: from then on what it says goes to its log.
            .stderr(Stdio::piped());
        let Output { status, stderr, .. } = launcher.output()?;
        if !status.success() {
            let why = String::from_utf8_lossy(&stderr);
            let what = command::line(&launcher);
            bail!("cannot start {what}: {status}: {}", why.trim());
        }
        wait::until(
            &format!("{} to start in {}", self.name, self.machine.name()),
            Duration::from_secs(60),
            || match fs::read_to_string(&pid_file) {
                Ok(text) if text.ends_with('\n') => Ok(()),
                other => bail!("its process id: {other:?}"),
            },
        )
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        match self.pid().map(|pid| kill_process(pid, signal)) {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error).with_context(|| format!("cannot signal {}", self.name)),
        }
    }

    fn ended(&self) -> Result<()> {
        match self.pid() {
            None => Ok(()),
            Some(pid) => bail!("{} still runs ({pid:?})", self.name),
        }
    }

    fn state_file(&self, extension: &str) -> PathBuf {
        self.machine
            .file(&format!("/opt/lab/run/{}.{extension}", self.name))
    }
}

/// The host's id of the process that a machine knows as `inner`.
fn host_pid(init: Pid, inner: i32) -> Option<Pid> {
    let namespace = pid_namespace(init)?;
    fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .find(|&pid| {
            inner_pid(pid) == Some(inner) && pid_namespace(pid).as_ref() == Some(&namespace)
        })
}

fn pid_namespace(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{}/ns/pid", pid.as_raw_nonzero())).ok()
}

/// The id of a process in its innermost namespace. One that has ended counts
/// until its machine's init has reaped it: until then its other threads may
/// still run and hold its ports.
fn inner_pid(pid: Pid) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().last()?.parse().ok()
}

fn overridden(mut arguments: Vec<String>, changes: &[&str]) -> Vec<String> {
    for change in changes {
        let name = change.split('=').next().unwrap_or(change);
        arguments.retain(|argument| argument.split('=').next() != Some(name));
        arguments.push((*change).to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_argument_takes_the_place_of_its_name() {
        let before = ["--a=1", "--b=2", "--ab=3"].map(str::to_owned).to_vec();
        assert_eq!(
            overridden(before, &["--a=9", "--new"]),
            ["--b=2", "--ab=3", "--a=9", "--new"]
        );
    }

    #[test]
    fn our_own_process_is_found_by_its_id() {
        let own = rustix::process::getpid();
        assert_eq!(inner_pid(own), Some(own.as_raw_nonzero().get()));
        assert_eq!(host_pid(own, own.as_raw_nonzero().get()), Some(own));
    }
}
