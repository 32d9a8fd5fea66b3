//! Tokens in the cluster: create, list, delete.

use std::time::SystemTime;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use thiserror::Error;

use super::listed::{StoredToken, read_secret};
use super::spec::{NAMESPACE, SECRET_TYPE, SpecError, TokenSpec};
use super::{Token, TokenId};
use crate::call::{CallError, CallProblem};

/// Why a token was not created, listed or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    #[error("the token was not created: {0}")]
    Spec(#[from] SpecError),
    #[error(
        "a token with the id {0} is there already; leave the token out to get a fresh one, or remove the old one with `ferrolet token delete {0}`"
    )]
    Exists(TokenId),
    #[error("there is no token with the id {0}; `ferrolet token list` shows those that there are")]
    Missing(TokenId),
    #[error(
        "this user may not {verb} Secrets in {NAMESPACE}, which is where tokens are: {message}; use an administrator's kubeconfig"
    )]
    Forbidden { verb: &'static str, message: String },
    #[error(transparent)]
    Call(CallError),
}

/// The name of the Secret of a token.
pub fn secret_name(id: &TokenId) -> String {
    format!("bootstrap-token-{id}")
}

/// Makes the token known to the cluster. An id that is taken is refused.
pub async fn create(
    client: &Client,
    token: &Token,
    spec: &TokenSpec,
    now: SystemTime,
) -> Result<Secret, TokenError> {
    let secret = spec.secret(token, now)?;
    let created = secrets(client)
        .create(&PostParams::default(), &secret)
        .await;
    created.map_err(|cause| refusal("create", Some(token.id()), &cause))
}

/// All tokens, the broken ones too.
pub async fn list(client: &Client) -> Result<Vec<StoredToken>, TokenError> {
    let of_tokens = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let found = secrets(client).list(&of_tokens).await;
    let found = found.map_err(|cause| refusal("list", None, &cause))?;
    Ok(found.items.iter().map(read_secret).collect())
}

/// Takes the token away. Nodes that have joined with it are not touched.
pub async fn delete(client: &Client, id: &TokenId) -> Result<(), TokenError> {
    let deleted = secrets(client)
        .delete(&secret_name(id), &DeleteParams::default())
        .await;
    deleted
        .map(|_| ())
        .map_err(|cause| refusal("delete", Some(id), &cause))
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn refusal(verb: &'static str, id: Option<&TokenId>, cause: &kube::Error) -> TokenError {
    let object = id.map_or_else(|| "bootstrap tokens".to_owned(), secret_name);
    let error = CallError::new(verb, object, cause);
    match (error.problem.clone(), id) {
        (CallProblem::AlreadyExists, Some(id)) => TokenError::Exists(id.clone()),
        (CallProblem::NotFound, Some(id)) => TokenError::Missing(id.clone()),
        (CallProblem::Forbidden(message), _) => TokenError::Forbidden { verb, message },
        _ => TokenError::Call(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeApi, at};

    const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

    fn token() -> Token {
        "abcdef.0123456789abcdef".parse().unwrap()
    }

    #[tokio::test]
    async fn a_token_is_created_listed_and_deleted() {
        let api = FakeApi::new();
        let client = api.client();
        let now = at("2026-11-15T06:00:00Z");
        create(&client, &token(), &TokenSpec::default(), now)
            .await
            .unwrap();
        let listed = list(&client).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].content.as_ref().unwrap().token, token());
        assert!(
            api.requests()
                .iter()
                .any(|request| request
                    .contains("fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken")),
            "{:?}",
            api.requests()
        );
        delete(&client, token().id()).await.unwrap();
        assert!(list(&client).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_id_that_is_taken_and_one_that_is_not_there_are_told() {
        let api = FakeApi::new();
        let client = api.client();
        let (spec, now) = (TokenSpec::default(), at("2026-11-15T06:00:00Z"));
        let missing = delete(&client, token().id()).await.unwrap_err();
        assert_eq!(missing, TokenError::Missing(token().id().clone()));
        create(&client, &token(), &spec, now).await.unwrap();
        let taken = create(&client, &token(), &spec, now).await.unwrap_err();
        assert_eq!(taken, TokenError::Exists(token().id().clone()));
        assert!(taken.to_string().contains("ferrolet token delete abcdef"));
    }

    #[tokio::test]
    async fn a_user_who_may_not_is_told_so() {
        let api = FakeApi::new();
        api.forbid(SECRETS);
        let error = list(&api.client()).await.unwrap_err();
        assert!(
            matches!(error, TokenError::Forbidden { verb: "list", .. }),
            "{error}"
        );
    }
}
