//! Gets an image for a container.
//!
//! Pulls wait for their turn, first come, first served: one at a time, or as many
//! as are configured. Two pods that want the same image pull it one after the
//! other, or beside each other, as upstream's do: each has credentials of its own
//! to show, and the runtime shares the layers. A pull whose future is dropped
//! gives its turn to the next.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use seams::cri::{
    Image, ImageSpec, ImageStatusRequest, ListImagesRequest, PodSandboxConfig, PullImageRequest,
};
use seams::{SharedClock, SharedRuntime, timeout};
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use types::{PodRef, PodUid};

use crate::backoff::{Backoff, Key};
use crate::config::{AtOnce, Config};
use crate::credentials::{Asking, BadPullSecret, Credential, NodeFiles, Plugins, from_secrets};
use crate::limits::TokenBucket;
use crate::metrics::{self, Metrics};
use crate::policy::{
    self, Course, PullPolicy, Pulled, Reason, Said, Waiting, course, course_without_right,
};
use crate::records::{
    self, Intent, Judgement, RecordError, Records, Verdict, Verification, compare, judge,
};
use crate::reference::{BadReference, Reference, with_default_tag};

/// When it is first said that a pull goes on, or waits; then after twice the time, and so on:
/// an hour of it is five events. Upstream says nothing, and a runtime does not tell how far it is.
const FIRST_WORD: Duration = Duration::from_secs(60);

/// What stands in for the machine and its runtime.
#[derive(Debug)]
pub struct Parts {
    pub runtime: SharedRuntime,
    pub clock: SharedClock,
    pub node_files: NodeFiles,
    pub records: Arc<Records>,
    /// `None`: none are configured.
    pub plugins: Option<Plugins>,
    pub metrics: Arc<Metrics>,
}

/// An image for a container, or for an image volume.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub pod: &'a PodRef,
    pub container: &'a str,
    /// As the pod names it.
    pub image: &'a str,
    pub policy: PullPolicy,
    /// The pod's, as far as they exist, in its order.
    pub pull_secrets: &'a [SecretObject],
    /// The pod's sandbox; its annotations are those of the pod.
    pub sandbox: &'a PodSandboxConfig,
    /// Of the pod's runtime class; empty for the default one.
    pub runtime_handler: &'a str,
    /// The pod's; empty if it has none.
    pub service_account: &'a str,
}

/// Without what the secrets have in them.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Request")
            .field("pod", self.pod)
            .field("container", &self.container)
            .field("image", &self.image)
            .field("policy", &self.policy)
            .field("pull_secrets", &self.pull_secrets.len())
            .finish_non_exhaustive()
    }
}

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensured {
    /// As the runtime names it: containers are created with this.
    pub image_ref: String,
    /// `None` if it was there before.
    pub pulled: Option<Pulled>,
}

/// Where events go while an image is got.
pub type Say<'a> = &'a (dyn Fn(Said) + Send + Sync);

/// The images of one node.
#[derive(Debug)]
pub struct Images {
    parts: Parts,
    verification: Option<Verification>,
    by_handler: bool,
    /// Fair: who came first is next. `None`: no turns.
    turns: Option<Semaphore>,
    // Both are held for a few instructions, never over an await.
    bucket: Option<Mutex<TokenBucket>>,
    backoff: Mutex<Backoff>,
}

/// Why the pod's credentials could not be gathered.
#[derive(Debug, Error)]
enum LookupError {
    #[error(transparent)]
    Secret(#[from] BadPullSecret),
    #[error(transparent)]
    Name(#[from] BadReference),
}

impl From<LookupError> for Waiting {
    /// Upstream has the error's text for a reason too; a reason is one word.
    fn from(error: LookupError) -> Self {
        Self::new(Reason::ErrImagePull, error.to_string())
    }
}

/// A pull that the runtime has done.
struct Fetched {
    image_ref: String,
    /// Which one it was done with; `None`: as anybody.
    credential: Option<Credential>,
    took: Duration,
    size: u64,
}

impl Images {
    pub fn new(config: Config, parts: Parts) -> Self {
        let now = parts.clock.uptime();
        let bucket = (config.rate > 0).then(|| TokenBucket::new(config.rate, config.burst, now));
        let turns = match config.at_once {
            AtOnce::AtMost(most) => Some(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            AtOnce::All => None,
        };
        Self {
            parts,
            verification: config.verification,
            by_handler: config.by_handler,
            turns,
            bucket: bucket.map(Mutex::new),
            backoff: Mutex::default(),
        }
    }

    /// Looks what became of pulls that an earlier run had begun. To be called once,
    /// before the first request.
    pub async fn adopt_left_behind(&self) {
        if self.verification.is_none() {
            return;
        }
        let records = &self.parts.records;
        self.count_records().await;
        let intents = match records.perform(|records| records.left_behind()).await {
            Ok(intents) if intents.is_empty() => return,
            Ok(intents) => intents,
            Err(error) => {
                tracing::warn!(%error, "pulls of an earlier run not looked at");
                return;
            }
        };
        let request = ListImagesRequest::default();
        match self.parts.runtime.list_images(request).await {
            Ok(listed) => self.adopt(&intents, &listed.images).await,
            Err(error) => tracing::warn!(%error, "pulls of an earlier run not looked at"),
        }
    }

    async fn adopt(&self, intents: &[String], listed: &[Image]) {
        for image in listed {
            let names = [image.repo_tags.as_slice(), &image.repo_digests].concat();
            for intent in intents.iter().filter(|it| records::is_listed(it, &names)) {
                let now = self.parts.clock.now();
                let (name, id) = (intent.clone(), image.id.clone());
                let adopt = move |records: &Arc<Records>| records.adopt(&name, &id, now);
                if let Err(error) = self.parts.records.perform(adopt).await {
                    tracing::warn!(image = intent, %error, "pull of an earlier run not recorded");
                }
            }
        }
    }

    /// Lets go of what is kept for a pod that is gone.
    pub fn forget(&self, pod: &PodUid) {
        self.backoff().forget(pod);
        if let Some(plugins) = &self.parts.plugins {
            plugins.forget(pod);
        }
    }

    /// Sees to it that the image is there and that the pod may use it.
    pub async fn ensure(&self, request: &Request<'_>, say: Say<'_>) -> Result<Ensured, Waiting> {
        let mut counted = metrics::Course::default();
        let ensured = self.try_ensure(request, say, &mut counted).await;
        self.parts.metrics.requested(request.policy, counted);
        ensured
    }

    async fn try_ensure(
        &self,
        request: &Request<'_>,
        say: Say<'_>,
        counted: &mut metrics::Course,
    ) -> Result<Ensured, Waiting> {
        let image = with_default_tag(request.image)
            .map_err(|error| tell(say, policy::invalid_name(request.image, &error)))?;
        let spec = self.spec(request, image);
        let present = if request.policy.looks_first() {
            let looked = self.inspect(&spec).await;
            looked.map_err(|error| tell(say, policy::not_inspected(request.image, &error)))?
        } else {
            None
        };
        if request.policy.looks_first() {
            counted.present = Some(present.is_some());
        }
        // Looked for once, and no earlier than needed.
        let mut credentials = None;
        let course = match (course(request.policy, present.is_some()), present) {
            (Course::Use, Some(image)) => {
                let may_use = self.may_use(request, &spec, &image.id, &mut credentials);
                let may_use = may_use.await?;
                counted.pulled = Some(!may_use);
                if may_use {
                    say(Said::present(request.image, self.verification.is_some()));
                    return Ok(Ensured {
                        image_ref: image.id,
                        pulled: None,
                    });
                }
                course_without_right(request.policy)
            }
            (course, _) => course,
        };
        if course == Course::Refuse {
            return Err(tell(say, policy::never_pulled(request.image)));
        }
        counted.pulled = Some(true);
        let credentials = match credentials {
            Some(credentials) => credentials,
            None => self.credentials(request, &spec).await?,
        };
        self.pull(request, spec, credentials, say).await
    }

    /// Whether the runtime is told for which handler an image is.
    pub fn differ_by_handler(&self) -> bool {
        self.by_handler
    }

    fn spec(&self, request: &Request<'_>, image: String) -> ImageSpec {
        let handler = if self.by_handler {
            request.runtime_handler
        } else {
            ""
        };
        ImageSpec {
            image,
            annotations: request.sandbox.annotations.clone(),
            runtime_handler: handler.to_owned(),
            ..ImageSpec::default()
        }
    }

    /// What the machine has of it.
    async fn inspect(&self, spec: &ImageSpec) -> Result<Option<Image>, String> {
        let request = ImageStatusRequest {
            image: Some(spec.clone()),
            verbose: false,
        };
        let status = self.parts.runtime.image_status(request).await;
        match status.map_err(|error| policy::call_error(&error))?.image {
            Some(image) if image.id.is_empty() || image.size == 0 => {
                Err(format!("Id or size of image {:?} is not set", spec.image))
            }
            image => Ok(image),
        }
    }

    async fn may_use(
        &self,
        request: &Request<'_>,
        spec: &ImageSpec,
        image_ref: &str,
        credentials: &mut Option<Vec<Credential>>,
    ) -> Result<bool, Waiting> {
        let Some(verification) = &self.verification else {
            return Ok(true);
        };
        let checks = &self.parts.metrics.checks;
        let records = &self.parts.records;
        let (image, id) = (request.image.to_owned(), image_ref.to_owned());
        let known = records.perform(move |records| records.known(&image, &id));
        let known = match known.await {
            Ok(known) => known,
            // Nobody is let in for want of a readable record.
            Err(error) => {
                tracing::warn!(pod = %request.pod, %error, "image will be pulled again");
                checks.inc(&["error"]);
                return Ok(false);
            }
        };
        let is_needed = verification.is_needed(request.image, &known);
        let verdict = match judge(verification, request.image, &known) {
            Judgement::Known(verdict) => verdict,
            Judgement::Ask(held) => {
                let found = self.credentials(request, spec).await;
                let found = found.inspect_err(|_| checks.inc(&["error"]))?;
                let found = credentials.insert(found);
                compare(held, records::shown(&*found))
            }
        };
        checks.inc(&[match (is_needed, &verdict) {
            (false, _) => "credentialPolicyAllowed",
            (true, Verdict::PullAgain) => "mustAuthenticate",
            (true, _) => "credentialRecordFound",
        }]);
        match verdict {
            Verdict::Use => Ok(true),
            Verdict::PullAgain => Ok(false),
            Verdict::UseAndLearn(secret) => {
                let now = self.parts.clock.now();
                let (image, id) = (request.image.to_owned(), image_ref.to_owned());
                let learn = move |records: &Arc<Records>| records.learn(&image, &id, secret, now);
                if let Err(error) = records.perform(learn).await {
                    tracing::warn!(image = request.image, %error, "pull secret not recorded");
                }
                Ok(true)
            }
        }
    }

    /// All that are for the image, in the order in which they are tried.
    async fn credentials(
        &self,
        request: &Request<'_>,
        spec: &ImageSpec,
    ) -> Result<Vec<Credential>, LookupError> {
        let name = Reference::parse(&spec.image)?.name();
        let of_pod = from_secrets(request.pull_secrets)?;
        let of_node = self.parts.node_files.keyring();
        let found = of_pod
            .lookup(&name)
            .into_iter()
            .chain(of_node.lookup(&name));
        let mut found: Vec<Credential> = found.cloned().collect();
        if let Some(plugins) = &self.parts.plugins {
            let asking = Asking {
                pod: request.pod,
                service_account: request.service_account,
            };
            let of_plugins = plugins.keyring(&name, asking).await;
            found.extend(of_plugins.lookup(&name).into_iter().cloned());
        }
        Ok(found)
    }

    async fn pull(
        &self,
        request: &Request<'_>,
        spec: ImageSpec,
        credentials: Vec<Credential>,
        say: Say<'_>,
    ) -> Result<Ensured, Waiting> {
        let image = request.image;
        let key = Key {
            pod: request.pod.uid.clone(),
            image: image.to_owned(),
        };
        let asked_at = self.parts.clock.uptime();
        if let Some(wait) = self.backoff().waiting(&key, asked_at) {
            say(Said::back_off(image));
            return Err(policy::backing_off(image, &wait.why, wait.left));
        }
        let mut intent = self.intend(image, &spec).await?;
        say(Said::pulling(image));
        let fetched = self
            .fetch(request, &spec, credentials, intent.as_mut(), say)
            .await;
        let now = self.parts.clock.uptime();
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                if let Some(intent) = intent {
                    self.end_failed(image, &spec, intent).await;
                }
                say(Said::pull_failed(image, &error));
                let waiting = policy::pull_failure(image, &error);
                let why = format!("{}: {}", waiting.reason, waiting.message);
                self.backoff().failed(key, why, now);
                return Err(waiting);
            }
        };
        let pulled = Pulled {
            took: fetched.took,
            since_asked: now.saturating_sub(asked_at),
            size: fetched.size,
        };
        say(Said::pulled(image, &pulled));
        let class = metrics::size_class(pulled.size);
        self.parts.metrics.pulls.took(&[class], pulled.since_asked);
        self.backoff().collect(now);
        if let Some(intent) = intent {
            let wall = self.parts.clock.now();
            let (id, credential) = (fetched.image_ref.clone(), fetched.credential);
            let pulled = move |_: &Arc<Records>| intent.pulled(&id, credential.as_ref(), wall);
            self.record(image, pulled).await;
        }
        Ok(Ensured {
            image_ref: fetched.image_ref,
            pulled: Some(pulled),
        })
    }

    /// Without verification nothing is recorded, as nobody would read it.
    async fn intend(&self, image: &str, spec: &ImageSpec) -> Result<Option<Intent>, Waiting> {
        if self.verification.is_none() {
            return Ok(None);
        }
        // What cannot be looked at is not taken for one that was always there.
        let present = self.inspect(spec).await.ok().flatten();
        let name = image.to_owned();
        let work = move |records: &Arc<Records>| {
            records.intend(&name, present.as_ref().map(|image| image.id.as_str()))
        };
        let intent = self.parts.records.perform(work).await;
        let intent = intent.map_err(|error| {
            let text = "Failed to record image pull intent for container image";
            Waiting::new(Reason::ErrImagePull, format!("{text} {image:?}: {error}"))
        });
        self.count_records().await;
        intent.map(Some)
    }

    async fn end_failed(&self, image: &str, spec: &ImageSpec, intent: Intent) {
        // Others may hold the records while they write to the disk.
        let asked = self.parts.records.perform(move |_: &Arc<Records>| {
            let follows = intent.follows_one_cut_off();
            Ok((intent, follows))
        });
        // What nobody can look up ends as what was cut off.
        let Ok((intent, follows)) = asked.await else {
            return;
        };
        let is_absent = follows && matches!(self.inspect(spec).await, Ok(None));
        let failed = move |_: &Arc<Records>| {
            intent.failed(is_absent);
            Ok(())
        };
        self.record(image, failed).await;
    }

    /// What cannot be recorded is said, and no reason to fail.
    async fn record(
        &self,
        image: &str,
        record: impl FnOnce(&Arc<Records>) -> Result<(), RecordError> + Send + 'static,
    ) {
        if let Err(error) = self.parts.records.perform(record).await {
            tracing::warn!(image, %error, "pull not recorded");
        }
        self.count_records().await;
    }

    /// How many there are now. Pulls are rare, and a list of names is short.
    async fn count_records(&self) {
        let counted = self.parts.records.perform(|records| records.count());
        if let Ok((intents, records)) = counted.await {
            self.parts.metrics.intents.set_count(intents);
            self.parts.metrics.records.set_count(records);
        }
    }

    /// Waits for its turn, and has the runtime do it.
    async fn fetch(
        &self,
        request: &Request<'_>,
        spec: &ImageSpec,
        credentials: Vec<Credential>,
        intent: Option<&mut Intent>,
        say: Say<'_>,
    ) -> Result<Fetched, String> {
        let image = request.image;
        let wait = |so_far| say(Said::still_waiting(image, so_far));
        let _turn = self.telling(self.turn(), wait).await;
        let began_at = self.parts.clock.uptime();
        if !self.may_begin(began_at) {
            return Err("pull QPS exceeded".to_owned());
        }
        if let Some(intent) = intent {
            intent.begun();
        }
        tracing::debug!(
            pod = %request.pod,
            container = request.container,
            image = spec.image,
            credentials = credentials.len(),
            "pulling"
        );
        let pulling = self.try_each(request, spec, credentials);
        let goes_on = |so_far| say(Said::still_pulling(image, so_far));
        let (image_ref, credential) = self.telling(pulling, goes_on).await?;
        // Nice to know, and no reason to fail.
        let size = self.inspect(spec).await.ok().flatten();
        Ok(Fetched {
            image_ref,
            credential,
            took: self.parts.clock.uptime().saturating_sub(began_at),
            size: size.map_or(0, |image| image.size),
        })
    }

    /// `work`; and now and then `tell` is told how long it has taken so far.
    async fn telling<W: Future>(&self, work: W, tell: impl Fn(Duration)) -> W::Output {
        let clock = &*self.parts.clock;
        let began_at = clock.uptime();
        let mut work = pin!(work);
        let mut pause = FIRST_WORD;
        loop {
            if let Ok(done) = timeout(clock, pause, work.as_mut()).await {
                return done;
            }
            tell(clock.uptime().saturating_sub(began_at));
            pause = pause.saturating_mul(2);
        }
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match &self.turns {
            // It fails only if it is closed, which nobody does.
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        }
    }

    fn may_begin(&self, now: Duration) -> bool {
        self.bucket.as_ref().is_none_or(|bucket| {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.take(now)
        })
    }

    /// One credential after the other until one is good. As anybody only where
    /// there is none: who has credentials for an image means to use them.
    async fn try_each(
        &self,
        request: &Request<'_>,
        spec: &ImageSpec,
        credentials: Vec<Credential>,
    ) -> Result<(String, Option<Credential>), String> {
        if credentials.is_empty() {
            let image_ref = self.try_one(request, spec, None).await?;
            return Ok((image_ref, None));
        }
        let mut errors = Vec::new();
        for credential in credentials {
            match self.try_one(request, spec, Some(&credential)).await {
                Ok(image_ref) => return Ok((image_ref, Some(credential))),
                Err(error) => errors.push(error),
            }
        }
        Err(policy::joined(errors))
    }

    async fn try_one(
        &self,
        request: &Request<'_>,
        spec: &ImageSpec,
        credential: Option<&Credential>,
    ) -> Result<String, String> {
        let call = PullImageRequest {
            image: Some(spec.clone()),
            auth: credential.map(|credential| credential.login.to_cri()),
            sandbox_config: Some(request.sandbox.clone()),
        };
        let answer = self.parts.runtime.pull_image(call).await;
        let image_ref = answer
            .map_err(|error| policy::pull_error(&error))?
            .image_ref;
        if image_ref.is_empty() {
            return Err(format!("imageRef of image {:?} is not set", spec.image));
        }
        Ok(image_ref)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why, and hands back what the container waits with.
fn tell(say: Say<'_>, (waiting, said): (Waiting, Said)) -> Waiting {
    say(said);
    waiting
}

#[cfg(test)]
mod tests;
