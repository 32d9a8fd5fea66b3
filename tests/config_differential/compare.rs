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
use crate::upstream;

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

type Leaves = BTreeMap<String, Value>;

/// Upstream's defaults: which tell, for a zero, whether it says anything.
pub(crate) struct Baseline(Leaves);

impl Baseline {
    pub(crate) fn of(machine: &Machine) -> Result<Self> {
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        machine.write("/opt/cases/defaults/config.yaml", head)?;
        let arguments = ["-v=5", "--fail-cgroupv1=false", "--config=config.yaml"];
        let arguments = arguments.map(str::to_owned);
        match upstream::resolve(machine, "/opt/cases/defaults", &arguments)? {
            Outcome::Accepted(shown) => Ok(Self(leaves(&shown))),
            outcome @ Outcome::Refused { .. } => bail!("upstream {outcome}: its own defaults"),
        }
    }

    /// A zero that is the default is left out of the public form. Any other
    /// was asked for, and must be there.
    fn says_nothing(&self, path: &str, value: &Value) -> bool {
        is_zero(value) && self.0.get(path) == Some(value)
    }

    fn reduce(&self, shown: &Value) -> Leaves {
        let mut leaves = leaves(shown);
        leaves.retain(|path, value| !self.says_nothing(path, value));
        for (path, filled_in) in FILLED_IN {
            if leaves.get(path).is_some_and(|value| value == filled_in) {
                leaves.remove(path);
            }
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
    Field(String, Option<Value>, Option<Value>),
}

impl Difference {
    /// The words by which `differences.rs` lists it.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Verdict => "verdict".to_owned(),
            Self::ExitCode => "exit code".to_owned(),
            Self::Field(path, ..) => path.clone(),
        }
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| {
            value
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), Value::to_string)
        };
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
        _ if path.starts_with(MASKED) => {
            leaves.insert(path.to_owned(), Value::from("<masked>"));
        }
        _ => {
            leaves.insert(path.to_owned(), value.clone());
        }
    }
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

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}
