//! What must happen for the nodes that are there to become those that are wanted.

use std::collections::BTreeMap;

use crate::spec::{Ailment, NodeSpec};

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// There is no such node yet.
    Add(NodeSpec),
    /// It is there and is to be made of something else: its agent starts anew.
    Replace(NodeSpec),
    /// It carries other marks, which a node is given only when its object is made.
    Remake(NodeSpec),
    /// It goes on as it is, and fares otherwise.
    Ail(String, Ailment),
    /// It is not wanted any more.
    Remove(String),
}

/// The steps from what is there to what is wanted: what goes before what comes,
/// and each in the order of the names.
pub fn steps(there: &BTreeMap<String, NodeSpec>, wanted: &BTreeMap<String, NodeSpec>) -> Vec<Step> {
    let gone = there.keys().filter(|name| !wanted.contains_key(*name));
    let gone = gone.map(|name| Step::Remove(name.clone()));
    let come = wanted
        .iter()
        .filter_map(|(name, node)| match there.get(name) {
            None => Some(Step::Add(node.clone())),
            Some(now) if !now.has_same_marks(node) => Some(Step::Remake(node.clone())),
            Some(now) if now.kind != node.kind => Some(Step::Replace(node.clone())),
            Some(now) if now.ailment != node.ailment => Some(Step::Ail(name.clone(), node.ailment)),
            Some(_) => None,
        });
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::FleetFile;

    fn nodes(groups: &str) -> BTreeMap<String, NodeSpec> {
        let head = "apiVersion: ferrolet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\n";
        let file = FleetFile::read(&format!("{head}groups: [{groups}]")).unwrap();
        let fleet = file.fleet().unwrap();
        fleet
            .nodes()
            .map(|node| (node.name.clone(), node))
            .collect()
    }

    fn told(there: &str, wanted: &str) -> Vec<String> {
        let steps = steps(&nodes(there), &nodes(wanted));
        let words = |step| match step {
            Step::Add(node) => format!("+{}", node.name),
            Step::Replace(node) => format!("={}", node.name),
            Step::Remake(node) => format!("*{}", node.name),
            Step::Ail(name, ailment) => format!("!{name} {}", ailment.stopped),
            Step::Remove(name) => format!("-{name}"),
        };
        steps.into_iter().map(words).collect()
    }

    #[test]
    fn only_what_differs_is_touched() {
        let small = "{name: g, count: 2, namePattern: 'g{}'}";
        let stopped =
            "{name: g, count: 2, namePattern: 'g{}', zones: [a], faults: [{stopped: true}]}";
        let healthy = "{name: g, count: 2, namePattern: 'g{}', zones: [a]}";
        let one = "{name: g, count: 1, namePattern: 'g{}'}";
        let other = "{name: h, count: 1, namePattern: 'h{}'}";
        for (there, wanted, steps) in [
            (small, small, vec![]),
            ("", small, vec!["+g0", "+g1"]),
            (small, "", vec!["-g0", "-g1"]),
            (small, one, vec!["-g1"]),
            (one, small, vec!["+g1"]),
            (small, other, vec!["-g0", "-g1", "+h0"]),
            (healthy, stopped, vec!["!g0 true", "!g1 true"]),
            (stopped, healthy, vec!["!g0 false", "!g1 false"]),
            (one, healthy, vec!["*g0", "+g1"]),
            (
                one,
                "{name: g, count: 1, namePattern: 'g{}', capacity: {cpu: 1}}",
                vec!["=g0"],
            ),
            (
                one,
                "{name: g, count: 1, namePattern: 'g{}', labels: {a: b}}",
                vec!["*g0"],
            ),
            (one, "{name: h, count: 1, namePattern: 'g{}'}", vec!["*g0"]),
        ] {
            assert_eq!(told(there, wanted), steps, "{there} → {wanted}");
        }
    }
}
