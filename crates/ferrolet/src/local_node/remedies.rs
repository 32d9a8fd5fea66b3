//! The commands by which things are mended on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use config::settings::{Origin, Settings};

use super::embedded::Embedded;
use super::process::Agent;
use crate::join::agent::LOG_FILE;

/// For an agent to end, in seconds.
const PATIENCE: u32 = 60;

/// How this machine's agent is started, and what follows from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remedies {
    systemd: bool,
    /// The process that runs.
    agent: Option<u32>,
    /// What starts one where systemd does not.
    line: String,
    /// It is part of a `ferrolet up`.
    up: Option<OfUp>,
}

/// What a `ferrolet up` has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfUp {
    /// What shows how it fares.
    look: String,
    /// Its administrator's.
    kubeconfig: PathBuf,
}

impl Remedies {
    pub(crate) fn new(systemd: bool, agent: Option<&Agent>, flags: &[String]) -> Self {
        let (program, command) = match agent {
            Some(agent) if !agent.flags.is_empty() => {
                (agent.program.clone(), agent.command.clone())
            }
            _ => {
                let own = std::env::current_exe();
                let program = own.unwrap_or_else(|_| PathBuf::from("ferrolet"));
                (program, vec!["kubelet".to_owned()])
            }
        };
        let program = program.display().to_string();
        let program = program.trim_end_matches(" (deleted)").to_owned();
        let words = [vec![program], command, flags.to_vec()].concat();
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        Self {
            systemd,
            agent: agent.map(|agent| agent.id),
            line: words.join(" "),
            up: None,
        }
    }

    /// Of a node in a `ferrolet up`, which systemd knows nothing of.
    pub(super) fn of_up(process: u32, embedded: &Embedded) -> Self {
        let words: Vec<String> = embedded.line.iter().map(|word| quoted(word)).collect();
        let kubeconfig = embedded.kubeconfig();
        let look = match &embedded.log {
            Some(log) => format!("tail --lines 50 {}", log.display()),
            // It talks to its terminal. What its node has to say is also in events.
            None => kubectl(Some(&kubeconfig), "get events --all-namespaces"),
        };
        Self {
            systemd: false,
            agent: Some(process),
            line: words.join(" "),
            up: Some(OfUp { look, kubeconfig }),
        }
    }

    #[cfg(test)]
    pub(crate) fn of_up_in(root: PathBuf) -> Self {
        let embedded = Embedded {
            root,
            simulated: false,
            others: Vec::new(),
            line: vec!["ferrolet".to_owned(), "up".to_owned()],
            log: None,
        };
        Self::of_up(812, &embedded)
    }

    /// Starts the agent, which does not run.
    pub(crate) fn start(&self) -> String {
        if self.systemd {
            return "systemctl start kubelet".to_owned();
        }
        self.background()
    }

    pub(crate) fn restart(&self) -> String {
        match (self.systemd, self.agent) {
            (true, _) => "systemctl restart kubelet".to_owned(),
            // The next one needs what the last one has until its end: ports, and the lock. One
            // that may not be ended, or does not end, is not waited for without end.
            (false, Some(id)) => format!(
                "kill {id} && timeout {PATIENCE} tail --pid={id} -f /dev/null && {}",
                self.background()
            ),
            (false, None) => self.background(),
        }
    }

    /// Starts it, or starts it anew.
    pub(crate) fn revive(&self) -> String {
        if self.agent.is_some() {
            self.restart()
        } else {
            self.start()
        }
    }

    /// Where the agent says why.
    pub(crate) fn log(&self) -> String {
        if self.systemd {
            return "journalctl --unit kubelet --lines 50 --no-pager".to_owned();
        }
        if let Some(up) = &self.up {
            return up.look.clone();
        }
        format!("tail --lines 50 {LOG_FILE}")
    }

    /// kubectl, for the cluster of this node: one of `up` is rarely the one that it is set to.
    pub(crate) fn kubectl(&self, words: &str) -> String {
        kubectl(self.up.as_ref().map(|up| &*up.kubeconfig), words)
    }

    /// Whether the cluster is a `ferrolet up`, which has no controllers of workloads.
    pub(crate) fn is_up(&self) -> bool {
        self.up.is_some()
    }

    /// Restarts whoever listens at the runtime's socket.
    pub(crate) fn restart_runtime(&self, socket: &Path) -> String {
        let name = if socket.to_string_lossy().contains("crio") {
            "crio"
        } else {
            "containerd"
        };
        if self.systemd {
            return format!("systemctl restart {name}");
        }
        format!("service {name} restart")
    }

    /// A command of another part, which knows of systemd and of kubectl's own cluster only.
    pub(crate) fn here(&self, command: &str) -> String {
        if self.systemd {
            return command.to_owned();
        }
        self.for_cluster(command)
            .replace("systemctl restart kubelet", &self.restart())
            .replace("systemctl start kubelet", &self.start())
            .replace("systemctl status kubelet", &self.log())
    }

    /// Each kubectl in it that is not told of a kubeconfig.
    fn for_cluster(&self, command: &str) -> String {
        if self.up.is_none() || command.contains("--kubeconfig") {
            return command.to_owned();
        }
        let told = self.kubectl("");
        let words = command.split(' ').map(|word| match word {
            "kubectl" => told.trim_end(),
            other => other,
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Gives a field of one value another one, where it stands, and lets the agent read it.
    /// `None` where no line of a file does that: a flag has the last word, or the file is
    /// not one of lines.
    pub(crate) fn set(
        &self,
        settings: &Settings,
        file: Option<&Path>,
        field: &str,
        value: &str,
    ) -> Option<String> {
        // It writes the file anew at each start.
        if self.up.is_some() {
            return None;
        }
        let edit = match settings.origin_of(field) {
            Some(Origin::Flag(_)) => return None,
            Some(Origin::File(spot) | Origin::DropIn(spot)) => {
                let file = of_lines(Path::new(&*spot.file))?;
                format!(
                    "sed -i 's|^{field}:.*|{field}: {value}|' {}",
                    file.display()
                )
            }
            _ => format!("echo '{field}: {value}' >> {}", of_lines(file?)?.display()),
        };
        Some(format!("{edit} && {}", self.revive()))
    }

    fn background(&self) -> String {
        if self.up.is_some() {
            return self.line.clone();
        }
        // What stands before it in a line is to be over when it starts, and no part of it.
        format!("{{ nohup {} >>{LOG_FILE} 2>&1 & }}", self.line)
    }
}

fn kubectl(kubeconfig: Option<&Path>, words: &str) -> String {
    match kubeconfig {
        None => format!("kubectl {words}"),
        Some(path) => {
            let path = quoted(&path.display().to_string());
            format!("kubectl --kubeconfig {path} {words}")
        }
    }
}

/// A file that may be changed by the line.
fn of_lines(file: &Path) -> Option<&Path> {
    let text = fs::read_to_string(file).ok()?;
    has_lines(&text).then_some(file)
}

/// Neither JSON, nor with an open last line, to which a new one would be added.
fn has_lines(text: &str) -> bool {
    let contents = text.lines().map(|line| {
        let begun = line.strip_prefix("---").unwrap_or(line);
        begun.trim()
    });
    let mut contents = contents.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_json = contents.next().is_some_and(|line| line.starts_with('{'));
    !is_json && text.ends_with('\n')
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use config::flags::CommandLine;
    use config::load::resolve;
    use testkit::wait::until;

    use super::*;

    fn agent() -> Agent {
        Agent {
            id: 812,
            program: "/opt/ferrolet (deleted)".into(),
            command: vec!["kubelet".to_owned()],
            flags: vec!["--v=2".to_owned()],
            directory: "/".into(),
        }
    }

    #[test]
    fn the_agent_is_started_as_the_machine_starts_it() {
        let flags = ["--v=2".to_owned(), "--eviction-hard=a<1%".to_owned()];
        let with_systemd = Remedies::new(true, Some(&agent()), &flags);
        assert_eq!(with_systemd.revive(), "systemctl restart kubelet");
        let without = Remedies::new(false, Some(&agent()), &flags);
        let line = "/opt/ferrolet kubelet --v=2 '--eviction-hard=a<1%'";
        let background = format!("{{ nohup {line} >>/var/log/ferrolet-kubelet.log 2>&1 & }}");
        assert_eq!(without.start(), background);
        assert_eq!(
            without.revive(),
            format!("kill 812 && timeout 60 tail --pid=812 -f /dev/null && {background}")
        );
        assert_eq!(
            without.here("mv a b && systemctl start kubelet"),
            format!("mv a b && {background}")
        );
        assert_eq!(with_systemd.here("systemctl x"), "systemctl x");
    }

    #[test]
    fn a_node_of_up_is_mended_by_starting_its_cluster_anew() {
        let embedded = Embedded {
            root: "/d".into(),
            simulated: true,
            others: Vec::new(),
            line: ["/opt/ferrolet", "up", "--data-dir=/d"]
                .map(str::to_owned)
                .to_vec(),
            log: None,
        };
        let remedies = Remedies::of_up(812, &embedded);
        let restart =
            "kill 812 && timeout 60 tail --pid=812 -f /dev/null && /opt/ferrolet up --data-dir=/d";
        assert_eq!(remedies.revive(), restart);
        let look = "kubectl --kubeconfig /d/kubeconfig get events --all-namespaces";
        assert_eq!(remedies.log(), look);
        assert_eq!(
            remedies.kubectl("get nodes"),
            "kubectl --kubeconfig /d/kubeconfig get nodes"
        );
        let log = Some("/d/up.log".into());
        let detached = Remedies::of_up(812, &Embedded { log, ..embedded });
        assert_eq!(detached.log(), "tail --lines 50 /d/up.log");
    }

    #[test]
    fn each_kubectl_of_another_parts_command_is_for_the_cluster_of_the_node() {
        let of_up = Remedies::of_up_in("/d".into());
        let joined = Remedies::new(false, None, &[]);
        let own = "kubectl --kubeconfig /d/kubeconfig";
        for (command, told) in [
            (
                "kubectl certificate approve csr-x",
                format!("{own} certificate approve csr-x"),
            ),
            (
                "kubectl get --raw /readyz; kubectl get csr",
                format!("{own} get --raw /readyz; {own} get csr"),
            ),
            (
                "kubectl config --kubeconfig=/k view",
                "kubectl config --kubeconfig=/k view".to_owned(),
            ),
            ("systemctl status kubelet", of_up.log()),
            ("ferrolet csr list", "ferrolet csr list".to_owned()),
        ] {
            assert_eq!(of_up.here(command), told);
        }
        let command = "kubectl certificate approve csr-x";
        assert_eq!(joined.here(command), command);
    }

    /// What a shell makes of it, with a process of the test's for an agent.
    #[test]
    fn a_restart_waits_for_no_agent_that_is_not_ended_and_starts_none_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let started = directory.path().join("started");
        for (before, ends, starts) in [
            ("false", true, false),
            ("true", false, false),
            ("true", true, true),
        ] {
            let mut agent = Command::new("sleep").arg("60").spawn().unwrap();
            // One that may not be ended, or is not there: it is all the same to `kill`.
            let id = if ends { agent.id() } else { u32::MAX >> 1 };
            let remedies = Remedies {
                systemd: false,
                agent: Some(id),
                line: format!("touch {}", started.display()),
                up: None,
            };
            let line = remedies.restart().replace(LOG_FILE, "/dev/null");
            let mut shell = Command::new("timeout");
            shell.args(["10", "sh", "-c", &format!("{before} && {line}")]);
            let mut shell = shell.stderr(Stdio::null()).spawn().unwrap();
            if starts {
                agent.wait().unwrap();
            }
            let ended = shell.wait().unwrap();
            let _ = agent.kill();
            let _ = agent.wait();
            assert_ne!(ended.code(), Some(124), "{line} does not end");
            if starts {
                let there = || started.exists().then_some(()).ok_or("nothing is started");
                until("the start", Duration::from_secs(10), there).unwrap();
            } else {
                assert!(!started.exists(), "{before} && {line}");
            }
        }
    }

    #[test]
    fn a_field_is_changed_where_it_stands() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailSwapOn: true\n";
        std::fs::write(&file, text).unwrap();
        let config = format!("--config={}", file.display());
        let words = [config, "--cgroup-driver=systemd".to_owned()];
        let line = CommandLine::parse(&words).unwrap();
        let settings = resolve(&line, Path::new("/")).unwrap().settings;
        let remedies = Remedies::new(true, None, &[]);
        let set = |field, value| remedies.set(&settings, Some(&file), field, value);
        let there = set("failSwapOn", "false").unwrap();
        assert!(there.starts_with("sed -i 's|^failSwapOn:.*|failSwapOn: false|' /"));
        let absent = set("failCgroupV1", "false").unwrap();
        assert!(absent.starts_with("echo 'failCgroupV1: false' >> /"));
        assert_eq!(set("cgroupDriver", "cgroupfs"), None);
    }

    #[test]
    fn no_line_is_changed_in_a_file_that_has_none() {
        for (text, wanted) in [
            ("kind: a\nfailSwapOn: true\n", true),
            ("kind: a\nfailSwapOn: true", false),
            ("{\"kind\": \"a\"}\n", false),
            ("# by hand\n\n{\"kind\": \"a\"}\n", false),
            ("---\n{\"kind\": \"a\"}\n", false),
            ("--- {\"kind\": \"a\"}\n", false),
            ("--- # by hand\nkind: a\nstaticPodURLHeader:\n  {}\n", true),
            ("# nothing is set\n", true),
            ("\n {kind: a}\n", false),
            ("", false),
        ] {
            assert_eq!(has_lines(text), wanted, "{text}");
        }
    }
}
