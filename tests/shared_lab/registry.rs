//! The lab's registry: real pulls, and real ways to fail.

use std::time::{Duration, Instant};

use anyhow::Result;
use testkit::lab::{Lab, Node, Runtime};

#[test]
fn pulls_succeed_wait_and_fail_as_the_repository_says() -> Result<()> {
    let lab = Lab::shared()?;
    for runtime in [Runtime::Containerd2, Runtime::Containerd16] {
        let node = lab.node(&format!("registry-{runtime:?}").to_lowercase(), runtime)?;
        open(&node)?;
        private(&node)?;
        slow(&node)?;
        failing(&node);
    }
    Ok(())
}

fn open(node: &Node) -> Result<()> {
    pull(node, &["pull", "registry.lab:5000/open/pulled:1"])?;
    let images = node.crictl(["images"])?;
    assert!(images.contains("registry.lab:5000/open/pulled"), "{images}");
    Ok(())
}

fn private(node: &Node) -> Result<()> {
    let image = "registry.lab:5000/private/pulled:1";
    // containerd 2.x and 1.6 have words of their own for it.
    let refused = ["authorization failed", "401 Unauthorized"];
    assert_refused(node, &["pull", image], &refused);
    assert_refused(node, &["pull", "--creds", "lab:wrong", image], &refused);
    pull(node, &["pull", "--creds", "lab:secret", image])
}

fn slow(node: &Node) -> Result<()> {
    // Nothing may be left of the pulls before: layers are found by digest.
    // Both names are one image to the runtime.
    node.crictl(["rmi", "registry.lab:5000/open/pulled:1"])?;
    let ctr = ["--namespace", "k8s.io", "content", "prune", "references"];
    node.machine().run("ctr", ctr)?;
    let start = Instant::now();
    pull(node, &["pull", "registry.lab:5000/slow/pulled:1"])?;
    let took = start.elapsed();
    assert!(
        took > Duration::from_millis(1500),
        "two MiB at one a second took {took:?}"
    );
    Ok(())
}

fn failing(node: &Node) {
    assert_refused(
        node,
        &["pull", "registry.lab:5000/failing/pulled:1"],
        &["500"],
    );
    assert_refused(node, &["pull", "registry.lab:5000/busy/pulled:1"], &["429"]);
    assert_refused(
        node,
        &["pull", "registry.lab:5000/open/pulled:2"],
        &["not found"],
    );
    assert_refused(
        node,
        &["pull", "registry.lab:5000/open/other:1"],
        &["not found"],
    );
}

fn pull(node: &Node, words: &[&str]) -> Result<()> {
    node.crictl(words.iter().copied()).map(drop)
}

fn assert_refused(node: &Node, words: &[&str], expected: &[&str]) {
    match pull(node, words) {
        Ok(()) => panic!("{words:?} succeeded"),
        Err(error) => {
            let said = format!("{error:#}");
            assert!(
                expected.iter().any(|words| said.contains(words)),
                "{words:?}: none of {expected:?} is in {said}"
            );
        }
    }
}
