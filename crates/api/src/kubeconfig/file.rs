//! A kubeconfig as it is written: clusters, users and contexts by their names.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::{self, SyntaxError};
use super::fields::{FieldError, Fields, Node};
use super::paths;
use crate::{Secret, files};

/// The extension of a cluster that is handed to credential plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The content of one file. Names that are missing are empty names, and can be referred to as such.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// Where it was read from.
    pub path: PathBuf,
    pub clusters: BTreeMap<String, Cluster>,
    pub users: BTreeMap<String, User>,
    pub contexts: BTreeMap<String, Context>,
    pub current_context: Option<String>,
}

/// How a cluster is reached. Paths are absolute.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    pub server: Option<String>,
    pub tls_server_name: Option<String>,
    pub insecure_skip_tls_verify: bool,
    pub certificate_authority: Option<PathBuf>,
    pub certificate_authority_data: Option<Vec<u8>>,
    /// Hidden, since it may carry a password.
    pub proxy_url: Option<Secret<String>>,
    pub disable_compression: bool,
    /// What credential plugins are told about the cluster beyond the fields above.
    pub exec_config: Option<Value>,
}

/// Who we are. Paths are absolute.
#[derive(Debug, Clone, Default)]
pub struct User {
    pub client_certificate: Option<PathBuf>,
    pub client_certificate_data: Option<Vec<u8>>,
    pub client_key: Option<PathBuf>,
    pub client_key_data: Option<Secret<Vec<u8>>>,
    pub token: Option<Secret<String>>,
    pub token_file: Option<PathBuf>,
    pub username: Option<String>,
    pub password: Option<Secret<String>>,
    pub exec: Option<ExecEntry>,
    /// The name of an `auth-provider` entry, empty if it has none.
    pub auth_provider: Option<String>,
    pub impersonate: Impersonate,
}

/// Whom a user asks to be seen as.
#[derive(Debug, Clone, Default)]
pub struct Impersonate {
    pub user: Option<String>,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// A cluster and a user that belong together.
#[derive(Debug, Clone, Default)]
pub struct Context {
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
}

/// A credential plugin. A command with a slash is an absolute path, any other is for `PATH`.
#[derive(Debug, Clone, Default)]
pub struct ExecEntry {
    pub command: Option<PathBuf>,
    pub args: Vec<String>,
    pub env: Vec<(String, Secret<String>)>,
    pub api_version: Option<String>,
    pub install_hint: Option<String>,
    pub provide_cluster_info: bool,
    pub interactive_mode: Option<String>,
}

/// Why a file is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("kubeconfig {path}: the path must be absolute")]
    RelativePath { path: PathBuf },
    #[error("kubeconfig {path}: {source}; check the path and that this user may read it")]
    Io { path: PathBuf, source: io::Error },
    #[error("kubeconfig {path} is neither YAML nor JSON: {source}")]
    Syntax { path: PathBuf, source: SyntaxError },
    #[error("kubeconfig {path}: {source}")]
    Field { path: PathBuf, source: FieldError },
    #[error(
        "kubeconfig {path} is a {kind:?} of {api_version:?}: a file with kind Config and apiVersion v1 is needed"
    )]
    OtherKind {
        path: PathBuf,
        kind: String,
        api_version: String,
    },
    #[error("kubeconfig {path}: {list} has two entries named {name:?}; remove or rename one")]
    Duplicate {
        path: PathBuf,
        list: &'static str,
        name: String,
    },
}

impl Kubeconfig {
    /// Reads the file at `path`, which must be absolute.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        if !path.is_absolute() {
            return Err(ReadError::RelativePath {
                path: path.to_owned(),
            });
        }
        let text = files::read(path).map_err(|source| ReadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads a text as if it stood in a file at `path`.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ReadError> {
        let value = document::read(text).map_err(|source| ReadError::Syntax {
            path: path.to_owned(),
            source,
        })?;
        Reader {
            path,
            base: path.parent().unwrap_or(path),
        }
        .config(&value)
    }
}

/// Carries what every part of the file needs to be read.
struct Reader<'a> {
    path: &'a Path,
    base: &'a Path,
}

impl Reader<'_> {
    fn config(&self, value: &Value) -> Result<Kubeconfig, ReadError> {
        let fields = Node::root(value)
            .fields()
            .map_err(|source| self.field(source))?;
        self.check_kind(&fields)?;
        Ok(Kubeconfig {
            path: self.path.to_owned(),
            clusters: self.named(&fields, "clusters", "cluster", |fields| {
                self.cluster(fields)
            })?,
            users: self.named(&fields, "users", "user", |fields| self.user(fields))?,
            contexts: self.named(&fields, "contexts", "context", context)?,
            current_context: fields
                .text("current-context")
                .map_err(|source| self.field(source))?,
        })
    }

    fn check_kind(&self, fields: &Fields<'_>) -> Result<(), ReadError> {
        let text = |name| fields.text(name).map_err(|source| self.field(source));
        let (kind, api_version) = (text("kind")?, text("apiVersion")?);
        if kind.as_deref().is_none_or(|kind| kind == "Config")
            && api_version.as_deref().is_none_or(|version| version == "v1")
        {
            return Ok(());
        }
        Err(ReadError::OtherKind {
            path: self.path.to_owned(),
            kind: kind.unwrap_or_default(),
            api_version: api_version.unwrap_or_default(),
        })
    }

    /// A list of `{name, <entry>}`, as a map.
    fn named<T>(
        &self,
        fields: &Fields<'_>,
        list: &'static str,
        entry: &str,
        read: impl Fn(&Fields<'_>) -> Result<T, FieldError>,
    ) -> Result<BTreeMap<String, T>, ReadError> {
        let mut map = BTreeMap::new();
        for item in fields.items(list).map_err(|source| self.field(source))? {
            let (name, value) = item
                .fields()
                .and_then(|item| {
                    Ok((
                        item.text("name")?.unwrap_or_default(),
                        read(&item.fields(entry)?)?,
                    ))
                })
                .map_err(|source| self.field(source))?;
            if map.contains_key(&name) {
                return Err(ReadError::Duplicate {
                    path: self.path.to_owned(),
                    list,
                    name,
                });
            }
            map.insert(name, value);
        }
        Ok(map)
    }

    fn cluster(&self, fields: &Fields<'_>) -> Result<Cluster, FieldError> {
        Ok(Cluster {
            server: fields.text("server")?,
            tls_server_name: fields.text("tls-server-name")?,
            insecure_skip_tls_verify: fields.flag("insecure-skip-tls-verify")?,
            certificate_authority: self.reference(fields, "certificate-authority")?,
            certificate_authority_data: fields.bytes("certificate-authority-data")?,
            proxy_url: fields.text("proxy-url")?.map(Secret::new),
            disable_compression: fields.flag("disable-compression")?,
            exec_config: exec_config(fields)?,
        })
    }

    fn user(&self, fields: &Fields<'_>) -> Result<User, FieldError> {
        let provider = fields.get("auth-provider").map(Node::fields).transpose()?;
        Ok(User {
            client_certificate: self.reference(fields, "client-certificate")?,
            client_certificate_data: fields.bytes("client-certificate-data")?,
            client_key: self.reference(fields, "client-key")?,
            client_key_data: fields.bytes("client-key-data")?.map(Secret::new),
            token: fields.text("token")?.map(Secret::new),
            token_file: self.reference(fields, "tokenFile")?,
            username: fields.text("username")?,
            password: fields.text("password")?.map(Secret::new),
            exec: fields
                .get("exec")
                .map(|node| self.exec(&node.fields()?))
                .transpose()?,
            auth_provider: provider
                .map(|provider| provider.text("name"))
                .transpose()?
                .map(Option::unwrap_or_default),
            impersonate: Impersonate {
                user: fields.text("as")?,
                uid: fields.text("as-uid")?,
                groups: fields.texts("as-groups")?,
                extra: fields.text_lists("as-user-extra")?,
            },
        })
    }

    fn exec(&self, fields: &Fields<'_>) -> Result<ExecEntry, FieldError> {
        let command = fields.text("command")?.map(|command| {
            if command.contains('/') {
                paths::resolve(self.base, &command)
            } else {
                PathBuf::from(command)
            }
        });
        let env = fields.items("env")?.into_iter().map(|item| {
            let item = item.fields()?;
            let value = item.text("value")?.unwrap_or_default();
            Ok((item.text("name")?.unwrap_or_default(), Secret::new(value)))
        });
        Ok(ExecEntry {
            command,
            args: fields.texts("args")?,
            env: env.collect::<Result<_, FieldError>>()?,
            api_version: fields.text("apiVersion")?,
            install_hint: fields.text("installHint")?,
            provide_cluster_info: fields.flag("provideClusterInfo")?,
            interactive_mode: fields.text("interactiveMode")?,
        })
    }

    fn reference(&self, fields: &Fields<'_>, name: &str) -> Result<Option<PathBuf>, FieldError> {
        Ok(fields
            .text(name)?
            .map(|reference| paths::resolve(self.base, &reference)))
    }

    fn field(&self, source: FieldError) -> ReadError {
        ReadError::Field {
            path: self.path.to_owned(),
            source,
        }
    }
}

fn context(fields: &Fields<'_>) -> Result<Context, FieldError> {
    Ok(Context {
        cluster: fields.text("cluster")?,
        user: fields.text("user")?,
        namespace: fields.text("namespace")?,
    })
}

fn exec_config(fields: &Fields<'_>) -> Result<Option<Value>, FieldError> {
    for item in fields.items("extensions")? {
        let item = item.fields()?;
        if item.text("name")?.as_deref() == Some(EXEC_EXTENSION) {
            return Ok(item.get("extension").map(|node| node.value().clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Kubeconfig, ReadError> {
        Kubeconfig::parse(text.as_bytes(), Path::new("/etc/kubernetes/kubelet.conf"))
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_with_its_place() {
        let cases = [
            (
                "just text",
                "kubeconfig /etc/kubernetes/kubelet.conf: the top level: a mapping is needed, and text is there",
            ),
            (
                "kind: Pod\napiVersion: v1\n",
                "kubeconfig /etc/kubernetes/kubelet.conf is a \"Pod\" of \"v1\": a file with kind Config and apiVersion v1 is needed",
            ),
            (
                "apiVersion: v2\n",
                "kubeconfig /etc/kubernetes/kubelet.conf is a \"\" of \"v2\": a file with kind Config and apiVersion v1 is needed",
            ),
            (
                "users: [{name: a, user: {token: 12}}]",
                "kubeconfig /etc/kubernetes/kubelet.conf: users[0].user.token: text is needed, and a number is there; put it in quotes",
            ),
            (
                "clusters: [{name: a, cluster: {insecure-skip-tls-verify: \"true\"}}]",
                "kubeconfig /etc/kubernetes/kubelet.conf: clusters[0].cluster.insecure-skip-tls-verify: true or false is needed, and text is there",
            ),
            (
                "clusters: [{name: a}, {name: b, cluster: {certificate-authority-data: a}}]",
                "kubeconfig /etc/kubernetes/kubelet.conf: clusters[1].cluster.certificate-authority-data: base64 is needed, and other text is there",
            ),
            (
                "contexts: [{name: a}, {name: a}]",
                "kubeconfig /etc/kubernetes/kubelet.conf: contexts has two entries named \"a\"; remove or rename one",
            ),
            (
                "contexts: {a: b}",
                "kubeconfig /etc/kubernetes/kubelet.conf: contexts: a list is needed, and a mapping is there",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn unknown_fields_and_nulls_are_passed_over() {
        let config = parse(
            "future: [1]\nclusters:\n- null\n- {name: a, colour: red, cluster: null}\nusers: null\ncurrent-context: null\n",
        )
        .unwrap();
        assert_eq!(config.clusters.keys().collect::<Vec<_>>(), ["", "a"]);
        assert!(config.users.is_empty() && config.current_context.is_none());
    }

    #[test]
    fn paths_are_meant_from_the_directory_of_the_file() {
        let config = parse(
            "users: [{name: a, user: {client-certificate: pki/a.crt, client-key: ../a.key, tokenFile: /t, exec: {command: ./bin/x}}}, {name: b, user: {exec: {command: x}}}]",
        )
        .unwrap();
        let a = &config.users["a"];
        assert_eq!(
            a.client_certificate.as_deref(),
            Some(Path::new("/etc/kubernetes/pki/a.crt"))
        );
        assert_eq!(a.client_key.as_deref(), Some(Path::new("/etc/a.key")));
        assert_eq!(a.token_file.as_deref(), Some(Path::new("/t")));
        let command = |user: &str| config.users[user].exec.clone().unwrap().command.unwrap();
        assert_eq!(command("a"), Path::new("/etc/kubernetes/bin/x"));
        assert_eq!(command("b"), Path::new("x"));
    }

    #[test]
    fn no_secret_is_in_the_debug_text() {
        let config = parse(
            "clusters: [{name: c, cluster: {proxy-url: 'http://u:hunter2@p'}}]\nusers: [{name: a, user: {token: hunter2, password: hunter2, client-key-data: aHVudGVyMg==, exec: {env: [{name: T, value: hunter2}]}}}]",
        )
        .unwrap();
        let text = format!("{config:?}");
        assert!(
            !text.contains("hunter2") && !text.contains("104, 117, 110"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Kubeconfig::read(Path::new("/no/such/file"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("kubeconfig /no/such/file: No such file"),
            "{error}"
        );
        assert!(matches!(
            Kubeconfig::read(Path::new("file")),
            Err(ReadError::RelativePath { .. })
        ));
    }
}
