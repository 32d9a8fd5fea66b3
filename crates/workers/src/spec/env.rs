//! The environment of a container: what it declares, and what it is told of the
//! services around it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Pod, Secret,
    Service,
};
use resources::qos::is_static;
use seams::cri::KeyValue;
use thiserror::Error;
use types::expand::expand;

use super::downward::{self, ReferenceError, Surroundings};
use super::spec_of;
use files::{BadEnvFile, EnvFiles};

pub mod files;
mod services;
#[cfg(test)]
mod tests;

/// Everything that an environment can be made of.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// All services of the cluster; `None` if they have not been read yet.
    pub services: Option<&'a [Service]>,
    /// Those that the pod refers to and that there are, by name.
    pub config_maps: &'a BTreeMap<String, ConfigMap>,
    pub secrets: &'a BTreeMap<String, Secret>,
    pub unanswered: &'a Unanswered,
    /// Whether there is an API server that could have them.
    pub has_api: bool,
    /// Those that [`files::wanted`] names and that are in volumes of the pod; `None`
    /// without the gate `EnvFiles`.
    pub files: Option<&'a EnvFiles>,
    pub surroundings: &'a Surroundings,
}

/// Objects that may be there or not, as nobody has said so yet, and why.
pub type Unanswered = BTreeMap<(Kind, String), String>;

/// Why there is no environment: users see these texts in the container's status.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EnvError {
    #[error("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")]
    NoServiceLinks,
    #[error("services have not yet been read at least once, cannot construct envvars")]
    NoServices,
    #[error("{kind} {name:?} not found")]
    NoObject { kind: Kind, name: String },
    #[error("{0}")]
    Unanswered(String),
    #[error("couldn't get {} {namespace}/{name}, no kubeClient defined", kind.word())]
    NoApi {
        kind: Kind,
        namespace: String,
        name: String,
    },
    #[error("couldn't find key {key} in {} {namespace}/{name}", kind.title())]
    NoKey {
        kind: Kind,
        key: String,
        namespace: String,
        name: String,
    },
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    NoVolume(String),
    /// What is in the file may be secret: that is for the log.
    #[error("couldn't parse env file")]
    File {
        path: PathBuf,
        cause: Option<BadEnvFile>,
    },
    #[error("environment variable key {key:?} not found in file {path:?}")]
    NoFileKey { key: String, path: PathBuf },
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// What holds values for environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configMap",
            Self::Secret => "secret",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        })
    }
}

/// The variables of a container, each once, in the order of their declaration;
/// those of services come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(IndexMap<String, Vec<u8>>);

impl Environment {
    pub fn of(pod: &Pod, container: &Container, sources: &Sources<'_>) -> Result<Self, EnvError> {
        let links = spec_of(pod)
            .enable_service_links
            .ok_or(EnvError::NoServiceLinks)?;
        let services = match sources.services {
            Some(services) => services,
            // Without an API server there are none.
            None if is_static(pod) => &[],
            None => return Err(EnvError::NoServices),
        };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let of_services = services::variables(services, namespace, links);
        let mut declared = Declared {
            pod,
            container,
            sources,
            of_services: &of_services,
            variables: IndexMap::new(),
        };
        for source in container.env_from.iter().flatten() {
            declared.take_all(source)?;
        }
        for variable in container.env.iter().flatten() {
            declared.take(variable)?;
        }
        let mut variables = declared.variables;
        for (name, value) in of_services {
            variables.entry(name).or_insert(value);
        }
        Ok(Self(variables))
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// As CRI takes them.
    pub fn variables(&self) -> Vec<KeyValue> {
        let variable = |(key, value): (&String, &Vec<u8>)| KeyValue {
            key: key.clone(),
            value: value.clone(),
        };
        self.0.iter().map(variable).collect()
    }
}

/// What a container declares, so far.
struct Declared<'a> {
    pod: &'a Pod,
    container: &'a Container,
    sources: &'a Sources<'a>,
    of_services: &'a BTreeMap<String, Vec<u8>>,
    variables: IndexMap<String, Vec<u8>>,
}

impl Declared<'_> {
    /// Every key of an object. Of an object that may be missing, none.
    fn take_all(&mut self, source: &EnvFromSource) -> Result<(), EnvError> {
        let (kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(config_map), _) => (Kind::ConfigMap, &config_map.name, config_map.optional),
            (None, Some(secret)) => (Kind::Secret, &secret.name, secret.optional),
            (None, None) => return Ok(()),
        };
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let Some(values) = self.object(kind, name, optional)? else {
            return Ok(());
        };
        for (key, value) in values {
            self.variables.insert(format!("{prefix}{key}"), value);
        }
        Ok(())
    }

    fn take(&mut self, variable: &EnvVar) -> Result<(), EnvError> {
        let text = variable.value.as_deref().unwrap_or_default();
        let value = match &variable.value_from {
            Some(source) if text.is_empty() => self.value(source)?,
            _ => Some(self.expanded(text)),
        };
        if let Some(value) = value {
            self.variables.insert(variable.name.clone(), value);
        }
        Ok(())
    }

    fn expanded(&self, text: &str) -> Vec<u8> {
        expand(text, |name| {
            let known = self
                .variables
                .get(name)
                .or_else(|| self.of_services.get(name));
            known.map(Vec::as_slice)
        })
    }

    /// `None`: what was optional is not there, so neither is the variable.
    fn value(&self, source: &EnvVarSource) -> Result<Option<Vec<u8>>, EnvError> {
        if let Some(selector) = &source.field_ref {
            let value = downward::field(selector, self.pod, self.sources.surroundings)?;
            return Ok(Some(value.into_bytes()));
        }
        if let Some(selector) = &source.resource_field_ref {
            let allocatable = &self.sources.surroundings.allocatable;
            let value = downward::resource(selector, self.pod, self.container, allocatable)?;
            return Ok(Some(value.into_bytes()));
        }
        if let Some(selector) = &source.config_map_key_ref {
            let key = (
                selector.name.as_str(),
                selector.key.as_str(),
                selector.optional,
            );
            return self.key(Kind::ConfigMap, key);
        }
        if let Some(selector) = &source.secret_key_ref {
            let key = (
                selector.name.as_str(),
                selector.key.as_str(),
                selector.optional,
            );
            return self.key(Kind::Secret, key);
        }
        if let (Some(selector), Some(files)) = (&source.file_key_ref, self.sources.files) {
            return of_file(selector, files);
        }
        Ok(Some(Vec::new()))
    }

    fn key(
        &self,
        kind: Kind,
        (name, key, optional): (&str, &str, Option<bool>),
    ) -> Result<Option<Vec<u8>>, EnvError> {
        let Some(mut values) = self.object(kind, name, optional)? else {
            return Ok(None);
        };
        match values.remove(key) {
            None if optional != Some(true) => Err(EnvError::NoKey {
                kind,
                key: key.to_owned(),
                namespace: self.pod.metadata.namespace.clone().unwrap_or_default(),
                name: name.to_owned(),
            }),
            value => Ok(value),
        }
    }

    fn object(
        &self,
        kind: Kind,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, EnvError> {
        let found = match kind {
            Kind::ConfigMap => self.sources.config_maps.get(name).map(values_of_config_map),
            Kind::Secret => self.sources.secrets.get(name).map(values_of_secret),
        };
        if !self.sources.has_api {
            return Err(EnvError::NoApi {
                kind,
                namespace: self.pod.metadata.namespace.clone().unwrap_or_default(),
                name: name.to_owned(),
            });
        }
        // An optional one, too: without its variables the container would run for good.
        if let Some(why) = self.sources.unanswered.get(&(kind, name.to_owned())) {
            return Err(EnvError::Unanswered(why.clone()));
        }
        if found.is_none() && optional != Some(true) {
            return Err(EnvError::NoObject {
                kind,
                name: name.to_owned(),
            });
        }
        Ok(found)
    }
}

/// A file that is not there is one that cannot be read, optional or not: that word is
/// about the key. An empty value is none.
fn of_file(selector: &FileKeySelector, files: &EnvFiles) -> Result<Option<Vec<u8>>, EnvError> {
    let (volume, path) = (selector.volume_name.clone(), selector.path.clone());
    let file = files.get(&(volume.clone(), path));
    let file = file.ok_or(EnvError::NoVolume(volume))?;
    let unreadable = |cause| EnvError::File {
        path: file.path.clone(),
        cause,
    };
    let content = file.content.as_deref().ok_or_else(|| unreadable(None))?;
    let value = files::value(content, &selector.key);
    match value.map_err(|cause| unreadable(Some(cause)))? {
        None if selector.optional != Some(true) => Err(EnvError::NoFileKey {
            key: selector.key.clone(),
            path: file.path.clone(),
        }),
        value => Ok(value),
    }
}

/// `binaryData` is for files only.
fn values_of_config_map(config_map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let data = config_map.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), value.clone().into_bytes()))
        .collect()
}

fn values_of_secret(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}
