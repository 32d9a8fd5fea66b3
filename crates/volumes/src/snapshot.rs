//! What the volumes of a pod are made of, as it was at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use api::objects::{BundleSet, TrustBundlesError, Unanswered};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Volume};

use crate::attached::AttachError;
use crate::claims::{Attachment, Bound, ClaimAsk, ClaimError};
use crate::kind::Kind;
use crate::payload::PayloadError;
use crate::tokens::{Token, TokenAsk, TokenError};
use crate::{pod, service_account_token};

/// What a pod's volumes refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) tokens: BTreeSet<TokenAsk>,
    /// Any of them: they are followed together.
    pub(crate) trust_bundles: bool,
    pub(crate) claims: BTreeSet<ClaimAsk>,
}

impl Needed {
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut needed = Self::default();
        for volume in pod::used_volumes(pod) {
            match Kind::of(volume) {
                Ok(Kind::Claim) => needed.claims.extend(ClaimAsk::of(pod, volume)),
                Ok(Kind::ConfigMap(source)) => {
                    needed.config_maps.insert(source.name.clone());
                }
                Ok(Kind::Secret(source)) => {
                    needed.secrets.extend(source.secret_name.clone());
                }
                Ok(Kind::Projected(source)) => {
                    for source in source.sources.iter().flatten() {
                        let config_map = source.config_map.as_ref();
                        needed
                            .config_maps
                            .extend(config_map.map(|source| source.name.clone()));
                        let secret = source.secret.as_ref();
                        needed
                            .secrets
                            .extend(secret.map(|source| source.name.clone()));
                        let token = source.service_account_token.as_ref();
                        let ask = token.map(|source| service_account_token::ask(pod, source));
                        needed.tokens.extend(ask);
                        needed.trust_bundles |= source.cluster_trust_bundle.is_some();
                    }
                }
                _ => {}
            }
        }
        needed
    }
}

type Answer<T> = Result<T, PayloadError>;

/// The answers. `None` is an object that is not there.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// There is an API server to ask.
    pub(crate) has_api: bool,
    pub(crate) config_maps: BTreeMap<String, Result<Option<Arc<ConfigMap>>, Unanswered>>,
    pub(crate) secrets: BTreeMap<String, Result<Option<Arc<Secret>>, Unanswered>>,
    pub(crate) tokens: BTreeMap<TokenAsk, Result<Token, TokenError>>,
    /// `None` if they were not asked for, or there is nobody to ask.
    pub(crate) trust: Option<Result<TrustSeen, TrustBundlesError>>,
    pub(crate) claims: BTreeMap<ClaimAsk, Result<Bound, ClaimError>>,
}

/// The trust bundles of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct TrustSeen {
    pub(crate) bundles: BundleSet,
    /// What their certificates are put in order by.
    pub(crate) order: u64,
}

impl Snapshot {
    pub(crate) fn config_map(&self, name: &str) -> Answer<Option<Arc<ConfigMap>>> {
        let answer = self.config_maps.get(name).cloned();
        let answer = answer.ok_or(PayloadError::Standalone)?;
        Ok(answer?)
    }

    pub(crate) fn secret(&self, name: &str) -> Answer<Option<Arc<Secret>>> {
        let answer = self.secrets.get(name).cloned();
        let answer = answer.ok_or(PayloadError::Standalone)?;
        Ok(answer?)
    }

    pub(crate) fn token(&self, ask: &TokenAsk) -> Answer<Token> {
        let answer = self.tokens.get(ask).cloned();
        let answer = answer.ok_or(PayloadError::Standalone)?;
        Ok(answer?)
    }

    pub(crate) fn trust(&self) -> Answer<&TrustSeen> {
        match &self.trust {
            Some(Ok(seen)) => Ok(seen),
            Some(Err(error)) => Err(error.clone().into()),
            None => Err(TrustBundlesError::NotServed.into()),
        }
    }

    /// What upstream calls a volume: a persistent one goes by its own name.
    pub(crate) fn spec_name(&self, pod: &Pod, volume: &Volume) -> String {
        let ask = ClaimAsk::of(pod, volume);
        let bound = ask.and_then(|ask| self.claims.get(&ask)?.as_ref().ok());
        let name = bound.and_then(|bound| bound.volume.metadata.name.clone());
        name.unwrap_or_else(|| volume.name.clone())
    }

    fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let bound = self.claims.values().flatten();
        bound.filter_map(|bound| bound.attachment.as_ref())
    }

    /// What the cluster has to attach for the pod, by the names in the node's status.
    pub(crate) fn used(&self) -> BTreeSet<String> {
        let by_cluster = self.attachments().filter(|volume| volume.by_cluster);
        by_cluster.map(|volume| volume.driven.name()).collect()
    }

    /// Whether something is on its way to this node.
    pub(crate) fn awaits(&self) -> bool {
        self.attachments()
            .any(|volume| volume.arrived == Err(AttachError::Awaited))
    }

    /// When the first of its tokens is to be renewed.
    pub(crate) fn renew_at(&self) -> Option<SystemTime> {
        let tokens = self.tokens.values().flatten();
        tokens.map(|token| token.renew_at).min()
    }
}
