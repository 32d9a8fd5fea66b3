//! `CredentialProviderConfig`: which programs have credentials for which images. Read
//! as strictly as upstream reads it, and judged in its words.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use config::source::{SyntaxError, TooDeep, parse};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use types::duration::GoDuration;
use types::names::validate_label_key;

use super::protocol::{API_VERSIONS, V1};
use crate::credentials::matching;

const GROUP: &str = "kubelet.config.k8s.io";
const KIND: &str = "CredentialProviderConfig";
const CACHE_TYPES: [&str; 2] = ["ServiceAccount", "Token"];

/// A program that has credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    pub name: String,
    /// As credentials have them: `*.r.io:5000/team`.
    pub match_images: Vec<String>,
    /// How long an answer is kept that does not say so itself.
    pub default_cache: Duration,
    pub api_version: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// It is shown a token of the pod's service account.
    pub token: Option<TokenAttributes>,
}

/// What a program is told of the pod's service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAttributes {
    pub audience: String,
    /// Each token has credentials of its own.
    pub cache_by_token: bool,
    /// Pods without an account are none of its business.
    pub require_account: bool,
    /// Accounts without these are none either.
    pub required_annotations: Vec<String>,
    pub optional_annotations: Vec<String>,
}

/// Why a file is no configuration of credential providers.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("error decoding config {file:?}: {problem}")]
    Decode { file: String, problem: String },
    #[error("duplicate provider name {0:?} found in configuration file(s)")]
    Twice(String),
    #[error("failed to validate credential provider config: {}", aggregate(.0))]
    Invalid(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    providers: Option<Vec<Entry>>,
}

/// As it is written. All but what the validation demands may be missing.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Entry {
    name: String,
    match_images: Option<Vec<String>>,
    default_cache_duration: Option<String>,
    api_version: String,
    args: Option<Vec<String>>,
    env: Option<Vec<Variable>>,
    token_attributes: Option<Attributes>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Attributes {
    service_account_token_audience: String,
    cache_type: String,
    require_service_account: Option<bool>,
    required_service_account_annotation_keys: Option<Vec<String>>,
    optional_service_account_annotation_keys: Option<Vec<String>>,
}

/// All files together, in their order. `tokens`: the gate
/// `KubeletServiceAccountTokenForCredentialProviders`.
pub(super) fn read(
    files: &[(String, Vec<u8>)],
    tokens: bool,
) -> Result<Vec<Provider>, ConfigError> {
    let mut entries: Vec<Entry> = Vec::new();
    for (file, content) in files {
        let decoded = decode(content).map_err(|problem| ConfigError::Decode {
            file: file.clone(),
            problem,
        })?;
        for entry in decoded {
            if entries.iter().any(|known| known.name == entry.name) {
                return Err(ConfigError::Twice(entry.name));
            }
            entries.push(entry);
        }
    }
    let problems = problems(&entries, tokens);
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    Ok(entries.into_iter().map(Provider::from).collect())
}

fn decode(content: &[u8]) -> Result<Vec<Entry>, String> {
    let document = parse(content).map_err(|error: SyntaxError| error.to_string())?;
    if let Some(twice) = document.duplicates.first() {
        return Err(format!("strict decoding error: {twice}"));
    }
    let json = document.root.to_json();
    let json = json.map_err(|error: TooDeep| error.to_string())?;
    let word = |key: &str| json.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if kind.is_empty() || api_version.is_empty() {
        return Err(format!(
            "it does not begin as it has to: set apiVersion: {GROUP}/v1 and kind: {KIND}"
        ));
    }
    if kind != KIND {
        return Err(format!("failed to decode {kind:?} (wrong Kind)"));
    }
    if group != GROUP {
        return Err(format!(
            "failed to decode {KIND}, unexpected Group: {group}"
        ));
    }
    if !["v1", "v1beta1", "v1alpha1"].contains(&version) {
        return Err(format!(
            "no kind {KIND:?} is registered for version {api_version:?}: use {GROUP}/v1"
        ));
    }
    let file: File = serde_json::from_value(json.clone())
        .map_err(|error| format!("strict decoding error: {error}"))?;
    let entries = file.providers.unwrap_or_default();
    if version != "v1" && entries.iter().any(|entry| entry.token_attributes.is_some()) {
        let field = "tokenAttributes";
        return Err(format!(
            "strict decoding error: unknown field \"providers[].{field}\": use {GROUP}/v1"
        ));
    }
    // A duration is text, and one that is none is a mistake of the file.
    for entry in &entries {
        if let Some(text) = &entry.default_cache_duration {
            let read: Result<GoDuration, _> = text.parse();
            read.map_err(|error| format!("defaultCacheDuration: {error}"))?;
        }
    }
    Ok(entries)
}

fn problems(entries: &[Entry], tokens: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if entries.is_empty() {
        problems.push("providers: Required value: at least 1 item in plugins is required".into());
    }
    for entry in entries {
        of_name(&entry.name, &mut problems);
        of_version(&entry.api_version, &mut problems);
        of_images(entry, &mut problems);
        of_duration(entry, &mut problems);
        if let Some(attributes) = &entry.token_attributes {
            let about = About {
                attributes,
                api_version: &entry.api_version,
                tokens,
            };
            about.problems(&mut problems);
        }
    }
    problems
}

fn of_name(name: &str, problems: &mut Vec<String>) {
    let rules = [
        (name.contains('/'), "cannot contain '/'"),
        (name.contains(' '), "cannot contain spaces"),
        (name == ".", "cannot be '.'"),
        (name == "..", "cannot be '..'"),
    ];
    for (_, rule) in rules.iter().filter(|(broken, _)| *broken) {
        problems.push(format!(
            "providers.name: Invalid value: {name:?}: provider name {rule}"
        ));
    }
}

fn of_version(version: &str, problems: &mut Vec<String>) {
    if version.is_empty() {
        problems.push("providers.apiVersion: Required value".to_owned());
    } else if !API_VERSIONS.contains(&version) {
        let supported = quoted(&API_VERSIONS);
        problems.push(format!(
            "providers.apiVersion: Unsupported value: {version:?}: supported values: {supported}"
        ));
    }
}

fn of_images(entry: &Entry, problems: &mut Vec<String>) {
    let images = entry.match_images.as_deref().unwrap_or_default();
    if images.is_empty() {
        problems.push(
            "providers.matchImages: Required value: at least 1 item in matchImages is required"
                .to_owned(),
        );
    }
    for image in images.iter().filter(|image| !matching::is_address(image)) {
        problems.push(format!(
            "providers.matchImages: Invalid value: {image:?}: match image is invalid: it is no address of a registry, such as *.example.com:5000/team"
        ));
    }
}

fn of_duration(entry: &Entry, problems: &mut Vec<String>) {
    match &entry.default_cache_duration {
        None => problems.push("providers.defaultCacheDuration: Required value".to_owned()),
        Some(text) => {
            let given: Option<GoDuration> = text.parse().ok();
            if let Some(given) = given.filter(|given| given.to_std().is_none()) {
                let given = given.to_string();
                problems.push(format!(
                    "providers.defaultCacheDuration: Invalid value: {given:?}: must be greater than or equal to 0"
                ));
            }
        }
    }
}

/// `tokenAttributes`, and what they are judged by.
struct About<'a> {
    attributes: &'a Attributes,
    api_version: &'a str,
    tokens: bool,
}

impl About<'_> {
    fn problems(&self, problems: &mut Vec<String>) {
        const AT: &str = "providers.tokenAttributes";
        let given = self.attributes;
        let required = keys(given.required_service_account_annotation_keys.as_ref());
        let optional = keys(given.optional_service_account_annotation_keys.as_ref());
        let needless = given.require_service_account == Some(false) && !required.is_empty();
        let rules = [
            (
                !self.tokens,
                ": Forbidden: tokenAttributes is not supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled".to_owned(),
            ),
            (
                given.service_account_token_audience.is_empty(),
                ".serviceAccountTokenAudience: Required value".to_owned(),
            ),
            (
                given.require_service_account.is_none(),
                ".requireServiceAccount: Required value".to_owned(),
            ),
            (
                self.api_version != V1,
                format!(": Forbidden: tokenAttributes is only supported for {V1} API version"),
            ),
            (
                needless,
                ".requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set".to_owned(),
            ),
        ];
        let broken = rules.into_iter().filter(|(broken, _)| *broken);
        problems.extend(broken.map(|(_, rule)| format!("{AT}{rule}")));
        of_keys(
            &format!("{AT}.requiredServiceAccountAnnotationKeys"),
            &required,
            problems,
        );
        of_keys(
            &format!("{AT}.optionalServiceAccountAnnotationKeys"),
            &optional,
            problems,
        );
        let both: BTreeSet<&&str> = required
            .iter()
            .filter(|key| optional.contains(key))
            .collect();
        if !both.is_empty() {
            let both = serde_json::json!(both);
            problems.push(format!(
                "{AT}: Invalid value: {both}: annotation keys cannot be both required and optional"
            ));
        }
        self.of_cache_type(AT, problems);
    }

    fn of_cache_type(&self, at: &str, problems: &mut Vec<String>) {
        let given = self.attributes.cache_type.as_str();
        if given.is_empty() {
            let supported = CACHE_TYPES.join(", ");
            problems.push(format!(
                "{at}.cacheType: Required value: cacheType is required to be set when tokenAttributes is specified. Supported values are: {supported}"
            ));
        } else if !CACHE_TYPES.contains(&given) {
            let supported = quoted(&CACHE_TYPES);
            problems.push(format!(
                "{at}.cacheType: Unsupported value: {given:?}: supported values: {supported}"
            ));
        }
    }
}

fn keys(given: Option<&Vec<String>>) -> Vec<&str> {
    given.into_iter().flatten().map(String::as_str).collect()
}

fn of_keys(at: &str, keys: &[&str], problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for key in keys {
        if let Err(error) = validate_label_key(&key.to_lowercase()) {
            problems.push(format!("{at}: Invalid value: {key:?}: {error}"));
        }
        if !seen.insert(key) {
            problems.push(format!("{at}: Duplicate value: {key:?}"));
        }
    }
}

fn quoted(values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    values.join(", ")
}

/// Each once, and in brackets if there are several: as upstream prints them.
fn aggregate(problems: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let different: Vec<&String> = problems.iter().filter(|it| seen.insert(*it)).collect();
    if let [one] = different[..] {
        return one.clone();
    }
    let mut text = String::from("[");
    for (number, problem) in different.iter().enumerate() {
        let comma = if number == 0 { "" } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(text, "{comma}{problem}");
    }
    text + "]"
}

/// Of one that has been judged.
impl From<Entry> for Provider {
    fn from(entry: Entry) -> Self {
        let cache: Option<GoDuration> = entry
            .default_cache_duration
            .and_then(|text| text.parse().ok());
        let variables = entry.env.unwrap_or_default().into_iter();
        Self {
            name: entry.name,
            match_images: entry.match_images.unwrap_or_default(),
            default_cache: cache.and_then(GoDuration::to_std).unwrap_or_default(),
            api_version: entry.api_version,
            arguments: entry.args.unwrap_or_default(),
            environment: variables.map(|one| (one.name, one.value)).collect(),
            token: entry.token_attributes.map(TokenAttributes::from),
        }
    }
}

impl From<Attributes> for TokenAttributes {
    fn from(given: Attributes) -> Self {
        Self {
            audience: given.service_account_token_audience,
            cache_by_token: given.cache_type == "Token",
            require_account: given.require_service_account.unwrap_or_default(),
            required_annotations: given
                .required_service_account_annotation_keys
                .unwrap_or_default(),
            optional_annotations: given
                .optional_service_account_annotation_keys
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
