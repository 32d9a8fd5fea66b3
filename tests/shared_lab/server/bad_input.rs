//! What clients send that mean harm, or know no better: the node stays small and goes on
//! to answer.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::{Lab, Node, Runtime};
use testkit::wait;

use super::network;

const READY: Duration = Duration::from_secs(90);

/// More than there is room for.
const CROWD: usize = 3000;

/// After so long without progress nothing more is taken.
const DEAF: Duration = Duration::from_secs(3);

/// Far more than buffers of the kernel hold.
const FLOOD: usize = 256 << 20;

/// Heads that are never finished, and how long each gets: together more than there is
/// room for.
const HEADS: usize = 100;
const HEAD: usize = 900 << 10;

/// What they may cost together: what is read of heads has 32 MiB, which buffers that grow
/// by doubling hold.
const MOST_HEADS: u64 = 80 << 20;

/// Clients that may ask everything and read nothing.
const KNOWN_AND_DEAF: usize = 50;

/// What a crowd of idle strangers may cost.
const MOST: u64 = 96 << 20;

/// Somebody who may ask everything: the service account `bad-input`.
pub(super) const ASKER: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: bad-input, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bad-input}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kubelet-api-admin"}
subjects:
- {kind: ServiceAccount, name: bad-input, namespace: default}
"#;

/// What people and machines send that do not speak HTTP well, and the statuses that they
/// may get; 0: none, the connection ends.
const NONSENSE: &[(&[u8], &[u16])] = &[
    (b"nonsense\r\n\r\n", &[400]),
    (b"GET /pods\r\n\r\n", &[400]),
    (b"GET /pods HTTP/9.9\r\nHost: n\r\n\r\n", &[400, 505]),
    (b"GET /pods HTTP/1.1\r\n\r\n", &[400]),
    (b"GET /pods HTTP/1.1\r\nHost: n\r\nno colon\r\n\r\n", &[400]),
    (
        b"GET /pods HTTP/1.1\r\nHost: n\r\nContent-Length: -1\r\n\r\n",
        &[400],
    ),
    (
        b"GET /pods HTTP/1.1\r\nHost: n\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        &[400],
    ),
    (b"GET /\x00 HTTP/1.1\r\nHost: n\r\n\r\n", &[400]),
    (b"GET /%zz HTTP/1.1\r\nHost: n\r\n\r\n", &[400, 404]),
    (
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n",
        &[301, 307],
    ),
    (
        b"GET /pods HTTP/1.1\r\nHost: n\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n",
        &[401],
    ),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0, 400, 505]),
];

#[test]
fn nonsense_floods_and_crowds_are_borne() -> Result<()> {
    let lab = Lab::shared()?;
    let node = lab.node("bad-input", Runtime::Containerd2)?;
    node.start_ferrolet("")?;
    node.wait_ready(READY)?;
    lab.kubectl().apply(ASKER)?;
    let token = lab.kubectl().run(["create", "token", "bad-input"])?;
    let can = ["auth", "can-i", "get", "nodes", "--subresource=metrics"];
    let robot = ["--as", "system:serviceaccount:default:bad-input"];
    wait::until("a right that was given", READY, || {
        lab.kubectl().run([&can[..], &robot[..]].concat())
    })?;
    network::inside(node.machine(), || {
        nonsense()?;
        flood(&node)?;
        heads(&node)?;
        deaf(&node)?;
        known_and_deaf(&node, token.trim())?;
        crowd(&node)
    })?;
    ensure!(node.kubelet().is_running(), "the agent has died");
    node.remove()
}

/// For those who read what tests print, also when they pass: what the node had to bear, and
/// what it cost.
fn show(figures: &str) {
    // Unlike what is printed, this is not kept back.
    let _ = writeln!(std::io::stderr(), "bad input: {figures}");
}

fn nonsense() -> Result<()> {
    let config = network::client(None)?;
    for (sent, wanted) in NONSENSE {
        let mut stream = network::connect(&config)?;
        stream.write_all(sent)?;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let status = status(&said);
        let sent = String::from_utf8_lossy(sent);
        ensure!(
            wanted.contains(&status),
            "{sent:?}: {status}: {:?}",
            String::from_utf8_lossy(&said)
        );
    }
    Ok(())
}

/// A head without end.
fn flood(node: &Node) -> Result<()> {
    let config = network::client(None)?;
    let before = resident(node)?;
    let mut stream = network::connect(&config)?;
    stream.write_all(b"GET /pods HTTP/1.1\r\nHost: n\r\n")?;
    let line = format!("X: {}\r\n", "x".repeat(4000));
    let mut sent = 0;
    for _ in 0..16_384 {
        if stream.write_all(line.as_bytes()).is_err() {
            break;
        }
        sent += line.len();
    }
    ensure!(sent < 16 << 20, "{sent} bytes of a head were taken");
    let grown = resident(node)?.saturating_sub(before);
    show(&format!(
        "a head without end: {sent} bytes sent, resident grew by {} KiB",
        grown >> 10
    ));
    ensure!(grown < 8 << 20, "a head without end cost {grown} bytes");
    Ok(())
}

/// Many heads at once, none of which ends. Those who fill the room for them make it; somebody who
/// asks as one should is answered.
fn heads(node: &Node) -> Result<()> {
    let config = network::client(None)?;
    let before = resident(node)?;
    let line = format!("X: {}\r\n", "x".repeat(4000));
    let mut clients = Vec::new();
    let mut sent = 0;
    for _ in 0..HEADS {
        let mut stream = network::connect(&config)?;
        stream.write_all(b"GET /pods HTTP/1.1\r\nHost: n\r\n")?;
        let lines = (0..HEAD / line.len()).take_while(|_| {
            let taken = stream.write_all(line.as_bytes()).is_ok();
            sent += if taken { line.len() } else { 0 };
            taken
        });
        lines.for_each(drop);
        clients.push(stream);
    }
    let grown = resident(node)?.saturating_sub(before);
    let mut stream = network::connect(&config)?;
    stream.write_all(b"GET /nope HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n")?;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    ensure!(
        status(&said) == 404,
        "beside heads that never end: {:?}",
        String::from_utf8_lossy(&said)
    );
    let mut ended = 0;
    for stream in &mut clients {
        stream.sock.set_nonblocking(true)?;
        let read = stream.read(&mut [0]);
        // One that is still open has nothing to say.
        let open = read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        ended += usize::from(!open);
    }
    show(&format!(
        "{HEADS} heads that never end: {sent} bytes sent, {ended} connections ended, resident grew by {} KiB",
        grown >> 10
    ));
    ensure!(ended > 0, "there was room for all of them");
    ensure!(ended < HEADS, "there was room for none of them");
    ensure!(
        grown < MOST_HEADS,
        "heads that never end cost {grown} bytes"
    );
    Ok(())
}

/// Clients that ask and ask and never read an answer.
fn deaf(node: &Node) -> Result<()> {
    let config = network::client(None)?;
    let before = resident(node)?;
    let requests = b"GET /nope HTTP/1.1\r\nHost: n\r\n\r\n".repeat(400);
    let mut clients = Vec::new();
    let mut sent = 0;
    for _ in 0..5 {
        let mut stream = network::connect(&config)?;
        stream.sock.set_write_timeout(Some(DEAF))?;
        while sent < FLOOD && stream.write_all(&requests).is_ok() {
            sent += requests.len();
        }
        clients.push(stream);
    }
    let grown = resident(node)?.saturating_sub(before);
    show(&format!(
        "clients that never read: {sent} bytes of requests taken, resident grew by {} KiB",
        grown >> 10
    ));
    ensure!(sent < FLOOD, "requests are read whose answers nobody takes");
    ensure!(grown < 16 << 20, "five deaf clients cost {grown} bytes");
    Ok(())
}

/// The same by those who may ask for what is large.
fn known_and_deaf(node: &Node, token: &str) -> Result<()> {
    let config = network::client(None)?;
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: n\r\nAuthorization: Bearer {token}\r\n\r\n");
    // The first answers are read by nobody: the node has to know by then who asks.
    wait::until("a node that knows its caller", READY, || {
        let mut stream = network::connect(&config)?;
        stream.write_all(request.as_bytes())?;
        let mut said = [0; 12];
        stream.read_exact(&mut said)?;
        ensure!(said == *b"HTTP/1.1 200", "{said:?}");
        Ok(())
    })?;
    let before = resident(node)?;
    let requests = request.repeat(100);
    let mut clients = Vec::new();
    for _ in 0..KNOWN_AND_DEAF {
        let mut stream = network::connect(&config)?;
        stream.sock.set_write_timeout(Some(DEAF))?;
        // The last of them may not be taken any more.
        let _ = stream.write_all(requests.as_bytes());
        clients.push(stream);
    }
    // Answers are made until nobody takes them.
    let mut looks = [0; 4];
    wait::until("the agent to have nothing to do", READY, || {
        looks.rotate_left(1);
        looks[3] = resident(node)?;
        ensure!(looks.iter().all(|look| *look == looks[0]), "{looks:?}");
        Ok(())
    })?;
    let grown = resident(node)?.saturating_sub(before);
    show(&format!(
        "{KNOWN_AND_DEAF} clients that ask for 100 pages of figures each and read none: resident grew by {} KiB",
        grown >> 10
    ));
    // As with any client, so that it is known that they were answered.
    let mut said = [0; 12];
    clients.swap_remove(0).read_exact(&mut said)?;
    ensure!(said == *b"HTTP/1.1 200", "{said:?}");
    ensure!(grown < 48 << 20, "deaf clients cost {grown} bytes");
    Ok(())
}

/// Connections that do nothing, more than there is room for.
fn crowd(node: &Node) -> Result<()> {
    let config = network::client(None)?;
    let before = resident(node)?;
    let mut idle = Vec::new();
    for _ in 0..CROWD {
        let mut stream = network::connect(&config)?;
        // The first of them are asked to leave while the last arrive.
        let _ = stream.conn.complete_io(&mut stream.sock);
        idle.push(stream);
    }
    let full = resident(node)?;
    let bound = Duration::from_secs(5);
    let took = wait::promised("an answer with a crowd at the door", bound, || {
        let begun = Instant::now();
        let mut stream = network::connect(&config)?;
        stream.write_all(b"GET /nope HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n")?;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let took = begun.elapsed();
        ensure!(status(&said) == 404, "with a crowd at the door: {said:?}");
        Ok((took, took))
    })?;
    let grown = full.saturating_sub(before);
    show(&format!(
        "{CROWD} idle connections: resident {} KiB before, {} KiB with them ({} KiB each of 2048); the next one was answered in {} ms",
        before >> 10,
        full >> 10,
        (grown >> 10) / 2048,
        took.as_millis()
    ));
    ensure!(grown < MOST, "the crowd cost {grown} bytes");
    Ok(())
}

pub(super) fn status(said: &[u8]) -> u16 {
    let said = String::from_utf8_lossy(said);
    let code = said.split(' ').nth(1).and_then(|code| code.get(..3));
    code.and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// Bytes of the agent's memory.
pub(super) fn resident(node: &Node) -> Result<u64> {
    let pid = node.kubelet().pid().context("the agent's pid")?;
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = words.context("VmRSS")?.parse()?;
    Ok(kib << 10)
}
