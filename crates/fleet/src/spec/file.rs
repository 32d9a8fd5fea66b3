//! The `Fleet` file, and how it becomes a fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use sim::{Faults, MachineShape, RuntimeFault, RuntimeShape};
use types::names::{validate_dns_subdomain, validate_label_key, validate_label_value};
use types::{GoDuration, Quantity};

use super::{Ailment, FLEET_LABEL, Fault, Fleet, GROUP_LABEL, Group, Kind, SpecError, ZONE_LABEL};

const API_VERSION: &str = "ferrolet.dev/v1alpha1";
const KIND: &str = "Fleet";

/// The file as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetFile {
    pub api_version: String,
    pub kind: String,
    pub metadata: MetadataFile,
    pub groups: Vec<GroupFile>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetadataFile {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupFile {
    pub name: String,
    pub count: usize,
    /// Left out: the group's name and a number.
    pub name_pattern: Option<String>,
    #[serde(default)]
    pub capacity: CapacityFile,
    #[serde(default)]
    pub node_info: NodeInfoFile,
    #[serde(default)]
    pub zones: Vec<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// As `--register-with-taints` has them: `key=value:effect`.
    #[serde(default)]
    pub taints: Vec<String>,
    #[serde(default)]
    pub faults: Vec<FaultFile>,
}

/// Quantities as Kubernetes writes them; left out: as on the default machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CapacityFile {
    pub cpu: Option<Amount>,
    pub memory: Option<Amount>,
    pub ephemeral_storage: Option<Amount>,
    pub pods: Option<u32>,
}

/// A number, or a text with a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    Number(i64),
    Text(String),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeInfoFile {
    pub kernel: Option<String>,
    pub os_image: Option<String>,
    pub architecture: Option<String>,
    /// `NAME://VERSION`, as nodes show it.
    pub runtime: Option<String>,
    pub kubelet: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultFile {
    #[serde(default)]
    pub zones: Vec<String>,
    #[serde(default)]
    pub stopped: bool,
    #[serde(default)]
    pub runtime: Option<RuntimeFaultFile>,
    /// With `runtime: slow`: how much longer each call takes.
    pub delay: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum RuntimeFaultFile {
    Down,
    Hanging,
    Slow,
}

impl FleetFile {
    /// Reads a file.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        let file: Self = serde_saphyr::from_str(text).map_err(|error| one(error.to_string()))?;
        if file.kind != KIND || file.api_version != API_VERSION {
            return Err(one(format!(
                "this is a {} of {}, not a {KIND} of {API_VERSION}",
                file.kind, file.api_version
            )));
        }
        Ok(file)
    }

    /// A fleet with one group, as flags describe it.
    pub fn of_one_group(name: String, group: GroupFile) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: MetadataFile { name },
            groups: vec![group],
        }
    }

    /// Judges it as a whole.
    pub fn fleet(self) -> Result<Fleet, SpecError> {
        let mut problems = Vec::new();
        let name = self.metadata.name;
        if let Err(cause) = validate_label_value(&name).and(validate_dns_subdomain(&name)) {
            problems.push(format!("metadata.name {name:?}: {cause}"));
        }
        let mut groups = Vec::new();
        for group in self.groups {
            let place = format!("group {:?}", group.name);
            let mut judging = Judging {
                place,
                problems: &mut problems,
            };
            groups.extend(judging.group(group, &name).map(Arc::new));
        }
        let fleet = Fleet { name, groups };
        problems.extend(fleet.clashes());
        if problems.is_empty() {
            Ok(fleet)
        } else {
            Err(SpecError(problems))
        }
    }
}

fn one(problem: String) -> SpecError {
    SpecError(vec![problem])
}

/// Judges one group; what is wrong is kept, with its place.
struct Judging<'a> {
    place: String,
    problems: &'a mut Vec<String>,
}

impl Judging<'_> {
    fn group(&mut self, group: GroupFile, fleet: &str) -> Option<Group> {
        let before = self.problems.len();
        if let Err(cause) =
            validate_label_value(&group.name).and(validate_dns_subdomain(&group.name))
        {
            self.wrong("name", &cause.to_string());
        }
        let pattern = group
            .name_pattern
            .unwrap_or_else(|| format!("{}-{{:05}}", group.name));
        let pattern = self.kept("namePattern", pattern.parse());
        for zone in &group.zones {
            if let Err(cause) = validate_label_value(zone) {
                self.wrong("zones", &cause.to_string());
            }
        }
        let mut labels = self.labels(group.labels);
        labels.insert(FLEET_LABEL.to_owned(), fleet.to_owned());
        labels.insert(GROUP_LABEL.to_owned(), group.name.clone());
        let pods = group.capacity.pods;
        let kind = Kind {
            machine: Arc::new(self.machine(group.capacity, &group.node_info)),
            runtime: Arc::new(self.runtime(group.node_info.runtime.as_deref())),
            pods,
            kubelet_version: group.node_info.kubelet,
            labels,
            taints: self.taints(&group.taints),
        };
        let faults = group.faults.into_iter();
        let faults: Vec<Fault> = faults
            .map(|fault| self.fault(fault, &group.zones))
            .collect();
        let made = Group {
            name: group.name,
            count: group.count,
            pattern: pattern?,
            kind: Arc::new(kind),
            zones: group.zones,
            faults,
        };
        (self.problems.len() == before).then_some(made)
    }

    fn machine(&mut self, capacity: CapacityFile, info: &NodeInfoFile) -> MachineShape {
        let usual = MachineShape::default();
        let cpus = self.amount("capacity.cpu", capacity.cpu);
        let memory = self.amount("capacity.memory", capacity.memory);
        let storage = self.amount("capacity.ephemeral-storage", capacity.ephemeral_storage);
        let or = |text: &Option<String>, usual: String| text.clone().unwrap_or(usual);
        MachineShape {
            cpus: cpus.map_or(usual.cpus, |cpus| u32::try_from(cpus).unwrap_or(u32::MAX)),
            memory: memory.unwrap_or(usual.memory),
            storage: storage.unwrap_or(usual.storage),
            kernel_release: or(&info.kernel, usual.kernel_release),
            os_image: or(&info.os_image, usual.os_image),
            architecture: or(&info.architecture, usual.architecture),
        }
    }

    fn runtime(&mut self, text: Option<&str>) -> RuntimeShape {
        let Some(text) = text else {
            return RuntimeShape::default();
        };
        match text.split_once("://") {
            Some((name, version)) if !name.is_empty() && !version.is_empty() => RuntimeShape {
                name: name.to_owned(),
                version: version.to_owned(),
                ..RuntimeShape::default()
            },
            _ => {
                let advice =
                    format!("{text:?} is no runtime: write NAME://VERSION, as containerd://2.1.9");
                self.wrong("nodeInfo.runtime", &advice);
                RuntimeShape::default()
            }
        }
    }

    fn amount(&mut self, field: &str, amount: Option<Amount>) -> Option<u64> {
        let quantity = match amount? {
            Amount::Number(number) => number.to_string(),
            Amount::Text(text) => text,
        };
        let quantity: Quantity = self.kept(field, quantity.parse())?;
        match u64::try_from(quantity.value()) {
            Ok(amount @ 1..) if quantity.fits_i64() => Some(amount),
            _ => {
                self.wrong(
                    field,
                    "a machine has some of it, and not more than can be counted",
                );
                None
            }
        }
    }

    fn labels(&mut self, labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for (key, value) in &labels {
            if let Err(cause) = validate_label_key(key).and(validate_label_value(value)) {
                self.wrong("labels", &cause.to_string());
            }
            if [FLEET_LABEL, GROUP_LABEL, ZONE_LABEL].contains(&key.as_str()) {
                self.wrong("labels", &format!("{key} is the fleet's own: leave it out"));
            }
        }
        labels
    }

    fn taints(&mut self, taints: &[String]) -> Vec<Taint> {
        let read = taints.iter().filter_map(|text| {
            let taint: types::Taint = self.kept("taints", text.parse())?;
            Some(Taint {
                key: taint.key,
                value: Some(taint.value).filter(|value| !value.is_empty()),
                effect: taint.effect.to_string(),
                time_added: None,
            })
        });
        read.collect()
    }

    fn fault(&mut self, fault: FaultFile, zones: &[String]) -> Fault {
        for zone in fault.zones.iter().filter(|zone| !zones.contains(zone)) {
            self.wrong("faults", &format!("the group has no zone {zone:?}"));
        }
        let delay = fault.delay.and_then(|delay| {
            let delay: GoDuration = self.kept("faults.delay", delay.parse())?;
            delay.to_std()
        });
        let runtime = match (fault.runtime, delay) {
            (None, None) => RuntimeFault::None,
            (Some(RuntimeFaultFile::Down), None) => RuntimeFault::Down,
            (Some(RuntimeFaultFile::Hanging), None) => RuntimeFault::Hanging,
            (Some(RuntimeFaultFile::Slow), Some(delay)) => RuntimeFault::Slow(delay),
            (Some(RuntimeFaultFile::Slow), None) => {
                self.wrong("faults", "`runtime: slow` needs a delay, as 2s");
                RuntimeFault::None
            }
            (_, Some(_)) => {
                self.wrong("faults", "a delay belongs to `runtime: slow`");
                RuntimeFault::None
            }
        };
        Fault {
            zones: fault.zones,
            what: Ailment {
                stopped: fault.stopped,
                machine: Faults {
                    runtime,
                    ..Faults::default()
                },
            },
        }
    }

    fn kept<T, E: std::fmt::Display>(&mut self, field: &str, outcome: Result<T, E>) -> Option<T> {
        outcome
            .map_err(|error| self.wrong(field, &error.to_string()))
            .ok()
    }

    fn wrong(&mut self, field: &str, cause: &str) {
        self.problems
            .push(format!("{}, {field}: {cause}", self.place));
    }
}
