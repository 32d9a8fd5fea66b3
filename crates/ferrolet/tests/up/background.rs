//! A cluster in the background.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::wait::until;

use super::cluster::{Client, PATIENCE, PROGRAM, signal};

fn detach(flags: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(PROGRAM);
    command
        .args(["up", "--detach", "--runtime=sim"])
        .args(flags);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The process that goes on, and a kubectl for its cluster.
fn left(told: &str, steps: &str) -> (u32, Client) {
    assert!(steps.contains("sim-0 is Ready"), "{steps}");
    let process = told.split_whitespace().nth(1).unwrap();
    (process.parse().unwrap(), Client::told(steps))
}

fn wait_gone(path: &Path) {
    let gone = until("its end", PATIENCE, || {
        if path.exists() {
            Err(format!("{} is there", path.display()))
        } else {
            Ok(())
        }
    });
    gone.unwrap();
}

#[test]
fn a_detached_cluster_goes_on_until_it_is_ended() {
    let (success, told, steps) = detach(&["--ephemeral"]);
    assert!(success, "{told}{steps}");
    let (process, client) = left(&told, &steps);
    assert!(client.ok(&["get", "nodes"]).contains(" Ready "));
    signal("TERM", process);
    wait_gone(client.kubeconfig.parent().unwrap());
}

#[test]
fn a_second_one_in_the_same_place_does_not_touch_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", directory.path().display());
    let flags = [data.as_str(), "--port=0"];
    let (success, told, steps) = detach(&flags);
    assert!(success, "{told}{steps}");
    let (process, client) = left(&told, &steps);
    let (success, _, refused) = detach(&flags);
    assert!(!success && refused.contains("is up already"), "{refused}");
    assert!(client.ok(&["get", "nodes"]).contains(" Ready "));
    let ready = directory.path().join("ready");
    assert!(ready.exists());
    let log = fs::read_to_string(directory.path().join("up.log")).unwrap();
    assert!(log.contains("sim-0 is Ready"), "{log}");
    signal("TERM", process);
    wait_gone(&ready);
    // It is there again as soon as it has let go of its files.
    let again = until("its return", PATIENCE, || {
        let (success, told, steps) = detach(&flags);
        if success {
            Ok((told, steps))
        } else {
            Err(steps)
        }
    });
    let (told, steps) = again.unwrap();
    let (process, _) = left(&told, &steps);
    signal("TERM", process);
    wait_gone(&ready);
    assert!(steps.contains("a cluster resumes in"), "{steps}");
}

#[test]
fn a_cluster_that_cannot_start_says_why_before_it_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = Command::new(PROGRAM)
        .args(["up", "--detach", "--runtime=sim"])
        .arg(format!("--port={port}"))
        .arg("--data-dir")
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("is taken") && said.contains("--port"),
        "{said}"
    );
}
