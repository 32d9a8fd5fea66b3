//! The whole way from a command line to settings, in the kubelet's order:
//! defaults, the `--config` file, drop-ins, flags; each step as lenient or as
//! strict as the kubelet is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::decode::{Case, Decoded, Reader};
use crate::defaults;
use crate::effect;
use crate::finding::{Class, Finding, Spot};
use crate::flags::{self, CommandLine};
use crate::gates::{self, FeatureGates, GateError};
use crate::labels;
use crate::merge;
use crate::schema::{self, Kind, Presence};
use crate::settings::{Origin, Parts, Setting, Settings, leaves};
use crate::source::{self, Document, Node, Place};
use crate::validate::{self, Machine};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// Fields whose relative paths start at the configuration file's directory.
pub(crate) const RELATIVE_PATHS: [&str; 7] = [
    "authentication.x509.clientCAFile",
    "podLogsDir",
    "resolvConf",
    "staticPodPath",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "volumePluginDir",
];

/// A configuration that a kubelet would start with.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Settings,
    pub gates: FeatureGates,
    /// What was accepted, with something to say about it: one line each.
    pub notices: Vec<Finding>,
    /// Files in the drop-in directory whose name does not end in `.conf`.
    pub skipped: Vec<PathBuf>,
}

/// A configuration that a kubelet would refuse.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The exit code of a kubelet: 1, or 2 where upstream's panics.
    pub exit_code: u8,
    /// What was being done.
    pub doing: &'static str,
    pub findings: Vec<Finding>,
}

impl Refused {
    fn new(doing: &'static str, findings: Vec<Finding>) -> Self {
        Self {
            exit_code: 1,
            doing,
            findings,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: ", self.doing)?;
        for (index, finding) in self.findings.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

/// Resolves a command line as a kubelet does and judges the outcome.
/// `directory` is where relative paths on the command line start.
pub fn load(
    line: &CommandLine,
    directory: &Path,
    machine: Option<Machine>,
) -> Result<Loaded, Refused> {
    let loaded = resolve(line, directory)?;
    judge(line, &loaded, machine)?;
    Ok(loaded)
}

/// Judges what was resolved.
pub fn judge(line: &CommandLine, loaded: &Loaded, machine: Option<Machine>) -> Result<(), Refused> {
    let mut findings = validate::validate(&loaded.settings, &loaded.gates, machine);
    findings.extend(lock_without_file(line));
    if findings.is_empty() {
        return Ok(());
    }
    Err(Refused::new("the configuration is not allowed", findings))
}

/// What it waits for must have a name.
fn lock_without_file(line: &CommandLine) -> Option<Finding> {
    let waits = line.bool("exit-on-lock-contention") == Some(true);
    let named = line.text("lock-file").is_some_and(|path| !path.is_empty());
    (waits && !named).then(|| {
        Finding::new(
            Class::Value,
            "--exit-on-lock-contention",
            "it needs --lock-file",
        )
    })
}

/// Like [`load`], without judging the values.
pub fn resolve(line: &CommandLine, directory: &Path) -> Result<Loaded, Refused> {
    let mut notices = line.notices.clone();
    let from_flags = gates_of_flags(line);
    FeatureGates::resolve(from_flags.clone())
        .map_err(|error| Refused::new("in --feature-gates", vec![gate_finding(&error, None)]))?;
    labels::check(line).map_err(|findings| Refused::new("in --node-labels", findings))?;

    let file = line.text("config").filter(|path| !path.is_empty());
    let mut settings = match file {
        Some(path) => load_file(&directory.join(path), &from_flags, &mut notices)?,
        None => built_in(line),
    };
    let mut skipped = Vec::new();
    if let Some(path) = line.text("config-dir").filter(|path| !path.is_empty()) {
        let place = directory.join(path);
        (settings, skipped) = load_drop_ins(&settings, &place, &from_flags, &mut notices)?;
    }
    notices.extend(forget_split_streams(&mut settings));
    flags::apply(&mut settings, &line.uses);
    let gates = FeatureGates::resolve(wanted_gates(&settings)).map_err(|error| {
        Refused::new(
            "in the feature gates",
            vec![gate_finding(&error, Some(&settings))],
        )
    })?;
    notices.extend(retired_gates(&settings));
    notices.extend(weak_tls(&settings));
    Ok(Loaded {
        settings,
        gates,
        notices,
        skipped,
    })
}

/// The defaults: of a kubelet whose configuration file says nothing, or of one
/// that has flags only.
pub fn built_in_defaults(flags_only: bool) -> Settings {
    if flags_only {
        return built_in(&CommandLine::default());
    }
    let mut settings = Settings::default();
    header(&mut settings);
    defaults::fill(&mut settings, &FeatureGates::default());
    defaults::fill_evictions(&mut settings);
    settings
}

/// The settings of a kubelet without a configuration file.
fn built_in(line: &CommandLine) -> Settings {
    let mut settings = Settings::default();
    header(&mut settings);
    // The base is made before any flag is looked at, gates too.
    defaults::fill(&mut settings, &FeatureGates::default());
    defaults::fill_flags_only(&mut settings);
    // Without drop-ins this is what the flags are laid over. With them, it is
    // what drop-ins are laid over, flags included.
    if line.text("config-dir").is_some_and(|path| !path.is_empty()) {
        flags::apply(&mut settings, &line.uses);
    }
    settings
}

fn header(settings: &mut Settings) {
    for (path, value) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if let Some(field) = schema::field(path) {
            settings.set(field, Value::from(value), Origin::Default);
        }
    }
}

fn load_file(
    path: &Path,
    from_flags: &BTreeMap<&str, bool>,
    notices: &mut Vec<Finding>,
) -> Result<Settings, Refused> {
    let read = ReadFile::open(path, Case::Folded)
        .map_err(|findings| Refused::new(LOADING_FILE, findings))?;
    load_read(&read, path, from_flags, notices)
}

const LOADING_FILE: &str = "cannot load the --config file";

/// The settings of a file that has been read; `path` is where it is.
fn load_read(
    read: &ReadFile,
    path: &Path,
    from_flags: &BTreeMap<&str, bool>,
    notices: &mut Vec<Finding>,
) -> Result<Settings, Refused> {
    let Decoded {
        mut settings,
        findings,
    } = read.decode(Case::Exact, Origin::File, false);
    let (forgiven, fatal): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .chain(read.duplicates())
        .partition(|finding| matches!(finding.class, Class::Unknown | Class::Duplicate));
    if !fatal.is_empty() {
        return Err(Refused::new(LOADING_FILE, fatal));
    }
    notices.extend(forgiven.into_iter().chain(read.ignored()).map(forgive));
    resolve_paths(&mut settings, path);
    fill(&mut settings, from_flags, LOADING_FILE)?;
    defaults::fill_evictions(&mut settings);
    Ok(settings)
}

/// What a kubelet with this text as its `--config` file, and with these flags,
/// would resolve.
pub(crate) fn resolve_text(text: &str, line: &CommandLine) -> Result<Settings, Refused> {
    let mut notices = Vec::new();
    let from_flags = gates_of_flags(line);
    let read = ReadFile::parse("converted", text.as_bytes(), Case::Folded)
        .map_err(|findings| Refused::new(LOADING_FILE, findings))?;
    let mut settings = load_read(&read, Path::new("/converted"), &from_flags, &mut notices)?;
    forget_split_streams(&mut settings);
    flags::apply(&mut settings, &line.uses);
    Ok(settings)
}

fn gates_of_flags(line: &CommandLine) -> BTreeMap<&str, bool> {
    line.pairs("feature-gates")
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_bool()?)))
        .collect()
}

fn load_drop_ins(
    before: &Settings,
    directory: &Path,
    from_flags: &BTreeMap<&str, bool>,
    notices: &mut Vec<Finding>,
) -> Result<(Settings, Vec<PathBuf>), Refused> {
    const DOING: &str = "cannot load the drop-ins of --config-dir";
    let refused = |findings: Vec<Finding>| Refused::new(DOING, findings);
    let found = merge::drop_ins(directory)
        .map_err(|(path, error)| refused(vec![unreadable(&path, &error)]))?;
    let mut merged = before.to_json();
    let mut settings = before.clone();
    let mut faults = Vec::new();
    let mut fatal = Vec::new();
    for path in &found.files {
        let read = ReadFile::open(path, Case::Exact).map_err(refused)?;
        let duplicates: Vec<_> = read.duplicates().collect();
        if !duplicates.is_empty() {
            return Err(refused(duplicates));
        }
        notices.extend(read.ignored().map(forgive));
        let decoded = read.decode(Case::Folded, Origin::DropIn, false);
        for finding in decoded.findings {
            match finding.class {
                Class::Unknown => notices.push(forgive(finding)),
                _ => faults.push(finding),
            }
        }
        let patch = read.document.root.to_json().map_err(|error| {
            let message = "lists and maps are nested too deep";
            let finding = Finding::new(Class::Syntax, "", message);
            refused(vec![finding.at(Some(read.spot(error.place)))])
        })?;
        merge::patch(&mut merged, patch);
        let outcome = decode_merged(merged.clone());
        fatal = outcome.findings;
        fatal.retain(|finding| finding.class != Class::Unknown);
        settings = with_origins(&outcome.settings, &settings, &decoded.settings);
    }
    // A type error of one drop-in does not matter if a later one replaces it:
    // what counts is the outcome.
    if !fatal.is_empty() {
        for finding in &mut fatal {
            finding.spot = None;
            // The same fault with its place, in the drop-in that decides.
            let last = faults.iter().rev().find(|fault| fault.path == finding.path);
            if let Some(known) = last {
                *finding = known.clone();
            }
        }
        return Err(refused(fatal));
    }
    if found.files.is_empty() {
        // Printed and read again, as if there had been one.
        let outcome = decode_merged(merged);
        settings = with_origins(&outcome.settings, before, &Settings::default());
        let message = "there is no file in it whose name ends in .conf, so it changes nothing";
        let finding = Finding::new(Class::Notice, "--config-dir", message);
        notices.push(finding.at(Some(Spot {
            file: Arc::from(directory.display().to_string()),
            place: Place::UNKNOWN,
        })));
    }
    fill(&mut settings, from_flags, DOING)?;
    Ok((settings, found.skipped))
}

/// Reads merged JSON, which has no places.
fn decode_merged(merged: Value) -> Decoded {
    let reader = Reader {
        file: Arc::from(""),
        case: Case::Folded,
        origin: |_| Origin::Default,
        keep_rest: false,
    };
    reader.decode(&Node::from(merged))
}

/// Who gave each value after a drop-in was merged in: the drop-in where the
/// value is what it says, else whoever gave it before.
fn with_origins(merged: &Settings, before: &Settings, given: &Settings) -> Settings {
    let mut settings = Settings::default();
    let optional_objects = schema::FIELDS
        .iter()
        .filter(|field| field.kind == Kind::Object && field.presence == Presence::Optional);
    for field in leaves().chain(optional_objects) {
        let Some(value) = merged.value(field.path) else {
            continue;
        };
        let old = before.get(field.path);
        let setting = match given.get(field.path) {
            Some(new) if counts(value, &new.value) => with_new(value, old, new),
            _ => Setting {
                value: value.clone(),
                ..old.cloned().unwrap_or_else(unknown)
            },
        };
        settings.put(field, setting);
    }
    settings
}

fn unknown() -> Setting {
    Setting {
        value: Value::Null,
        origin: Origin::Default,
        parts: Parts::new(),
        before: Vec::new(),
    }
}

/// Whether the outcome holds what a drop-in says: it may have lost against
/// another spelling of the same key.
fn counts(merged: &Value, given: &Value) -> bool {
    match (merged, given) {
        (Value::Object(merged), Value::Object(given)) => {
            given
                .iter()
                .any(|(key, value)| merged.get(key) == Some(value))
                || given.is_empty()
        }
        _ => merged == given,
    }
}

fn with_new(value: &Value, old: Option<&Setting>, new: &Setting) -> Setting {
    let mut setting = old.cloned().unwrap_or_else(unknown);
    if let Some(old) = old {
        setting.before.push((old.value.clone(), old.origin.clone()));
    }
    if !value.is_object() {
        setting.parts.clear();
    }
    setting.parts.extend(new.parts.clone());
    setting.origin = new.origin.clone();
    setting.value = value.clone();
    setting
}

/// Upstream puts its flags' default over what files say of split streams, so
/// they can be had by flag only. A file that asks for them must not start to
/// fail here.
pub(crate) fn forget_split_streams(settings: &mut Settings) -> Vec<Finding> {
    let mut notices = Vec::new();
    for format in ["text", "json"] {
        let path = format!("logging.options.{format}.splitStream");
        let Some(field) = schema::field(&path) else {
            continue;
        };
        let from_flag = matches!(settings.origin_of(&path), Some(Origin::Flag(_)));
        if settings.bool(&path) && !from_flag {
            let advice = field.flag.map(|flag| format!("give --{flag}"));
            let message = "kubelets take it from the command line only; it is skipped";
            let spot = spot_of(settings, &path);
            notices.push(
                Finding::new(Class::Notice, path, message)
                    .at(spot)
                    .advise(advice),
            );
            settings.set(field, Value::Bool(false), Origin::Default);
        }
    }
    notices
}

pub(crate) fn resolve_paths(settings: &mut Settings, file: &Path) {
    let directory = file.parent().unwrap_or(Path::new("/"));
    for path in RELATIVE_PATHS {
        let Some(setting) = settings.get(path) else {
            continue;
        };
        let text = setting.value.as_str().unwrap_or_default();
        if text.is_empty() || text.starts_with('/') {
            continue;
        }
        let resolved = normal(&directory.join(text));
        let origin = setting.origin.clone();
        if let Some(field) = schema::field(path) {
            let setting = Setting {
                value: Value::from(resolved.display().to_string()),
                origin,
                ..unknown()
            };
            settings.put(field, setting);
        }
    }
}

/// The path without `.` and `..`, as Go joins paths.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

/// Fills what files left unset. A file's gates beat those of the flags for now.
fn fill(
    settings: &mut Settings,
    from_flags: &BTreeMap<&str, bool>,
    doing: &'static str,
) -> Result<(), Refused> {
    let mut wanted = from_flags.clone();
    wanted.extend(wanted_gates(settings));
    let gates = FeatureGates::resolve(wanted).map_err(|error| Refused {
        // Upstream panics here.
        exit_code: 2,
        ..Refused::new(doing, vec![gate_finding(&error, Some(settings))])
    })?;
    header(settings);
    defaults::fill(settings, &gates);
    Ok(())
}

pub(crate) fn wanted_gates(settings: &Settings) -> impl Iterator<Item = (&str, bool)> {
    settings
        .entries("featureGates")
        .filter_map(|(name, value)| Some((name, value.as_bool()?)))
}

pub(crate) fn retired_gates(settings: &Settings) -> Vec<Finding> {
    settings
        .entries("featureGates")
        .filter(|(name, _)| gates::retired(name))
        .map(|(name, _)| {
            let path = format!("featureGates.{name}");
            let spot = spot_of(settings, &path);
            let message = "this feature gate is gone: its feature is on for good, or is no more";
            Finding::new(Class::Notice, path, message)
                .at(spot)
                .advise(Some("leave it out".to_owned()))
        })
        .collect()
}

/// What is accepted of TLS, and will not be offered.
pub(crate) fn weak_tls(settings: &Settings) -> Vec<Finding> {
    let mut notices = Vec::new();
    let mut notice = |path: &str, message: String| {
        let finding = Finding::new(Class::Notice, path, message);
        notices.push(finding.at(spot_of(settings, path)));
    };
    let lowest = settings.text("tlsMinVersion");
    if ["VersionTLS10", "VersionTLS11"].contains(&lowest) {
        notice(
            "tlsMinVersion",
            format!("{lowest} is not offered; TLS 1.2 is the lowest"),
        );
    }
    let weak = |name: &&str| effect::is_weak_cipher(name);
    let suites = settings.list("tlsCipherSuites");
    let suites: Vec<&str> = suites
        .iter()
        .filter_map(Value::as_str)
        .filter(weak)
        .collect();
    if !suites.is_empty() {
        let names = suites.join(", ");
        notice(
            "tlsCipherSuites",
            format!("these are weak and are not offered: {names}"),
        );
    }
    notices
}

fn gate_finding(error: &GateError, settings: Option<&Settings>) -> Finding {
    let (GateError::Unknown { name, .. }
    | GateError::Locked { name, .. }
    | GateError::Needs { name, .. }) = error;
    let path = format!("featureGates.{name}");
    let spot = settings.and_then(|settings| spot_of(settings, &path));
    Finding::new(Class::Gate, "featureGates", error.to_string()).at(spot)
}

pub(crate) fn spot_of(settings: &Settings, path: &str) -> Option<Spot> {
    match settings.origin_of(path)? {
        Origin::File(spot) | Origin::DropIn(spot) => Some(spot.clone()),
        _ => None,
    }
}

/// A fault that a kubelet only mentions.
fn forgive(finding: Finding) -> Finding {
    let word = match finding.class {
        Class::Duplicate => "; the last one counts",
        _ => "; it is skipped",
    };
    Finding {
        class: Class::Notice,
        message: format!("{}{word}", finding.message),
        ..finding
    }
}

/// A configuration file that could be read and says that it is one.
pub(crate) struct ReadFile {
    name: Arc<str>,
    document: Document,
}

impl ReadFile {
    pub(crate) fn open(path: &Path, header: Case) -> Result<Self, Vec<Finding>> {
        let bytes = std::fs::read(path).map_err(|error| vec![unreadable(path, &error)])?;
        Self::parse(&path.display().to_string(), &bytes, header)
    }

    /// `header` is how `apiVersion` and `kind` are found.
    pub(crate) fn parse(name: &str, bytes: &[u8], header: Case) -> Result<Self, Vec<Finding>> {
        let read = Self::parse_any(name, bytes).map_err(|finding| vec![finding])?;
        let findings = read.check_header(header);
        if findings.is_empty() {
            Ok(read)
        } else {
            Err(findings)
        }
    }

    /// Reads a file whatever it says that it is.
    pub(crate) fn parse_any(name: &str, bytes: &[u8]) -> Result<Self, Finding> {
        let name: Arc<str> = Arc::from(name);
        let fault = |class, place, message: &str| {
            let file = Arc::clone(&name);
            Finding::new(class, "", message).at(Some(Spot { file, place }))
        };
        if bytes.is_empty() {
            return Err(fault(Class::Header, Place::UNKNOWN, "the file is empty"));
        }
        let document = source::parse(bytes)
            .map_err(|error| fault(Class::Syntax, error.place, &error.message))?;
        Ok(Self { name, document })
    }

    pub(crate) fn decode(
        &self,
        case: Case,
        origin: fn(Spot) -> Origin,
        keep_rest: bool,
    ) -> Decoded {
        let reader = Reader {
            file: Arc::clone(&self.name),
            case,
            origin,
            keep_rest,
        };
        reader.decode(&self.document.root)
    }

    /// `apiVersion` and `kind`. Of all keys these two are found whatever their
    /// case in the `--config` file, and to the letter in drop-ins: upstream
    /// reads the two kinds of files in different ways.
    pub(crate) fn check_header(&self, case: Case) -> Vec<Finding> {
        let root = &self.document.root;
        let source::Value::Map(map) = &root.value else {
            let found = root.value.kind();
            let message = format!("found {found}, and a configuration is a map of fields");
            let finding = Finding::new(Class::Header, "", message);
            return vec![finding.at(Some(self.spot(root.place)))];
        };
        let mut findings = Vec::new();
        for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let found = map
                .iter()
                .filter(|(key, _)| match case {
                    Case::Exact => *key == name,
                    Case::Folded => key.eq_ignore_ascii_case(name),
                })
                .last()
                .map(|(_, entry)| &entry.node);
            let place = found.map_or(root.place, |node| node.place);
            let message = match found.map(|node| &node.value) {
                Some(source::Value::String(text)) if text == wanted => continue,
                None | Some(source::Value::Null) => "it is missing".to_owned(),
                Some(source::Value::String(text)) if text.is_empty() => "it is empty".to_owned(),
                Some(other) => format!("found {other}"),
            };
            let finding = Finding::new(Class::Header, name, message)
                .at(Some(self.spot(place)))
                .advise(Some(format!("write {name}: {wanted}")));
            findings.push(finding);
        }
        findings
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.document.root.value, source::Value::Map(_))
    }

    pub(crate) fn duplicates(&self) -> impl Iterator<Item = Finding> {
        self.document.duplicates.iter().map(|duplicate| {
            let message = format!("this key stands already in line {}", duplicate.first.line);
            Finding::new(Class::Duplicate, duplicate.path.clone(), message)
                .at(Some(self.spot(duplicate.second)))
        })
    }

    /// What stands after the one document that counts.
    pub(crate) fn ignored(&self) -> Option<Finding> {
        let place = self.document.ignored?;
        let message = "only the first document of a file counts, and this is after it";
        Some(Finding::new(Class::Unknown, "", message).at(Some(self.spot(place))))
    }

    fn spot(&self, place: Place) -> Spot {
        Spot {
            file: Arc::clone(&self.name),
            place,
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Finding {
    let file = Arc::from(path.display().to_string());
    Finding::new(Class::Syntax, "", format!("cannot read it: {error}")).at(Some(Spot {
        file,
        place: Place::UNKNOWN,
    }))
}
