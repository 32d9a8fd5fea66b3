//! Whether two outcomes agree.
//!
//! Upstream shows its internal structure: Go's field names, every field. Ours
//! shows the public form, which leaves out what is unset. Both are flattened
//! to a list of leaves, by path, and compared leaf by leaf.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use anyhow::{Result, bail};
use serde_json::Value;
use testkit::lab::Machine;

use crate::resolved::Outcome;
use crate::{case, upstream};

/// Internal names, in lower case, whose public name is another.
const RENAMED: [(&str, &str); 1] = [("resolverconfig", "resolvconf")];

/// Fields that hold a map: its keys are data, and compared as they stand.
const MAPS: [&str; 12] = [
    "cpumanagerpolicyoptions",
    "evictionhard",
    "evictionminimumreclaim",
    "evictionsoft",
    "evictionsoftgraceperiod",
    "featuregates",
    "kubereserved",
    "limits",
    "qosreserved",
    "staticpodurlheader",
    "systemreserved",
    "topologymanagerpolicyoptions",
];

/// What upstream has filled in by the time it shows its configuration, where
/// neither file nor flag says anything: the certificate it has made itself.
const FILLED_IN: [(&str, &str); 2] = [
    ("tlscertfile", "/var/lib/kubelet/pki/kubelet.crt"),
    ("tlsprivatekeyfile", "/var/lib/kubelet/pki/kubelet.key"),
];

/// Headers may be credentials: upstream shows their names only.
const MASKED: &str = "staticpodurlheader";

/// The one text that may be empty on purpose, so that it is shown when it is.
const OPTIONAL_TEXT: &str = "resolvconf";

/// Numbers whose zero is left out in the public form, though it is not their
/// default: only a flag can make them zero. Others that are missing there have
/// not been resolved.
const PLAIN_NUMBERS: [&str; 7] = [
    "eventburst",
    "kubeapiburst",
    "maxopenfiles",
    "maxpods",
    "nodeleasedurationseconds",
    "port",
    "registryburst",
];

/// What is set, as JSON, by its path in lower case.
type Leaves = BTreeMap<String, String>;

/// Upstream's defaults: they tell, for a zero, whether it says anything.
pub(crate) struct Baseline(Leaves);

impl Baseline {
    pub(crate) fn of(machine: &Machine) -> Result<Self> {
        let directory = "/opt/cases/defaults";
        machine.write(&format!("{directory}/config.yaml"), case::HEAD)?;
        let arguments = case::arguments(&case::SHOWING, &["--config=config.yaml"]);
        match upstream::resolve(machine, directory, &arguments)? {
            Outcome::Accepted(shown) => Ok(Self(leaves(&shown))),
            outcome @ Outcome::Refused { .. } => bail!("upstream {outcome}: its own defaults"),
        }
    }

    /// The public form leaves out zeros of plain fields, and keeps those of
    /// optional ones. A zero that is the default says nothing either way.
    fn says_nothing(&self, path: &str, value: &str) -> bool {
        let Some(default) = self.0.get(path) else {
            return false;
        };
        match value {
            r#""""# => path != OPTIONAL_TEXT,
            "0" if PLAIN_NUMBERS.contains(&path) => true,
            _ => default == value && is_zero(value),
        }
    }

    fn reduce(&self, shown: &Value) -> Leaves {
        let mut leaves = leaves(shown);
        leaves.retain(|path, value| !self.says_nothing(path, value));
        for (path, filled_in) in FILLED_IN {
            leaves.retain(|known, value| known != path || value.trim_matches('"') != filled_in);
        }
        leaves
    }
}

#[derive(Debug)]
pub(crate) enum Difference {
    /// One accepts what the other refuses.
    Verdict,
    /// Both refuse, each with its own exit code.
    ExitCode,
    /// Both accept, and resolve a field to these values: upstream's, ours.
    Field(String, Option<String>, Option<String>),
}

impl Difference {
    /// The words by which `differences.rs` lists it.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Verdict => "verdict".to_owned(),
            Self::ExitCode => "exit code".to_owned(),
            Self::Field(path, ..) => path.clone(),
        }
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        match self {
            Self::Verdict => formatter.write_str("the verdicts differ"),
            Self::ExitCode => formatter.write_str("the exit codes differ"),
            Self::Field(path, theirs, ours) => write!(
                formatter,
                "{path} is {} upstream, {} in ours",
                show(theirs),
                show(ours)
            ),
        }
    }
}

pub(crate) fn outcomes(baseline: &Baseline, theirs: &Outcome, ours: &Outcome) -> Vec<Difference> {
    match (theirs, ours) {
        (Outcome::Accepted(theirs), Outcome::Accepted(ours)) => {
            fields(&baseline.reduce(theirs), &baseline.reduce(ours))
        }
        (
            Outcome::Refused {
                exit_code: theirs, ..
            },
            Outcome::Refused {
                exit_code: ours, ..
            },
        ) if theirs == ours => Vec::new(),
        (Outcome::Refused { .. }, Outcome::Refused { .. }) => vec![Difference::ExitCode],
        _ => vec![Difference::Verdict],
    }
}

/// Compares two public forms: what is missing in one and empty in the other
/// differs too.
pub(crate) fn exact(theirs: &Value, ours: &Value) -> Vec<String> {
    let [theirs, ours] = [theirs, ours].map(|form| {
        let mut leaves = Leaves::new();
        collect_all("", form, &mut leaves);
        leaves
    });
    let differences = fields(&theirs, &ours);
    differences.iter().map(Difference::to_string).collect()
}

fn fields(theirs: &Leaves, ours: &Leaves) -> Vec<Difference> {
    let mut paths: Vec<_> = theirs.keys().chain(ours.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|&path| theirs.get(path) != ours.get(path))
        .map(|path| {
            let [theirs, ours] = [theirs, ours].map(|leaves| leaves.get(path).cloned());
            Difference::Field(path.clone(), theirs, ours)
        })
        .collect()
}

fn leaves(shown: &Value) -> Leaves {
    let mut leaves = Leaves::new();
    collect("", shown, &mut leaves);
    // The public form names itself; the internal one does not.
    leaves.remove("apiversion");
    leaves.remove("kind");
    leaves
}

fn collect(path: &str, value: &Value, leaves: &mut Leaves) {
    match value {
        Value::Null => {}
        Value::Object(object) if path == MASKED => {
            for name in object.keys() {
                leaves.insert(join(path, name), "masked".to_owned());
            }
        }
        Value::Object(object) => {
            let is_map = MAPS.contains(&last_name(path));
            for (key, value) in object {
                let name = if is_map {
                    key.clone()
                } else {
                    public_name(key)
                };
                collect(&join(path, &name), value, leaves);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(&join(path, &index.to_string()), item, leaves);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            leaves.insert(path.to_owned(), as_text(value));
        }
    }
}

fn collect_all(path: &str, value: &Value, leaves: &mut Leaves) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                collect_all(&join(path, key), value, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                collect_all(&join(path, &index.to_string()), item, leaves);
            }
        }
        _ => {
            leaves.insert(path.to_owned(), as_text(value));
        }
    }
}

/// A leaf as JSON; 1 and 1.0 are one number.
fn as_text(value: &Value) -> String {
    let text = value.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn public_name(key: &str) -> String {
    let name = key.to_lowercase();
    RENAMED
        .iter()
        .find(|(internal, _)| *internal == name)
        .map_or(name, |(_, public)| (*public).to_owned())
}

/// Keys of maps have dots in them: paths are parted by something else.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}/{name}")
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_zero(value: &str) -> bool {
    matches!(value, "false" | "0" | r#""""# | r#""0""# | r#""0s""#)
}
