//! Where the objects come from that volumes are made of, and the references to
//! them that a pod holds.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::{Referable, Reference, Referenced, Unanswered};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join, join_all, select_all};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use types::PodUid;

use crate::snapshot::{Needed, Snapshot};
use crate::tokens::Tokens;

/// Where objects and tokens come from.
#[derive(Debug)]
pub enum Objects {
    Api {
        config_maps: Referenced<ConfigMap>,
        secrets: Referenced<Secret>,
        tokens: Tokens,
    },
    /// A kubelet without an API server: there are none.
    Standalone,
}

/// The objects that one pod refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    config_maps: BTreeMap<String, Reference<ConfigMap>>,
    secrets: BTreeMap<String, Reference<Secret>>,
}

impl Objects {
    /// All that a pod needs, as it is now. The references are held from here on.
    pub(crate) async fn look(
        &self,
        namespace: &str,
        needed: &Needed,
        references: &mut References,
    ) -> Snapshot {
        let Self::Api {
            config_maps,
            secrets,
            tokens,
        } = self
        else {
            return Snapshot::default();
        };
        register(
            config_maps,
            namespace,
            &needed.config_maps,
            &mut references.config_maps,
        );
        register(secrets, namespace, &needed.secrets, &mut references.secrets);
        // All at once: one that does not come holds up the others but once.
        let asked = needed.tokens.iter();
        let tokens = join_all(asked.map(async |ask| (ask.clone(), tokens.get(ask).await)));
        let config_maps = answers(&mut references.config_maps);
        let secrets = answers(&mut references.secrets);
        let ((config_maps, secrets), tokens) = join(join(config_maps, secrets), tokens).await;
        Snapshot {
            config_maps,
            secrets,
            tokens: tokens.into_iter().collect(),
        }
    }

    pub(crate) fn forget(&self, uid: &PodUid) {
        if let Self::Api { tokens, .. } = self {
            tokens.forget(uid);
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
        let changes: Vec<BoxFuture<'_, ()>> = config_maps.chain(secrets).collect();
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
) -> BTreeMap<String, Result<Option<std::sync::Arc<K>>, Unanswered>> {
    let held = held.iter_mut();
    let answers = held.map(async |(name, reference)| (name.clone(), reference.get().await));
    join_all(answers).await.into_iter().collect()
}
