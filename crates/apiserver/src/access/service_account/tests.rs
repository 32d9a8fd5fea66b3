use serde_json::json;

use super::*;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn claims() -> Claims {
    let second = now().as_second();
    serde_json::from_value(json!({
        "aud": [ISSUER], "iss": ISSUER, "sub": "system:serviceaccount:default:a",
        "exp": second + 3600, "iat": second, "nbf": second, "jti": "one",
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "a", "uid": "1"},
            "pod": {"name": "p", "uid": "2"},
            "node": {"name": "n", "uid": "3"},
        },
    }))
    .unwrap()
}

fn object(uid: &str, deleted: Option<&str>) -> ObjectMeta {
    serde_json::from_value(json!({"uid": uid, "deletionTimestamp": deleted})).unwrap()
}

fn check(claims: &Claims, wanted: &[&str], now: Timestamp) -> Result<Vec<String>, TokenRefusal> {
    let wanted: Vec<_> = wanted.iter().map(|&one| one.to_owned()).collect();
    check_claims(claims, ISSUER, &wanted, now)
}

#[test]
fn claims_are_written_as_they_are_read() {
    let text = serde_json::to_value(claims()).unwrap();
    assert_eq!(
        serde_json::from_value::<Claims>(text.clone()).unwrap(),
        claims()
    );
    assert_eq!(
        text["kubernetes.io"]["pod"],
        json!({"name": "p", "uid": "2"})
    );
    assert!(text["kubernetes.io"].get("secret").is_none());
    let one: Claims = {
        let mut text = text;
        text["aud"] = json!("x");
        serde_json::from_value(text).unwrap()
    };
    assert_eq!(one.aud, ["x"]);
}

#[test]
fn a_token_is_good_in_its_time_for_its_audience() {
    let seconds = SignedDuration::from_secs;
    assert_eq!(check(&claims(), &[ISSUER, "x"], now()).unwrap(), [ISSUER]);
    assert!(check(&claims(), &[ISSUER], now() + seconds(3660)).is_ok());
    assert_eq!(
        check(&claims(), &[ISSUER], now() + seconds(3661)),
        Err(TokenRefusal::Expired)
    );
    assert!(check(&claims(), &[ISSUER], now() - seconds(60)).is_ok());
    assert_eq!(
        check(&claims(), &[ISSUER], now() - seconds(61)),
        Err(TokenRefusal::NotYet)
    );
    assert!(matches!(
        check(&claims(), &["x"], now()),
        Err(TokenRefusal::Audiences { .. })
    ));
    let foreign = Claims {
        iss: "https://other".to_owned(),
        ..claims()
    };
    assert!(matches!(
        check(&foreign, &[ISSUER], now()),
        Err(TokenRefusal::Issuer(_))
    ));
    let early = Claims {
        iat: now().as_second() + 61,
        ..claims()
    };
    assert_eq!(check(&early, &[ISSUER], now()), Err(TokenRefusal::Future));
}

#[test]
fn the_account_has_to_be_the_same_one() {
    let check = |account: Option<&ObjectMeta>| check_account(&claims(), account, now());
    assert!(check(Some(&object("1", None))).is_ok());
    assert_eq!(check(None), Err(TokenRefusal::NoAccount("a".to_owned())));
    let error = check(Some(&object("9", None))).unwrap_err().to_string();
    assert_eq!(error, "service account UID (9) does not match claim (1)");
    // A moment ago counts as still there.
    assert!(check(Some(&object("1", Some("2026-11-16T11:59:00Z")))).is_ok());
    assert!(check(Some(&object("1", Some("9999-12-30T22:00:00Z")))).is_ok());
    let gone = object("1", Some("2026-11-16T11:58:59Z"));
    assert!(matches!(
        check(Some(&gone)),
        Err(TokenRefusal::AccountDeleted(_))
    ));
}

#[test]
fn what_a_token_is_bound_to_has_to_be_there() {
    let with_pod = claims();
    let bound = bound_to(&with_pod);
    assert_eq!(bound.len(), 1, "the node of a pod is not asked for");
    let (kind, pod) = bound[0];
    assert_eq!(kind, Bound::Pod);
    assert!(check_bound(kind, pod, Some(&object("2", None)), now()).is_ok());
    assert!(check_bound(kind, pod, Some(&object("9", None)), now()).is_err());
    assert_eq!(
        check_bound(kind, pod, None, now()),
        Err(TokenRefusal::Invalidated)
    );
    let gone = object("2", Some("2026-11-16T11:00:00Z"));
    assert_eq!(
        check_bound(kind, pod, Some(&gone), now()),
        Err(TokenRefusal::Invalidated)
    );

    let mut with_node = claims();
    with_node.kubernetes.pod = None;
    assert_eq!(bound_to(&with_node)[0].0, Bound::Node);
    let mut with_secret = with_node;
    with_secret.kubernetes.secret = Some(Reference::default());
    assert_eq!(bound_to(&with_secret)[0].0, Bound::Secret);
}

#[test]
fn the_user_is_told_with_pod_and_node() {
    let user = user_of(&claims());
    assert_eq!(user.name, "system:serviceaccount:default:a");
    assert_eq!(user.uid, "1");
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ]
    );
    let expected = json!({
        "authentication.kubernetes.io/credential-id": ["JTI=one"],
        "authentication.kubernetes.io/node-name": ["n"],
        "authentication.kubernetes.io/node-uid": ["3"],
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": ["2"],
    });
    assert_eq!(serde_json::to_value(user.extra).unwrap(), expected);
}
