//! The logs of a container that writes without end: put aside before they are large,
//! packed, and no line is lost, whatever happens to the agent meanwhile.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::lab::Runtime;
use testkit::{command, wait};

use super::stage::{SOON, Stage, shell};

const LINES: usize = 400_000;
const PACKED: &str = ".gz";

/// All lines have their number. They come in gusts of a megabyte, each of which is as
/// much as a log may hold.
const WRITER: &str = "\
trap 'exit 0' TERM
i=0
while [ $i -lt 40 ]; do
    seq $((i * 10000)) $((i * 10000 + 9999)) | sed 's/$/ is what this line is about, and it is quite long/'
    i=$((i + 1))
    sleep 0.3
done
touch /tmp/written
while :; do sleep 0.2; done";

/// Room for all that is written: here nothing is to be removed.
const CONFIG: &str = "\
containerLogMaxSize: 1Mi
containerLogMaxFiles: 100
containerLogMonitorInterval: 3s
";

/// A file of a log, and what is in it.
struct Part {
    name: String,
    text: String,
}

/// The oldest first, the one that is written to last.
fn parts(stage: &Stage, directory: &str) -> Result<Vec<Part>> {
    let mut names: Vec<String> = names(stage, directory)?;
    names.sort();
    let newest = names.iter().position(|name| name == "0.log");
    let newest = names.remove(newest.context("there is no 0.log")?);
    names.push(newest);
    let read = |name: String| {
        let path = stage.node.machine().file(&format!("{directory}/{name}"));
        let text = if name.ends_with(PACKED) {
            command::run(std::process::Command::new("gzip").args(["-dc"]).arg(path))?
        } else {
            fs::read_to_string(path)?
        };
        Ok(Part { name, text })
    };
    names.into_iter().map(read).collect()
}

fn names(stage: &Stage, directory: &str) -> Result<Vec<String>> {
    let listed = fs::read_dir(stage.node.machine().file(directory))?;
    let names = listed.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// The number of a line: `2026-01-02T03:04:05.678901234Z stdout F 17 is what …`.
fn number(line: &str) -> Result<usize> {
    let number = line.split(' ').nth(3).context("a line without a number")?;
    number.parse().with_context(|| format!("{line:?}"))
}

#[test]
fn no_line_of_a_fast_writer_is_lost_or_doubled_while_its_log_is_rotated_and_the_agent_killed()
-> Result<()> {
    let stage = Stage::told("pods-logs", Runtime::Containerd2, CONFIG)?;
    stage.create_pod("writer", shell(WRITER), json!({}))?;
    let pod = stage.wait_ready("writer")?;
    let uid = pod["metadata"]["uid"].as_str().context("no uid")?;
    let directory = format!("/var/log/pods/{}_writer_{uid}/main", stage.namespace());
    let rotated = |least: usize| {
        wait::until(&format!("{least} rotated logs"), SOON, || {
            let found = names(&stage, &directory)?.len();
            ensure!(found > least, "{found} files");
            Ok(())
        })
    };
    // Growth alone makes for these: the clock would have made one in three seconds.
    rotated(4)?;
    for more in [6, 8] {
        stage.node.kubelet().kill()?;
        stage.node.kubelet().start_again()?;
        rotated(more)?;
    }
    let id = stage.running()?["writer"][0].clone();
    wait::until("all to be written", SOON, || {
        stage.node.crictl(["exec", &id, "cat", "/tmp/written"])
    })?;
    let parts = wait::until("the last line to be in the log", SOON, || {
        let parts = parts(&stage, &directory)?;
        let last = parts.last().and_then(|part| part.text.lines().last());
        let text = match last {
            Some(line) => number(line)?,
            None => 0,
        };
        let before = parts.iter().rev().nth(1);
        let before = before.and_then(|part| part.text.lines().last());
        let before = before.map(number).transpose()?.unwrap_or_default();
        ensure!(text.max(before) == LINES - 1, "{text} after {before}");
        Ok(parts)
    })?;
    let mut wanted = 0;
    for part in &parts {
        for line in part.text.lines() {
            let found = number(line)?;
            ensure!(found == wanted, "{}: {found}, not {wanted}", part.name);
            wanted += 1;
        }
    }
    ensure!(wanted == LINES, "{wanted} lines");
    let packed = |part: &&Part| part.name.ends_with(PACKED);
    let count = parts.iter().filter(packed).count();
    ensure!(
        count + 3 >= parts.len(),
        "{count} of {} are packed",
        parts.len()
    );
    let sizes: Vec<usize> = parts.iter().map(|part| part.text.len() >> 10).collect();
    println!("KiB in each file: {sizes:?}");
    stage.end()
}
