//! One attempt to get a certificate: a fresh key, a request, and the wait.

use std::time::Duration;

use thiserror::Error;

use super::{Keeper, NoAccess, Way};
use crate::csr::{self, CallError, NotIssued, Requester};
use crate::decide::health::Attempt;
use crate::decide::rotation::WAIT_FOR_ISSUE;
use crate::decide::state::Event;
use crate::keys::{KeyError, PrivateKey};
use crate::pair::{Pair, PairError};
use crate::request::{RequestError, SigningRequest, Template};
use crate::tls::TlsError;

/// How an attempt ended.
pub(super) enum Attempted {
    Issued(Box<Pair>),
    /// The names changed while it was under way: it is of no use any more.
    Outdated,
    Failed(Failure),
}

/// Why an attempt gave nothing.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Access(#[from] NoAccess),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    #[error("what was issued for CSR {csr} cannot be used: {cause}")]
    Unusable { csr: String, cause: PairError },
    #[error(transparent)]
    Handshake(TlsError),
    #[error(
        "the new certificate ended {} seconds ago: this machine's clock is ahead of the signer's; set it (timedatectl set-ntp true)",
        .by.as_secs()
    )]
    ClockAhead { by: Duration },
}

impl Failure {
    /// The server took the request, whatever became of it.
    pub(super) fn was_taken(&self) -> bool {
        matches!(
            self,
            Self::NotIssued(_) | Self::Unusable { .. } | Self::ClockAhead { .. }
        )
    }

    /// For an operator, who can do something about a refusal.
    pub(super) fn describe(&self, requester: Requester) -> String {
        match self {
            Self::Call(error) => format!("{error}{}", requester.remedy(error)),
            other => other.to_string(),
        }
    }

    pub(super) fn attempt(&self) -> Attempt {
        match self {
            Self::Call(error) => error.attempt(),
            _ => Attempt::NotIssued,
        }
    }
}

impl Keeper {
    /// Whatever happens, the next attempt has a key of its own.
    pub(super) fn attempt(
        &self,
        template: &Template,
        way: Result<Way, NoAccess>,
    ) -> impl Future<Output = Attempted> + Send + use<> {
        let template = template.clone();
        self.outlet.event(Event::Began);
        let (purpose, clock, outlet) = (self.purpose, self.clock.clone(), self.outlet.clone());
        let mut templates = self.templates.clone();
        async move {
            let changed = {
                let template = template.clone();
                async move {
                    let other = |wanted: &Option<Template>| wanted.as_ref() != Some(&template);
                    if templates.wait_for(other).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let issued = async move {
                let Way { client, .. } = way?;
                let key = PrivateKey::generate()?;
                let request = SigningRequest::generated(purpose, &template, &key)?;
                let submitted = csr::submit(&client, &*clock, &request).await?;
                outlet.event(Event::Submitted {
                    csr: submitted.name.clone(),
                    at: clock.now(),
                });
                let approved = || outlet.event(Event::Approved);
                let pem = csr::wait(&client, &*clock, &submitted, WAIT_FOR_ISSUE, approved).await?;
                Pair::issued(&pem, key).map_err(|cause| Failure::Unusable {
                    csr: submitted.name,
                    cause,
                })
            };
            tokio::select! {
                biased;
                issued = issued => match issued {
                    Ok(pair) => Attempted::Issued(Box::new(pair)),
                    Err(failure) => Attempted::Failed(failure),
                },
                () = changed => Attempted::Outdated,
            }
        }
    }
}
