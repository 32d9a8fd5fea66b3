//! kubectl follows what happens.

use std::io::{BufRead as _, BufReader};

use apiserver::faults::{Effect, Rule};

use super::server::Cluster;

#[test]
fn a_watch_prints_each_change() {
    let cluster = Cluster::start();
    cluster.config_map("first");
    let mut watching = cluster.spawn(&["get", "cm", "-w", "--output-watch-events"]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut until = |word: &str, name: &str| {
        let found = lines.any(|line| {
            let line = line.unwrap();
            line.contains(word) && line.contains(name)
        });
        assert!(found, "{word} {name}");
    };
    until("ADDED", "first");
    cluster.config_map("second");
    until("ADDED", "second");
    cluster.ok(&["label", "cm", "second", "a=b"]);
    until("MODIFIED", "second");
    cluster.ok(&["delete", "cm", "second"]);
    until("DELETED", "second");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn faults_are_met_as_long_as_their_rules_hold() {
    let cluster = Cluster::start();
    cluster.config_map("a");
    let faults = cluster.server.faults();
    faults.add(Rule::new("get", "configmaps", Effect::Error(500)));
    let said = cluster.fails(&["get", "cm", "a"]);
    assert!(said.contains("a fault that was asked for"), "{said}");
    faults.set(vec![Rule::new("list", "configmaps", Effect::StaleList(1))]);
    cluster.config_map("b");
    assert!(
        !cluster.ok(&["get", "cm"]).contains("b "),
        "the newest is not there yet"
    );
    faults.clear();
    assert!(cluster.ok(&["get", "cm", "b"]).contains('b'));
}
