//! How much of what a pod asks for. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource;
use types::Quantity;

/// What is counted of pods that ask for nothing, so that they are spread, too.
const USUAL_CPU: i64 = 100;
const USUAL_MEMORY: i64 = 200 << 20;

pub(crate) const CPU: &str = "cpu";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const PODS: &str = "pods";

/// Amounts by resource: thousandths of processors, and whole units of everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub(crate) fn of(list: Option<&BTreeMap<String, resource::Quantity>>) -> Self {
        let amount = |(name, quantity): (&String, &resource::Quantity)| {
            // What cannot be read was not let in by validation.
            let quantity: Quantity = quantity.0.parse().ok()?;
            let amount = match name.as_str() {
                CPU => quantity.milli_value(),
                _ => quantity.value(),
            };
            Some((name.clone(), amount))
        };
        Self(list.into_iter().flatten().filter_map(amount).collect())
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_add(*amount);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = own.saturating_sub(*amount);
        }
        self.0.retain(|_, amount| *amount != 0);
    }

    /// Of each resource the greater amount.
    fn at_least(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }

    /// With the usual amounts of processor and memory where nothing is asked for.
    fn or_usual(mut self) -> Self {
        self.0.entry(CPU.to_owned()).or_insert(USUAL_CPU);
        self.0.entry(MEMORY.to_owned()).or_insert(USUAL_MEMORY);
        self
    }
}

/// What a pod asks for.
pub(crate) fn requests(spec: &PodSpec) -> Amounts {
    sum(spec, Amounts::of)
}

/// The same, for spreading: nobody asks for nothing.
pub(crate) fn spread_requests(spec: &PodSpec) -> Amounts {
    sum(spec, |list| Amounts::of(list).or_usual())
}

/// Containers run together, init containers one after another before them, those that
/// stay beside all that come later.
fn sum(
    spec: &PodSpec,
    read: impl Fn(Option<&BTreeMap<String, resource::Quantity>>) -> Amounts,
) -> Amounts {
    let of = |resources: Option<&ResourceRequirements>| {
        read(resources.and_then(|all| all.requests.as_ref()))
    };
    let of_container = |container: &Container| of(container.resources.as_ref());
    let mut together = Amounts::default();
    for container in &spec.containers {
        together.add(&of_container(container));
    }
    let (mut beside, mut before) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let mut own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            beside.add(&own);
            before.at_least(&beside);
        } else {
            own.add(&beside);
            before.at_least(&own);
        }
    }
    together.add(&beside);
    together.at_least(&before);
    // What is asked for the pod as a whole stands for the sum.
    let whole = spec
        .resources
        .as_ref()
        .and_then(|all| all.requests.as_ref());
    for (name, amount) in Amounts::of(whole).0 {
        together.0.insert(name, amount);
    }
    if let Some(overhead) = &spec.overhead {
        together.add(&Amounts::of(Some(overhead)));
    }
    together
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}})
    }

    fn stays(cpu: &str) -> Value {
        let mut container = container(cpu);
        container["restartPolicy"] = json!("Always");
        container
    }

    fn cpu(spec: Value) -> i64 {
        requests(&serde_json::from_value(spec).unwrap()).get(CPU)
    }

    #[test]
    fn requests_are_summed_as_upstream_does() {
        for (spec, expected) in [
            (
                json!({"containers": [container("100m"), container("1")]}),
                1100,
            ),
            (
                json!({"containers": [container("100m")], "initContainers": [container("500m"), container("200m")]}),
                500,
            ),
            (
                json!({"containers": [container("100m")], "initContainers": [stays("50m"), container("500m")]}),
                550,
            ),
            (
                json!({"containers": [container("100m")], "initContainers": [container("120m"), stays("50m")]}),
                150,
            ),
            (
                json!({"containers": [container("100m")], "overhead": {"cpu": "10m"}}),
                110,
            ),
            (
                json!({"containers": [container("100m")], "resources": {"requests": {"cpu": "2"}}}),
                2000,
            ),
            (json!({"containers": [{"name": "c"}]}), 0),
        ] {
            assert_eq!(cpu(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn amounts_are_in_the_units_of_their_resources() {
        let spec = serde_json::from_value(
            json!({"containers": [{"name": "c", "resources": {"requests": {
            "memory": "1Gi", "ephemeral-storage": "1k", "example.com/gpu": "2"}}}]}),
        )
        .unwrap();
        let amounts = requests(&spec);
        assert_eq!(amounts.get(MEMORY), 1 << 30);
        assert_eq!(amounts.get("ephemeral-storage"), 1000);
        assert_eq!(amounts.get("example.com/gpu"), 2);
        let spread = spread_requests(&spec);
        assert_eq!((spread.get(CPU), spread.get(MEMORY)), (100, 1 << 30));
    }

    #[test]
    fn what_is_taken_away_leaves_nothing() {
        let spec = serde_json::from_value(json!({"containers": [container("100m")]})).unwrap();
        let mut amounts = requests(&spec);
        amounts.add(&requests(&spec));
        amounts.subtract(&requests(&spec));
        assert_eq!(amounts, requests(&spec));
        amounts.subtract(&requests(&spec));
        assert_eq!(amounts, Amounts::default());
    }
}
