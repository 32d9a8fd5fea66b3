//! A walk: steps, each with what happens, what is seen of it here, and where to look.

use std::fmt::Write as _;

use crate::kubelet::wrapped;
use crate::local_node::Remedies;
use crate::output::printable;

const WIDTH: usize = 80;

/// What is told of one thing that a node does.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) title: &'static str,
    pub(super) steps: Vec<Step>,
}

/// A step of it.
#[derive(Debug, Default)]
pub(super) struct Step {
    text: String,
    /// What is seen of it on this machine.
    here: Vec<String>,
    /// Commands that show it.
    look: Vec<String>,
}

impl Step {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(super) fn here(mut self, seen: impl IntoIterator<Item = String>) -> Self {
        self.here.extend(seen);
        self
    }

    pub(super) fn look(mut self, command: impl Into<String>) -> Self {
        self.look.push(command.into());
        self
    }
}

impl Walk {
    /// With its commands as this node needs them.
    pub(super) fn of_node(mut self, remedies: &Remedies) -> Self {
        let steps = self.steps.iter_mut();
        for command in steps.flat_map(|step| &mut step.look) {
            *command = remedies.here(command);
        }
        self
    }

    /// `head` says whose objects these are.
    pub(super) fn text(&self, head: &str) -> String {
        let mut text = format!("{}\n", self.title);
        for line in wrapped(&printable(head), WIDTH) {
            let _ = writeln!(text, "{line}");
        }
        for (index, step) in self.steps.iter().enumerate() {
            text.push('\n');
            for (line_index, line) in wrapped(&printable(&step.text), WIDTH - 3)
                .iter()
                .enumerate()
            {
                let mark = match line_index {
                    0 => format!("{}.", index + 1),
                    _ => String::new(),
                };
                let _ = writeln!(text, "{mark:<3}{line}");
            }
            rows(&mut text, "here", &step.here);
            rows(&mut text, "look", &step.look);
        }
        text
    }
}

/// Never wrapped: names and commands are there to be copied.
fn rows(text: &mut String, name: &str, lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let _ = writeln!(
            text,
            "     {name:<5} {}",
            printable(line).replace('\n', " ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_node_of_up_are_for_its_cluster() {
        let walk = Walk {
            title: "How it beats",
            steps: vec![
                Step::new("First.").look("sudo ferrolet doctor"),
                Step::new("Second.").look("kubectl get lease"),
            ],
        };
        let text = walk.of_node(&Remedies::of_up_in("/d".into())).text("");
        assert!(
            text.contains("     look  kubectl --kubeconfig /d/kubeconfig get lease\n"),
            "{text}"
        );
        assert!(text.contains("     look  sudo ferrolet doctor\n"), "{text}");
    }

    #[test]
    fn a_step_is_told_with_what_is_here_and_where_to_look() {
        let walk = Walk {
            title: "How it beats",
            steps: vec![
                Step::new("word ".repeat(20))
                    .here(["a: 1".to_owned(), "b: 2".to_owned()])
                    .look("kubectl get lease"),
                Step::new("Second."),
            ],
        };
        let text = walk.text("node n1");
        assert!(
            text.starts_with("How it beats\nnode n1\n\n1. word"),
            "{text}"
        );
        assert!(text.contains("\n   word"), "{text}");
        assert!(
            text.contains(
                "\n     here  a: 1\n           b: 2\n     look  kubectl get lease\n\n2. Second.\n"
            ),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }
}
