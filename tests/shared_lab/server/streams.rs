//! exec, attach, cp and port-forward with the real kubectl, new and old: each story is
//! told on our node and on an upstream one, and has to end the same.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::{door, upgrades};
use crate::pods::stage::{SOON, Stage, shell};

const MIB: usize = 1024 * 1024;

/// The end of a command that has said much. containerd drops what is still on its way to or
/// from a process that ends at once (its issue 13934): 832 KiB were seen to be lost on a machine
/// with much to do.
const LINGER: &str = "sleep 2";

/// So often a command is played whose end cannot be kept from it: what we lose is lost each time.
const PLAYS: usize = 3;

/// Which protocols kubectl speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// `WebSockets`, as it does by default.
    New,
    /// SPDY, as it did for years.
    Old,
}

/// What a person sees of a command.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

fn seen(code: i32, stdout: &str, stderr: &str) -> Seen {
    Seen {
        code: Some(code),
        stdout: stdout.into(),
        stderr: stderr.to_owned(),
    }
}

/// A node, and kubectl.
struct Teller {
    stage: Stage,
    age: Age,
}

impl Teller {
    fn kubectl(&self, words: &[&str]) -> Command {
        let mut kubectl = self.stage.kubectl().command();
        kubectl.args(["--namespace", self.stage.namespace()]);
        kubectl.args(words);
        if self.age == Age::Old {
            kubectl.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
            kubectl.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
        }
        kubectl
    }

    /// What a node could not decide is asked again: nothing has come of it.
    fn see(&self, words: &[&str], input: &[u8]) -> Result<Seen> {
        door::decided(|| {
            let seen = watch(self.kubectl(words), input);
            let undecided = seen
                .as_ref()
                .is_ok_and(|seen| door::is_undecided(&seen.stderr));
            (seen, undecided)
        })
    }

    fn create(&self) -> Result<()> {
        let serve = "mkdir /www; head -c 1048576 /dev/urandom > /www/file; \
                     exec httpd -f -p 8080 -h /www";
        self.stage.create_pod("main", shell(serve), json!({}))?;
        self.stage.wait_ready("main")?;
        Ok(())
    }

    /// How many requests of a kind the node itself has served over `WebSockets`.
    fn over_web_sockets(&self, kind: &str) -> Result<u64> {
        let page = door::through_api(&self.stage.kubectl(), &self.stage.node, "/metrics")?;
        let start =
            format!("kubelet_websocket_streaming_requests_total{{subresource=\"{kind}\"}} ");
        let count = page.lines().find_map(|line| line.strip_prefix(&start));
        Ok(count.unwrap_or("0").parse()?)
    }
}

/// Runs a command to its end while it is fed.
fn watch(mut command: Command, input: &[u8]) -> Result<Seen> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let output = std::thread::scope(|threads| {
        threads.spawn(move || {
            // Who does not read to the end has its reasons.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output()
    })?;
    Ok(Seen {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The same on our node and on upstream's. What a new kubectl asks for goes through to the
/// node, as both declare; what an old one asks for, the API server makes of it.
fn beside(
    name: &str,
    (kind, runtime): (&str, Runtime),
    story: impl Fn(&Teller) -> Result<()>,
) -> Result<()> {
    let ours = Stage::ours(&format!("{name}-ours"), runtime)?;
    let upstream = Stage::bare(&format!("{name}-up"), runtime)?;
    upstream.node.start_upstream_kubelet("")?;
    upstream.node.wait_ready(SOON)?;
    for (whose, stage) in [("ours", ours), ("upstream's", upstream)] {
        let mut teller = Teller {
            stage,
            age: Age::New,
        };
        teller.create()?;
        for age in [Age::New, Age::Old] {
            teller.age = age;
            let before = teller.over_web_sockets(kind)?;
            story(&teller).with_context(|| format!("on {whose} node, kubectl {age:?}"))?;
            let more = teller.over_web_sockets(kind)? - before;
            ensure!(
                (more > 0) == (age == Age::New),
                "{whose} node served {more} over WebSockets, kubectl {age:?}"
            );
        }
        teller.stage.end()?;
    }
    Ok(())
}

#[test]
fn commands_end_as_they_do_on_an_upstream_node_with_containerd_2() -> Result<()> {
    beside("exec-ctd2", ("exec", Runtime::Containerd2), commands)
}

#[test]
fn commands_end_as_they_do_on_an_upstream_node_with_debians_containerd() -> Result<()> {
    beside("exec-ctd16", ("exec", Runtime::Containerd16), commands)
}

fn commands(teller: &Teller) -> Result<()> {
    let exec = |script: &str, input: &[u8]| {
        let words = ["exec", "-i", "main", "--", "sh", "-c", script];
        teller.see(&words, input)
    };
    ensure!(exec("echo out; echo err >&2", b"")? == seen(0, "out\n", "err\n"));
    let ended = "command terminated with exit code 37\n";
    let found = exec("echo so; exit 37", b"")?;
    ensure!(found == seen(37, "so\n", ended), "{found:?}");
    // The end of the input is heard.
    ensure!(exec("cat; echo end", b"abc")? == seen(0, "abcend\n", ""));
    // A command that does not read it all ends all the same, as long as it fits into a pipe:
    // of more, runtimes now and then wait for somebody to read it, on upstream's nodes, too.
    let found = exec("head -c 3", &[b'x'; 4096])?;
    ensure!(found.code == Some(0) && found.stdout == b"xxx", "{found:?}");
    // Without streams of its own it says nothing, and still how it ended.
    let found = teller.see(&["exec", "main", "--", "sh", "-c", "exit 3"], b"")?;
    ensure!(found.code == Some(3), "{found:?}");
    let found = teller.see(&["exec", "main", "--", "no-such-program"], b"")?;
    ensure!(matches!(found.code, Some(1 | 126 | 127)), "{found:?}");
    ensure!(found.stderr.contains("no-such-program"), "{found:?}");
    let found = teller.see(&["exec", "main", "-c", "nope", "--", "true"], b"")?;
    ensure!(found.code == Some(1), "{found:?}");
    let script = format!("seq 1 300000; {LINGER}");
    let found = teller.see(&["exec", "main", "--", "sh", "-c", &script], b"")?;
    let last = found.stdout.ends_with(b"\n299999\n300000\n");
    ensure!(
        found.code == Some(0) && last,
        "{} bytes",
        found.stdout.len()
    );
    terminal(teller)
}

/// A terminal is one, has the size of the client's, and an exit code.
fn terminal(teller: &Teller) -> Result<()> {
    let script = "tty; for i in $(seq 100); do stty size | grep '33 77' && exit 5; sleep 0.1; \
                  done; exit 6";
    let kubectl = teller.kubectl(&["exec", "-it", "main", "--", "sh", "-c", script]);
    let found = watch(in_terminal(&kubectl), b"")?;
    let screen = String::from_utf8_lossy(&found.stdout);
    ensure!(found.code == Some(5), "{found:?}: {screen}");
    ensure!(
        screen.contains("/dev/pts/") && screen.contains("33 77"),
        "{screen}"
    );
    Ok(())
}

/// The same command, in a terminal of 33 lines.
fn in_terminal(kubectl: &Command) -> Command {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let mut line = vec![quoted(&kubectl.get_program().to_string_lossy())];
    line.extend(
        kubectl
            .get_args()
            .map(|word| quoted(&word.to_string_lossy())),
    );
    let line = format!("stty rows 33 cols 77; {}", line.join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]);
    for (name, value) in kubectl.get_envs() {
        terminal.env(name, value.unwrap_or_default());
    }
    terminal
}

#[test]
fn a_hundred_mebibytes_go_through_a_command_and_back() -> Result<()> {
    let stage = Stage::ours("exec-much", Runtime::Containerd2)?;
    let mut teller = Teller {
        stage,
        age: Age::New,
    };
    teller.create()?;
    let content = noise(100 * MIB);
    for age in [Age::New, Age::Old] {
        teller.age = age;
        let script = format!("cat; {LINGER}");
        let command = ["exec", "-i", "main", "--", "sh", "-c", &script];
        let found = teller.see(&command, &content)?;
        ensure!(found.code == Some(0), "{age:?}: {}", found.stderr);
        let came_back = found.stdout.len();
        ensure!(came_back == content.len(), "{age:?}: {came_back}");
        ensure!(hash(&found.stdout) == hash(&content), "{age:?}");
    }
    teller.stage.end()
}

/// Bytes that look like none.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(next());
    }
    bytes.truncate(length);
    bytes
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn who_attaches_speaks_with_what_runs() -> Result<()> {
    beside("attach", ("attach", Runtime::Containerd2), |teller| {
        let name = format!("reader-{:?}", teller.age).to_lowercase();
        let script = "while read line; do echo got $line; done; echo end";
        let container = json!({
            "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
            "stdin": true, "stdinOnce": true,
        });
        let once = json!({ "restartPolicy": "Never" });
        teller.stage.create_pod(&name, container, once)?;
        teller.stage.wait_ready(&name)?;
        let found = teller.see(&["attach", "-i", &name], b"a\nb\n")?;
        ensure!(found.code == Some(0), "{found:?}");
        ensure!(found.stdout == b"got a\ngot b\nend\n", "{found:?}");
        attach_terminal(teller)
    })
}

/// The terminal of what runs has the size of the client's, and its keys.
fn attach_terminal(teller: &Teller) -> Result<()> {
    let name = format!("terminal-{:?}", teller.age).to_lowercase();
    let script = "read line; tty; for i in $(seq 100); do stty size | grep '33 77' && break; \
                  sleep 0.1; done; echo got $line; exit 5";
    let container = json!({
        "name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script],
        "stdin": true, "stdinOnce": true, "tty": true,
    });
    let once = json!({ "restartPolicy": "Never" });
    teller.stage.create_pod(&name, container, once)?;
    teller.stage.wait_ready(&name)?;
    let kubectl = teller.kubectl(&["attach", "-it", &name]);
    let found = watch(in_terminal(&kubectl), b"a word\n")?;
    let screen = String::from_utf8_lossy(&found.stdout);
    for wanted in ["/dev/pts/", "33 77", "got a word"] {
        ensure!(screen.contains(wanted), "no {wanted}: {found:?}: {screen}");
    }
    Ok(())
}

#[test]
fn files_are_copied_both_ways() -> Result<()> {
    beside("copy", ("exec", Runtime::Containerd2), |teller| {
        let mut copied = copied(teller, 1);
        for play in 2..=PLAYS {
            let Err(error) = &copied else { break };
            println!("copied again: {error:#}");
            copied = self::copied(teller, play);
        }
        copied
    })
}

/// There and back again, in places of this play's own.
fn copied(teller: &Teller, play: usize) -> Result<()> {
    let place = tempfile::tempdir()?;
    let file = |name: &str| place.path().join(name).display().to_string();
    let content = noise(3 * MIB + 17);
    fs::create_dir(file("there"))?;
    fs::write(file("there/a"), &content)?;
    fs::write(file("there/b"), "small")?;
    let inside = format!("/tmp/copied-{:?}-{play}", teller.age);
    let found = teller.see(&["cp", &file("there"), &format!("main:{inside}")], b"")?;
    ensure!(found.code == Some(0), "{found:?}");
    let found = teller.see(&["cp", &format!("main:{inside}"), &file("back")], b"")?;
    ensure!(found.code == Some(0), "{found:?}");
    let back = fs::read(file("back/a"))?;
    let (came, sent) = (back.len(), content.len());
    ensure!(back == content, "{came} bytes of {sent}, or others");
    ensure!(fs::read(file("back/b"))? == b"small");
    Ok(())
}

/// Ended when dropped.
#[derive(Debug)]
struct Forwarding {
    child: Child,
    port: u16,
    /// What it still says of each connection: it ends if nobody could hear it.
    _said: BufReader<ChildStdout>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Forwarding {
    fn start(teller: &Teller, port: &str) -> Result<Self> {
        door::made(|| Self::start_once(teller, port))
    }

    fn start_once(teller: &Teller, port: &str) -> Result<Self> {
        let mut kubectl = teller.kubectl(&["port-forward", "main", port]);
        // It goes on, and may complain as long as it does.
        let complaints = tempfile::NamedTempFile::new()?;
        kubectl.stdout(Stdio::piped()).stderr(complaints.reopen()?);
        let mut child = kubectl.spawn()?;
        let mut said = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        let number = line.strip_prefix("Forwarding from 127.0.0.1:");
        let number = number.and_then(|rest| rest.split(' ').next());
        let Some(number) = number else {
            child.kill()?;
            child.wait()?;
            let complaints = fs::read_to_string(complaints.path())?;
            bail!("kubectl said {line:?}, and {complaints:?}");
        };
        Ok(Self {
            child,
            port: number.parse()?,
            _said: said,
        })
    }

    /// What the server in the pod says to one request.
    fn get(&self) -> Result<Vec<u8>> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        connection.set_read_timeout(Some(Duration::from_secs(60)))?;
        connection.write_all(b"GET /file HTTP/1.0\r\n\r\n")?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.with_context(|| format!("{} bytes and no answer", answer.len()))?;
        Ok(answer.split_off(end + 4))
    }
}

#[test]
fn ports_are_forwarded_for_many_at_once() -> Result<()> {
    beside("forward", ("portforward", Runtime::Containerd2), |teller| {
        let script = format!("cat /www/file; {LINGER}");
        let content = teller
            .see(&["exec", "main", "--", "sh", "-c", &script], b"")?
            .stdout;
        ensure!(content.len() == MIB, "{} bytes", content.len());
        let forwarding = Forwarding::start(teller, ":8080")?;
        let heard = std::thread::scope(|threads| {
            let all: Vec<_> = (0..40)
                .map(|_| threads.spawn(|| forwarding.get()))
                .collect();
            let all = all.into_iter().map(|one| one.join().ok()?.ok());
            all.collect::<Option<Vec<_>>>()
        });
        let heard = heard.context("a connection broke")?;
        ensure!(heard.iter().all(|one| *one == content));
        // A port where nobody listens harms no other.
        drop(forwarding);
        let forwarding = Forwarding::start(teller, ":9")?;
        ensure!(forwarding.get().unwrap_or_default().is_empty());
        drop(forwarding);
        ensure!(Forwarding::start(teller, ":8080")?.get()? == content);
        Ok(())
    })
}

#[test]
fn clients_that_vanish_leave_nothing_behind() -> Result<()> {
    let stage = Stage::ours("vanish", Runtime::Containerd2)?;
    let mut teller = Teller {
        stage,
        age: Age::New,
    };
    teller.create()?;
    let pid = teller.stage.node.kubelet().pid().context("no agent runs")?;
    let pid = pid.as_raw_nonzero();
    let open = || -> Result<BTreeSet<PathBuf>> {
        let all = fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(Result::ok);
        let targets = all.filter_map(|one| fs::read_link(one.path()).ok());
        let sockets = targets.filter(|to| to.to_string_lossy().starts_with("socket:"));
        Ok(sockets.collect())
    };
    let before = open()?.len();
    for age in [Age::New, Age::Old] {
        teller.age = age;
        // From here on the node knows that such a command may be run.
        let found = teller.see(&["exec", "main", "--", "true"], b"")?;
        ensure!(found.code == Some(0), "{found:?}");
        let others = open()?;
        let script = "echo on; exec sleep 1000000";
        let mut children = Vec::new();
        for _ in 0..5 {
            let mut kubectl = teller.kubectl(&["exec", "-i", "main", "--", "sh", "-c", script]);
            kubectl.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = kubectl.spawn()?;
            let mut line = String::new();
            let stdout = child.stdout.as_mut().context("no stdout")?;
            BufReader::new(stdout).read_line(&mut line)?;
            ensure!(line == "on\n", "{line}");
            children.push(child);
        }
        // Those of others may be closed meanwhile.
        let now = open()?;
        let new = now.difference(&others).count();
        ensure!(new >= 10, "{new} new sockets, {} before", others.len());
        for mut child in children {
            child.kill()?;
            child.wait()?;
        }
        wait::until("the connections to be closed", SOON, || {
            let now = open()?.len();
            // The API server keeps one or two to ask again.
            ensure!(now <= before + 3, "{now} sockets, before {before}");
            Ok(())
        })?;
    }
    teller.stage.end()
}

/// What is answered without streams, word for word.
#[test]
fn who_asks_for_streams_wrongly_is_told_as_upstream_tells() -> Result<()> {
    let ours = Stage::ours("words-ours", Runtime::Containerd2)?;
    let upstream = Stage::bare("words-up", Runtime::Containerd2)?;
    upstream.node.start_upstream_kubelet("")?;
    upstream.node.wait_ready(SOON)?;
    let mut answers = Vec::new();
    for stage in [&ours, &upstream] {
        stage.create_sleeper("main")?;
        stage.wait_ready("main")?;
        let (node, namespace) = (stage.node.name(), stage.namespace());
        let mut told = Vec::new();
        for (post, path) in [
            (false, "exec/NS/main/main?command=ls&output=1"),
            (false, "exec/NS/main/main?command=ls"),
            (false, "exec/NS/nope/main?output=1"),
            (false, "exec/NS/main/nope?output=1"),
            (false, "attach/NS/main/main?output=1"),
            (false, "attach/NS/main/nope?output=1"),
            (false, "portForward/NS/main"),
            (false, "portForward/NS/main/other-uid"),
            (false, "portForward/NS/nope"),
            (false, "exec/NS/main"),
            (false, "exec/NS/..%2f..%2fmain/main?command=ls&output=1"),
            (false, "exec/NS/main/..%2f..%2fmain?command=ls&output=1"),
            (false, "exec/%2e%2e/main/main?command=ls&output=1"),
            (false, "attach/NS/%2e%2e/main?output=1"),
            (false, "portForward/NS/..%2fmain"),
            (true, "run/NS/main/main?cmd=echo+a+b"),
            (true, "run/NS/main/main?cmd=ls+/nope"),
            (true, "run/NS/main/main?cmd=true"),
            (true, "run/NS/main/nope?cmd=true"),
            (true, "run/NS/nope/main?cmd=true"),
            (true, "checkpoint/NS/main/nope"),
            (true, "checkpoint/NS/nope/main"),
            (true, "checkpoint/NS/main/main?timeout=x"),
            (true, "checkpoint/NS/main/..%2f..%2fmain"),
            (true, "checkpoint/..%2fNS/main/main"),
            (true, "run/NS/..%2fmain/main?cmd=true"),
        ] {
            let path = path.replace("NS", namespace);
            let path = format!("/api/v1/nodes/{node}/proxy/{path}");
            let Seen {
                code,
                stdout,
                stderr,
            } = door::decided(|| {
                let mut kubectl = stage.kubectl().command();
                if post {
                    kubectl.args(["create", "-f", "-", "--raw", &path]);
                } else {
                    kubectl.args(["get", "--raw", &path]);
                }
                let seen = watch(kubectl, b"");
                let undecided = seen
                    .as_ref()
                    .is_ok_and(|seen| door::is_undecided(&seen.stderr));
                (seen, undecided)
            })?;
            let said = format!("{code:?} {}{stderr}", String::from_utf8_lossy(&stdout));
            let said = said.replace(namespace, "NS").replace(node, "NODE");
            told.push((path.replace(namespace, "NS").replace(node, "NODE"), said));
        }
        answers.push(told);
    }
    for (ours, upstream) in answers[0].iter().zip(&answers[1]) {
        ensure!(ours == upstream, "ours {ours:?}, upstream's {upstream:?}");
    }
    upgrades::are_borne(&upstream, &ours)?;
    ours.end()?;
    upstream.end()
}
