//! Leaves the state of the node's certificates on disk, for tools that look at
//! the node while the API server may be out of reach.

use std::path::PathBuf;

use identity::decide::state::State;
use identity::published::Published;
use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) struct Announcement {
    pub(crate) directory: PathBuf,
    pub(crate) node_name: String,
    pub(crate) process_id: u32,
    pub(crate) clock: SharedClock,
    pub(crate) rotates: bool,
    pub(crate) client: watch::Receiver<State>,
    pub(crate) serving: Option<watch::Receiver<State>>,
}

impl Announcement {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut last_problem = None;
        loop {
            let problem = self.write().err().map(|error| error.to_string());
            if let Some(problem) = problem.as_ref().filter(|_| problem != last_problem) {
                warn!(
                    err = problem,
                    "the state cannot be left for `ferrolet certs status`"
                );
            }
            last_problem = problem;
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = self.changed() => if !changed {
                    return;
                }
            }
        }
    }

    async fn changed(&mut self) -> bool {
        match &mut self.serving {
            Some(serving) => tokio::select! {
                client = self.client.changed() => client.is_ok() || serving.changed().await.is_ok(),
                serving = serving.changed() => serving.is_ok() || self.client.changed().await.is_ok(),
            },
            None => self.client.changed().await.is_ok(),
        }
    }

    fn write(&mut self) -> Result<(), identity::published::PublishedError> {
        let client = self.client.borrow_and_update().clone();
        let serving = self.serving.as_mut();
        let serving = serving.map(|state| state.borrow_and_update().clone());
        let nothing = |state: &State| *state == State::NoCredentials;
        // Who has not begun leaves no files behind.
        if nothing(&client) && serving.as_ref().is_none_or(nothing) {
            return Ok(());
        }
        // Without rotation there is nothing to tell until a first certificate is
        // asked for, and often that never happens.
        let told = self.rotates || !nothing(&client);
        let published = Published {
            node_name: self.node_name.clone(),
            process_id: self.process_id,
            written_at: self.clock.now(),
            client: told.then_some(client),
            serving,
        };
        published.write(&Published::path(&self.directory))
    }
}
