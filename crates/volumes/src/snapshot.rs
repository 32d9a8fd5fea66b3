//! What the volumes of a pod are made of, as it was at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use api::objects::Unanswered;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

use crate::kind::Kind;
use crate::payload::PayloadError;
use crate::tokens::{Token, TokenAsk, TokenError};
use crate::{pod, service_account_token};

/// What a pod's volumes refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) tokens: BTreeSet<TokenAsk>,
}

impl Needed {
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut needed = Self::default();
        for volume in pod::used_volumes(pod) {
            match Kind::of(volume) {
                Ok(Kind::ConfigMap(source)) => {
                    needed.config_maps.insert(source.name.clone());
                }
                Ok(Kind::Secret(source)) => {
                    needed.secrets.extend(source.secret_name.clone());
                }
                Ok(Kind::Projected(source)) => {
                    for source in source.sources.iter().flatten() {
                        let config_map = source.config_map.as_ref();
                        needed
                            .config_maps
                            .extend(config_map.map(|source| source.name.clone()));
                        let secret = source.secret.as_ref();
                        needed
                            .secrets
                            .extend(secret.map(|source| source.name.clone()));
                        let token = source.service_account_token.as_ref();
                        let ask = token.map(|source| service_account_token::ask(pod, source));
                        needed.tokens.extend(ask);
                    }
                }
                _ => {}
            }
        }
        needed
    }
}

type Answer<T> = Result<T, PayloadError>;

/// The answers. `None` is an object that is not there.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) config_maps: BTreeMap<String, Result<Option<Arc<ConfigMap>>, Unanswered>>,
    pub(crate) secrets: BTreeMap<String, Result<Option<Arc<Secret>>, Unanswered>>,
    pub(crate) tokens: BTreeMap<TokenAsk, Result<Token, TokenError>>,
}

impl Snapshot {
    pub(crate) fn config_map(&self, name: &str) -> Answer<Option<Arc<ConfigMap>>> {
        let answer = self.config_maps.get(name).cloned();
        let answer = answer.ok_or_else(|| standalone("configmap", name))?;
        Ok(answer?)
    }

    pub(crate) fn secret(&self, name: &str) -> Answer<Option<Arc<Secret>>> {
        let answer = self.secrets.get(name).cloned();
        let answer = answer.ok_or_else(|| standalone("secret", name))?;
        Ok(answer?)
    }

    pub(crate) fn token(&self, ask: &TokenAsk) -> Answer<Token> {
        let answer = self.tokens.get(ask).cloned();
        let answer = answer.ok_or_else(|| standalone("a token of", &ask.service_account))?;
        Ok(answer?)
    }

    /// When the first of its tokens is to be renewed.
    pub(crate) fn renew_at(&self) -> Option<SystemTime> {
        let tokens = self.tokens.values().flatten();
        tokens.map(|token| token.renew_at).min()
    }
}

/// Who was not asked cannot be: there is nobody to ask.
fn standalone(kind: &str, name: &str) -> PayloadError {
    let what = format!("{kind} {name:?}");
    PayloadError::Standalone { what }
}
