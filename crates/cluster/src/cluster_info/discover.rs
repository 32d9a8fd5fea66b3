//! The five steps by which a node with a token comes to trust a cluster: fetch
//! unverified, check the signature, check the pin, fetch verified, compare.

use std::future::Future;
use std::time::Duration;

use identity::Leaf;
use seams::{Clock, timeout};

use super::{
    ClusterInfo, Discovered, DiscoveryError, FetchError, Pinning, judge_again, judge_first,
};
use crate::pin::CaPin;
use crate::token::Token;

/// How long between two looks.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long for the whole discovery, unless told otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// What a fetcher brings back.
type Answer = Result<ClusterInfo, FetchError>;

/// How long discovery may take.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    pub clock: &'a dyn Clock,
    pub limit: Duration,
}

/// Finds the cluster at `server`, and proves it as far as `pinning` allows. The
/// fetchers are the caller's: one that trusts any certificate, and one that trusts
/// the authority it is handed (PEM) only. What may pass is tried again until the
/// limit, and `on_wait` hears why each time.
pub async fn discover<F, G>(
    server: &str,
    token: &Token,
    pinning: &Pinning,
    waiting: Waiting<'_>,
    fetch_unverified: impl Fn() -> F,
    fetch_verified: impl Fn(Vec<u8>) -> G,
    mut on_wait: impl FnMut(&DiscoveryError),
) -> Result<Discovered, DiscoveryError>
where
    F: Future<Output = Answer>,
    G: Future<Output = Answer>,
{
    let patience = Patience::new(server, waiting);
    let judge = |outcome: Answer| {
        let info = outcome.map_err(|cause| fetch_error(server, cause))?;
        let discovered = judge_first(server, &info, token, pinning)?;
        Ok((info, discovered))
    };
    let (first, discovered) = patience
        .until(fetch_unverified, judge, &mut on_wait)
        .await?;
    if *pinning == Pinning::Skip {
        return Ok(discovered);
    }
    // Only what was pinned vouches for the server now: cluster-info may name
    // others beside it, and so far only whoever knows the token vouches for that.
    let authority = pinned(discovered.endpoint.authority_pem(), pinning);
    let fetch_again = || fetch_verified(authority.clone());
    let judge = |outcome: Answer| outcome.map_err(|cause| second_error(server, cause));
    let second = patience.until(fetch_again, judge, &mut on_wait).await?;
    judge_again(server, &first, &second, discovered)
}

/// The certificates of a bundle that are pinned.
fn pinned(authority_pem: &[u8], pinning: &Pinning) -> Vec<u8> {
    let Pinning::Pins(pins) = pinning else {
        return authority_pem.to_vec();
    };
    let blocks = pem::parse_many(authority_pem).unwrap_or_default();
    let is_pinned = |block: &pem::Pem| {
        let leaf = Leaf::from_der(block.contents()).ok();
        leaf.is_some_and(|leaf| CaPin::any_matches(pins, &[CaPin::of(&leaf)]))
    };
    let kept: Vec<_> = blocks.into_iter().filter(is_pinned).collect();
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&kept, lines).into_bytes()
}

fn fetch_error(server: &str, cause: FetchError) -> DiscoveryError {
    DiscoveryError::Fetch {
        server: server.to_owned(),
        cause,
    }
}

/// A certificate that cannot be trusted now is one of another authority.
fn second_error(server: &str, cause: FetchError) -> DiscoveryError {
    match cause {
        FetchError::Untrusted(cause) => DiscoveryError::NotProven {
            server: server.to_owned(),
            cause,
        },
        other => fetch_error(server, other),
    }
}

/// Tries until it works, until it is hopeless, or until the time is up.
struct Patience<'a> {
    server: &'a str,
    clock: &'a dyn Clock,
    until: Duration,
}

impl<'a> Patience<'a> {
    fn new(server: &'a str, waiting: Waiting<'a>) -> Self {
        Self {
            server,
            clock: waiting.clock,
            until: waiting.clock.uptime().saturating_add(waiting.limit),
        }
    }

    async fn until<T, F>(
        &self,
        fetch: impl Fn() -> F,
        judge: impl Fn(Answer) -> Result<T, DiscoveryError>,
        on_wait: &mut impl FnMut(&DiscoveryError),
    ) -> Result<T, DiscoveryError>
    where
        F: Future<Output = Answer>,
    {
        let mut last = None;
        loop {
            let left = self.left();
            let Ok(answer) = timeout(self.clock, left, fetch()).await else {
                // It hung: the reason before it says more than its end.
                return Err(last.unwrap_or_else(|| self.no_answer()));
            };
            let error = match judge(answer) {
                Ok(found) => return Ok(found),
                Err(error) if !error.may_pass() => return Err(error),
                Err(error) => error,
            };
            if self.left() <= POLL_INTERVAL {
                return Err(error);
            }
            on_wait(&error);
            last = Some(error);
            self.clock.sleep(POLL_INTERVAL).await;
        }
    }

    fn left(&self) -> Duration {
        self.until.saturating_sub(self.clock.uptime())
    }

    fn no_answer(&self) -> DiscoveryError {
        let cause = FetchError::Unreachable("no answer in time".to_owned());
        fetch_error(self.server, cause)
    }
}

#[cfg(test)]
mod tests;
