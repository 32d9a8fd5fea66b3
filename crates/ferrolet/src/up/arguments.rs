//! The command line of `ferrolet up`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};

const EXAMPLES: &str = "Examples:
  ferrolet up                              # a cluster that is there again at the next start
  ferrolet up --ephemeral                  # one that leaves nothing behind
  ferrolet up --nodes 10 --runtime sim     # ten nodes, none of whose containers is real
  ferrolet up --detach                     # in the background

The node gets its certificate with a bootstrap token and a certificate signing request, as on any
cluster; each step is told with the names of its objects, so that kubectl finds them. With a real
runtime it needs root. Pods on simulated nodes run by the story that their annotations tell; see
`sim.ferrolet.dev/` in the documentation of crate sim. There are no workload controllers
(Deployments and their like), no cluster DNS and no services' addresses, no binding of persistent
volumes to claims, no server-side apply and no RBAC: Pods are made by name, those with a claim wait,
`kubectl apply` works on the client's side, and who may do what is fixed (administrators, nodes and
their pods, those who come with a bootstrap token).";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where the cluster is kept; a start with the same directory goes on with it [default:
    /// ferrolet/up in the user's directory for state, which is ~/.local/state where nothing else
    /// is set]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) data_dir: Option<PathBuf>,
    /// Keep nothing: objects are in memory, and the directory with the keys goes with the process
    #[arg(long, conflicts_with = "data_dir")]
    pub(super) ephemeral: bool,
    /// The API server's port on this machine's loopback [default: that of the last start, else
    /// 6443; with --ephemeral, one that is free]
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// How many nodes; those after the first are simulated
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) nodes: u16,
    /// What runs the first node's containers
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) runtime: Wanted,
    /// Go on in the background; the command ends when the nodes are Ready
    #[arg(long, conflicts_with = "verbose")]
    pub(super) detach: bool,
    /// What a detached cluster is told by whoever started it: its directory
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    pub(super) background: Option<PathBuf>,
    /// Show the requests to the API server; -vv and -vvv show more
    #[arg(short = 'v', action = ArgAction::Count)]
    pub(super) verbose: u8,
}

/// The runtime that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wanted {
    /// containerd where it can be used, else the simulated one
    Auto,
    Containerd,
    /// Containers in memory: they are told of as if they ran
    Sim,
}

impl Arguments {
    /// The command line of the same cluster in the background, which lives in a directory
    /// that is there already.
    pub(super) fn in_background(&self, directory: &Path) -> Vec<OsString> {
        let runtime = self.runtime.to_possible_value();
        let runtime = runtime.map_or_else(String::new, |value| value.get_name().to_owned());
        let mut words = vec![
            OsString::from("up"),
            "--background".into(),
            directory.into(),
            format!("--nodes={}", self.nodes).into(),
            format!("--runtime={runtime}").into(),
        ];
        words.extend(self.port.map(|port| format!("--port={port}").into()));
        words.extend(self.ephemeral.then(|| "--ephemeral".into()));
        words
    }

    /// As a number of klog's. From 3 on the API server tells of each request.
    pub(super) fn verbosity(&self) -> Option<u32> {
        match self.verbose {
            0 => None,
            1 => Some(3),
            2 => Some(4),
            _ => Some(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        up: Arguments,
    }

    fn parsed<T: Into<OsString> + Clone>(words: impl IntoIterator<Item = T>) -> Arguments {
        Command::try_parse_from(words).unwrap().up
    }

    #[test]
    fn what_runs_in_the_background_is_what_was_asked_for() {
        let given = [
            "up",
            "--detach",
            "--ephemeral",
            "--port=1",
            "--nodes=3",
            "--runtime=sim",
        ];
        let words = parsed(given).in_background(Path::new("/d"));
        let again = parsed(words);
        assert_eq!(again.background.as_deref(), Some(Path::new("/d")));
        assert!(again.ephemeral && !again.detach);
        let rest = (again.port, again.nodes, again.runtime);
        assert_eq!(rest, (Some(1), 3, Wanted::Sim));
        assert_eq!(
            again.in_background(Path::new("/d")),
            parsed(given).in_background(Path::new("/d"))
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for words in [
            ["up", "--ephemeral", "--data-dir=x"],
            ["up", "--detach", "-v"],
            ["up", "--nodes=0", "--ephemeral"],
        ] {
            assert!(Command::try_parse_from(words).is_err(), "{words:?}");
        }
    }
}
