//! Where the objects come from that volumes are made of, and the references to
//! them that a pod holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{
    BundlesSeen, Referable, Reference, Referenced, TrustBundles, TrustBundlesError, Unanswered,
};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join, join_all, join3, select_all};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use tokio::sync::watch;
use types::PodUid;

use crate::claims::Claims;
use crate::snapshot::{Needed, Snapshot, TrustSeen};
use crate::tokens::Tokens;

/// Where objects and tokens come from.
#[derive(Debug)]
pub enum Objects {
    Api(Box<ApiObjects>),
    /// A kubelet without an API server: there are none.
    Standalone,
}

/// What an API server has for volumes.
#[derive(Debug)]
pub struct ApiObjects {
    pub config_maps: Referenced<ConfigMap>,
    pub secrets: Referenced<Secret>,
    pub tokens: Tokens,
    pub claims: Claims,
    /// `None` without the gate `ClusterTrustBundleProjection`.
    pub trust: Option<Trust>,
}

/// Where certificates to trust come from.
#[derive(Clone, Debug)]
pub struct Trust {
    pub bundles: TrustBundles,
    /// What certificates are put in order by: another for each agent.
    pub order: u64,
}

/// The objects that one pod refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    config_maps: BTreeMap<String, Reference<ConfigMap>>,
    secrets: BTreeMap<String, Reference<Secret>>,
    trust_bundles: Option<BundlesSeen>,
    /// The node, while a volume is on its way there.
    node: Option<watch::Receiver<Option<Arc<Node>>>>,
}

impl Objects {
    /// All that a pod needs, as it is now. The references are held from here on.
    pub(crate) async fn look(
        &self,
        pod: &Pod,
        needed: &Needed,
        references: &mut References,
    ) -> Snapshot {
        let Self::Api(api) = self else {
            return Snapshot::default();
        };
        let ApiObjects {
            config_maps,
            secrets,
            tokens,
            claims,
            trust,
        } = &**api;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        register(
            config_maps,
            namespace,
            &needed.config_maps,
            &mut references.config_maps,
        );
        register(secrets, namespace, &needed.secrets, &mut references.secrets);
        let mut node = claims.own_node.clone();
        node.mark_unchanged();
        // All at once: one that does not come holds up the others but once.
        let asked = needed.tokens.iter();
        let tokens = join_all(asked.map(async |ask| (ask.clone(), tokens.get(ask).await)));
        let asked = needed.claims.iter();
        let claims = join_all(asked.map(async |ask| (ask.clone(), claims.get(pod, ask).await)));
        let config_maps = answers(&mut references.config_maps);
        let secrets = answers(&mut references.secrets);
        let trust = trust.as_ref().filter(|_| needed.trust_bundles);
        let trust = trusted(trust, &mut references.trust_bundles);
        let (objects, others) = (join(config_maps, secrets), join3(tokens, claims, trust));
        let ((config_maps, secrets), (tokens, claims, trust)) = join(objects, others).await;
        let snapshot = Snapshot {
            has_api: true,
            config_maps,
            secrets,
            tokens: tokens.into_iter().collect(),
            claims: claims.into_iter().collect(),
            trust,
        };
        references.node = snapshot.awaits().then_some(node);
        snapshot
    }

    /// Whether what a pod needs may change without anybody saying so: then it has to be
    /// looked at from time to time.
    pub(crate) fn is_silent(&self, needed: &Needed) -> bool {
        let Self::Api(api) = self else {
            return false;
        };
        (api.config_maps.is_asked() && !needed.config_maps.is_empty())
            || (api.secrets.is_asked() && !needed.secrets.is_empty())
    }

    pub(crate) fn forget(&self, uid: &PodUid) {
        if let Self::Api(api) = self {
            api.tokens.forget(uid);
        }
    }
}

impl References {
    /// Ends when one of the objects is not as it was when it was looked at.
    pub(crate) async fn changed(mut self) {
        let config_maps = self.config_maps.values_mut();
        let config_maps = config_maps.map(|reference| reference.changed().boxed());
        let secrets = self.secrets.values_mut();
        let secrets = secrets.map(|reference| reference.changed().boxed());
        let bundles = self.trust_bundles.as_mut();
        let bundles = bundles.map(|bundles| bundles.changed().boxed());
        let node = self
            .node
            .as_mut()
            .map(|node| node.changed().map(drop).boxed());
        let objects = config_maps.chain(secrets);
        let others = bundles.into_iter().chain(node);
        let changes: Vec<BoxFuture<'_, ()>> = objects.chain(others).collect();
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await;
    }
}

fn register<K: Referable>(
    objects: &Referenced<K>,
    namespace: &str,
    needed: &BTreeSet<String>,
    held: &mut BTreeMap<String, Reference<K>>,
) {
    held.retain(|name, _| needed.contains(name));
    for name in needed {
        held.entry(name.clone())
            .or_insert_with(|| objects.register(namespace, name));
    }
}

async fn answers<K: Referable>(
    held: &mut BTreeMap<String, Reference<K>>,
) -> BTreeMap<String, Result<Option<Arc<K>>, Unanswered>> {
    let held = held.iter_mut();
    let answers = held.map(async |(name, reference)| (name.clone(), reference.get().await));
    join_all(answers).await.into_iter().collect()
}

/// The trust bundles, if they are asked for. Whoever has not seen any begins to.
async fn trusted(
    trust: Option<&Trust>,
    held: &mut Option<BundlesSeen>,
) -> Option<Result<TrustSeen, TrustBundlesError>> {
    let Some(Trust { bundles, order }) = trust else {
        *held = None;
        return None;
    };
    let look = async {
        let seen = match held {
            Some(seen) => seen,
            None => held.insert(bundles.seen().await?),
        };
        seen.get().await
    };
    let seen = look.await.map(|bundles| TrustSeen {
        bundles,
        order: *order,
    });
    Some(seen)
}
