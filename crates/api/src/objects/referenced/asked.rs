//! An object that is asked for when it is needed, and not watched: each time, or not
//! again before what was told of it is too old.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::GetParams;
use seams::{SharedClock, timeout};
use tokio::sync::{Mutex, watch};

use super::{Referable, Unanswered};
use crate::objects::{ANSWER, NOT_YET_OURS, is_not_yet_ours};

/// How long an answer is believed, where the node says nothing.
const FRESH: Duration = Duration::from_secs(60);

/// Where the control plane says how long: seconds. It is longer in large clusters.
const FRESH_FOR: &str = "node.alpha.kubernetes.io/ttl";

const NOT_FOUND: u16 = 404;

/// How long answers are believed.
#[derive(Clone, Debug)]
pub enum Freshness {
    /// As long as the node's own object says.
    Told(watch::Receiver<Option<Arc<Node>>>),
    /// Not at all.
    Never,
}

impl Freshness {
    fn lasts(&self) -> Duration {
        let Self::Told(own_node) = self else {
            return Duration::ZERO;
        };
        let node = own_node.borrow();
        let annotations = node
            .as_ref()
            .and_then(|node| node.metadata.annotations.as_ref());
        let told = annotations.and_then(|annotations| annotations.get(FRESH_FOR));
        let seconds = told.and_then(|told| told.parse::<i64>().ok());
        seconds.map_or(FRESH, |seconds| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
        })
    }
}

/// One object.
pub(super) struct Asked<K> {
    api: Api<K>,
    name: String,
    clock: SharedClock,
    freshness: Freshness,
    /// Held while it is asked for: who comes meanwhile wants the same answer.
    kept: Mutex<Kept<K>>,
}

/// The last answer.
struct Kept<K> {
    /// `None` also if there is no such object.
    object: Option<Arc<K>>,
    /// By the uptime; `None` if nothing was answered, or it is not to be believed.
    at: Option<Duration>,
}

impl<K: Referable> Asked<K> {
    pub(super) fn new(api: Api<K>, name: &str, clock: SharedClock, freshness: Freshness) -> Self {
        Self {
            api,
            name: name.to_owned(),
            clock,
            freshness,
            kept: Mutex::new(Kept {
                object: None,
                at: None,
            }),
        }
    }

    /// Somebody new refers to it: it is asked for anew.
    pub(super) fn forget(&self) {
        // Whoever asks at this moment gets a new answer anyway.
        if let Ok(mut kept) = self.kept.try_lock() {
            kept.at = None;
        }
    }

    pub(super) async fn get(&self) -> Result<Option<Arc<K>>, Unanswered> {
        match self.freshness {
            Freshness::Told(_) => self.get_believed().await,
            Freshness::Never => self.get_anew().await,
        }
    }

    /// What the API server has now counts, also where it knows less than it did: it may have
    /// been put back to an earlier day.
    async fn get_anew(&self) -> Result<Option<Arc<K>>, Unanswered> {
        let answer = self.fetch(&GetParams::default()).await;
        let object = answer.map_err(|problem| Unanswered::Refused { problem })?;
        Ok(object.map(|object| Arc::new(crate::objects::kept(object))))
    }

    async fn get_believed(&self) -> Result<Option<Arc<K>>, Unanswered> {
        let mut kept = self.kept.lock().await;
        let age = kept.at.map(|at| self.clock.uptime().saturating_sub(at));
        let is_fresh = age.is_some_and(|age| age < self.freshness.lasts());
        // That there is none is never believed.
        if is_fresh && kept.object.is_some() {
            return Ok(kept.object.clone());
        }
        let parameters = match &kept.object {
            // The server may answer from its own memory: it will be asked again.
            Some(_) => GetParams::any(),
            None => GetParams::default(),
        };
        match self.fetch(&parameters).await {
            Ok(object) => {
                if !is_older(object.as_ref(), kept.object.as_deref()) {
                    kept.object = object.map(|object| Arc::new(crate::objects::kept(object)));
                }
                kept.at = Some(self.clock.uptime());
                Ok(kept.object.clone())
            }
            Err(_) if kept.object.is_some() => Ok(kept.object.clone()),
            Err(problem) => Err(Unanswered::Refused { problem }),
        }
    }

    /// The API server learns that a pod is on this node at the same time as we do,
    /// by another way: who is quick asks again.
    async fn fetch(&self, parameters: &GetParams) -> Result<Option<K>, String> {
        for pause in NOT_YET_OURS {
            match self.fetch_once(parameters).await {
                Err(problem) if is_not_yet_ours(&problem) => self.clock.sleep(pause).await,
                answer => return answer,
            }
        }
        self.fetch_once(parameters).await
    }

    async fn fetch_once(&self, parameters: &GetParams) -> Result<Option<K>, String> {
        let answer = self.api.get_with(&self.name, parameters);
        match timeout(&*self.clock, ANSWER, answer).await {
            Ok(Ok(object)) => Ok(Some(object)),
            Ok(Err(kube::Error::Api(status))) if status.code == NOT_FOUND => Ok(None),
            Ok(Err(kube::Error::Api(status))) => Err(status.message.clone()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the API server does not answer".to_owned()),
        }
    }
}

/// Whether an answer is from before another: servers do not all know the same.
fn is_older<K: Referable>(new: Option<&K>, old: Option<&K>) -> bool {
    let version = |object: Option<&K>| {
        let version = object?.meta().resource_version.as_deref()?;
        version.parse::<u64>().ok()
    };
    match (version(new), version(old)) {
        (Some(new), Some(old)) => new < old,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
