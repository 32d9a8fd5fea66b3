//! `kubectl logs` with all its flags, and the node's own logs: the same asked of our
//! node and of an upstream one, through the API server and at their doors.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Runtime};
use testkit::wait;

use super::door::{self, Answer};
use crate::pods::stage::{SOON, Stage, shell};

const CONFIG: &str = "enableSystemLogQuery: true\n";

/// Lines to both outputs, and one that the runtime takes apart.
const TALKER: &str = "\
for i in 1 2 3 4 5 6 7 8 9; do echo out $i; sleep 0.1; echo err $i >&2; sleep 0.1; done
head -c 40000 /dev/zero | tr '\\0' x; echo ' and its end'
echo; echo last
trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// What users ask of it with kubectl.
const FLAGS: &[&[&str]] = &[
    &["talker"],
    &["talker", "--tail=3"],
    &["talker", "--tail=0"],
    &["talker", "--tail=-1"],
    &["talker", "--tail=1000000"],
    &["talker", "--limit-bytes=1"],
    &["talker", "--limit-bytes=20", "--tail=9"],
    &["talker", "--timestamps"],
    &["talker", "--timestamps", "--tail=7"],
    &["talker", "--timestamps", "--limit-bytes=40"],
    &["talker", "--since=1h"],
    &["talker", "--since=1s"],
    &["talker", "--since-time=2020-01-02T03:04:05Z"],
    &["talker", "--since-time=2100-01-02T03:04:05+02:00"],
    &["talker", "--since=1h", "--since-time=2020-01-02T03:04:05Z"],
    &["talker", "--previous"],
    &["talker", "--container=main"],
    &["talker", "--container=nope"],
    &["talker", "--all-containers", "--prefix", "--tail=2"],
    &["crasher", "--previous"],
    &["crasher", "--previous", "--timestamps"],
    &["crasher", "--container=first"],
    &["crasher", "--container=first", "--follow"],
    &["crasher", "--all-containers", "--previous"],
    &["ended", "--follow"],
    &["ended", "--follow", "--tail=1"],
    &["ended"],
    &["unpulled"],
    &["unpulled", "--previous"],
    &["nobody"],
];

/// What nobody asks by kubectl, below `/containerLogs/NAMESPACE/`.
const QUERIES: &[&str] = &[
    "talker/main?tail=2",
    "talker/main?tail=all&tailLines=x&limitBytes=30",
    "talker/main?tailLines=2&timestamps=false&follow=0",
    "talker/main?tailLines=x",
    "talker/main?tailLines=-1",
    "talker/main?limitBytes=0",
    "talker/main?sinceSeconds=0",
    "talker/main?sinceSeconds=1&sinceTime=2020-01-02T03:04:05Z",
    "talker/main?sinceTime=yesterday",
    "talker/main?stream=Stdout",
    "talker/main?stream=Stdout&tailLines=2",
    "talker/main?stream=nope",
    "talker/main?stream=All&tailLines=2",
    "talker/nope",
    "talker/main/more",
    "talker",
    "nobody/main",
    "crasher/first?previous=true",
    "unpulled/main",
    "..%2f..%2fetc/main",
    "talker/..%2f..%2f0.log",
    "talker/main%2f..%2f..%2f0.log",
    "%2e%2e/main",
    "talker/%2e%2e",
    "../../../etc/passwd",
];

/// What is asked for one of a container's outputs, where it can be (the gate
/// `PodLogsQuerySplitStreams`).
const STREAMS: &[&str] = &[
    "talker/main?stream=Stdout",
    "talker/main?stream=Stderr",
    "talker/main?stream=All",
    "talker/main?stream=stdout",
    "talker/main?stream=",
    "talker/main?stream=Stdout&stream=Stderr",
    "talker/main?stream=Stderr&limitBytes=9",
    "talker/main?stream=Stdout&tailLines=2",
    "talker/main?stream=All&tailLines=2",
    "talker/main?stream=Stderr&sinceSeconds=3600&timestamps=true",
    "crasher/main?stream=Stderr&previous=true",
    "ended/main?stream=Stdout&follow=true",
    "ended/main?stream=Stderr&follow=true",
];

const SPLIT: &str = "featureGates: {PodLogsQuerySplitStreams: true}\n";

/// What is asked of the node's own logs: options of curl, and a path below `/logs`.
const FILES: &[&[&str]] = &[
    &[""],
    &["/ours/"],
    &["/ours"],
    &["/ours?x=1"],
    &["/ours/plain"],
    &["/ours/plain/"],
    &["/ours/empty"],
    &["/ours/binary"],
    &["/ours/packed.gz"],
    &["/ours/data.json"],
    &["/ours/a%20b%3F"],
    &["/ours/page/"],
    &["/ours/page/index.html"],
    &["/ours/nope"],
    &["/ours/plain/nope"],
    &["/ours/../ours/plain"],
    &["/../../etc/passwd"],
    &["/ours/%2e%2e/%2e%2e/%2e%2e/etc/passwd"],
    &["/..%2f..%2fetc%2fpasswd"],
    &["/ours/inner"],
    &["--header", "Range: bytes=2-5", "/ours/plain"],
    &["--header", "Range: bytes=-3", "/ours/plain"],
    &["--header", "Range: bytes=0-1,4-5", "/ours/plain"],
    &["--header", "Range: bytes=999-", "/ours/plain"],
    &["--header", "Range: nonsense", "/ours/plain"],
    &["--header", "Range: bytes=0-1", "/ours/empty"],
    &[
        "--header",
        "If-Modified-Since: Sun, 01 Jan 2040 00:00:00 GMT",
        "/ours/plain",
    ],
    &[
        "--header",
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
        "/ours/plain",
    ],
    &[
        "--header",
        "If-Modified-Since: Sun, 01 Jan 2040 00:00:00 GMT",
        "/ours/",
    ],
    &[
        "--header",
        "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
        "/ours/plain",
    ],
    &["--header", "If-None-Match: *", "/ours/plain"],
    &["--header", "If-Match: \"x\"", "/ours/plain"],
    &["--head", "/ours/plain"],
    &["--request", "POST", "/ours/plain"],
    &["/?query=ours/plain"],
    &["/?query=ours%2Fnope"],
    &["/?query=..%2F..%2Fetc%2Fpasswd"],
    &["/?query=service"],
    &["/?query=nobody"],
    &["/?query=service&query=nobody"],
    &["/?query=service&tailLines=2"],
    &["/?tailLines=2"],
    &["/?query=+"],
    &["/?query=a%24b"],
    &["/?query=a&query=b&query=c&query=d&query=e"],
    &["/?query=a&query=b/c"],
    &["/?query=a/b&query=b/c"],
    &["/?query=a/b&boot=-1"],
    &["/?query=a&boot=1&tailLines=100001"],
    &["/?query=a&boot=x"],
    &["/?query=a&sinceTime=yesterday"],
    &["/?query=a&sinceTime=2021-01-02T03:04:05Z&untilTime=2020-01-02T03:04:05Z"],
    &["/?query=a&pattern=("],
    &["/?query=a&pattern=a**"],
    &["/ours/?query=service"],
    &["/ours/plain?other=1"],
];

/// Both nodes: upstream's, and ours.
fn both(name: &str) -> Result<[Stage; 2]> {
    thread::scope(|scope| {
        let made = [(Agent::Upstream, "u"), (Agent::Ferrolet, "o")].map(|(agent, letter)| {
            let name = format!("{name}-{letter}");
            scope.spawn(move || {
                let stage = Stage::bare(&name, Runtime::Containerd2)?;
                stage.node.start_agent(agent, CONFIG, &[])?;
                stage.node.wait_ready(SOON)?;
                Ok::<_, anyhow::Error>(stage)
            })
        });
        let [theirs, ours] = made.map(|one| {
            let joined = one.join();
            joined.map_err(|_| anyhow!("a thread has panicked"))?
        });
        Ok([theirs?, ours?])
    })
}

fn people(stage: &Stage) -> Result<()> {
    stage.create_pod("talker", shell(TALKER), json!({}))?;
    let first = json!({
        "name": "first", "image": testkit::lab::BUSYBOX_IMAGE,
        "command": ["sh", "-c", "echo first of all"],
    });
    let crash = shell("echo I am; sleep 0.5; echo I fail >&2; sleep 0.5; exit 3");
    stage.create_pod("crasher", crash, json!({ "initContainers": [first] }))?;
    let never = json!({ "restartPolicy": "Never" });
    stage.create_pod("ended", shell("seq 1 500; printf 'not ended'"), never)?;
    let mut unpulled = shell("true");
    unpulled["image"] = json!("registry.lab:5000/open/nope:1");
    stage.create_pod("unpulled", unpulled, json!({}))?;
    Ok(())
}

fn wait_for_people(stage: &Stage) -> Result<()> {
    stage.wait_ready("talker")?;
    let main = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    stage.wait_pod("crasher", "in a later run", |pod| {
        main(pod)["lastState"]["terminated"].is_object()
    })?;
    stage.wait_pod("ended", "over", |pod| pod["status"]["phase"] == "Succeeded")?;
    stage.wait_pod("unpulled", "without its image", |pod| {
        main(pod)["state"]["waiting"]["reason"] == "ImagePullBackOff"
    })?;
    wait::until("all to be said", SOON, || {
        let said = stage.run(&["logs", "talker"])?;
        ensure!(said.ends_with("\nlast\n"), "not yet");
        Ok(())
    })
}

/// What came of a command: whether it did well, and what it printed, without what
/// differs from node to node and from moment to moment.
fn outcome(stage: &Stage, mut command: Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| masked(stage, &String::from_utf8_lossy(bytes));
    Ok(format!(
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    ))
}

fn masked(stage: &Stage, text: &str) -> String {
    let text = text.replace(stage.namespace(), "NAMESPACE");
    let text = text.replace(stage.node.name(), "NODE");
    let lines = text.split('\n').map(|line| {
        // `2026-01-02T03:04:05.123456789Z`, of the same length in every line.
        let bytes = line.as_bytes();
        let stamped =
            bytes.len() >= 30 && bytes[4] == b'-' && bytes[19] == b'.' && bytes[29] == b'Z';
        if stamped {
            format!("TIME{}", &line[30..])
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn kubectl(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.kubectl().command();
    command.args(["--namespace", stage.namespace()]).args(words);
    command
}

/// What a node's door answers, at its port.
fn asked(stage: &Stage, request: &[&str], below: &str) -> Result<Answer> {
    let (path, options) = request.split_last().context("a path")?;
    let place = format!("{below}{path}");
    let request = [&["--http1.1"], options, &[&place]].concat();
    let mut answer = door::asked(&stage.node, &request)?;
    let headers = &mut answer.headers;
    // What is gathered from several places has no length before it is sent; upstream's
    // server counts what is short while it holds it back.
    if path.starts_with("/?query=") {
        headers.remove("content-length");
        headers.remove("transfer-encoding");
    }
    answer.body = masked(stage, &answer.body);
    if let Some(modified) = headers.get_mut("last-modified") {
        "SOME TIME".clone_into(modified);
    }
    // Made up by chance for each answer.
    if let Some(kind) = headers.get_mut("content-type")
        && let Some((name, boundary)) = kind.split_once("boundary=")
    {
        answer.body = answer.body.replace(boundary, "BOUNDARY");
        *kind = format!("{name}boundary=BOUNDARY");
        headers.remove("content-length");
    }
    Ok(answer)
}

/// What is said of a container whose log is gone.
const LOST: &str = "unable to retrieve container logs for";

fn differences<T: std::fmt::Debug>(
    what: impl std::fmt::Debug,
    both: &[T; 2],
    found: &mut Vec<String>,
) {
    // A pull that fails is tried again: which of the two it is in is chance.
    let [theirs, ours] = both.each_ref().map(|one| {
        let text = format!("{one:?}");
        text.replace("trying and failing to pull image", "image can't be pulled")
    });
    // Upstream may have removed the run that it calls the previous one. Ours has to have it.
    let lost = theirs.contains(LOST) && !ours.contains(LOST);
    if theirs != ours && !lost {
        found.push(format!("{what:?}\n  theirs {theirs}\n  ours   {ours}"));
    }
}

fn none(found: &[String]) -> Result<()> {
    ensure!(
        found.is_empty(),
        "{} differ:\n{}",
        found.len(),
        found.join("\n")
    );
    Ok(())
}

#[test]
fn kubectl_logs_with_all_flags_is_the_same_on_both_nodes() -> Result<()> {
    let stages = both("logs-flags")?;
    for stage in &stages {
        people(stage)?;
    }
    for stage in &stages {
        wait_for_people(stage)?;
        door::lend_certificate(&stage.lab, &stage.node)?;
    }
    // What was said a second ago is old by then.
    thread::sleep(std::time::Duration::from_secs(2));
    let mut found = Vec::new();
    for flags in FLAGS {
        let words = [&["logs"], *flags].concat();
        let told = both_told(&stages, |stage| {
            door::decided(|| {
                let told = outcome(stage, kubectl(stage, &words));
                let undecided = told.as_ref().is_ok_and(|told| door::is_undecided(told));
                (told, undecided)
            })
        })?;
        differences(flags, &told, &mut found);
    }
    ask_for_logs(&stages, QUERIES, &mut found)?;
    for (stage, agent) in stages.iter().zip([Agent::Upstream, Agent::Ferrolet]) {
        stage.node.kubelet().stop()?;
        let config = format!("{CONFIG}{SPLIT}");
        stage.node.start_agent(agent, &config, &[])?;
    }
    for stage in &stages {
        wait::until("the pods to be known again", SOON, || {
            let below = format!("/containerLogs/{}/", stage.namespace());
            let answer = asked(stage, &["ended/main?tailLines=1"], &below)?;
            ensure!(answer.status == "200", "{answer:?}");
            Ok(())
        })?;
    }
    ask_for_logs(&stages, STREAMS, &mut found)?;
    none(&found)?;
    stages.into_iter().try_for_each(Stage::end)
}

/// What both say. An image is asked for again from time to time, a container that crashes is
/// started again: they have other words then, and are asked again while theirs differ.
fn both_told<T: PartialEq>(
    stages: &[Stage; 2],
    ask: impl Fn(&Stage) -> Result<T>,
) -> Result<[T; 2]> {
    let mut told = [ask(&stages[0])?, ask(&stages[1])?];
    for _ in 0..20 {
        if told[0] == told[1] {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(300));
        told = [ask(&stages[0])?, ask(&stages[1])?];
    }
    Ok(told)
}

fn ask_for_logs(stages: &[Stage; 2], queries: &[&str], found: &mut Vec<String>) -> Result<()> {
    for query in queries {
        let told = both_told(stages, |stage| {
            let below = format!("/containerLogs/{}/", stage.namespace());
            asked(stage, &[query], &below)
        })?;
        differences(query, &told, found);
    }
    Ok(())
}

#[test]
fn the_nodes_own_logs_are_served_as_upstream_serves_them() -> Result<()> {
    let stages = both("logs-node")?;
    for stage in &stages {
        door::lend_certificate(&stage.lab, &stage.node)?;
        let machine = stage.node.machine();
        for (name, content) in [
            ("ours/plain", &b"0123456789"[..]),
            ("ours/empty", b""),
            ("ours/binary", b"\0\x01\x02"),
            ("ours/packed.gz", b"\x1f\x8b\x08\x00"),
            ("ours/data.json", b"{}"),
            ("ours/a b?", b"odd"),
            ("ours/page/index.html", b"<p>a page"),
            ("service/service.log", b"of the service\n"),
        ] {
            machine.write(&format!("/var/log/{name}"), content)?;
        }
        machine.run("ln", ["-s", "/var/log/ours/plain", "/var/log/ours/inner"])?;
        machine.run("ln", ["-s", "/etc", "/var/log/ours/outer"])?;
    }
    let mut found = Vec::new();
    for request in FILES {
        let told = [
            asked(&stages[0], request, "/logs")?,
            asked(&stages[1], request, "/logs")?,
        ];
        differences(request, &told, &mut found);
    }
    none(&found)?;
    // Here we differ, and mean it: upstream follows links wherever they lead, and
    // refuses the slash that its documents begin names with.
    let [theirs, ours] = &stages;
    let passwd = &["/ours/outer/passwd"][..];
    assert_eq!(asked(ours, passwd, "/logs")?.status, "403");
    assert_eq!(asked(theirs, passwd, "/logs")?.status, "200");
    let slash = &["/?query=/ours/plain"][..];
    assert_eq!(asked(ours, slash, "/logs")?.body, "0123456789");
    assert_eq!(asked(theirs, slash, "/logs")?.status, "406");
    let path = format!("/api/v1/nodes/{}/proxy/logs/ours/plain", ours.node.name());
    assert_eq!(ours.kubectl().run(["get", "--raw", &path])?, "0123456789");
    stages.into_iter().try_for_each(Stage::end)
}

const LINES: usize = 300_000;

/// All lines have their number. A gust is more than a log may hold.
const WRITER: &str = "\
until [ -e /go ]; do sleep 0.1; done
i=0
while [ $i -lt 30 ]; do
    seq $((i * 10000)) $((i * 10000 + 9999)) | sed 's/$/ is what this line is about, and it is quite long/'
    i=$((i + 1))
    sleep 0.3
done
sleep 2";

const ROTATED: &str = "\
containerLogMaxSize: 1Mi
containerLogMaxFiles: 40
containerLogMonitorInterval: 3s
";

/// `kubectl logs --follow`, into a file.
fn follow(stage: &Stage, pod: &str) -> Result<(Child, tempfile::NamedTempFile)> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = kubectl(stage, &["logs", "--follow", pod]);
    command.stdin(Stdio::null()).stdout(file.reopen()?);
    Ok((command.spawn()?, file))
}

#[test]
fn a_log_that_is_followed_over_rotations_loses_and_doubles_nothing() -> Result<()> {
    let stage = Stage::told("logs-follow", Runtime::Containerd2, ROTATED)?;
    let never = json!({ "restartPolicy": "Never" });
    stage.create_pod("writer", shell(WRITER), never)?;
    let began = |pod: &Value| pod["status"]["phase"] == "Running";
    stage.wait_pod("writer", "at work", began)?;
    let (mut child, file) = follow(&stage, "writer")?;
    wait::until("it to follow", SOON, || {
        ensure!(open_logs(&stage)? == 1, "it does not");
        Ok(())
    })?;
    stage.run(&["exec", "writer", "--", "touch", "/go"])?;
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    let text = fs::read_to_string(file.path())?;
    let numbers: Vec<usize> = text
        .lines()
        .map(|line| {
            let number = line.split(' ').next().unwrap_or_default();
            number.parse().with_context(|| format!("{line:?}"))
        })
        .collect::<Result<_>>()?;
    let first = numbers.first().copied().context("nothing was shown")?;
    ensure!(first == 0, "the log was rotated before it was followed");
    for (at, number) in numbers.iter().enumerate() {
        ensure!(*number == at, "{number} comes where {at} should");
    }
    ensure!(numbers.len() == LINES, "{} lines", numbers.len());
    stage.end()
}

/// What the agent has open of the logs of a pod's containers.
fn open_logs(stage: &Stage) -> Result<usize> {
    let agent = stage.node.kubelet().pid().context("no agent")?;
    let open = fs::read_dir(format!("/proc/{}/fd", agent.as_raw_nonzero()))?;
    let logs = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let is_log = |path: &std::path::PathBuf| {
        let path = path.to_string_lossy();
        path.contains("/var/log/pods/") && path.contains(stage.namespace())
    };
    Ok(logs.filter(is_log).count())
}

#[test]
fn followers_who_are_killed_leave_nothing() -> Result<()> {
    let stage = Stage::ours("logs-killed", Runtime::Containerd2)?;
    let script = "trap 'exit 0' TERM; while :; do date; sleep 0.5; done";
    stage.create_pod("clock", shell(script), json!({}))?;
    stage.wait_ready("clock")?;
    assert_eq!(open_logs(&stage)?, 0);
    let mut followers = Vec::new();
    for _ in 0..8 {
        followers.push(follow(&stage, "clock")?);
    }
    wait::until("all to follow", SOON, || {
        let open = open_logs(&stage)?;
        ensure!(open == followers.len(), "{open} do");
        Ok(())
    })?;
    for (child, _) in &mut followers {
        child.kill()?;
        child.wait()?;
    }
    wait::until("nothing to be open", SOON, || {
        let open = open_logs(&stage)?;
        ensure!(open == 0, "{open} are");
        Ok(())
    })?;
    // A client that is there sees its pod's end.
    let (mut child, _file) = follow(&stage, "clock")?;
    wait::until("it to follow", SOON, || {
        ensure!(open_logs(&stage)? == 1, "it does not");
        Ok(())
    })?;
    stage.run(&["delete", "pod", "clock", "--wait=false"])?;
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    stage.end()
}
