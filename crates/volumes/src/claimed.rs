//! What to do on the disk for a volume that a pod has by a claim.

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Volume};
use seams::Storage;
use seams::storage::Bind;

use crate::attached::AttachError;
use crate::claims::{Attachment, ClaimAsk, ClaimError};
use crate::figures::Counted;
use crate::host_path;
use crate::layout::{Plugin, is_plain};
use crate::local::Local;
use crate::notice::Notice;
use crate::ownership::{ChangePolicy, Progress};
use crate::persistent::{self, NotThere, Persistent, Source};
use crate::pod;
use crate::setup::{Given, MountedVolume, VolumeProblem};

/// A volume that a pod has by a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claimed {
    /// Of the persistent volume.
    pub(crate) name: String,
    pub(crate) read_only: bool,
    pub(crate) extra_group: Option<i64>,
    pub(crate) place: Place,
}

/// What a pod gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    HostPath(HostPathVolumeSource),
    Local(Local),
}

impl Given<'_> {
    pub(crate) fn claimed(&self, volume: &Volume) -> Result<Claimed, VolumeProblem> {
        let Some(ask) = ClaimAsk::of(self.pod, volume) else {
            let name = volume.name.clone();
            return Err(VolumeProblem::Name { name });
        };
        let bound = self.snapshot.claims.get(&ask).cloned();
        let standalone = || ClaimError::Standalone {
            claim: ask.claim.clone(),
        };
        let bound = bound.ok_or_else(standalone)??;
        let found = persistent::of(self.pod, volume, &ask, &bound.volume);
        let persistent = found.map_err(|problem| match problem {
            NotThere::Claim(error) => VolumeProblem::Claim(error),
            NotThere::Kind(error) => VolumeProblem::Unsupported(error),
        })?;
        persistent.check(&bound)?;
        let name = persistent.name.clone();
        if !is_plain(&name) {
            return Err(VolumeProblem::Name { name });
        }
        Ok(Claimed {
            name,
            read_only: persistent.read_only,
            extra_group: persistent.extra_group(self.pod),
            place: self.place(persistent, bound.attachment)?,
        })
    }

    fn place(
        &self,
        persistent: Persistent,
        attachment: Option<Attachment>,
    ) -> Result<Place, AttachError> {
        let directory = match persistent.source {
            Source::HostPath(source) => return Ok(Place::HostPath(source)),
            Source::Local(directory) => directory,
            Source::Driven => return Err(undriven(attachment)),
        };
        let group = pod::file_owners(self.pod).group;
        let (layout, name) = (self.layout, persistent.name);
        Ok(Place::Local(Local {
            bind: Bind {
                directory,
                at: layout.volume(self.uid, Plugin::LocalVolume, &name),
                read_only: persistent.read_only,
                options: persistent.options,
            },
            begun: layout.begun(self.uid, Plugin::LocalVolume, &name),
            pods: layout.pods(),
            group,
            policy: ChangePolicy::of(self.pod),
            one_pod: persistent.one_pod,
            name,
        }))
    }
}

/// Once such a volume is here, a driver would be asked for it: there are none yet.
fn undriven(attachment: Option<Attachment>) -> AttachError {
    let Some(attachment) = attachment else {
        return AttachError::Awaited;
    };
    let driver = attachment.driven.driver;
    let arrived = attachment.arrived;
    arrived.err().unwrap_or(AttachError::NoDriver { driver })
}

impl Claimed {
    pub(crate) fn act(
        &self,
        storage: &dyn Storage,
        volume: &str,
        progress: &Progress,
        notices: &mut Vec<Notice>,
    ) -> Result<MountedVolume, VolumeProblem> {
        let (path, local) = match &self.place {
            Place::HostPath(source) => (host_path::set_up(storage, source)?, None),
            Place::Local(local) => {
                notices.extend(local.set_up(storage, progress)?);
                (local.bind.at.clone(), Some(local))
            }
        };
        // A path of the machine stays as it is.
        let managed = local.filter(|_| !self.read_only);
        Ok(MountedVolume {
            name: volume.to_owned(),
            spec_name: self.name.clone(),
            path,
            read_only: self.read_only,
            fs_group: managed.and_then(|local| local.group),
            relabel: managed.is_some(),
            extra_group: self.extra_group,
            counted: local.map_or(Counted::Not, |_| Counted::Whole),
        })
    }
}
