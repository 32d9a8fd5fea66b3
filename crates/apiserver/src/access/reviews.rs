//! Reviews: questions about users and what they may do, answered by the same functions
//! that decide about requests.

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, NonResourceAttributes, NonResourceRule, ResourceAttributes,
    ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::authenticate::Authenticator;
use super::authorize::{Authorizer, Decision};
use super::rules::{GRANTS, Rule};
use super::user::{MASTERS, User};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::front::Attributes;

/// Answers reviews.
#[derive(Clone, Debug)]
pub struct Reviews {
    authenticator: Authenticator,
    authorizer: Authorizer,
    clock: Clock,
}

impl Reviews {
    pub fn new(authenticator: Authenticator, authorizer: Authorizer, clock: Clock) -> Self {
        Self {
            authenticator,
            authorizer,
            clock,
        }
    }

    /// The answer to a review of this kind (its plural), which `user` has sent.
    pub fn answer(
        &self,
        plural: &str,
        namespace: &str,
        user: &User,
        review: Value,
    ) -> Result<Value, Failure> {
        match plural {
            "tokenreviews" => self.token(&decode(&review)?, review),
            "subjectaccessreviews" => self.subject(&decode(&review)?, review),
            "localsubjectaccessreviews" => {
                let parsed: SubjectAccessReview = decode(&review)?;
                let asked = parsed.spec.resource_attributes.as_ref();
                let asked = asked.and_then(|asked| asked.namespace.as_deref());
                if asked != Some(namespace) {
                    return Err(Failure::bad_request(format!(
                        "spec.resourceAttributes.namespace must match namespace: {namespace}"
                    )));
                }
                self.subject(&parsed, review)
            }
            "selfsubjectaccessreviews" => self.own_access(&decode(&review)?, review, user),
            "selfsubjectrulesreviews" => own_rules(&decode(&review)?, review, user),
            "selfsubjectreviews" => {
                let mut answer = review;
                answer["metadata"]["creationTimestamp"] = json!(self.clock.seconds());
                answer["status"] = json!({"userInfo": user_info(user)});
                Ok(answer)
            }
            _ => Err(Failure::no_such_page()),
        }
    }

    fn token(&self, parsed: &TokenReview, review: Value) -> Result<Value, Failure> {
        let token = parsed.spec.token.as_str();
        if token.is_empty() {
            return Err(Failure::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let own = [self.authenticator.issuer.clone()];
        let asked = parsed.spec.audiences.as_deref().unwrap_or_default();
        let audiences = if asked.is_empty() { &own[..] } else { asked };
        let status = match self.authenticator.token(token, audiences) {
            Ok(login) => {
                let mut status = json!({"authenticated": true, "user": user_info(&login.user)});
                if !login.audiences.is_empty() {
                    status["audiences"] = json!(login.audiences);
                }
                status
            }
            Err(cause) => {
                let error = format!("[invalid bearer token, {cause}]");
                json!({"user": {}, "error": error})
            }
        };
        Ok(answered(review, status))
    }

    fn subject(&self, parsed: &SubjectAccessReview, review: Value) -> Result<Value, Failure> {
        let spec = &parsed.spec;
        let user = subject(spec);
        if user.name.is_empty() && user.groups.is_empty() {
            return Err(invalid(
                "SubjectAccessReview",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ));
        }
        let asked = attributes(
            "SubjectAccessReview",
            spec.resource_attributes.as_ref(),
            spec.non_resource_attributes.as_ref(),
        )?;
        let decision = self.authorizer.decide(&user, &asked);
        Ok(answered(review, access_status(&decision)))
    }

    fn own_access(
        &self,
        parsed: &SelfSubjectAccessReview,
        review: Value,
        user: &User,
    ) -> Result<Value, Failure> {
        let asked = attributes(
            "SelfSubjectAccessReview",
            parsed.spec.resource_attributes.as_ref(),
            parsed.spec.non_resource_attributes.as_ref(),
        )?;
        let decision = self.authorizer.decide(user, &asked);
        Ok(answered(review, access_status(&decision)))
    }
}

fn own_rules(
    parsed: &SelfSubjectRulesReview,
    review: Value,
    user: &User,
) -> Result<Value, Failure> {
    let namespace = parsed.spec.namespace.as_deref().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (resources, paths) = rules(user, namespace);
    let mut status = json!({
        "resourceRules": resources,
        "nonResourceRules": paths,
        "incomplete": user.node().is_some(),
    });
    if user.node().is_some() {
        status["evaluationError"] = json!("node authorizer does not support user rule resolution");
    }
    Ok(answered(review, status))
}

fn rules(user: &User, namespace: &str) -> (Vec<ResourceRule>, Vec<NonResourceRule>) {
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let everything = Rule {
        verbs: &["*"],
        groups: &["*"],
        resources: &["*"],
        names: &[],
        paths: &["*"],
    };
    let granted = GRANTS.iter().filter(|grant| {
        let here = grant.namespace.is_none_or(|own| own == namespace);
        here && grant.is_for(user)
    });
    let granted = granted.flat_map(|grant| grant.rules.iter().copied());
    let granted = granted.chain(user.is_in(MASTERS).then_some(everything));
    for rule in granted {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let some = |list: &[&str]| (!list.is_empty()).then(|| texts(list));
        if !rule.resources.is_empty() {
            resources.push(ResourceRule {
                verbs: texts(rule.verbs),
                api_groups: some(rule.groups),
                resources: some(rule.resources),
                resource_names: some(rule.names),
            });
        }
        if !rule.paths.is_empty() {
            paths.push(NonResourceRule {
                verbs: texts(rule.verbs),
                non_resource_urls: some(rule.paths),
            });
        }
    }
    (resources, paths)
}

fn subject(spec: &SubjectAccessReviewSpec) -> User {
    // A review names the groups itself: none are added.
    User {
        name: spec.user.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    }
}

/// What a review asks about. Its group's `*` stays one: it is granted to those who have all.
fn attributes(
    kind: &str,
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
) -> Result<Attributes, Failure> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match (resource, path) {
        (Some(asked), None) => {
            let selector = asked.field_selector.as_ref().map(field_selector);
            let name = text(&asked.name);
            Ok(Attributes {
                verb: text(&asked.verb),
                group: text(&asked.group),
                version: text(&asked.version),
                resource: text(&asked.resource),
                subresource: text(&asked.subresource),
                namespace: text(&asked.namespace),
                name: if name == "*" { String::new() } else { name },
                field_selector: selector.unwrap_or_default(),
                ..Attributes::default()
            })
        }
        (None, Some(asked)) => Ok(Attributes {
            verb: text(&asked.verb),
            path: text(&asked.path),
            ..Attributes::default()
        }),
        (Some(_), Some(_)) => Err(invalid(
            kind,
            "spec.nonResourceAttributes: Invalid value: cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => Err(invalid(
            kind,
            "spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
    }
}

/// As text; of requirements only those that ask for one value narrow anything.
fn field_selector(selector: &FieldSelectorAttributes) -> String {
    let raw = selector.raw_selector.clone().filter(|raw| !raw.is_empty());
    raw.unwrap_or_else(|| {
        let requirements = selector.requirements.iter().flatten();
        let equal = requirements.filter_map(|one| match one.values.as_deref() {
            Some([value]) if one.operator == "In" => Some(format!("{}={value}", one.key)),
            _ => None,
        });
        equal.collect::<Vec<_>>().join(",")
    })
}

fn access_status(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    status
}

fn user_info(user: &User) -> UserInfo {
    UserInfo {
        username: Some(user.name.clone()).filter(|name| !name.is_empty()),
        uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
        groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
        extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
    }
}

fn answered(mut review: Value, status: Value) -> Value {
    review["status"] = status;
    review
}

fn decode<T: DeserializeOwned>(review: &Value) -> Result<T, Failure> {
    T::deserialize(review)
        .map_err(|cause| Failure::bad_request(format!("the review cannot be read: {cause}")))
}

fn invalid(kind: &str, fault: &str) -> Failure {
    let message = format!("{kind}.authorization.k8s.io \"\" is invalid: {fault}");
    let details = json!({"group": "authorization.k8s.io", "kind": kind});
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(details)
}

#[cfg(test)]
mod tests;
