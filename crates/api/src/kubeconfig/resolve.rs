//! What a context of a kubeconfig means: whom to call, whom to trust, who we are.
//!
//! Which credentials count is upstream's rule, in its order:
//!
//! 1. Over plain HTTP none are sent.
//! 2. A client certificate is shown in the handshake, and a token or a user name may go with it.
//! 3. `tokenFile` beats `token`, which stands in until the file has been read once.
//! 4. A token beside a user name is an error.
//! 5. A plugin is asked only if there is none of the above.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::exec::{ExecCluster, ExecPlugin, ExecVersion, InteractiveMode, printable};
use super::file::{Cluster, Context, ExecEntry, Kubeconfig, User};
use super::paths;
use super::server::{AddressError, Proxy, Server};
use super::tls::{Authority, CertificateSource, Material, Tls, Trust};
use super::token::{self, TokenError};
use crate::Secret;

/// One context, resolved.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    pub server: Server,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// `None`: none is configured here; upstream then looks into its environment.
    pub proxy: Option<Proxy>,
    pub identity: Identity,
    pub impersonation: Option<Impersonation>,
    /// `default` where the context names none.
    pub namespace: String,
    pub disable_compression: bool,
    /// The context's user, if the file has no such user. Upstream then goes on without a word,
    /// as nobody; the caller should say so.
    pub missing_user: Option<String>,
}

/// How we prove who we are.
#[derive(Debug, Clone)]
pub enum Identity {
    /// With what the kubeconfig holds or points at; with nothing, if both are missing.
    Given(GivenIdentity),
    /// With what a plugin says.
    Exec(Box<ExecPlugin>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenIdentity {
    pub certificate: Option<CertificateSource>,
    pub authorization: Option<Authorization>,
}

/// What the `Authorization` header is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    Token(Secret<String>),
    /// For a [`TokenFileReader`](super::TokenFileReader).
    TokenFile {
        path: PathBuf,
        fallback: Option<Secret<String>>,
    },
    Basic {
        username: String,
        password: Secret<String>,
    },
}

/// Whom the requests are to be seen as coming from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    pub user: String,
    pub uid: Option<String>,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// A kubeconfig of which a context cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("kubeconfig {path}: {problem}")]
pub struct ResolveError {
    pub path: PathBuf,
    pub problem: Unusable,
}

/// What is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("current-context is not set; choose one: kubectl config use-context NAME")]
    NoContext,
    #[error("there is no context {context:?}")]
    UnknownContext { context: String },
    #[error("there is no cluster {cluster:?}, which context {context:?} names")]
    UnknownCluster { cluster: String, context: String },
    #[error("cluster {cluster:?} has no server")]
    NoServer { cluster: String },
    #[error("server of cluster {cluster:?}: {source}")]
    Server {
        cluster: String,
        source: AddressError,
    },
    #[error("proxy-url of cluster {cluster:?}: {source}")]
    Proxy {
        cluster: String,
        source: AddressError,
    },
    #[error("cluster {cluster:?} has a CA and insecure-skip-tls-verify; remove one")]
    InsecureWithAuthority { cluster: String },
    #[error("{owner} has both {field} and {field}-data; remove one")]
    FileAndData { owner: String, field: &'static str },
    #[error("{field} of {owner}: {path}: {source}")]
    File {
        owner: String,
        field: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("user {user:?} has a client-certificate and no client-key")]
    NoKey { user: String },
    #[error("user {user:?} has both a token and a user name; remove one")]
    TokenAndBasic { user: String },
    #[error("user {user:?}: {source}")]
    Token { user: String, source: TokenError },
    #[error(
        "user {user:?} has as-uid, as-groups or as-user-extra, and no user to impersonate (as)"
    )]
    NobodyToImpersonate { user: String },
    #[error(
        "user {user:?} uses auth-provider {provider:?}, which is not supported; use an exec plugin"
    )]
    AuthProvider { user: String, provider: String },
    #[error("user {user:?} has both auth-provider and exec; remove auth-provider")]
    ExecAndAuthProvider { user: String },
    #[error("exec of user {user:?}: {field} is missing")]
    ExecField { user: String, field: &'static str },
    #[error(
        "exec of user {user:?}: interactiveMode {mode:?} is none of Never, IfAvailable, Always"
    )]
    ExecMode { user: String, mode: String },
    #[error(
        "exec of user {user:?}: apiVersion {version:?} is not supported; client.authentication.k8s.io/v1 and v1beta1 are"
    )]
    ExecVersion { user: String, version: String },
}

impl Kubeconfig {
    /// The meaning of the named context, or of the current one. Opens the files that it names.
    pub fn resolve(&self, context: Option<&str>) -> Result<ClientConfig, ResolveError> {
        self.find(context)
            .and_then(|chosen| chosen.resolve())
            .map_err(|problem| ResolveError {
                path: self.path.clone(),
                problem,
            })
    }

    fn find(&self, wanted: Option<&str>) -> Result<Chosen<'_>, Unusable> {
        let wanted = wanted.or(self.current_context.as_deref());
        let context_name = wanted.unwrap_or_default();
        let context = self.contexts.get(context_name);
        if let (Some(name), None) = (wanted, context) {
            return Err(Unusable::UnknownContext {
                context: name.to_owned(),
            });
        }
        let name = |pick: fn(&Context) -> &Option<String>| {
            context
                .and_then(|context| pick(context).as_deref())
                .unwrap_or_default()
        };
        let cluster_name = name(|context| &context.cluster);
        let user_name = name(|context| &context.user);
        let cluster = self
            .clusters
            .get(cluster_name)
            .ok_or_else(|| match context {
                None => Unusable::NoContext,
                Some(_) => Unusable::UnknownCluster {
                    cluster: cluster_name.to_owned(),
                    context: context_name.to_owned(),
                },
            })?;
        Ok(Chosen {
            cluster_name,
            cluster,
            user_name,
            user: self.users.get(user_name),
            namespace: context
                .and_then(|context| context.namespace.as_deref())
                .unwrap_or("default"),
        })
    }
}

impl ClientConfig {
    /// The same way to the same server, as nobody.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        Self {
            identity: Identity::Given(GivenIdentity::default()),
            impersonation: None,
            missing_user: None,
            ..self.clone()
        }
    }
}

/// The entries that a context brings together.
struct Chosen<'a> {
    cluster_name: &'a str,
    cluster: &'a Cluster,
    user_name: &'a str,
    user: Option<&'a User>,
    namespace: &'a str,
}

impl Chosen<'_> {
    fn resolve(&self) -> Result<ClientConfig, Unusable> {
        let nobody = User::default();
        let user = self.user.unwrap_or(&nobody);
        self.check_user(user)?;
        let (server, proxy, trust) = self.check_cluster()?;
        let tls = server.is_https().then(|| Tls {
            trust,
            server_name: self.cluster.tls_server_name.clone(),
        });
        let identity = match &tls {
            Some(tls) => self.identity(user, &server, tls)?,
            None => Identity::Given(GivenIdentity::default()),
        };
        let missing_user = self.user.is_none() && !self.user_name.is_empty();
        Ok(ClientConfig {
            server,
            tls,
            proxy,
            identity,
            impersonation: user.impersonate.user.as_ref().map(|name| Impersonation {
                user: name.clone(),
                uid: user.impersonate.uid.clone(),
                groups: user.impersonate.groups.clone(),
                extra: user.impersonate.extra.clone(),
            }),
            namespace: self.namespace.to_owned(),
            disable_compression: self.cluster.disable_compression,
            missing_user: missing_user.then(|| self.user_name.to_owned()),
        })
    }

    fn check_cluster(&self) -> Result<(Server, Option<Proxy>, Trust), Unusable> {
        let name = || self.cluster_name.to_owned();
        let cluster = self.cluster;
        let text = cluster
            .server
            .as_deref()
            .ok_or_else(|| Unusable::NoServer { cluster: name() })?;
        let server = Server::parse(text).map_err(|source| Unusable::Server {
            cluster: name(),
            source,
        })?;
        let proxy = cluster.proxy_url.as_ref().map(Proxy::parse).transpose();
        let proxy = proxy.map_err(|source| Unusable::Proxy {
            cluster: name(),
            source,
        })?;
        let authority = Half {
            owner: || format!("cluster {:?}", self.cluster_name),
            field: "certificate-authority",
            data_field: "certificate-authority-data",
            file: cluster.certificate_authority.as_deref(),
            data: cluster.certificate_authority_data.clone().map(Secret::new),
        };
        let trust = match authority.material()? {
            Some(_) if cluster.insecure_skip_tls_verify && server.is_https() => {
                return Err(Unusable::InsecureWithAuthority { cluster: name() });
            }
            Some(material) => Trust::Authority(Authority(material)),
            None if cluster.insecure_skip_tls_verify => Trust::Unverified,
            None => Trust::System,
        };
        Ok((server, proxy, trust))
    }

    /// What is checked whether it is used or not.
    fn check_user(&self, user: &User) -> Result<(), Unusable> {
        let name = || self.user_name.to_owned();
        if user.token.is_some() && (user.username.is_some() || user.password.is_some()) {
            return Err(Unusable::TokenAndBasic { user: name() });
        }
        self.certificate(user)?;
        if let Some(exec) = &user.exec {
            if user.auth_provider.is_some() {
                return Err(Unusable::ExecAndAuthProvider { user: name() });
            }
            self.exec_parts(exec)?;
        }
        let impersonate = &user.impersonate;
        let more = impersonate.uid.is_some()
            || !impersonate.groups.is_empty()
            || !impersonate.extra.is_empty();
        if more && impersonate.user.is_none() {
            return Err(Unusable::NobodyToImpersonate { user: name() });
        }
        Ok(())
    }

    fn certificate(&self, user: &User) -> Result<Option<CertificateSource>, Unusable> {
        if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
            // A key alone is passed over.
            return Ok(None);
        }
        let owner = || format!("user {:?}", self.user_name);
        let certificate = Half {
            owner,
            field: "client-certificate",
            data_field: "client-certificate-data",
            file: user.client_certificate.as_deref(),
            data: user.client_certificate_data.clone().map(Secret::new),
        };
        let key = Half {
            owner,
            field: "client-key",
            data_field: "client-key-data",
            file: user.client_key.as_deref(),
            data: user.client_key_data.clone(),
        };
        let (certificate, key) = (certificate.material()?, key.material()?);
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(CertificateSource { certificate, key })),
            _ => Err(Unusable::NoKey {
                user: self.user_name.to_owned(),
            }),
        }
    }

    fn identity(&self, user: &User, server: &Server, tls: &Tls) -> Result<Identity, Unusable> {
        if let Some(provider) = &user.auth_provider {
            let provider = provider.clone();
            return Err(Unusable::AuthProvider {
                user: self.user_name.to_owned(),
                provider,
            });
        }
        let plugin = user
            .exec
            .as_ref()
            .map(|exec| self.plugin(exec, server, tls))
            .transpose()?;
        let given = GivenIdentity {
            certificate: self.certificate(user)?,
            authorization: self.authorization(user)?,
        };
        Ok(match plugin {
            Some(plugin) if given == GivenIdentity::default() => Identity::Exec(Box::new(plugin)),
            _ => Identity::Given(given),
        })
    }

    fn authorization(&self, user: &User) -> Result<Option<Authorization>, Unusable> {
        let name = || self.user_name.to_owned();
        if let Some(path) = &user.token_file {
            if user.username.is_some() {
                return Err(Unusable::TokenAndBasic { user: name() });
            }
            let fallback = match &user.token {
                Some(token) => token.clone(),
                None => token::read(path).map_err(|source| Unusable::Token {
                    user: name(),
                    source,
                })?,
            };
            return Ok(Some(Authorization::TokenFile {
                path: path.clone(),
                fallback: Some(fallback),
            }));
        }
        if let Some(token) = &user.token {
            return Ok(Some(Authorization::Token(token.clone())));
        }
        // A password without a user name is passed over.
        Ok(user.username.as_ref().map(|username| Authorization::Basic {
            username: username.clone(),
            password: user
                .password
                .clone()
                .unwrap_or_else(|| Secret::new(String::new())),
        }))
    }

    /// The command, the version's name and the mode: what upstream checks in every case.
    fn exec_parts<'e>(
        &self,
        exec: &'e ExecEntry,
    ) -> Result<(&'e Path, &'e str, InteractiveMode), Unusable> {
        let missing = |field| Unusable::ExecField {
            user: self.user_name.to_owned(),
            field,
        };
        let command = exec.command.as_deref().ok_or_else(|| missing("command"))?;
        let version = exec
            .api_version
            .as_deref()
            .ok_or_else(|| missing("apiVersion"))?;
        if exec.env.iter().any(|(name, _)| name.is_empty()) {
            return Err(missing("the name of an env entry"));
        }
        let mode = match exec.interactive_mode.as_deref() {
            // The versions before v1 had no such field.
            None if version.ends_with("/v1beta1") || version.ends_with("/v1alpha1") => {
                InteractiveMode::IfAvailable
            }
            None => return Err(missing("interactiveMode")),
            Some(mode) => InteractiveMode::parse(mode).ok_or_else(|| Unusable::ExecMode {
                user: self.user_name.to_owned(),
                mode: mode.to_owned(),
            })?,
        };
        Ok((command, version, mode))
    }

    fn plugin(&self, exec: &ExecEntry, server: &Server, tls: &Tls) -> Result<ExecPlugin, Unusable> {
        let (command, version, interactive) = self.exec_parts(exec)?;
        let version = ExecVersion::parse(version).ok_or_else(|| Unusable::ExecVersion {
            user: self.user_name.to_owned(),
            version: version.to_owned(),
        })?;
        let cluster = exec.provide_cluster_info.then(|| ExecCluster {
            server: server.text.clone(),
            tls_server_name: tls.server_name.clone(),
            insecure: tls.trust == Trust::Unverified,
            authority: match &tls.trust {
                Trust::Authority(authority) => Some(authority.clone()),
                Trust::System | Trust::Unverified => None,
            },
            proxy: self.cluster.proxy_url.clone(),
            disable_compression: self.cluster.disable_compression,
            config: self.cluster.exec_config.clone(),
        });
        Ok(ExecPlugin {
            user: self.user_name.to_owned(),
            command: paths::clean(command),
            args: exec.args.clone(),
            env: exec.env.clone(),
            version,
            install_hint: exec.install_hint.as_deref().map(printable),
            interactive,
            cluster,
        })
    }
}

/// One piece of TLS material: in a file or in the kubeconfig, not in both.
struct Half<'a, Owner> {
    owner: Owner,
    field: &'static str,
    data_field: &'static str,
    file: Option<&'a Path>,
    data: Option<Secret<Vec<u8>>>,
}

impl<Owner: Fn() -> String> Half<'_, Owner> {
    fn material(self) -> Result<Option<Material>, Unusable> {
        match (self.file, self.data) {
            (Some(_), Some(_)) => Err(Unusable::FileAndData {
                owner: (self.owner)(),
                field: self.field,
            }),
            (Some(path), None) => match File::open(path) {
                Ok(_) => Ok(Some(Material::File(path.to_owned()))),
                Err(source) => Err(Unusable::File {
                    owner: (self.owner)(),
                    field: self.field,
                    path: path.to_owned(),
                    source,
                }),
            },
            (None, data) => Ok(data.map(|data| Material::Data(self.data_field, data))),
        }
    }
}

#[cfg(test)]
mod tests;
