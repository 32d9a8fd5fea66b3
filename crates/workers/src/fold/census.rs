//! How many pods there are, for those who count them.

use std::collections::BTreeMap;

use crate::metrics::{Metrics, static_word};

/// By whether they are static: not, and they are.
type ByKind = [usize; 2];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(super) desired: ByKind,
    pub(super) active: ByKind,
    pub(super) mirrors: usize,
    pub(super) ephemeral: usize,
    pub(super) working: BTreeMap<(Config, Lifecycle, bool), usize>,
    pub(super) resizes_pending: BTreeMap<String, usize>,
}

/// Whether a source has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Config {
    Desired,
    Orphan,
    RuntimeOnly,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lifecycle {
    Sync,
    Terminating,
    Terminated,
}

impl Census {
    /// Those that were there before and are not now are none.
    pub(crate) fn tell(&self, metrics: &Metrics, before: &Self) {
        for is_static in [false, true] {
            let (word, index) = ([static_word(is_static)], usize::from(is_static));
            metrics.desired.set_count(&word, self.desired[index]);
            metrics.active.set_count(&word, self.active[index]);
        }
        metrics.mirrors.set_count(self.mirrors);
        metrics.ephemeral.set_count(self.ephemeral);
        for config in [Config::Desired, Config::Orphan, Config::RuntimeOnly] {
            for lifecycle in [
                Lifecycle::Sync,
                Lifecycle::Terminating,
                Lifecycle::Terminated,
            ] {
                for is_static in [false, true] {
                    let kind = (config, lifecycle, is_static);
                    let count = self.working.get(&kind).copied().unwrap_or_default();
                    let word = match (config, is_static) {
                        (Config::RuntimeOnly, false) => "unknown",
                        // Nobody knows what they were.
                        (Config::RuntimeOnly, true) => continue,
                        _ => static_word(is_static),
                    };
                    let labels = [config.word(), lifecycle.word(), word];
                    metrics.working.set_count(&labels, count);
                }
            }
        }
        for reason in before.resizes_pending.keys() {
            if !self.resizes_pending.contains_key(reason) {
                metrics.resizes_pending.forget(&[reason]);
            }
        }
        for (reason, count) in &self.resizes_pending {
            metrics.resizes_pending.set_count(&[reason], *count);
        }
    }
}

impl Config {
    fn word(self) -> &'static str {
        match self {
            Self::Desired => "desired",
            Self::Orphan => "orphan",
            Self::RuntimeOnly => "runtime_only",
        }
    }
}

impl Lifecycle {
    fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }
}
