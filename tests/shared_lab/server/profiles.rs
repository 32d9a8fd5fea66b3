//! CPU profiles over the node's port, ours and upstream's: asked for the same, and read by the
//! same tool.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::command;
use testkit::lab::Node;

use super::door;

/// Long enough for both clients to come while it is taken, on a busy machine too.
const PATH: &str = "/debug/pprof/profile?seconds=10";
const SECONDS: &str = "10";

/// Where answers are left on the nodes, whose `/tmp` is that of the host.
const ANSWERS: [&str; 2] = ["/var/tmp/profile-1", "/var/tmp/profile-2"];

/// What is told of an answer.
const TOLD: &str = "%{http_code} %header{content-type} %header{content-disposition} \
    %header{x-content-type-options} %header{x-go-pprof}";

pub(crate) fn compare(theirs: &Node, ours: &Node) -> Result<()> {
    let [their_answers, our_answers] = [theirs, ours].map(profiled);
    let (their_answers, our_answers) = (their_answers?, our_answers?);
    for (whose, answers) in [("upstream's", &their_answers), ("ours", &our_answers)] {
        let table = read(&answers.profile).with_context(|| format!("of {whose} profile"))?;
        println!("{whose}: {table}");
        // How much was seen of it, and where: by names.
        ensure!(table.contains("Type: cpu"), "{whose}: {table}");
        ensure!(table.contains("Total samples = "), "{whose}: {table}");
        ensure!(!table.contains("Total samples = 0"), "{whose}: {table}");
        let name = if whose == "ours" {
            "server"
        } else {
            "runtime."
        };
        ensure!(table.contains(name), "{whose}: no {name}: {table}");
    }
    ensure!(
        their_answers.told == our_answers.told,
        "upstream {:?}\nours     {:?}",
        their_answers.told,
        our_answers.told
    );
    Ok(())
}

/// What two clients get who ask at once, while others keep the node busy.
struct Answers {
    /// Of both, the better one first, and the words of the other.
    told: Vec<String>,
    profile: Vec<u8>,
}

fn profiled(node: &Node) -> Result<Answers> {
    let mut asking = Vec::new();
    for file in ANSWERS {
        let mut curl = curl(node);
        curl.args(["--output", file, "--write-out", TOLD]);
        curl.arg(format!("https://127.0.0.1:10250{PATH}"));
        asking.push(curl.stdout(Stdio::piped()).spawn()?);
    }
    let mut busy = node.machine().command("timeout");
    let requests = "https://127.0.0.1:10250/metrics?[1-100000]";
    busy.args([SECONDS, "curl"]).args(door::as_client());
    busy.args(["--output", "/dev/null", requests]);
    // It is cut off when its time is up.
    busy.stdout(Stdio::null()).status()?;
    let mut told = Vec::new();
    for (child, file) in asking.into_iter().zip(ANSWERS) {
        let output = child.wait_with_output()?;
        let content = fs::read(node.machine().root(file))?;
        told.push((String::from_utf8(output.stdout)?, content));
    }
    told.sort();
    let [(first, profile), (second, words)] =
        <[_; 2]>::try_from(told).ok().context("two answers")?;
    let words = String::from_utf8_lossy(&words).into_owned();
    Ok(Answers {
        told: vec![first, second, words],
        profile,
    })
}

fn curl(node: &Node) -> Command {
    let mut curl = node.machine().command("curl");
    curl.args(door::as_client());
    curl
}

/// As somebody reads it who wants to know what a node is busy with.
fn read(profile: &[u8]) -> Result<String> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), profile)?;
    let mut go = Command::new("go");
    go.args(["tool", "pprof", "-top", "-cum", "-symbolize=none"])
        .arg(file.path());
    command::run(&mut go)
}
