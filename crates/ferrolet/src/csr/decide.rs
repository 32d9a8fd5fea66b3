//! `ferrolet csr approve` and `ferrolet csr deny`, by name.

use cluster::csr::{Decided, Decision, Word};

use super::{KIND, bare};
use crate::cluster_access::{self, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, print, printable};

/// Each for itself: one that cannot be decided does not keep the others from it.
pub(super) fn run(
    names: &[String],
    decision: &Decision,
    cluster: &ClusterArguments,
) -> Result<(), Failure> {
    let word = match decision.word {
        Word::Approve => "approved",
        Word::Deny => "denied",
    };
    cluster_access::run(cluster, async |access| {
        let mut all_done = true;
        for name in names.iter().map(|name| bare(name)) {
            let decided =
                cluster::csr::decide(&access.client, name, None, decision, access.now()).await;
            match decided {
                Ok(Decided::Now) => print(&format!("{KIND}/{name} {word}\n"))?,
                Ok(Decided::Before) => print(&format!("{KIND}/{name} {word} before\n"))?,
                Err(error) => {
                    say(&format!("error: {}", printable(&error.to_string())));
                    all_done = false;
                }
            }
        }
        if all_done { Ok(()) } else { Err(Failure::Told) }
    })
}
