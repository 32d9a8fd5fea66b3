//! Everything that a kubelet can be told, as tables: the fields of the
//! configuration file, the flags, the flags of older kubelets, the feature
//! gates. What is known of an item stands in its row and nowhere else.

mod fields;
mod flags;
mod gates;
mod lookup;
mod nearest;
mod removed;
#[cfg(test)]
mod tests;

pub use self::fields::FIELDS;
pub(crate) use self::flags::CADVISOR;
pub use self::flags::FLAGS;
pub use self::gates::{GATES, RETIRED_GATES};
pub use self::lookup::{children, field, flag, gate, is_retired_gate, removed_flag};
pub use self::nearest::nearest;
pub use self::removed::REMOVED_FLAGS;

/// The release whose kubelet the tables describe.
pub const RELEASE: &str = "v1.36.4";

/// A field of `KubeletConfiguration` v1beta1.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Dotted; items of a list are `name[]`.
    pub path: &'static str,
    pub kind: Kind,
    pub presence: Presence,
    pub default: Default,
    /// The flag that sets the same thing, without its dashes.
    pub flag: Option<&'static str>,
    pub stage: Stage,
    /// What values are allowed, as the end of the sentence "it must be …";
    /// empty where every value of the kind is.
    pub allowed: &'static str,
    /// What it does, in our words, for a person who has to choose a value.
    pub about: &'static str,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int32,
    Int64,
    Uint32,
    Float64,
    String,
    /// Go's duration syntax, e.g. `1m30s`.
    Duration,
    /// A duration string, or whole nanoseconds.
    DurationOrNanos,
    /// A Kubernetes quantity, string or number.
    Quantity,
    /// RFC 3339.
    Time,
    Strings,
    Int32s,
    StringMap,
    BoolMap,
    StringsMap,
    /// Name to quantity, decoded as quantities (not as strings).
    QuantityMap,
    /// Its fields have rows of their own, `path.name`.
    Object,
    /// A list of objects; their fields have rows of their own, `path[].name`.
    Objects,
}

/// How a value that was not given is told from one that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Zero (`0`, `false`, `""`, `0s`, empty) and absent are the same: with a
    /// default, zero turns into it; zero is left out when printed (durations,
    /// quantities and objects are always printed).
    Plain,
    /// As `Plain`, but zero is printed too (a zero map as `null`).
    Printed,
    /// A list or map whose default an empty one refuses: absent and null are
    /// unset, a given empty one stays. It is left out when printed, so that a
    /// config which is printed and read again, as drop-ins do, forgets it.
    Emptiable,
    /// Only absence counts as unset; a given zero stays.
    Optional,
}

/// What an unset field turns into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// It stays unset.
    None,
    /// This value, as JSON.
    Json(&'static str),
    /// It depends on other settings; the text says how. Code, not the table,
    /// computes it.
    Depends(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Stable,
    /// Still accepted; the text says what became of it.
    Deprecated(&'static str),
    /// Needs this feature gate.
    Gated(&'static str),
}

/// A command-line flag of the kubelet.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    pub shorthand: Option<char>,
    pub kind: FlagKind,
    /// As upstream prints it (`FLAG: --name="default"`), without the quotes.
    pub default: &'static str,
    /// The field that it sets, if it sets one.
    pub field: Option<&'static str>,
    /// Upstream prints a deprecation notice on each use.
    pub deprecated: bool,
    /// For a flag without a field: what it does, in our words. Empty for a flag
    /// with a field: the field's row tells it.
    pub about: &'static str,
}

/// How a flag's text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    Bool,
    Int,
    Int32,
    Int64,
    /// A decimal number from 0 to 2147483647.
    Level,
    String,
    Duration,
    Ip,
    /// Comma-separated (as CSV), repeatable.
    Strings,
    /// `k=v,k=v`, repeatable.
    MapStringString,
    /// `k=v,k,k=v`: a bare key has an empty value, blanks around both are cut;
    /// repeatable, and never clears what is there.
    Labels,
    /// `k<v,k<v`, repeatable.
    MapLessThan,
    /// `k=true,k=false`, repeatable.
    MapStringBool,
    /// Exactly one `k=v` for each use, repeatable; commas belong to the value.
    MapOnePair,
    /// `key:value`, comma-separated, repeatable; values of one key add up.
    Headers,
    /// `numaNode:type=quantity,type=quantity;numaNode:…`
    ReservedMemory,
    /// `key=value:effect`, comma-separated.
    Taints,
    /// `pattern=N`, comma-separated, appended.
    Vmodule,
    /// A Kubernetes quantity.
    Quantity,
    /// `true`, `false`, `raw`, or `v…` to report that version instead; bare
    /// means true.
    Version,
}

/// A flag that an older kubelet had and v1.36 does not know.
#[derive(Clone, Copy, Debug)]
pub struct RemovedFlag {
    pub name: &'static str,
    /// Whether it takes the next argument if there is no `=`.
    pub takes_value: bool,
    /// The last minor release that had it, e.g. `1.23`.
    pub last: &'static str,
    pub handling: Handling,
    /// What to do instead, as a sentence for the operator.
    pub advice: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// Warn once and go on.
    Ignore,
    /// Warn once and set this flag of today instead.
    MapTo(&'static str),
    /// Warn if the value is this one, refuse any other.
    AcceptOnly(&'static str),
    /// An error that holds the advice.
    Refuse,
}

/// A feature gate as the kubelet knows it.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    pub name: &'static str,
    pub default: bool,
    pub stage: GateStage,
    /// It cannot be set to anything but its default.
    pub locked: bool,
    /// Gates that must be on for this one to be on.
    pub needs: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}
