//! Who may use an image that is on the machine already: a record of each image
//! that was pulled here, with the credentials that it was pulled with.
//!
//! An intent is written before a pull and removed after it, so that an image that
//! arrived while the agent died is not taken for one that was always there. The
//! files are the kubelet's, by name and content: either goes on with the other's.
//!
//! What the machine had under a name before it was first pulled here is noted beside the
//! intent. However that pull ends, this image is still one that was always there, and one
//! that it brought is not.

mod format;
mod shelf;
mod verify;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use thiserror::Error;

use crate::credentials::{Credential, Source};
use crate::reference::{self, BadReference, Reference};
use format::FormatError;
use shelf::Shelf;

pub use format::{PullCredentials, PulledRecord, PulledSecret, PulledServiceAccount};
pub use shelf::ShelfError;
pub use verify::{Allowlist, Judgement, Known, Shown, Verdict, Verification, compare, judge};

/// A record that could not be kept or read.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("the record of {of:?} cannot be read: {cause}; remove {file} to have it made anew")]
    Content {
        of: String,
        file: String,
        cause: FormatError,
    },
    #[error(transparent)]
    Name(#[from] BadReference),
    #[error("work on the records of images was given up half-way: the node is ending")]
    GivenUp,
}

/// The records of one node.
#[derive(Debug)]
pub struct Records {
    // Held while one small file is read or replaced, so that nobody decides upon
    // half of a change. Pulls are rare, and nothing is awaited under it.
    state: Mutex<State>,
    /// They are on a disk, which takes its time.
    on_disk: bool,
}

#[derive(Debug)]
struct State {
    pulling: Shelf,
    pulled: Shelf,
    /// By image, as pods name it: the reference of what was there before the intent. The
    /// kubelet has no such files, and leaves them alone.
    preloaded: Shelf,
    /// Pulls under way by image, as pods name it.
    under_way: HashMap<String, UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    pulls: u32,
    /// The end of one was not seen, in this run or an earlier one: by that the image may
    /// come at any time, whatever becomes of the others.
    cut_off: bool,
}

impl Records {
    /// Below the node's root directory.
    pub fn on_disk(root: &Path) -> Result<Self, RecordError> {
        let directory = root.join("image_manager");
        let pulling = Shelf::on_disk(directory.join("pulling"))?;
        let pulled = Shelf::on_disk(directory.join("pulled"))?;
        let preloaded = Shelf::on_disk(directory.join("preloaded"))?;
        Ok(Self {
            on_disk: true,
            ..Self::of(pulling, pulled, preloaded)
        })
    }

    /// Work on them, off the threads that everybody shares if it takes a disk. It goes
    /// on if nobody waits for it any more.
    pub async fn perform<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, RecordError> + Send + 'static,
    ) -> Result<T, RecordError> {
        if !self.on_disk {
            return work(self);
        }
        let records = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&records)).await;
        done.unwrap_or(Err(RecordError::GivenUp))
    }

    /// Of a node that has no disk.
    pub fn in_memory() -> Self {
        let shelf = Shelf::in_memory;
        Self::of(shelf(), shelf(), shelf())
    }

    fn of(pulling: Shelf, pulled: Shelf, preloaded: Shelf) -> Self {
        let state = State {
            pulling,
            pulled,
            preloaded,
            under_way: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            on_disk: false,
        }
    }

    /// Says that `image` is about to be pulled. `present` is what the machine has under
    /// this name.
    pub fn intend(
        self: &Arc<Self>,
        image: &str,
        present: Option<&str>,
    ) -> Result<Intent, RecordError> {
        let mut state = self.state();
        // One that cannot be read is an intent all the same.
        let left_behind = state.has_intent(image).unwrap_or(true);
        state.note_preloaded(image, present)?;
        state.pulling.put(image, &format::intent(image))?;
        let under_way = state.under_way.entry(image.to_owned());
        let under_way = under_way.or_insert(UnderWay {
            pulls: 0,
            cut_off: left_behind,
        });
        under_way.pulls += 1;
        Ok(Intent {
            records: Arc::clone(self),
            image: image.to_owned(),
            end: End::NeverBegun,
        })
    }

    /// What is known of an image that the machine has.
    pub fn known(&self, image: &str, image_ref: &str) -> Result<Known, RecordError> {
        self.state().known(image, image_ref)
    }

    /// Adds to the record that pods with `credential` may use the image; without
    /// one, that everybody may.
    pub fn add(
        &self,
        image: &str,
        image_ref: &str,
        credential: Option<&Credential>,
        now: SystemTime,
    ) -> Result<(), RecordError> {
        let credentials = credential.map_or_else(PullCredentials::everybody, pulled_with);
        self.write(image, image_ref, Some(credentials), now)
    }

    /// Adds a secret that was seen to be as good as one that is recorded.
    pub fn learn(
        &self,
        image: &str,
        image_ref: &str,
        secret: PulledSecret,
        now: SystemTime,
    ) -> Result<(), RecordError> {
        let credentials = PullCredentials::of_secret(secret);
        self.write(image, image_ref, Some(credentials), now)
    }

    /// Intents that an earlier run left behind: pulls whose end nobody saw.
    pub fn left_behind(&self) -> Result<Vec<String>, RecordError> {
        let state = self.state();
        let mut images = Vec::new();
        for (file, content) in state.pulling.all()? {
            match format::read_intent(&content) {
                Ok(image) => images.push(image),
                Err(error) => tracing::warn!(file, %error, "pull intent passed over"),
            }
        }
        images.retain(|image| !state.under_way.contains_key(image));
        Ok(images)
    }

    /// An intent whose image has arrived after all: it counts as pulled here, and
    /// whoever wants to use it has to show that they may. What was there before is still
    /// everybody's, and the intent stays for what may come yet.
    pub fn adopt(&self, image: &str, image_ref: &str, now: SystemTime) -> Result<(), RecordError> {
        if self.state().is_preloaded(image, image_ref)? {
            return Ok(());
        }
        self.write(image, image_ref, None, now)?;
        Ok(self.state().settle(image)?)
    }

    fn write(
        &self,
        image: &str,
        image_ref: &str,
        credentials: Option<PullCredentials>,
        now: SystemTime,
    ) -> Result<(), RecordError> {
        let name = reference::without_tag(image)?;
        let mut state = self.state();
        let record = state.record(image_ref).unwrap_or_else(|error| {
            tracing::warn!(%error, "record of a pulled image made anew");
            None
        });
        let mut record = record.unwrap_or_default();
        let is_new = record.image_ref.is_empty();
        image_ref.clone_into(&mut record.image_ref);
        let changed = credentials.is_some_and(|it| record.merge(name, it));
        if !changed && !is_new {
            return Ok(());
        }
        record.last_updated = in_seconds(now);
        let content = format::pulled(&record);
        Ok(state.pulled.put(image_ref, &content)?)
    }

    /// How many pulls are recorded as begun, and how many images as pulled.
    pub(crate) fn count(&self) -> Result<(usize, usize), RecordError> {
        let state = self.state();
        Ok((state.pulling.count()?, state.pulled.count()?))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn known(&self, image: &str, image_ref: &str) -> Result<Known, RecordError> {
        if let Some(record) = self.record(image_ref)? {
            return Ok(Known::Pulled(record));
        }
        // What is under way has a file too, but in memory it is found sooner.
        let intended = self.under_way.contains_key(image) || self.has_intent(image)?;
        Ok(if intended && !self.is_preloaded(image, image_ref)? {
            Known::Intended
        } else {
            Known::Nothing
        })
    }

    fn is_preloaded(&self, image: &str, image_ref: &str) -> Result<bool, ShelfError> {
        let noted = self.preloaded.get(image)?;
        Ok(noted.is_some_and(|noted| noted == image_ref.as_bytes()))
    }

    /// Notes what the machine had before anybody pulled it. To be done before the intent
    /// is written, by which it would be known.
    fn note_preloaded(&mut self, image: &str, present: Option<&str>) -> Result<(), ShelfError> {
        // What cannot be read is no reason to let anybody in.
        let is_preloaded =
            |image_ref: &&str| matches!(self.known(image, image_ref), Ok(Known::Nothing));
        match present.filter(is_preloaded) {
            Some(image_ref) => self.preloaded.put(image, image_ref.as_bytes()),
            None => self.preloaded.remove(image),
        }
    }

    /// Nothing is open any more about pulls of an image.
    fn settle(&mut self, image: &str) -> Result<(), ShelfError> {
        // In this order: without an intent the note says nothing.
        self.pulling.remove(image)?;
        self.preloaded.remove(image)
    }

    fn record(&self, image_ref: &str) -> Result<Option<PulledRecord>, RecordError> {
        let Some(content) = self.pulled.get(image_ref)? else {
            return Ok(None);
        };
        let record = format::read_pulled(&content).map_err(|cause| RecordError::Content {
            of: image_ref.to_owned(),
            file: self.pulled.name_of(image_ref),
            cause,
        })?;
        Ok(Some(record).filter(|record| record.image_ref == image_ref))
    }

    fn has_intent(&self, image: &str) -> Result<bool, RecordError> {
        let Some(content) = self.pulling.get(image)? else {
            return Ok(false);
        };
        let intended = format::read_intent(&content).map_err(|cause| RecordError::Content {
            of: image.to_owned(),
            file: self.pulling.name_of(image),
            cause,
        })?;
        Ok(intended == image)
    }
}

/// A pull that is under way. Dropped, it ends as it was last said to.
#[derive(Debug)]
pub struct Intent {
    records: Arc<Records>,
    image: String,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NeverBegun,
    /// The runtime was asked, and may have it or get it yet.
    Unseen,
    Failed,
    /// It is known what the machine has: it was recorded, or there is nothing.
    Certain,
}

impl Intent {
    /// The runtime is asked now. From here on, being dropped is like a crash: the
    /// intent stays, and the image is not taken for one that was always there.
    pub fn begun(&mut self) {
        self.end = End::Unseen;
    }

    /// Whether the end of another pull of the image was not seen. Then it matters, if
    /// this one fails, what the machine has.
    pub fn follows_one_cut_off(&self) -> bool {
        let state = self.records.state();
        let under_way = state.under_way.get(&self.image);
        under_way.is_some_and(|under_way| under_way.cut_off)
    }

    /// The pull has failed. That tells nothing of one that was cut off: its intent stays,
    /// unless the machine was looked at since and has no such image.
    pub fn failed(mut self, is_absent: bool) {
        self.end = if is_absent { End::Certain } else { End::Failed };
    }

    /// The image is here. If that cannot be recorded, the intent stays for the same
    /// reason.
    pub fn pulled(
        mut self,
        image_ref: &str,
        credential: Option<&Credential>,
        now: SystemTime,
    ) -> Result<(), RecordError> {
        self.records.add(&self.image, image_ref, credential, now)?;
        self.end = End::Certain;
        Ok(())
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        let mut state = self.records.state();
        if let Some(under_way) = state.under_way.get_mut(&self.image) {
            under_way.cut_off = match self.end {
                End::Unseen => true,
                End::Certain => false,
                End::NeverBegun | End::Failed => under_way.cut_off,
            };
            let cut_off = under_way.cut_off;
            under_way.pulls -= 1;
            if under_way.pulls > 0 {
                return;
            }
            state.under_way.remove(&self.image);
            if cut_off {
                return;
            }
        }
        if let Err(error) = state.settle(&self.image) {
            tracing::warn!(image = self.image, %error, "pull intent not removed");
        }
    }
}

/// Whether an intent for `intended` is about an image that a runtime lists under
/// `listed` names. (Upstream compares texts, so that an intent for `busybox` is
/// never found among full names.)
pub fn is_listed(intended: &str, listed: &[String]) -> bool {
    let full = Reference::parse(intended).map(|it| it.to_string()).ok();
    let is_it = |name: &String| name == intended || Some(name) == full.as_ref();
    listed.iter().any(is_it)
}

/// What a pod shows, of all that was found for an image: its secrets, and its service
/// account, of which it has but one.
pub fn shown<'a>(credentials: impl IntoIterator<Item = &'a Credential>) -> Shown {
    let mut shown = Shown::default();
    for credential in credentials {
        match &credential.source {
            Source::Node => {}
            Source::Secret(name) => shown.secrets.push(PulledSecret {
                uid: name.uid.clone(),
                namespace: name.namespace.clone(),
                name: name.name.clone(),
                credential_hash: credential.login.hash(),
            }),
            Source::ServiceAccount(name) => {
                shown.account.get_or_insert_with(|| PulledServiceAccount {
                    uid: name.uid.clone(),
                    namespace: name.namespace.clone(),
                    name: name.name.clone(),
                });
            }
        }
    }
    shown
}

fn pulled_with(credential: &Credential) -> PullCredentials {
    let mut shown = shown([credential]);
    match (shown.secrets.pop(), shown.account) {
        (Some(secret), _) => PullCredentials::of_secret(secret),
        (None, Some(account)) => PullCredentials::of_account(account),
        (None, None) => PullCredentials::everybody(),
    }
}

/// The API's times have no fractions. A clock before year one has no time here.
fn in_seconds(now: SystemTime) -> Option<Timestamp> {
    let now = Timestamp::try_from(now).ok()?;
    Timestamp::from_second(now.as_second()).ok()
}

#[cfg(test)]
mod tests;
