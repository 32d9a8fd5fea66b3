//! Of which image the sandboxes of pods are: dashboards tell groups of containers by their
//! having one. Only the runtime knows, and it is asked once for each sandbox.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seams::cri::PodSandboxStatusRequest;
use seams::{Clock, Runtime, timeout};
use serde::Deserialize;
use tracing::debug;

use super::look::{Look, PodLook};

/// For all that are not known yet; the rest is asked the next time.
const PATIENCE: Duration = Duration::from_secs(1);

/// What runtimes tell of a sandbox beside what they have to, under this name.
const INFO: &str = "info";

#[derive(Deserialize)]
struct Info {
    image: Option<String>,
}

/// By the ids of sandboxes; an empty one, if the runtime does not tell. A mutex: an entry is looked up or added under it, and nobody waits while holding it.
#[derive(Debug, Default)]
pub(super) struct SandboxImages(Mutex<HashMap<String, Arc<str>>>);

impl SandboxImages {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes a look by those of all sandboxes that have a group.
    pub(super) async fn tell(&self, runtime: &dyn Runtime, clock: &dyn Clock, look: &mut Look) {
        let ids: HashSet<&str> = look.pods.iter().filter_map(shown).collect();
        let unknown: Vec<&str> = {
            let mut known = self.lock();
            known.retain(|id, _| ids.contains(&**id));
            let unknown = ids.iter().filter(|id| !known.contains_key(**id));
            unknown.copied().collect()
        };
        let asking = async {
            for id in unknown {
                if let Some(image) = ask(runtime, id).await {
                    self.lock().insert(id.to_owned(), image);
                }
            }
        };
        let _ = timeout(clock, PATIENCE, asking).await;
        let known = self.lock();
        for pod in &mut look.pods {
            let image = shown(pod).and_then(|id| known.get(id)).cloned();
            pod.image = image.unwrap_or_default();
        }
    }
}

/// The sandbox that a pod is shown with.
fn shown(pod: &PodLook) -> Option<&str> {
    pod.sandbox.as_ref()?;
    Some(&pod.ready_sandbox()?.id)
}

/// `None`: there was no answer.
async fn ask(runtime: &dyn Runtime, id: &str) -> Option<Arc<str>> {
    let request = PodSandboxStatusRequest {
        pod_sandbox_id: id.to_owned(),
        verbose: true,
    };
    match runtime.pod_sandbox_status(request).await {
        Ok(answer) => Some(image(answer.info.get(INFO).map_or("", String::as_str))),
        Err(error) => {
            debug!(%error, sandbox = id, "the runtime does not say of which image a sandbox is");
            None
        }
    }
}

fn image(info: &str) -> Arc<str> {
    let info = serde_json::from_str::<Info>(info).ok();
    info.and_then(|info| info.image).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_in_what_runtimes_tell_beside_the_rest() {
        let of_containerd = r#"{"pid":7,"image":"registry.k8s.io/pause:3.10","config":{"a":[1]}}"#;
        assert_eq!(&*image(of_containerd), "registry.k8s.io/pause:3.10");
        for other in ["", "{}", "no object", r#"{"image":7}"#] {
            assert_eq!(&*image(other), "", "{other}");
        }
    }
}
