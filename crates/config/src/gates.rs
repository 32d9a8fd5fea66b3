//! Feature gates: which features are on, given what was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::finding::did_you_mean;
use crate::schema::{self, GATES, Gate, GateStage};

/// Sets every alpha gate that is not named itself.
const ALL_ALPHA: &str = "AllAlpha";
/// Sets every beta gate that is not named itself.
const ALL_BETA: &str = "AllBeta";
/// Enough faults for a person; a map may hold a million names.
const MOST_FAULTS: usize = 100;
/// How many faults say what was perhaps meant, which takes a while to find.
const MOST_GUESSES: usize = 50;

/// The value of every gate. Clones share them: a fleet has one for thousands of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    by_name: Arc<BTreeMap<&'static str, bool>>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GateError {
    #[error("there is no feature gate {name}{}", meant(nearest.as_deref()))]
    Unknown {
        name: String,
        nearest: Option<String>,
    },
    #[error("feature gate {name} is locked to {locked} in this version; leave it out")]
    Locked { name: String, locked: bool },
    #[error("feature gate {name} is on and needs {needs}, which is off; set both or neither")]
    Needs { name: String, needs: String },
}

fn meant(nearest: Option<&str>) -> String {
    did_you_mean(nearest).map_or(String::new(), |question| format!("; {question}"))
}

impl Default for FeatureGates {
    fn default() -> Self {
        let by_name = GATES.iter().map(|gate| (gate.name, gate.default));
        Self {
            by_name: Arc::new(by_name.collect()),
        }
    }
}

impl FeatureGates {
    /// The gates after `wanted`. Names that older kubelets knew are skipped
    /// (see [`retired`]): an old configuration shall not stop a node.
    pub fn resolve<'a>(
        wanted: impl IntoIterator<Item = (&'a str, bool)>,
    ) -> Result<Self, GateError> {
        let wanted: BTreeMap<&str, bool> = wanted.into_iter().collect();
        let mut by_name: BTreeMap<&'static str, bool> =
            GATES.iter().map(|gate| (gate.name, gate.default)).collect();
        for (all, stage) in [(ALL_ALPHA, GateStage::Alpha), (ALL_BETA, GateStage::Beta)] {
            if let Some(&value) = wanted.get(all) {
                let members = GATES.iter().filter(|gate| {
                    gate.stage == stage && ![ALL_ALPHA, ALL_BETA].contains(&gate.name)
                });
                by_name.extend(members.map(|gate| (gate.name, value)));
            }
        }
        for (&name, &value) in &wanted {
            if let Some(gate) = row(name, value, true)? {
                by_name.insert(gate.name, value);
            }
        }
        let gates = Self {
            by_name: Arc::new(by_name),
        };
        gates.check_needs()?;
        Ok(gates)
    }

    /// The faults of `wanted`, a hundred at most, where
    /// [`FeatureGates::resolve`] stops at the first.
    pub fn faults(wanted: &[(&str, bool)]) -> Vec<GateError> {
        let mut faults = Vec::new();
        for &(name, value) in wanted {
            if faults.len() >= MOST_FAULTS {
                break;
            }
            faults.extend(row(name, value, faults.len() < MOST_GUESSES).err());
        }
        // What gates need of each other is judged where each is good by itself.
        if faults.is_empty() {
            faults.extend(Self::resolve(wanted.iter().copied()).err());
        }
        faults
    }

    pub fn enabled(&self, name: &str) -> bool {
        self.by_name.get(name).copied().unwrap_or(false)
    }

    fn check_needs(&self) -> Result<(), GateError> {
        for gate in GATES.iter().filter(|gate| self.enabled(gate.name)) {
            if let Some(off) = gate.needs.iter().find(|needed| !self.enabled(needed)) {
                return Err(GateError::Needs {
                    name: gate.name.to_owned(),
                    needs: (*off).to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// The gate of this name if it may have this value; none if it is retired. A
/// guess says what an unknown name was perhaps meant to be.
fn row(name: &str, value: bool, guess: bool) -> Result<Option<&'static Gate>, GateError> {
    if retired(name) {
        return Ok(None);
    }
    let Some(gate) = schema::gate(name) else {
        let names = GATES.iter().map(|gate| gate.name).filter(|_| guess);
        return Err(GateError::Unknown {
            name: name.to_owned(),
            nearest: schema::nearest(name, names).map(str::to_owned),
        });
    };
    if gate.locked && value != gate.default {
        return Err(GateError::Locked {
            name: name.to_owned(),
            locked: gate.default,
        });
    }
    Ok(Some(gate))
}

/// A gate that an older kubelet knew: its feature is on for good, or gone.
pub fn retired(name: &str) -> bool {
    schema::is_retired_gate(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_has_its_default() {
        let gates = FeatureGates::resolve([("MemoryQoS", true)]).unwrap();
        assert!(gates.enabled("MemoryQoS"));
        assert!(gates.enabled("NodeSwap"));
        assert!(!gates.enabled("QOSReserved"));
        assert!(!FeatureGates::default().enabled("MemoryQoS"));
    }

    #[test]
    fn a_class_is_set_but_for_those_that_are_named() {
        let wanted = [("AllAlpha", true), ("QOSReserved", false)];
        let gates = FeatureGates::resolve(wanted).unwrap();
        assert!(gates.enabled("MemoryQoS") && !gates.enabled("QOSReserved"));
        let gates = FeatureGates::resolve([("AllAlpha", false)]).unwrap();
        assert!(!gates.enabled("MemoryQoS"));
    }

    #[test]
    fn unknown_locked_and_retired_gates_are_told_apart() {
        let unknown = FeatureGates::resolve([("MemoryQos", true)]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "there is no feature gate MemoryQos; did you mean MemoryQoS?"
        );
        let locked = FeatureGates::resolve([("NodeSwap", false)]).unwrap_err();
        assert!(matches!(locked, GateError::Locked { .. }), "{locked}");
        assert!(FeatureGates::resolve([("NodeSwap", true)]).is_ok());
        assert!(FeatureGates::resolve([("RotateKubeletClientCertificate", true)]).is_ok());
        assert!(retired("DynamicKubeletConfig"));
    }

    #[test]
    fn faults_are_found_together_and_only_the_first_hundred() {
        let wanted = [
            ("NodeSwap", false),
            ("MemoryQos", true),
            ("MemoryQoS", true),
        ];
        let faults = FeatureGates::faults(&wanted);
        assert!(
            matches!(
                &faults[..],
                [GateError::Locked { .. }, GateError::Unknown { .. }]
            ),
            "{faults:?}"
        );
        let faults = FeatureGates::faults(&[("MemoryQos", true); 200]);
        let guessed = |fault: &&GateError| fault.to_string().contains("did you mean MemoryQoS?");
        assert_eq!(faults.len(), 100);
        assert_eq!(faults.iter().filter(guessed).count(), 50);
    }
}
