//! A limit of memory below what is in use would kill: it is refused.

use seams::cri;

use super::Scene;
use crate::plan::resize::{Resize, Update};
use crate::task::Worker;

/// What is in use; `None` where nobody tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Usage {
    pod: Option<u64>,
    /// By container, of those whose limit shrinks.
    containers: Vec<(String, Option<u64>)>,
}

impl Worker {
    /// The best that can be known before anything is changed.
    pub(super) async fn check_memory(
        &self,
        scene: &Scene<'_>,
        resize: &Resize,
    ) -> Result<(), String> {
        let target = scene.target.memory;
        let of_pod = target.filter(|target| *target < scene.held.memory || scene.held.memory < 0);
        let shrinking: Vec<&Update> = resize.memory.iter().filter(|one| shrinks(one)).collect();
        if of_pod.is_none() && shrinking.is_empty() {
            return Ok(());
        }
        let mut usage = Usage::default();
        for update in &shrinking {
            let used = self.used_by(&update.id).await;
            usage.containers.push((update.container.clone(), used));
        }
        if of_pod.is_some() {
            let cgroups = self.on.cgroups.as_ref();
            let used = cgroups.and_then(|cgroups| cgroups.memory_used(scene.pod).ok().flatten());
            usage.pod = match used {
                Some(used) => Some(used),
                None => self.used_by_pod(&scene.sandbox_id).await,
            };
        }
        judge(of_pod, &shrinking, &usage)
    }

    async fn used_by(&self, container: &str) -> Option<u64> {
        let request = cri::ContainerStatsRequest {
            container_id: container.to_owned(),
        };
        let answer = self.on.runtime.container_stats(request).await.ok()?;
        Some(answer.stats?.memory?.usage_bytes?.value)
    }

    async fn used_by_pod(&self, sandbox: &str) -> Option<u64> {
        let request = cri::PodSandboxStatsRequest {
            pod_sandbox_id: sandbox.to_owned(),
        };
        let answer = self.on.runtime.pod_sandbox_stats(request).await.ok()?;
        Some(answer.stats?.linux?.memory?.usage_bytes?.value)
    }
}

/// A limit that there was not shrinks, too.
fn shrinks(update: &Update) -> bool {
    let (desired, current) = (update.desired.memory_limit, update.current.memory_limit);
    desired != 0 && (current == 0 || desired < current)
}

fn judge(of_pod: Option<i64>, shrinking: &[&Update], usage: &Usage) -> Result<(), String> {
    let exceeds = |used: u64, limit: i64| u64::try_from(limit).is_ok_and(|limit| used >= limit);
    let mut problems = Vec::new();
    if let Some(limit) = of_pod {
        match usage.pod {
            None => problems.push("missing pod memory usage".to_owned()),
            Some(used) if exceeds(used, limit) => problems.push(format!(
                "attempting to set pod memory limit ({limit}) below current usage ({used})"
            )),
            Some(_) => {}
        }
    }
    for (update, (name, used)) in shrinking.iter().zip(&usage.containers) {
        let limit = update.desired.memory_limit;
        match used {
            None => problems.push(format!("missing container {name:?} memory usage")),
            Some(used) if exceeds(*used, limit) => {
                // Upstream tells what the pod uses, not the container.
                let shown = usage.pod.unwrap_or(*used);
                problems.push(format!(
                    "attempting to set container {name:?} memory limit ({limit}) below current usage ({shown})"
                ));
            }
            Some(_) => {}
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    // As Go joins errors.
    let joined = match problems.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    Err(format!("cannot decrease memory limits: {joined}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Measure;

    fn update(current: i64, desired: i64) -> Update {
        let of = |memory_limit| Measure {
            memory_limit,
            ..Measure::default()
        };
        Update {
            id: "id".to_owned(),
            container: "c".to_owned(),
            current: of(current),
            desired: of(desired),
        }
    }

    #[test]
    fn a_limit_shrinks_that_gets_less_or_was_not_there() {
        for (current, desired, less) in [(10, 5, true), (0, 5, true), (5, 10, false), (5, 0, false)]
        {
            assert_eq!(
                shrinks(&update(current, desired)),
                less,
                "{current} {desired}"
            );
        }
    }

    #[test]
    fn no_limit_gets_below_what_is_in_use() {
        let one = update(200, 100);
        let usage = |pod: Option<u64>, container: Option<u64>| Usage {
            pod,
            containers: vec![("c".to_owned(), container)],
        };
        let pod = "attempting to set pod memory limit (100) below current usage (150)";
        let own = "attempting to set container \"c\" memory limit (100) below current usage (150)";
        for (usage, problem) in [
            (usage(Some(50), Some(50)), None),
            (
                usage(Some(100), Some(99)),
                Some(
                    "attempting to set pod memory limit (100) below current usage (100)".to_owned(),
                ),
            ),
            (usage(Some(150), Some(99)), Some(pod.to_owned())),
            (usage(Some(150), Some(100)), Some(format!("[{pod}, {own}]"))),
            (
                usage(None, Some(1)),
                Some("missing pod memory usage".to_owned()),
            ),
            (
                usage(Some(1), None),
                Some("missing container \"c\" memory usage".to_owned()),
            ),
        ] {
            let expected = problem.map(|text| format!("cannot decrease memory limits: {text}"));
            assert_eq!(judge(Some(100), &[&one], &usage).err(), expected);
        }
    }
}
