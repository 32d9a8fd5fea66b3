//! In which order the containers of a pod end. Pure.
//!
//! Sidecars outlive what they serve: they wait for all regular containers, and then
//! for the sidecar after them, so that they end in the reverse of the order in which
//! they began.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodSpec;

use crate::plan::is_sidecar;

/// For whom each sidecar waits, by name, of those that run. Who is not in it waits
/// for nobody.
pub fn waits(spec: &PodSpec, running: &BTreeSet<&str>) -> BTreeMap<String, Vec<String>> {
    let runs = |name: &&String| running.contains(name.as_str());
    let regular = spec.containers.iter().map(|container| &container.name);
    let regular: Vec<String> = regular.filter(runs).cloned().collect();
    let mut waits = BTreeMap::new();
    let mut later: Option<&String> = None;
    let init = spec.init_containers.iter().flatten().rev();
    for sidecar in init.filter(|container| is_sidecar(container)) {
        // Of the later ones only the next counts, as upstream has it: if that one does
        // not run, nobody asks for those behind it.
        let before = regular.iter().chain(later.filter(runs));
        let before: Vec<String> = before.cloned().collect();
        if running.contains(sidecar.name.as_str()) && !before.is_empty() {
            waits.insert(sidecar.name.clone(), before);
        }
        later = Some(&sidecar.name);
    }
    waits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `a` and `b` are regular, `x`, `y` and `z` sidecars in that order, and `i` is an
    /// init container.
    fn order(running: &[&str]) -> String {
        let sidecar = |name: &str| json!({ "name": name, "restartPolicy": "Always" });
        let spec = json!({
            "initContainers": [sidecar("x"), { "name": "i" }, sidecar("y"), sidecar("z")],
            "containers": [{ "name": "a" }, { "name": "b" }],
        });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let running = running.iter().copied().collect();
        let waits = waits(&spec, &running);
        let waits = waits
            .iter()
            .map(|(name, before)| format!("{name}<{}", before.join("")));
        waits.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sidecars_end_last_and_in_reverse() {
        for (running, wanted) in [
            (&["a", "b", "x", "y", "z"][..], "x<aby y<abz z<ab"),
            (&["a", "x", "y"], "x<ay y<a"),
            (&["x", "y", "z"], "x<y y<z"),
            (&["a", "b"], ""),
            (&["z"], ""),
            (&["i", "x"], ""),
            // Nobody asks for who comes after one that does not run.
            (&["x", "z"], ""),
            (&["a", "x", "z"], "x<a z<a"),
        ] {
            assert_eq!(order(running), wanted, "{running:?}");
        }
    }
}
