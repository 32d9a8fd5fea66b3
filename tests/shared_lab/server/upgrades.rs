//! Upgrades that are wrong, asked for by somebody who may: on our node and on an upstream one
//! they have the same status; and whatever is said after one that was granted, the node goes on,
//! keeps nothing of it, and the pod does, too.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::{ClientConnection, StreamOwned};
use testkit::lab::Node;
use testkit::wait;

use super::bad_input::{ASKER, resident, status};
use super::{door, network};
use crate::pods::stage::{SOON, Stage};

/// What the whole of it may cost in memory; a frame that says it is of exabytes is among it.
const MOST: u64 = 16 << 20;

/// How long somebody waits who says nothing after an upgrade.
const SILENCE: Duration = Duration::from_millis(500);

/// A WebSocket as clients ask for it, but for its protocol.
const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

const SPDY: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";

const EXEC: &str = "/exec/NS/main/main?command=cat&input=1&output=1";
const ATTACH: &str = "/attach/NS/main/main?output=1";
const FORWARD: &str = "/portForward/NS/main";

/// Method, path, headers. None of them is granted.
const WRONG: &[(&str, &str, &str)] = &[
    ("POST", EXEC, "Connection: Upgrade\r\n"),
    ("POST", EXEC, "Connection: Upgrade\r\nUpgrade:\r\n"),
    ("POST", EXEC, "Upgrade: SPDY/3.1\r\n"),
    (
        "GET",
        EXEC,
        "Connection: Upgrade\r\nUpgrade: nonsense/7\r\n",
    ),
    (
        "GET",
        EXEC,
        "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    ),
    ("POST", EXEC, "Connection: Upgrade\r\nUpgrade: SPDY/9\r\n"),
    (
        "POST",
        EXEC,
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v99.channel.k8s.io\r\n",
    ),
    ("GET", EXEC, "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    (
        "GET",
        EXEC,
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
    ),
    (
        "GET",
        EXEC,
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 7\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n",
    ),
    (
        "GET",
        ATTACH,
        "Connection: Upgrade\r\nUpgrade: nonsense\r\n",
    ),
    (
        "POST",
        FORWARD,
        "Connection: Upgrade\r\nUpgrade: nonsense\r\n",
    ),
    (
        "POST",
        FORWARD,
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: nonsense\r\n",
    ),
    (
        "GET",
        FORWARD,
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n",
    ),
];

/// Which upgrade is granted, and what is said then.
const GRANTED: &[(&str, &str, &str, &str, &[u8])] = &[
    (
        "POST",
        EXEC,
        SPDY,
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        b"",
    ),
    (
        "POST",
        EXEC,
        SPDY,
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        &[b'x'; 9_000],
    ),
    (
        "POST",
        EXEC,
        SPDY,
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        &[0xff; 9_000],
    ),
    // A frame that is to be of 16 MiB, and ends.
    (
        "POST",
        EXEC,
        SPDY,
        "X-Stream-Protocol-Version: v4.channel.k8s.io",
        b"\x80\x03\x00\x01\x00\xff\xff\xff\x00\x00\x00\x01",
    ),
    (
        "POST",
        FORWARD,
        SPDY,
        "X-Stream-Protocol-Version: portforward.k8s.io",
        &[0xff; 9_000],
    ),
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"",
    ),
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"GET / HTTP/1.1\r\n\r\n",
    ),
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        &[0xff; 9_000],
    ),
    // Not masked, as a client's have to be.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x82\x03\x00ab",
    ),
    // Of 2^63 - 1 bytes.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00",
    ),
    // A ping in pieces.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x09\x81\x00\x00\x00\x00a",
    ),
    // To a channel that there is not.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x82\x83\x00\x00\x00\x00\xc8ab",
    ),
    // The end of a channel that there is not.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x82\x82\x00\x00\x00\x00\xff\x63",
    ),
    // A size that is none.
    (
        "GET",
        EXEC,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: v5.channel.k8s.io",
        b"\x82\x84\x00\x00\x00\x00\x04{,}",
    ),
    // SPDY inside that is none.
    (
        "GET",
        FORWARD,
        WEBSOCKET,
        "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io",
        b"\x82\x88\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
    ),
];

/// Each node has a pod `main` with a container of that name.
pub(crate) fn are_borne(theirs: &Stage, ours: &Stage) -> Result<()> {
    ours.kubectl().apply(ASKER)?;
    let token = ours.kubectl().run(["create", "token", "bad-input"])?;
    let can = ["auth", "can-i", "create", "nodes", "--subresource=proxy"];
    let robot = ["--as", "system:serviceaccount:default:bad-input"];
    wait::until("a right that was given", SOON, || {
        ours.kubectl().run([&can[..], &robot[..]].concat())
    })?;
    for stage in [theirs, ours] {
        wait_known(stage, token.trim())?;
    }
    refused(theirs, ours, token.trim())?;
    granted(ours, token.trim())
}

/// Waits until the node knows whose token it is, and that he may ask.
fn wait_known(stage: &Stage, token: &str) -> Result<()> {
    let request = request(stage, token, "GET", "/runningpods/", "");
    network::inside(stage.node.machine(), || {
        wait::until("a node that knows its caller", SOON, || {
            let mut stream = network::connect(&network::client(None)?)?;
            stream.write_all(request.as_bytes())?;
            let (status, said) = first_words(&mut stream)?;
            ensure!(status == 200, "{said:?}");
            Ok(())
        })
    })
}

/// The status of an answer, and what comes with it.
fn first_words(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> Result<(u16, String)> {
    let mut said = [0; 4096];
    let mut length = stream.read(&mut said)?;
    let status = status(&said[..length]);
    // Why a node has failed is in the body, which may come after the head.
    if status == 500 {
        stream.sock.set_read_timeout(Some(SILENCE))?;
        while let Ok(more @ 1..) = stream.read(&mut said[length..]) {
            length += more;
        }
    }
    let said = String::from_utf8_lossy(&said[..length]).into_owned();
    Ok((status, said))
}

/// A node that could not ask whose token this is, or what he may do, says nothing of the rest.
/// Whose token it is it did know, see [`wait_known`].
fn is_undecided(status: u16, said: &str) -> bool {
    status == 401 || door::is_undecided(said)
}

fn refused(theirs: &Stage, ours: &Stage, token: &str) -> Result<()> {
    let mut wrong = Vec::new();
    for (method, path, headers) in WRONG {
        let [theirs, ours] = [theirs, ours].map(|stage| {
            let request = request(stage, token, method, path, headers);
            let ask = || {
                let mut stream = network::connect(&network::client(None)?)?;
                stream.write_all(request.as_bytes())?;
                Ok(first_words(&mut stream).unwrap_or_default())
            };
            network::inside(stage.node.machine(), || {
                door::decided(|| {
                    let answer: Result<(u16, String)> = ask();
                    let undecided = answer
                        .as_ref()
                        .is_ok_and(|(status, said)| is_undecided(*status, said));
                    (answer, undecided)
                })
            })
        });
        let (theirs, ours) = (theirs?, ours?);
        if theirs.0 != ours.0 || ours.0 == 101 || ours.0 == 0 {
            wrong.push(format!(
                "{method} {path} {headers:?}: upstream {theirs:?}, ours {ours:?}"
            ));
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    Ok(())
}

fn request(stage: &Stage, token: &str, method: &str, path: &str, headers: &str) -> String {
    let path = path.replace("NS", stage.namespace());
    format!(
        "{method} {path} HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer {token}\r\n{headers}\r\n"
    )
}

fn granted(ours: &Stage, token: &str) -> Result<()> {
    let node = &ours.node;
    let (sockets_before, memory_before) = (sockets(node)?, resident(node)?);
    network::inside(node.machine(), || {
        for (method, path, upgrade, protocol, said) in GRANTED {
            let headers = format!("{upgrade}{protocol}\r\n");
            let request = request(ours, token, method, path, &headers);
            after_upgrade(&request, said)
                .with_context(|| format!("{path}, {protocol}, {:?}", said.get(..9)))?;
        }
        Ok(())
    })?;
    ensure!(node.kubelet().is_running(), "the agent has died");
    let grown = resident(node)?.saturating_sub(memory_before);
    ensure!(
        grown < MOST,
        "wrong words after upgrades cost {grown} bytes"
    );
    wait::until("the connections to be closed", SOON, || {
        let now = sockets(node)?;
        // The API server keeps one or two to ask again.
        ensure!(
            now <= sockets_before + 3,
            "{now} sockets, before {sockets_before}"
        );
        Ok(())
    })?;
    wait::until("the commands to have ended", SOON, || {
        let alive = ours.run(&["exec", "main", "--", "pidof", "cat"]);
        ensure!(alive.is_err(), "cat still runs: {alive:?}");
        Ok(())
    })?;
    let said = ours.run(&["exec", "main", "--", "echo", "well"])?;
    ensure!(said == "well\n", "{said}");
    Ok(())
}

/// Asks, is granted, says what it has to say, and hears what comes of it until the node ends it
/// or nothing more comes.
fn after_upgrade(request: &str, said: &[u8]) -> Result<()> {
    let upgraded = || {
        let mut stream = network::connect(&network::client(None)?)?;
        stream.write_all(request.as_bytes())?;
        let (status, first) = first_words(&mut stream)?;
        Ok((stream, status, first))
    };
    let (mut stream, status, first) = door::decided(|| {
        let answer: Result<_> = upgraded();
        let undecided = answer
            .as_ref()
            .is_ok_and(|(_, status, first)| is_undecided(*status, first));
        (answer, undecided)
    })?;
    ensure!(status == 101, "{first:?}");
    // It may have ended before all is said.
    let _ = stream.write_all(said);
    stream.sock.set_read_timeout(Some(SILENCE))?;
    let mut heard = [0; 4096];
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        match stream.read(&mut heard) {
            Ok(1..) => {}
            // It ended or broke, or nothing was said for a while: we go.
            Ok(0) | Err(_) => return Ok(()),
        }
    }
    anyhow::bail!("it never comes to an end")
}

fn sockets(node: &Node) -> Result<usize> {
    let pid = node.kubelet().pid().context("no agent runs")?;
    let all = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    let targets = all.filter_map(|one| fs::read_link(one.ok()?.path()).ok());
    let sockets = targets.filter(|to| to.to_string_lossy().starts_with("socket:"));
    Ok(sockets.count())
}
