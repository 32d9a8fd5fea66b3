//! Verdicts of health checks, for those who measure how well a node is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::figures::{Family, Page};

const CHECK: Family = Family::gauge(
    "kubernetes_healthcheck",
    "[STABLE] The last verdict of a health check: 1 if it was well",
)
.by(&["name", "type"]);

const CHECKS: Family = Family::counter(
    "kubernetes_healthchecks_total",
    "[STABLE] Verdicts of health checks",
)
.by(&["name", "status", "type"]);

/// The only kind of checks that a node has.
const TYPE: &str = "healthz";

/// How health checks went, by name. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Slis(Arc<Mutex<BTreeMap<String, Verdicts>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    last: bool,
    well: u64,
    ill: u64,
}

impl Slis {
    /// A check was made.
    pub fn checked(&self, name: &str, well: bool) {
        let mut checks = self.checks();
        if !checks.contains_key(name) {
            checks.insert(name.to_owned(), Verdicts::default());
        }
        if let Some(verdicts) = checks.get_mut(name) {
            verdicts.last = well;
            if well {
                verdicts.well += 1;
            } else {
                verdicts.ill += 1;
            }
        }
    }

    pub(super) fn reset(&self) {
        self.checks().clear();
    }

    pub(super) fn show(&self, page: &mut Page) {
        let checks = self.checks();
        page.family(&CHECK, |family| {
            for (name, verdicts) in checks.iter() {
                family.count(&[name, TYPE], u64::from(verdicts.last));
            }
        });
        page.family(&CHECKS, |family| {
            for (name, verdicts) in checks.iter() {
                for (status, count) in [("error", verdicts.ill), ("success", verdicts.well)] {
                    if count > 0 {
                        family.count(&[name, status, TYPE], count);
                    }
                }
            }
        });
    }

    /// A mutex: a number is changed under it, and nobody waits while holding it.
    fn checks(&self) -> MutexGuard<'_, BTreeMap<String, Verdicts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(slis: &Slis) -> Vec<String> {
        let mut page = Page::default();
        slis.show(&mut page);
        let text = page.finish();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn verdicts_count_until_somebody_begins_anew() {
        let slis = Slis::default();
        slis.checked("syncloop", true);
        slis.checked("syncloop", false);
        slis.checked("ping", true);
        let lines = [
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1",
            "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 0",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"error\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"success\",type=\"healthz\"} 1",
        ];
        assert_eq!(shown(&slis), lines);
        slis.reset();
        assert!(shown(&slis).is_empty());
    }
}
