use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::access::pki::tests_support::{names, now};
use crate::access::{ClientTrust, Pki};
use crate::store::{Store, Window};

fn reviews() -> Reviews {
    let pki = Pki::open(None, &names(), now()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = ClientTrust::new(pki.ca.certificate_der(), &provider).unwrap();
    let clock = Clock::new(|| SystemTime::UNIX_EPOCH);
    let issuer = "https://kubernetes.default.svc.cluster.local".to_owned();
    let (store, _) = Store::open(None, Window::default()).unwrap();
    let authenticator = Authenticator::new(
        trust,
        Arc::clone(&pki.token_key),
        issuer,
        store,
        clock.clone(),
    );
    Reviews::new(authenticator, Authorizer::default(), clock)
}

fn mary() -> User {
    User::authenticated("mary", Vec::new())
}

fn admin() -> User {
    User::authenticated("admin", vec!["system:masters".to_owned()])
}

fn answer(plural: &str, user: &User, review: Value) -> Result<Value, String> {
    let answer = reviews().answer(plural, "default", user, review);
    answer.map_err(|failure| failure.message)
}

#[test]
fn access_is_answered_by_the_rules_of_requests() {
    let asked = |verb: &str, resource: &str| json!({"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "default"}}});
    let allowed = |user: &User, review: Value| {
        answer("selfsubjectaccessreviews", user, review).unwrap()["status"]["allowed"].clone()
    };
    assert_eq!(allowed(&admin(), asked("delete", "pods")), json!(true));
    assert_eq!(allowed(&mary(), asked("delete", "pods")), json!(false));
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}});
    assert_eq!(allowed(&mary(), path), json!(true));
    // `kubectl auth can-i '*' '*'`
    assert_eq!(allowed(&admin(), asked("*", "*")), json!(true));
    assert_eq!(allowed(&mary(), asked("*", "*")), json!(false));
}

#[test]
fn a_review_about_others_takes_only_the_groups_that_it_names() {
    let asked = |user: &str, groups: &[&str]| json!({"spec": {"user": user, "groups": groups, "nonResourceAttributes": {"verb": "get", "path": "/api"}}});
    let status =
        |review: Value| answer("subjectaccessreviews", &admin(), review).unwrap()["status"].clone();
    assert_eq!(
        status(asked("mary", &["system:authenticated"])),
        json!({"allowed": true})
    );
    assert_eq!(status(asked("mary", &[])), json!({"allowed": false}));
    let node = json!({"spec": {"user": "system:node:one", "groups": ["system:nodes"],
        "resourceAttributes": {"verb": "get", "resource": "nodes", "name": "two"}}});
    assert_eq!(
        status(node),
        json!({"allowed": false, "reason": "node 'one' cannot read 'two', only its own Node object"})
    );
}

#[test]
fn selectors_in_reviews_count() {
    let asked = |selector: Value| {
        json!({"spec": {"user": "system:node:one", "groups": ["system:nodes"],
            "resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}})
    };
    let allowed = |selector: Value| {
        answer("subjectaccessreviews", &admin(), asked(selector)).unwrap()["status"]["allowed"]
            .clone()
    };
    let required = |value: &str| json!({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": [value]}]});
    assert_eq!(allowed(required("one")), json!(true));
    assert_eq!(allowed(required("two")), json!(false));
    assert_eq!(
        allowed(json!({"rawSelector": "spec.nodeName=one"})),
        json!(true)
    );
    assert_eq!(allowed(json!({})), json!(false));
}

#[test]
fn reviews_that_ask_nothing_or_too_much_are_refused() {
    for (plural, review, words) in [
        (
            "selfsubjectaccessreviews",
            json!({"spec": {}}),
            "exactly one of nonResourceAttributes or resourceAttributes",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {}}}),
            "cannot be specified in combination",
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": {}}}),
            "at least one of user or group",
        ),
        (
            "localsubjectaccessreviews",
            json!({"spec": {"user": "a", "resourceAttributes": {"namespace": "other"}}}),
            "must match namespace: default",
        ),
        ("tokenreviews", json!({"spec": {}}), "token is required"),
        (
            "selfsubjectrulesreviews",
            json!({"spec": {}}),
            "no namespace on request",
        ),
        ("pods", json!({}), "could not find the requested resource"),
    ] {
        let message = answer(plural, &admin(), review).unwrap_err();
        assert!(message.contains(words), "{plural}: {message}");
    }
    let local = json!({"spec": {"user": "a", "resourceAttributes": {"namespace": "default"}}});
    assert!(answer("localsubjectaccessreviews", &admin(), local).is_ok());
}

#[test]
fn a_token_that_nobody_knows_is_not_authenticated() {
    let status = answer(
        "tokenreviews",
        &admin(),
        json!({"spec": {"token": "abcdef.0123456789abcdef"}}),
    )
    .unwrap();
    assert_eq!(status["status"].get("authenticated"), None);
    assert!(
        status["status"]["error"]
            .as_str()
            .unwrap()
            .contains("invalid bearer token")
    );
}

#[test]
fn everyone_can_ask_who_they_are_and_what_they_may() {
    let own = answer("selfsubjectreviews", &mary(), json!({})).unwrap();
    assert_eq!(
        own["status"]["userInfo"],
        json!({"username": "mary", "groups": ["system:authenticated"]})
    );
    let rules = |user: &User| {
        answer(
            "selfsubjectrulesreviews",
            user,
            json!({"spec": {"namespace": "default"}}),
        )
        .unwrap()["status"]
            .clone()
    };
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(
        rules(&admin())["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&all)
    );
    let marys = rules(&mary());
    assert!(!marys["resourceRules"].as_array().unwrap().contains(&all));
    assert_eq!(marys["incomplete"], json!(false));
    let node = User::authenticated("system:node:one", vec!["system:nodes".to_owned()]);
    assert_eq!(rules(&node)["incomplete"], json!(true));
}
