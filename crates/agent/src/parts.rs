//! The running parts of a node: each with its name, so that whoever does not end
//! in time can be named.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::transport::Transport;
use seams::{Clock, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::warn;

use crate::AgentError;

/// The names of the parts that run, for those who ask.
pub(crate) type Names = Arc<Mutex<BTreeSet<&'static str>>>;

pub(crate) struct Parts {
    running: JoinMap<&'static str, Result<(), AgentError>>,
    transport: Option<Transport>,
    ending: CancellationToken,
    /// A mutex: held to put a name in or take it out.
    names: Names,
}

impl Parts {
    pub(crate) fn new(ending: CancellationToken) -> Self {
        Self {
            running: JoinMap::new(),
            transport: None,
            ending,
            names: Names::default(),
        }
    }

    pub(crate) fn names(&self) -> Names {
        Arc::clone(&self.names)
    }

    /// Starts a part, which is given what tells it to end.
    pub(crate) fn start<P: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &'static str,
        part: impl FnOnce(CancellationToken) -> P,
    ) {
        let part = part(self.ending.clone());
        let named = Named::new(name, &self.names);
        self.running.spawn(name, async move {
            part.await;
            drop(named);
            Ok(())
        });
    }

    pub(crate) fn start_fallible<E: Into<AgentError>, P>(
        &mut self,
        name: &'static str,
        part: impl FnOnce(CancellationToken) -> P,
    ) where
        P: Future<Output = Result<(), E>> + Send + 'static,
    {
        let part = part(self.ending.clone());
        let named = Named::new(name, &self.names);
        self.running.spawn(name, async move {
            let outcome = part.await;
            drop(named);
            outcome.map_err(Into::into)
        });
    }

    /// Connections that end with the parts, after them.
    pub(crate) fn close_at_end(&mut self, transport: Transport) {
        self.transport = Some(transport);
    }

    /// Waits for `work`, unless a part fails first.
    pub(crate) async fn unless_one_fails<W: Future>(
        &mut self,
        work: W,
    ) -> Result<W::Output, AgentError> {
        tokio::select! {
            output = work => Ok(output),
            error = self.until_one_fails() => Err(error),
        }
    }

    /// Waits for the first part that fails. Parts that end in peace are gone.
    pub(crate) async fn until_one_fails(&mut self) -> AgentError {
        loop {
            match self.running.join_next().await {
                Some((_, Ok(Ok(())))) => {}
                Some((_, Ok(Err(error)))) => return error,
                // A node without one of its parts would only look alive.
                Some((part, Err(panic))) => {
                    let cause = panic.to_string();
                    return AgentError::Died { part, cause };
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Ends all parts; names those that do not end in time.
    pub(crate) async fn end(mut self, clock: &dyn Clock, limit: Duration) {
        self.ending.cancel();
        let all = async {
            while self.running.join_next().await.is_some() {}
            if let Some(transport) = &self.transport {
                transport.close().await;
            }
        };
        if timeout(clock, limit, all).await.is_err() {
            let names: Vec<&str> = self.running.keys().copied().collect();
            warn!(
                parts = names.join(", "),
                "parts of the node did not end in time"
            );
        }
    }
}

/// A name that is there while its part runs.
struct Named(&'static str, Names);

impl Named {
    fn new(name: &'static str, names: &Names) -> Self {
        let mut held = names.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(name);
        drop(held);
        Self(name, Arc::clone(names))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let mut held = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(self.0);
    }
}
