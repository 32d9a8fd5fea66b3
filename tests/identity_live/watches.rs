//! Many watches at once, and whether all of them still deliver.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use testkit::wait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::figures::Tally;
use crate::load::causes;

/// The annotation that tells which change an event is of.
pub(crate) const MARK: &str = "live.ferrolet.test/mark";

/// How long a change may be on its way to a watcher.
const DELIVERY: Duration = Duration::from_secs(15);

/// Open watches, each followed by a task.
pub(crate) struct Watches {
    /// Only failures are counted: what is not the clean end of a watch.
    pub(crate) tally: Tally,
    seen: Vec<watch::Receiver<Seen>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What one watcher knows.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The [`MARK`] of the newest version of its object.
    mark: String,
    /// How often it began anew, with a list. One that resumes does not.
    lists: usize,
}

impl Watches {
    pub(crate) fn new() -> Self {
        Self {
            tally: Tally::default(),
            seen: Vec::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// What a kubelet watches, `count` times in all: its own node, its own pods, services.
    /// Inside a runtime.
    pub(crate) fn follow_as_node(&mut self, client: &Client, node: &str, count: usize) {
        for turn in 0..count {
            let client = client.clone();
            match turn % 3 {
                0 => {
                    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
                    self.follow::<Node>("node", Api::all(client), own);
                }
                1 => {
                    let own = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
                    self.follow::<Pod>("pods", Api::all(client), own);
                }
                _ => {
                    let config = watcher::Config::default();
                    self.follow::<Service>("services", Api::namespaced(client, node), config);
                }
            }
        }
    }

    pub(crate) fn follow<K>(&mut self, what: &'static str, api: Api<K>, config: watcher::Config)
    where
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let (sender, receiver) = watch::channel(Seen::default());
        self.seen.push(receiver);
        let (tally, stop) = (self.tally.clone(), self.stop.clone());
        let following = async move {
            let mut events = pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => sender.send_modify(|seen| seen.take_in(&event)),
                    Err(error) => tally.failed(format!("watch of {what}: {}", causes(&error))),
                }
            }
        };
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(following).await;
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.len()
    }

    /// Waits until every watcher has seen the change `mark`.
    pub(crate) fn wait_for(&self, mark: &str) -> Result<()> {
        wait::until(&format!("mark {mark} on all watches"), DELIVERY, || {
            let behind = self.seen.iter().map(|seen| seen.borrow().clone());
            let behind: Vec<Seen> = behind.filter(|seen| seen.mark != mark).collect();
            ensure!(
                behind.is_empty(),
                "{} of {} have not seen it: {:?}; errors: {:?}",
                behind.len(),
                self.count(),
                behind.first(),
                self.tally.so_far().failures,
            );
            Ok(())
        })
    }

    /// How many began anew instead of resuming.
    pub(crate) fn lists_again(&self) -> usize {
        let again = self.seen.iter();
        again
            .map(|seen| seen.borrow().lists.saturating_sub(1))
            .sum()
    }

    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Seen {
    fn take_in<K: Resource>(&mut self, event: &watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.lists += 1,
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let mark = object.annotations().get(MARK);
                self.mark = mark.cloned().unwrap_or_default();
            }
            watcher::Event::InitDone | watcher::Event::Delete(_) => {}
        }
    }
}
