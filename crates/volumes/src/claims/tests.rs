use serde_json::{Value, json};

use super::*;
use crate::testing::from_json;

fn bound() -> Value {
    json!({
        "metadata": {"name": "c", "namespace": "ns", "uid": "c-1"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (above, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(above).unwrap()[name] = value;
    object
}

#[test]
fn a_claim_leads_to_its_volume_once_it_is_bound_and_while_it_may_be_used() {
    let deleted = with(
        bound(),
        "/metadata/deletionTimestamp",
        json!("2026-01-02T03:04:05Z"),
    );
    let protected = with(
        deleted.clone(),
        "/metadata/finalizers",
        json!(["kubernetes.io/pvc-protection"]),
    );
    let cases = [
        (bound(), Ok("pv")),
        (protected, Ok("pv")),
        (deleted, Err("PVC is being deleted")),
        (
            with(bound(), "/status/phase", json!("Pending")),
            Err("PVC is not bound"),
        ),
        (
            with(bound(), "/status", json!(null)),
            Err("PVC is not bound"),
        ),
        (
            with(bound(), "/spec/volumeName", json!("")),
            Err("PVC has empty pvc.Spec.VolumeName"),
        ),
    ];
    for (claim, wanted) in cases {
        let claim: PersistentVolumeClaim = from_json(claim);
        let found = volume_of(&claim).map_err(|problem| problem.to_string());
        assert_eq!(found, wanted.map_err(str::to_owned), "{claim:?}");
    }
}

#[test]
fn a_volume_has_to_be_the_claims_own() {
    let claim: PersistentVolumeClaim = from_json(bound());
    let cases = [
        (json!({"claimRef": {"uid": "c-1"}}), Ok(())),
        (
            json!({"claimRef": {"uid": "other"}}),
            Err(
                "found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID c-1",
            ),
        ),
        (
            json!({}),
            Err(
                "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
            ),
        ),
    ];
    for (spec, wanted) in cases {
        let volume: PersistentVolume = from_json(json!({"metadata": {"name": "pv"}, "spec": spec}));
        let found = check_claimed(&volume, &claim).map_err(|problem| problem.to_string());
        assert_eq!(found, wanted.map_err(str::to_owned));
    }
}

#[test]
fn an_ephemeral_volume_is_a_claim_of_the_pods_own() {
    let pod: Pod = from_json(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "p-1"}}));
    let volume: Volume = from_json(json!({"name": "v", "ephemeral": {}}));
    let ask = ClaimAsk::of(&pod, &volume).unwrap();
    assert_eq!(
        (ask.claim.as_str(), ask.ephemeral, ask.read_only),
        ("p-v", true, false)
    );
    let owner = |uid: &str, controller: bool| json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller}]);
    let cases = [
        (owner("p-1", true), "ns", true),
        (owner("p-1", false), "ns", false),
        (owner("p-2", true), "ns", false),
        (owner("p-1", true), "other", false),
        (json!(null), "ns", false),
    ];
    for (owners, namespace, wanted) in cases {
        let claim = with(bound(), "/metadata/ownerReferences", owners.clone());
        let claim = with(claim, "/metadata/namespace", json!(namespace));
        assert_eq!(is_owned(&from_json(claim), &pod), wanted, "{owners}");
    }
}

#[test]
fn what_a_pod_says_of_a_claim_is_kept() {
    let volume = |source: Value| -> Volume { from_json(source) };
    let of = |source| ClaimAsk::of(&Pod::default(), &volume(source));
    let read_only =
        of(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}));
    assert!(read_only.is_some_and(|ask| ask.read_only && ask.claim == "c"));
    let plain = of(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}));
    assert!(plain.is_some_and(|ask| !ask.read_only && !ask.ephemeral));
    assert_eq!(of(json!({"name": "v", "emptyDir": {}})), None);
}

#[test]
fn what_is_wrong_with_a_claim_names_it() {
    let error = ClaimError::Processing {
        namespace: "ns".to_owned(),
        claim: "c".to_owned(),
        problem: ClaimProblem::NoClaim {
            cause: "persistentvolumeclaims \"c\" not found".to_owned(),
        },
    };
    let wanted = "error processing PVC ns/c: failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found";
    assert_eq!(error.to_string(), wanted);
}
