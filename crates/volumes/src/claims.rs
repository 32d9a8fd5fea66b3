//! Volumes that a pod asks for by a claim: from the claim to the volume that it is
//! bound to, as both are at this moment. What is wrong is said in upstream's words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::objects::{NOT_YET_OURS, is_not_yet_ours};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::{Api, Client, Resource};
use seams::{SharedClock, timeout};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;

use crate::attached::{self, AttachError, Driven};

/// A server that takes longer is away.
const ANSWER: Duration = Duration::from_secs(30);

/// A claim with this may be used for as long as somebody uses it, deleted or not.
const PROTECTED: &str = "kubernetes.io/pvc-protection";

/// What a pod says of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimAsk {
    pub(crate) claim: String,
    pub(crate) read_only: bool,
    /// The claim was made for this pod, and goes with it.
    pub(crate) ephemeral: bool,
}

/// A volume that a claim of a pod is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) volume: Arc<PersistentVolume>,
    /// The node's labels: a volume may belong to others.
    pub(crate) node: Option<Arc<Node>>,
    /// If it is a driver's.
    pub(crate) attachment: Option<Attachment>,
}

/// How far a driver's volume is on its way to this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) driven: Driven,
    /// Else nobody brings it.
    pub(crate) by_cluster: bool,
    pub(crate) arrived: Result<(), AttachError>,
}

/// Why a claim is of no use now. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClaimError {
    #[error("error processing PVC {namespace}/{claim}: {problem}")]
    Processing {
        namespace: String,
        claim: String,
        problem: ClaimProblem,
    },
    #[error("PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)")]
    NotOwned {
        namespace: String,
        claim: String,
        pod: String,
    },
    #[error("volume {volume} has volumeMode {mode}, but is specified in {used}")]
    OtherMode {
        volume: String,
        mode: String,
        used: &'static str,
    },
    #[error(
        "failed to get Plugin from volumeSpec for volume {volume:?} err=no volume plugin matched"
    )]
    NoPlugin { volume: String },
    #[error("cannot get claim {claim:?}: this kubelet has no API server (no kubeconfig was given)")]
    Standalone { claim: String },
}

/// What is wrong with a claim or its volume.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClaimProblem {
    #[error("failed to fetch PVC from API server: {cause}")]
    NoClaim { cause: String },
    #[error("PVC is being deleted")]
    Deleted,
    #[error("PVC is not bound")]
    Unbound,
    #[error("PVC has empty pvc.Spec.VolumeName")]
    NoName,
    #[error("failed to fetch PV {volume} from API server: {cause}")]
    NoVolume { volume: String, cause: String },
    #[error(
        "found PV object {volume} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    NotClaimed { volume: String },
    #[error(
        "found PV object {volume} but its pv.Spec.ClaimRef.UID {found} does not point to claim.UID {wanted}"
    )]
    ClaimedByAnother {
        volume: String,
        found: String,
        wanted: String,
    },
}

impl ClaimAsk {
    /// What a volume says of a claim, if it is one.
    pub(crate) fn of(pod: &Pod, volume: &Volume) -> Option<Self> {
        if let Some(source) = &volume.persistent_volume_claim {
            return Some(Self {
                claim: source.claim_name.clone(),
                read_only: source.read_only == Some(true),
                ephemeral: false,
            });
        }
        volume.ephemeral.as_ref()?;
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        Some(Self {
            claim: format!("{pod}-{}", volume.name),
            read_only: false,
            ephemeral: true,
        })
    }
}

/// Where claims and their volumes come from: the API server, each time anew.
#[derive(Clone)]
pub struct Claims {
    pub client: Client,
    pub clock: SharedClock,
    pub own_node: watch::Receiver<Option<Arc<Node>>>,
}

impl fmt::Debug for Claims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Claims").finish_non_exhaustive()
    }
}

impl Claims {
    /// What a claim of a pod is bound to now.
    pub(crate) async fn get(&self, pod: &Pod, ask: &ClaimAsk) -> Result<Bound, ClaimError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let failed = |problem| ClaimError::Processing {
            namespace: namespace.to_owned(),
            claim: ask.claim.clone(),
            problem,
        };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        let claim = self.fetch(&claims, &ask.claim).await;
        let claim = claim.map_err(|cause| failed(ClaimProblem::NoClaim { cause }))?;
        let volume = volume_of(&claim).map_err(failed)?;
        if ask.ephemeral && !is_owned(&claim, pod) {
            return Err(ClaimError::NotOwned {
                namespace: namespace.to_owned(),
                claim: ask.claim.clone(),
                pod: pod.metadata.name.clone().unwrap_or_default(),
            });
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let found = self.fetch(&volumes, volume).await;
        let found = found.map_err(|cause| {
            failed(ClaimProblem::NoVolume {
                volume: volume.to_owned(),
                cause,
            })
        })?;
        check_claimed(&found, &claim).map_err(failed)?;
        let attachment = match Driven::of(&found) {
            Some(driven) => Some(self.attachment(driven).await),
            None => None,
        };
        Ok(Bound {
            volume: Arc::new(found),
            node: self.own_node.borrow().clone(),
            attachment,
        })
    }

    async fn attachment(&self, driven: Driven) -> Attachment {
        let drivers: Api<CSIDriver> = Api::all(self.client.clone());
        let described = timeout(&*self.clock, ANSWER, drivers.get_opt(&driven.driver)).await;
        // What cannot be asked for is not known to be without.
        let described = described.ok().and_then(Result::ok).flatten();
        let by_cluster = attached::is_attached_by_cluster(described.as_ref());
        let arrived = if by_cluster {
            self.arrived(&driven).await
        } else {
            Ok(())
        };
        Attachment {
            driven,
            by_cluster,
            arrived,
        }
    }

    async fn arrived(&self, driven: &Driven) -> Result<(), AttachError> {
        let node = self.own_node.borrow().clone();
        let node = node.filter(|node| driven.is_on(node));
        let node = node.ok_or(AttachError::Awaited)?;
        let node = node.metadata.name.as_deref().unwrap_or_default();
        let name = driven.attachment(node);
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let found = self.fetch(&attachments, &name).await;
        let found = found.map_err(|cause| AttachError::NoAttachment {
            handle: driven.handle.clone(),
            attachment: name,
            cause,
        })?;
        attached::arrived(&found)
    }

    /// The API server learns that a pod is on this node at the same time as we do,
    /// by another way: who is quick asks again.
    async fn fetch<K>(&self, api: &Api<K>, name: &str) -> Result<K, String>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
    {
        for pause in NOT_YET_OURS {
            match self.fetch_once(api, name).await {
                Err(problem) if is_not_yet_ours(&problem) => self.clock.sleep(pause).await,
                answer => return answer,
            }
        }
        self.fetch_once(api, name).await
    }

    async fn fetch_once<K>(&self, api: &Api<K>, name: &str) -> Result<K, String>
    where
        K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
    {
        let answer = timeout(&*self.clock, ANSWER, api.get(name)).await;
        let answer = answer.map_err(|_| "the API server does not answer".to_owned())?;
        answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            error => error.to_string(),
        })
    }
}

/// The name of the volume that a claim is bound to.
fn volume_of(claim: &PersistentVolumeClaim) -> Result<&str, ClaimProblem> {
    let metadata = &claim.metadata;
    let mut finalizers = metadata.finalizers.iter().flatten();
    let protected = finalizers.any(|finalizer| finalizer == PROTECTED);
    if metadata.deletion_timestamp.is_some() && !protected {
        return Err(ClaimProblem::Deleted);
    }
    let status = claim.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err(ClaimProblem::Unbound);
    }
    let spec = claim.spec.as_ref();
    let name = spec.and_then(|spec| spec.volume_name.as_deref());
    name.filter(|name| !name.is_empty())
        .ok_or(ClaimProblem::NoName)
}

/// Whether a claim was made for this very pod.
fn is_owned(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    let is_pod = controller.is_some_and(|owner| Some(&owner.uid) == pod.metadata.uid.as_ref());
    is_pod && claim.metadata.namespace == pod.metadata.namespace
}

fn check_claimed(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<(), ClaimProblem> {
    let name = || volume.metadata.name.clone().unwrap_or_default();
    let spec = volume.spec.as_ref();
    let Some(reference) = spec.and_then(|spec| spec.claim_ref.as_ref()) else {
        return Err(ClaimProblem::NotClaimed { volume: name() });
    };
    let found = reference.uid.clone().unwrap_or_default();
    let wanted = claim.metadata.uid.clone().unwrap_or_default();
    if found != wanted {
        return Err(ClaimProblem::ClaimedByAnother {
            volume: name(),
            found,
            wanted,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
