//! The logs of a container that writes without end: put aside before they are large,
//! packed, and no line is lost, whatever happens to the agent meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::lab::Runtime;
use testkit::{command, wait};

use super::stage::{SOON, Stage, shell};

const PACKED: &str = ".gz";

/// All lines have their number. They come in gusts of a megabyte, each of which is as
/// much as a log may hold, until somebody has seen enough.
const WRITER: &str = "\
trap 'exit 0' TERM
i=0
while [ ! -e /tmp/enough ] && [ $i -lt 1000 ]; do
    seq $((i * 10000)) $((i * 10000 + 9999)) | sed 's/$/ is what this line is about, and it is quite long/'
    i=$((i + 1))
    sleep 0.3
done
echo $((i * 10000)) > /tmp/written
while :; do sleep 0.2; done";

/// Room for all that is written: here nothing is to be removed.
const CONFIG: &str = "\
containerLogMaxSize: 1Mi
containerLogMaxFiles: 1000
containerLogMonitorInterval: 3s
";

/// What is in the files of a log: the oldest first, the one that is written to last.
fn parts(stage: &Stage, directory: &str) -> Result<Vec<String>> {
    let mut names: Vec<String> = names(stage, directory)?;
    names.sort();
    let newest = names.iter().position(|name| name == "0.log");
    let newest = names.remove(newest.context("there is no 0.log")?);
    names.push(newest);
    let read = |name: String| {
        let path = stage.node.machine().file(&format!("{directory}/{name}"));
        if name.ends_with(PACKED) {
            command::run(std::process::Command::new("gzip").args(["-dc"]).arg(path))
        } else {
            Ok(fs::read_to_string(path)?)
        }
    };
    names.into_iter().map(read).collect()
}

fn names(stage: &Stage, directory: &str) -> Result<Vec<String>> {
    let listed = fs::read_dir(stage.node.machine().file(directory))?;
    let names = listed.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn mode(stage: &Stage, path: &str) -> Result<u32> {
    let metadata = fs::metadata(stage.node.machine().file(path))?;
    Ok(metadata.permissions().mode() & 0o777)
}

/// What was written, line by line: `2026-01-02T03:04:05.678901234Z stdout F 17 is what …`.
/// Where a reader was in the middle of a line, its beginning is marked with `P`, and the
/// rest follows, perhaps in the next file.
fn written(parts: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in parts.iter().flat_map(|part| part.lines()) {
        let mut words = line.splitn(4, ' ').skip(2);
        let is_whole = words.next() == Some("F");
        open.push_str(words.next().unwrap_or_default());
        if is_whole {
            lines.push(std::mem::take(&mut open));
        }
    }
    lines
}

/// The number of a line.
fn number(line: &str) -> Result<usize> {
    let number = line.split(' ').next().unwrap_or_default();
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
    for (path, expected) in [("/var/log/pods", 0o750), (directory.as_str(), 0o755)] {
        let found = mode(&stage, path)?;
        ensure!(found == expected, "{path} is {found:o}");
    }
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
    stage.node.crictl(["exec", &id, "touch", "/tmp/enough"])?;
    let count: usize = wait::until("all to be written", SOON, || {
        let written = stage.node.crictl(["exec", &id, "cat", "/tmp/written"])?;
        Ok::<_, anyhow::Error>(written.trim().parse()?)
    })?;
    let parts = wait::until("the last line to be in the log", SOON, || {
        let parts = parts(&stage, &directory)?;
        let lines = written(&parts);
        let last = lines.last().map(|line| number(line)).transpose()?;
        ensure!(last == Some(count - 1), "the last is {last:?}");
        Ok(parts)
    })?;
    let lines = written(&parts);
    for (wanted, line) in lines.iter().enumerate() {
        let found = number(line)?;
        ensure!(found == wanted, "{found}, not {wanted}");
    }
    ensure!(lines.len() == count, "{} lines", lines.len());
    wait::until("all but a few to be packed", SOON, || {
        let names = names(&stage, &directory)?;
        let packed = names.iter().filter(|name| name.ends_with(PACKED)).count();
        let all = names.len();
        ensure!(packed + 3 >= all, "{packed} of {all} are packed");
        Ok(())
    })?;
    let sizes: Vec<usize> = parts.iter().map(|part| part.len() >> 10).collect();
    println!("KiB in each file: {sizes:?}");
    stage.end()
}
