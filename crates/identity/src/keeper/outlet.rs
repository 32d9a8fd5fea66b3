//! Where a keeper's findings go: the certificate for handshakes, and the state,
//! which is logged once per change.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::decide::state::{Advice, Event, State};
use crate::pair::Pair;
use crate::request::Purpose;
use crate::tls::{self, TlsError};

/// The sending ends.
#[derive(Clone, Debug)]
pub struct Outlet {
    purpose: Purpose,
    certificate: watch::Sender<Option<Arc<CertifiedKey>>>,
    state: watch::Sender<State>,
}

/// The receiving ends.
#[derive(Clone, Debug)]
pub struct Findings {
    /// For handshakes: `None` when there is no certificate, or only an expired one.
    pub certificate: watch::Receiver<Option<Arc<CertifiedKey>>>,
    pub state: watch::Receiver<State>,
}

impl Outlet {
    pub fn new(purpose: Purpose) -> (Self, Findings) {
        let (certificate, certificate_receiver) = watch::channel(None);
        let (state, state_receiver) = watch::channel(State::NoCredentials);
        let outlet = Self {
            purpose,
            certificate,
            state,
        };
        let findings = Findings {
            certificate: certificate_receiver,
            state: state_receiver,
        };
        (outlet, findings)
    }

    /// A request is at the API server, and not answered yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.state.borrow().waiting().is_some()
    }

    /// Tells what happened; says so in the log if it changed the state.
    pub fn event(&self, event: Event) {
        let changed = self.state.send_if_modified(|state| {
            let after = state.clone().after(event);
            let changed = *state != after;
            *state = after;
            changed
        });
        if changed {
            self.log();
        }
    }

    pub(super) fn publish(
        &self,
        pair: &Pair,
        rotate_at: SystemTime,
        provider: &CryptoProvider,
    ) -> Result<(), TlsError> {
        let certified = tls::certified(pair, provider)?;
        self.certificate.send_replace(Some(certified));
        self.stored(pair.leaf().not_after, rotate_at);
        Ok(())
    }

    pub(super) fn stored(&self, until: SystemTime, rotate_at: SystemTime) {
        let rotate_at = Some(rotate_at);
        self.event(Event::Stored { until, rotate_at });
    }

    /// The certificate in use has ended.
    pub(super) fn expire(&self, now: SystemTime) {
        self.certificate.send_replace(None);
        self.event(Event::Passed { now });
    }

    /// The certificate in the store had ended before we looked.
    pub(super) fn found_expired(&self, since: SystemTime, now: SystemTime) {
        let changed = |state: &mut State| {
            let found = Event::Stored {
                until: since,
                rotate_at: None,
            };
            *state = state.clone().after(found).after(Event::Passed { now });
        };
        self.state.send_modify(changed);
        self.log();
    }

    /// A request that waits is how every join begins; what failed or is over is
    /// for somebody to look at.
    fn log(&self) {
        let state = self.state.borrow().clone();
        let Advice { sentence, command } = state.advice(self.purpose);
        let (purpose, name) = (self.purpose, state.name());
        match command {
            Some(run) if state.is_trouble() => {
                warn!(%purpose, state = name, run, "{sentence}");
            }
            Some(run) => info!(%purpose, state = name, run, "{sentence}"),
            None => info!(%purpose, state = name, "{sentence}"),
        }
    }
}
