//! What a tired operator gets wrong with a fleet.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cluster::{Cluster, Swept};

#[test]
fn what_a_tired_operator_gets_wrong_is_answered_with_what_to_do() -> Result<()> {
    let cluster = Cluster::take("mistakes")?;
    let mut swept = Swept::new(&cluster.kubectl);
    swept.later("mistakes-00001");
    let foreign = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "mistakes-00001"},
    });
    cluster.kubectl.apply(&foreign.to_string())?;
    let bad = cluster.path("bad.yaml");
    fs::write(
        &bad,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\ngroups: []\n",
    )?;
    let bad = format!("--config={}", bad.display());
    let ours = "--name-pattern=mistakes-{:05}";
    for (words, said) in [
        (
            vec!["--nodes=3", ours],
            "mistakes-00001; choose another --name-pattern",
        ),
        (
            vec![bad.as_str()],
            "a Pod of v1, not a Fleet of ferrolet.dev/v1alpha1",
        ),
        (vec!["--config=nowhere.yaml"], "nowhere.yaml: No such file"),
        (vec!["--nodes=3", "--capacity=gpus=3"], "gpus is not known"),
        (
            vec!["--nodes=3", "--kubelet-config=nowhere.yaml"],
            "nowhere.yaml",
        ),
        (vec!["--nodes=200000"], "too many"),
        (vec![], "--nodes"),
    ] {
        let mut command = cluster.command(&words)?;
        // The file has its own.
        if !words.iter().any(|word| word.starts_with("--config")) {
            command.arg("--name=mistakes");
        }
        let ended = command.output()?;
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(!ended.status.success(), "{words:?} was taken: {text}");
        ensure!(text.contains(said), "{words:?}: {text}");
    }
    let left = cluster.nodes()?.len();
    ensure!(left == 0, "{left} nodes were made");
    Ok(())
}
