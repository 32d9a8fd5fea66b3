//! Which node a pod goes to, and why to none. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, Taint, Toleration};
use types::node_selector::Labelled;

use super::demand::{Amounts, CPU, MEMORY, PODS};
use super::facts::{HostPort, NodeFacts, PodFacts, Wishes};
use crate::controllers::nodes::taints::UNSCHEDULABLE;
use crate::controllers::pods::tolerates;

/// What the pods of a node take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) requests: Amounts,
    pub(crate) spread: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) pods: i64,
}

impl Usage {
    pub(crate) fn add(&mut self, pod: &PodFacts) {
        self.requests.add(&pod.requests);
        self.spread.add(&pod.spread);
        self.ports.extend(pod.ports.iter().cloned());
        self.pods += 1;
    }

    pub(crate) fn remove(&mut self, pod: &PodFacts) {
        self.requests.subtract(&pod.requests);
        self.spread.subtract(&pod.spread);
        for port in &pod.ports {
            if let Some(place) = self.ports.iter().position(|own| own == port) {
                self.ports.swap_remove(place);
            }
        }
        self.pods -= 1;
    }
}

/// What a pod's volumes say of its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Volumes {
    /// The nodes from which each of them can be reached.
    Bound(Vec<NodeSelector>),
    /// They are not there yet, in upstream's words.
    Missing(String),
}

/// The node for a pod, or the message that says why there is none.
pub(crate) fn choose<'a>(
    pod: &PodFacts,
    volumes: &Volumes,
    nodes: impl Iterator<Item = (&'a NodeFacts, &'a Usage)>,
) -> Result<&'a str, String> {
    let usual = Wishes::default();
    let wishes = pod.wishes.as_deref().unwrap_or(&usual);
    let mut count = 0_usize;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for (node, usage) in nodes {
        count += 1;
        let why = misfits(pod, wishes, volumes, node, usage);
        if why.is_empty() {
            fitting.push((node, usage));
        }
        for reason in why {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    if let Some(best) = best(pod, wishes, &fitting) {
        return Ok(best);
    }
    if count == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    if let Volumes::Missing(words) = volumes {
        return Err(format!("0/{count} nodes are available: {words}."));
    }
    let mut counted: Vec<_> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counted.sort();
    Err(format!(
        "0/{count} nodes are available: {}.",
        counted.join(", ")
    ))
}

/// Why a pod cannot be on a node: the words of the first check that it does not pass.
fn misfits(
    pod: &PodFacts,
    wishes: &Wishes,
    volumes: &Volumes,
    node: &NodeFacts,
    usage: &Usage,
) -> Vec<String> {
    let is_tolerated = |taint: &Taint| wishes.tolerations.iter().any(|one| tolerates(one, taint));
    let drained = || Taint {
        key: UNSCHEDULABLE.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let one = |words: &str| vec![words.to_owned()];
    if let Some(unknown) = wishes.unknown {
        return vec![format!(
            "node(s) cannot be judged: this scheduler does not know {unknown} yet"
        )];
    }
    if node.unschedulable && !is_tolerated(&drained()) {
        return one("node(s) were unschedulable");
    }
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    if node
        .taints
        .iter()
        .filter(keeps_away)
        .any(|taint| !is_tolerated(taint))
    {
        return one("node(s) had untolerated taint(s)");
    }
    if !is_selected(wishes, node) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    if pod
        .ports
        .iter()
        .any(|port| usage.ports.iter().any(|taken| taken.clashes(port)))
    {
        return one("node(s) didn't have free ports for the requested pod ports");
    }
    let lacking = lacking(pod, node, usage);
    if !lacking.is_empty() {
        return lacking;
    }
    match volumes {
        Volumes::Missing(words) => one(words),
        Volumes::Bound(places)
            if places
                .iter()
                .any(|place| !labelled(node).is_selected(place)) =>
        {
            one("node(s) didn't match PersistentVolume's node affinity")
        }
        Volumes::Bound(_) => Vec::new(),
    }
}

fn is_selected(wishes: &Wishes, node: &NodeFacts) -> bool {
    let mut selector = wishes.selector.iter();
    let by_labels = selector.all(|(key, value)| node.labels.get(key) == Some(value));
    let by_terms = wishes
        .required
        .as_ref()
        .is_none_or(|terms| labelled(node).is_selected(terms));
    by_labels && by_terms
}

fn labelled(node: &NodeFacts) -> Labelled<'_> {
    Labelled {
        name: &node.name,
        labels: node
            .labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect(),
    }
}

fn lacking(pod: &PodFacts, node: &NodeFacts, usage: &Usage) -> Vec<String> {
    let mut lacking = Vec::new();
    if usage.pods + 1 > node.allocatable.get(PODS) {
        lacking.push("Too many pods".to_owned());
    }
    for (name, wanted) in pod.requests.iter() {
        let free = node.allocatable.get(name);
        let free = free.saturating_sub(usage.requests.get(name));
        if wanted > 0 && wanted > free {
            lacking.push(format!("Insufficient {name}"));
        }
    }
    lacking
}

/// The best of those that fit; of equals the one with the fewest pods, then by name.
fn best<'a>(
    pod: &PodFacts,
    wishes: &Wishes,
    fitting: &[(&'a NodeFacts, &'a Usage)],
) -> Option<&'a str> {
    let disliked: Vec<_> = fitting
        .iter()
        .map(|(node, _)| disliked(&wishes.tolerations, node))
        .collect();
    let liked: Vec<_> = fitting
        .iter()
        .map(|(node, _)| liked(wishes, node))
        .collect();
    let most_disliked = disliked.iter().copied().max().unwrap_or_default();
    let most_liked = liked.iter().copied().max().unwrap_or_default();
    let share = |part: i64, whole: i64| if whole == 0 { 0 } else { part * 100 / whole };
    let scored = fitting.iter().zip(disliked.iter().zip(&liked)).map(
        |((node, usage), (disliked, liked))| {
            // Weights as upstream's: taints 3, affinity 2, free resources 1.
            let by_taints = 100 - share(*disliked, most_disliked);
            let by_affinity = share(*liked, most_liked);
            let score = 3 * by_taints + 2 * by_affinity + free(pod, node, usage);
            (std::cmp::Reverse(score), usage.pods, node.name.as_str())
        },
    );
    scored.min().map(|(_, _, name)| name)
}

/// Taints that would rather not have the pod.
fn disliked(tolerations: &[Toleration], node: &NodeFacts) -> i64 {
    let rather_not = node
        .taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule");
    let count = rather_not
        .filter(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
        .count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn liked(wishes: &Wishes, node: &NodeFacts) -> i64 {
    let meets = |term: &&k8s_openapi::api::core::v1::PreferredSchedulingTerm| {
        let selector = NodeSelector {
            node_selector_terms: vec![term.preference.clone()],
        };
        labelled(node).is_selected(&selector)
    };
    let weights = wishes
        .preferred
        .iter()
        .filter(meets)
        .map(|term| i64::from(term.weight));
    weights.sum()
}

/// How much is left, in hundredths, when the pod is there: the mean of processor and memory.
fn free(pod: &PodFacts, node: &NodeFacts, usage: &Usage) -> i64 {
    let left = |name: &str| {
        let capacity = node.allocatable.get(name);
        let taken = usage.spread.get(name).saturating_add(pod.spread.get(name));
        if capacity <= 0 || taken > capacity {
            return 0;
        }
        i64::try_from(i128::from(capacity - taken) * 100 / i128::from(capacity)).unwrap_or_default()
    };
    i64::midpoint(left(CPU), left(MEMORY))
}

#[cfg(test)]
mod tests;
