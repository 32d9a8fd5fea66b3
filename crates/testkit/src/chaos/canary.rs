//! Trees of files on a node that nobody may change: one that pods see through their
//! volumes, and one beside the pods' own directories. Who removes through a mount what is
//! not the pod's, or one directory too many, is found out.

use anyhow::{Result, ensure};

use crate::lab::Node;

/// Where it is on the node.
pub(super) const PLACE: &str = "/var/canary";

/// Where the agent has what is its own: no pod sees it.
const NEIGHBOUR: &str = "/var/lib/kubelet/canary";

/// Directories that volumes are made of, and one that no pod ever sees.
const DIRECTORIES: [&str; 3] = ["local", "path", "beside"];

#[derive(Debug)]
pub(super) struct Canary {
    /// Every file with its content's hash, and whatever else can be told of it.
    before: String,
}

impl Canary {
    pub(super) fn hatch(node: &Node) -> Result<Self> {
        let directories = DIRECTORIES.join(" ");
        let script = format!(
            "set -e; for place in {PLACE} {NEIGHBOUR}; do rm -rf $place; mkdir -p $place; cd $place; \
             for d in {directories}; do mkdir -p $d/deep/er $d/empty; \
             for f in $d/a $d/deep/b $d/deep/er/c; do echo $f > $f; done; ln -s a $d/link; done; done"
        );
        node.machine().run("sh", ["-c", &script])?;
        let before = look(node)?;
        let files = before.lines().filter(|line| line.contains("/deep/b"));
        ensure!(
            files.count() >= 2 * 2 * DIRECTORIES.len(),
            "the canary is not seen as a whole:\n{before}"
        );
        Ok(Self { before })
    }

    /// What is not as it was.
    pub(super) fn faults(&self, node: &Node) -> Result<Vec<String>> {
        Ok(changed(&self.before, &look(node)?))
    }

    pub(super) fn files(&self) -> usize {
        self.before.lines().count()
    }
}

fn look(node: &Node) -> Result<String> {
    // What is mounted by whom does not change how many names a file has, nor when it
    // was changed.
    let script = format!(
        "find {PLACE} {NEIGHBOUR} -exec stat -c '%n %F %a %u %g %h %y' {{}} + | sort && \
         find {PLACE} {NEIGHBOUR} -type f -exec sha256sum {{}} + | sort"
    );
    node.machine().run("sh", ["-c", &script])
}

fn changed(before: &str, after: &str) -> Vec<String> {
    let is_in = |line: &&str, text: &str| text.lines().any(|other| other == *line);
    let gone = before.lines().filter(|line| !is_in(line, after));
    let new = after.lines().filter(|line| !is_in(line, before));
    let gone = gone.map(|line| format!("the canary has no more: {line}"));
    let new = new.map(|line| format!("the canary has since: {line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_new_or_another_is_a_fault() {
        let before = "a 644\nb 644\nhash a";
        assert!(changed(before, before).is_empty());
        for (after, wanted) in [
            ("a 644\nhash a", vec!["the canary has no more: b 644"]),
            (
                "a 644\nb 644\nc 644\nhash a",
                vec!["the canary has since: c 644"],
            ),
            (
                "a 644\nb 644\nother a",
                vec![
                    "the canary has no more: hash a",
                    "the canary has since: other a",
                ],
            ),
        ] {
            assert_eq!(changed(before, after), wanted);
        }
    }
}
