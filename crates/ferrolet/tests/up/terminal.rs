//! `ferrolet up` on a terminal: a live view, and Ctrl-C from the keyboard.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use testkit::wait::until;

use super::cluster::{Client, PATIENCE, PROGRAM};

/// Clears what was drawn, to draw it anew.
const DRAWN_ANEW: &str = "A\u{1b}[J";

/// Closed with this, and what runs in it is told.
struct Terminal(Child);

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_terminal_has_a_live_view_and_ctrl_c_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let said = directory.path().join("said");
    // `exec`, as some shells stay in between, and end as interrupted whatever the program does.
    let line = format!("exec {PROGRAM} up --ephemeral --runtime=sim");
    // It gives the program a terminal, whose keyboard is our pipe.
    let script = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &line])
        .arg("/dev/null")
        .stdin(Stdio::piped())
        .stdout(File::create(&said).unwrap())
        .stderr(Stdio::null())
        .spawn();
    let mut script = Terminal(script.unwrap());
    let mut keyboard = script.0.stdin.take().unwrap();
    let shown = |words: &[&str]| {
        until("the view", PATIENCE, || {
            let text = fs::read_to_string(&said).unwrap();
            let all = words.iter().all(|word| text.contains(word));
            if all { Ok(text) } else { Err(text) }
        })
        .unwrap()
    };
    let text = shown(&["Ctrl-C ends it.", "NODE ", "STATUS", DRAWN_ANEW]);
    // The tables follow the cluster, and pods are seen there, not told.
    let client = Client::told(&text.replace('\r', ""));
    client.ok(&["run", "seen-in-the-view", "--image=busybox"]);
    let text = shown(&["seen-in-the-view", "Running"]);
    assert!(text.contains("default/seen-in-the-view"), "{text}");

    keyboard.write_all(b"\x03").unwrap();
    let ended = until("it to end", PATIENCE, || {
        script.0.try_wait().unwrap().ok_or("it still runs")
    });
    let ended = ended.unwrap();
    let text = fs::read_to_string(&said).unwrap();
    assert!(ended.success(), "{ended}: {text}");
    assert!(text.contains("nothing of the cluster is left"), "{text}");
}
