//! Tokens of service accounts, made on request (`serviceaccounts/token`).

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::authenticate::Authenticator;
use super::service_account::{self, Claims, Private, Reference};
use crate::failure::Failure;
use crate::kinds::{Kind, NODES, PODS, SECRETS, SERVICE_ACCOUNTS};
use crate::store::Key;

/// What is asked for when nothing is said.
const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// What pods get by default. Upstream lets such tokens live for a year, for clients
/// that read them once, and counts who uses them late.
const EXTENDED_SECONDS: i64 = 3607;
const YEAR_SECONDS: i64 = 365 * 24 * 3600;

impl Authenticator {
    /// Makes a token for a service account: the answer to the request.
    pub fn issue(&self, namespace: &str, name: &str, request: Value) -> Result<Value, Failure> {
        let now = self.clock.timestamp();
        let mut request: TokenRequest = serde_json::from_value(request).map_err(|cause| {
            Failure::bad_request(format!("the request cannot be read: {cause}"))
        })?;
        let account: ServiceAccount = self.find_object(&SERVICE_ACCOUNTS, namespace, name)?;
        complete(&mut request, &account, &self.issuer, now)?;
        let bound = self.bound(namespace, name, &request)?;
        let claims = claims(&request, &account, bound, &self.issuer, now)?;
        let token = self.token_key.sign(&claims).map_err(Failure::internal)?;
        let seconds = spec(&request).expiration_seconds.unwrap_or(DEFAULT_SECONDS);
        let mut answer = serde_json::to_value(&request).map_err(Failure::internal)?;
        let end = now + SignedDuration::from_secs(seconds);
        answer["kind"] = json!("TokenRequest");
        answer["apiVersion"] = json!("authentication.k8s.io/v1");
        answer["status"] = json!({
            "token": token,
            "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        Ok(answer)
    }

    fn bound(
        &self,
        namespace: &str,
        name: &str,
        request: &TokenRequest,
    ) -> Result<BoundObjects, Failure> {
        let Some(reference) = spec(request).bound_object_ref else {
            return Ok(BoundObjects::default());
        };
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or_default();
        let bound_name = reference.name.as_deref().unwrap_or_default();
        let mut bound = BoundObjects::default();
        let uid = match (api_version, kind) {
            ("v1", "Pod") => {
                let pod: Pod = self.find_object(&PODS, namespace, bound_name)?;
                let spec = pod.spec.as_ref();
                let account = spec.and_then(|spec| spec.service_account_name.as_deref());
                if account != Some(name) {
                    return Err(Failure::bad_request(format!(
                        "cannot bind token for serviceaccount {name:?} to pod running with different serviceaccount name."
                    )));
                }
                let node = spec
                    .and_then(|spec| spec.node_name.as_deref())
                    .unwrap_or_default();
                if !node.is_empty() {
                    let found: Option<Node> = self.find_object(&NODES, "", node).ok();
                    let unknown = Reference {
                        name: node.to_owned(),
                        uid: String::new(),
                    };
                    bound.node =
                        Some(found.map_or(unknown, |found| Reference::to(&found.metadata)));
                }
                bound.pod = Some(Reference::to(&pod.metadata));
                pod.metadata.uid
            }
            ("v1", "Node") => {
                let node: Node = self.find_object(&NODES, "", bound_name)?;
                bound.node = Some(Reference::to(&node.metadata));
                node.metadata.uid
            }
            ("v1", "Secret") => {
                let secret: Secret = self.find_object(&SECRETS, namespace, bound_name)?;
                bound.secret = Some(Reference::to(&secret.metadata));
                secret.metadata.uid
            }
            _ => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                let what = format!("{group}/{version}, Kind={kind}");
                return Err(Failure::bad_request(format!(
                    "cannot bind token to object of type {what}"
                )));
            }
        };
        check_uid(reference.uid.as_deref(), uid.as_deref(), kind, bound_name)?;
        Ok(bound)
    }

    fn find_object<T: DeserializeOwned>(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Result<T, Failure> {
        let found = self.store.get(&Key::new(kind, namespace, name));
        let found = found.ok_or_else(|| Failure::not_found(kind, name))?;
        found.decode().map_err(Failure::internal)
    }
}

/// What a token is tied to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BoundObjects {
    pod: Option<Reference>,
    node: Option<Reference>,
    secret: Option<Reference>,
}

/// Fills in what was left out, and refuses what cannot be.
fn complete(
    request: &mut TokenRequest,
    account: &ServiceAccount,
    issuer: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    let own = &account.metadata;
    let name = own.name.as_deref().unwrap_or_default();
    let metadata = &mut request.metadata;
    let differs = |asked: &Option<String>, own: &Option<String>| {
        asked
            .as_ref()
            .is_some_and(|asked| !asked.is_empty() && Some(asked) != own.as_ref())
    };
    for (field, asked, actual) in [
        ("name", &metadata.name, &own.name),
        ("namespace", &metadata.namespace, &own.namespace),
    ] {
        if differs(asked, actual) {
            let asked = asked.clone().unwrap_or_default();
            return Err(invalid(
                name,
                &format!(
                    "metadata.{field}: Invalid value: {asked:?}: must match the service account {field} if specified"
                ),
            ));
        }
    }
    if differs(&metadata.uid, &own.uid) {
        let (asked, own) = (
            metadata.uid.clone().unwrap_or_default(),
            own.uid.clone().unwrap_or_default(),
        );
        return Err(conflict(
            "TokenRequest.authentication.k8s.io",
            name,
            &format!(
                "the UID in the token request ({asked}) does not match the UID of the service account ({own})"
            ),
        ));
    }
    *metadata = ObjectMeta {
        name: own.name.clone(),
        namespace: own.namespace.clone(),
        uid: own.uid.clone(),
        creation_timestamp: Some(Time(whole_seconds(now))),
        ..std::mem::take(metadata)
    };
    let spec = request.spec.get_or_insert_default();
    let audiences = spec.audiences.get_or_insert_default();
    if audiences.is_empty() {
        audiences.push(issuer.to_owned());
    }
    let seconds = *spec.expiration_seconds.get_or_insert(DEFAULT_SECONDS);
    let fault = match seconds {
        ..LEAST_SECONDS => "may not specify a duration less than 10 minutes",
        _ if seconds > MOST_SECONDS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    Err(invalid(
        "",
        &format!("spec.expirationSeconds: Invalid value: {seconds}: {fault}"),
    ))
}

fn claims(
    request: &TokenRequest,
    account: &ServiceAccount,
    bound: BoundObjects,
    issuer: &str,
    now: Timestamp,
) -> Result<Claims, Failure> {
    let spec = spec(request);
    let asked = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let audiences = spec.audiences.unwrap_or_default();
    let for_us = audiences.iter().all(|audience| audience == issuer);
    let extended = bound.pod.is_some() && asked == EXTENDED_SECONDS && for_us;
    let second = now.as_second();
    let namespace = account.metadata.namespace.clone().unwrap_or_default();
    let name = account.metadata.name.as_deref().unwrap_or_default();
    Ok(Claims {
        aud: audiences,
        exp: second + if extended { YEAR_SECONDS } else { asked },
        iat: second,
        nbf: second,
        iss: issuer.to_owned(),
        jti: random_id()?,
        sub: service_account::user_name(&namespace, name),
        kubernetes: Private {
            namespace,
            node: bound.node,
            pod: bound.pod,
            secret: bound.secret,
            serviceaccount: Reference::to(&account.metadata),
            warnafter: extended.then_some(second + asked),
        },
    })
}

fn spec(request: &TokenRequest) -> TokenRequestSpec {
    request.spec.clone().unwrap_or_default()
}

fn check_uid(
    asked: Option<&str>,
    found: Option<&str>,
    kind: &str,
    name: &str,
) -> Result<(), Failure> {
    match asked {
        Some(asked) if !asked.is_empty() && Some(asked) != found => Err(conflict(
            kind,
            name,
            &format!(
                "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        )),
        _ => Ok(()),
    }
}

fn conflict(kind: &str, name: &str, cause: &str) -> Failure {
    let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {cause}");
    Failure::new(StatusCode::CONFLICT, "Conflict", message)
        .with_details(json!({"name": name, "kind": kind}))
}

fn invalid(name: &str, fault: &str) -> Failure {
    let message = format!("TokenRequest.authentication.k8s.io {name:?} is invalid: {fault}");
    let details = json!({"name": name, "group": "authentication.k8s.io", "kind": "TokenRequest"});
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(details)
}

fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// A UUID (version 4).
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::internal("the system's random source failed"))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = super::hexadecimal(&bytes);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok([
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    fn now() -> Timestamp {
        "2026-11-16T12:00:00.7Z".parse().unwrap()
    }

    fn account() -> ServiceAccount {
        serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "default", "uid": "1"}}),
        )
        .unwrap()
    }

    fn completed(request: Value) -> Result<TokenRequest, String> {
        let mut request = serde_json::from_value(request).unwrap();
        complete(&mut request, &account(), ISSUER, now()).map_err(|failure| failure.message)?;
        Ok(request)
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let request = completed(json!({"spec": {}})).unwrap();
        let spec = spec(&request);
        assert_eq!(spec.audiences.unwrap(), [ISSUER]);
        assert_eq!(spec.expiration_seconds, Some(3600));
        assert_eq!(request.metadata.name.as_deref(), Some("a"));
        assert_eq!(request.metadata.uid.as_deref(), Some("1"));
    }

    #[test]
    fn what_cannot_be_is_refused_in_upstreams_words() {
        for (request, words) in [
            (
                json!({"spec": {"expirationSeconds": 599}}),
                "may not specify a duration less than 10 minutes",
            ),
            (
                json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
                "larger than 2^32 seconds",
            ),
            (
                json!({"metadata": {"name": "b"}, "spec": {}}),
                "must match the service account name if specified",
            ),
            (
                json!({"metadata": {"namespace": "b"}, "spec": {}}),
                "must match the service account namespace",
            ),
            (
                json!({"metadata": {"uid": "2"}, "spec": {}}),
                "(2) does not match the UID of the service account (1)",
            ),
        ] {
            let message = completed(request).unwrap_err();
            assert!(message.contains(words), "{message}");
        }
        assert!(completed(json!({"spec": {"expirationSeconds": 600}})).is_ok());
        assert!(completed(json!({"metadata": {"name": "a", "uid": "1"}, "spec": {}})).is_ok());
    }

    #[test]
    fn tokens_of_pods_live_longer_than_they_say() {
        let pod = || BoundObjects {
            pod: Some(Reference::default()),
            ..BoundObjects::default()
        };
        let life = |seconds: i64, audience: &str, bound: BoundObjects| {
            let request =
                completed(json!({"spec": {"expirationSeconds": seconds, "audiences": [audience]}}))
                    .unwrap();
            let claims = claims(&request, &account(), bound, ISSUER, now()).unwrap();
            (
                claims.exp - claims.iat,
                claims.kubernetes.warnafter.map(|after| after - claims.iat),
            )
        };
        assert_eq!(life(3607, ISSUER, pod()), (31_536_000, Some(3607)));
        assert_eq!(life(3600, ISSUER, pod()), (3600, None));
        assert_eq!(life(3607, "vault", pod()), (3607, None));
        assert_eq!(life(3607, ISSUER, BoundObjects::default()), (3607, None));
    }

    #[test]
    fn ids_are_uuids() {
        let id = random_id().unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4');
        assert_ne!(id, random_id().unwrap());
    }

    #[test]
    fn a_bound_object_has_to_be_the_one_that_was_meant() {
        assert!(check_uid(None, Some("1"), "Pod", "p").is_ok());
        assert!(check_uid(Some(""), Some("1"), "Pod", "p").is_ok());
        assert!(check_uid(Some("1"), Some("1"), "Pod", "p").is_ok());
        let failure = check_uid(Some("2"), Some("1"), "Pod", "p").unwrap_err();
        assert_eq!(failure.code, StatusCode::CONFLICT);
    }
}
