//! Resources that a pod asks for as a whole: what it does not say follows from what
//! its containers say together.

use std::collections::BTreeMap;

use crate::Quantity;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

type Amounts = BTreeMap<String, Text>;

/// Only a pod that says something as a whole is filled.
pub(super) fn fill(spec: &mut PodSpec) {
    let Some(mut whole) = spec.resources.take() else {
        return;
    };
    let says = |amounts: &Option<Amounts>| amounts.as_ref().is_some_and(|all| !all.is_empty());
    if says(&whole.limits) || says(&whole.requests) {
        let asked = whole.requests.clone().unwrap_or_default();
        let together = together(spec, |container| {
            container.resources.as_ref()?.limits.as_ref()
        });
        let pages = together.into_iter();
        let pages = pages.filter(|(name, _)| is_huge_pages(name) && !asked.contains_key(name));
        add(&mut whole.limits, pages);
    }
    if says(&whole.limits) {
        let together = together(spec, |container| {
            container.resources.as_ref()?.requests.as_ref()
        });
        let common = together.into_iter();
        add(
            &mut whole.requests,
            common.filter(|(name, _)| is_common(name)),
        );
        let limits = whole.limits.clone().unwrap_or_default().into_iter();
        let ours = limits.filter(|(name, _)| is_common(name) || is_huge_pages(name));
        add(&mut whole.requests, ours);
    }
    spec.resources = Some(whole);
}

fn is_common(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// What is there already stays.
fn add(amounts: &mut Option<Amounts>, more: impl Iterator<Item = (String, Text)>) {
    for (name, amount) in more {
        let amounts = amounts.get_or_insert_default();
        amounts.entry(name).or_insert(amount);
    }
}

/// The most that the containers have at one time: the regular ones with the sidecars,
/// or an init container with the sidecars before it. What is no quantity is left for
/// validation to name.
fn together(spec: &PodSpec, of: impl Fn(&Container) -> Option<&Amounts>) -> Amounts {
    let mut running = BTreeMap::new();
    let mut sidecars = BTreeMap::new();
    let mut most = BTreeMap::new();
    for container in &spec.containers {
        sum(&mut running, of(container));
    }
    for container in spec.init_containers.iter().flatten() {
        let mut now = sidecars.clone();
        sum(&mut now, of(container));
        if container.restart_policy.as_deref() == Some("Always") {
            sum(&mut running, of(container));
            sidecars.clone_from(&now);
        }
        raise(&mut most, now);
    }
    raise(&mut most, running);
    let texts = most.into_iter();
    texts
        .map(|(name, amount)| (name, Text(amount.to_string())))
        .collect()
}

fn sum(total: &mut BTreeMap<String, Quantity>, more: Option<&Amounts>) {
    for (name, text) in more.into_iter().flatten() {
        let Ok(amount) = text.0.parse::<Quantity>() else {
            continue;
        };
        let summed = match total.get(name) {
            Some(so_far) => so_far.checked_add(&amount),
            None => Some(amount),
        };
        total.extend(summed.map(|summed| (name.clone(), summed)));
    }
}

fn raise(most: &mut BTreeMap<String, Quantity>, now: BTreeMap<String, Quantity>) {
    for (name, amount) in now {
        match most.get(&name) {
            Some(so_far) if *so_far >= amount => {}
            _ => drop(most.insert(name, amount)),
        }
    }
}
