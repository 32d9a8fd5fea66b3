use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::access::certificate_request::tests::request_pem;

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn rules() -> Rules {
    Rules {
        longest: SignedDuration::from_hours(8760),
        ca_end: "2036-01-01T00:00:00Z".parse().unwrap(),
    }
}

struct Asked<'a> {
    signer: &'a str,
    user: &'a str,
    common_name: &'a str,
    organization: &'a str,
    names: &'a [&'a str],
    usages: &'a [&'a str],
}

const NODE: Asked<'_> = Asked {
    signer: CLIENT_KUBELET_SIGNER,
    user: "system:bootstrap:abcdef",
    common_name: "system:node:one",
    organization: "system:nodes",
    names: &[],
    usages: &["digital signature", "client auth"],
};

const SERVING: Asked<'_> = Asked {
    signer: SERVING_SIGNER,
    user: "system:node:one",
    names: &["192.0.2.1"],
    usages: &["digital signature", "server auth"],
    ..NODE
};

const PERSON: Asked<'_> = Asked {
    signer: CLIENT_SIGNER,
    user: "jane",
    common_name: "jane",
    organization: "dev",
    usages: &["client auth"],
    ..NODE
};

fn request(asked: &Asked<'_>, status: Value) -> CertificateSigningRequest {
    let pem = request_pem(asked.common_name, asked.organization, asked.names);
    let mut request = json!({
        "metadata": {"name": "csr-a", "creationTimestamp": "2026-11-16T12:00:00Z"},
        "spec": {
            "signerName": asked.signer, "username": asked.user, "usages": asked.usages,
            "request": STANDARD.encode(pem),
        },
    });
    request["status"] = status;
    serde_json::from_value(request).unwrap()
}

fn decided(kind: &str, at: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "lastUpdateTime": at}]})
}

fn approved() -> Value {
    decided("Approved", "2026-11-16T12:00:00Z")
}

/// Bootstrappers may ask for any node, nodes for themselves.
fn may(user: &User, asked: &Attributes) -> bool {
    let wanted = if user.name.starts_with("system:bootstrap:") {
        "nodeclient"
    } else {
        "selfnodeclient"
    };
    user.name.starts_with("system:") && asked.subresource == wanted && asked.verb == "create"
}

fn next(request: &CertificateSigningRequest) -> Step {
    step(request, &rules(), &may, now())
}

#[test]
fn nodes_get_their_client_certificates_without_a_person() {
    let first = next(&request(&NODE, json!({})));
    assert!(
        matches!(first, Step::Approve(message) if message.starts_with("Auto approving kubelet client"))
    );
    let own = Asked {
        user: "system:node:one",
        ..NODE
    };
    let renewal = next(&request(&own, json!({})));
    assert!(matches!(renewal, Step::Approve(message) if message.contains("self kubelet client")));
}

#[test]
fn what_is_not_a_nodes_own_waits_for_a_person() {
    for asked in [
        Asked {
            user: "system:node:two",
            ..NODE
        },
        Asked {
            user: "mary",
            ..NODE
        },
        Asked {
            organization: "system:masters",
            ..NODE
        },
        Asked {
            common_name: "mary",
            ..NODE
        },
        Asked {
            names: &["192.0.2.1"],
            ..NODE
        },
        Asked {
            usages: &["client auth"],
            ..NODE
        },
        SERVING,
        PERSON,
    ] {
        assert_eq!(
            next(&request(&asked, json!({}))),
            Step::Nothing,
            "{} {}",
            asked.signer,
            asked.user
        );
    }
}

#[test]
fn what_is_approved_is_signed_when_it_keeps_the_rules() {
    let longer = &["digital signature", "key encipherment", "client auth"];
    for asked in [
        NODE,
        SERVING,
        PERSON,
        Asked {
            usages: longer,
            ..NODE
        },
        Asked {
            usages: longer,
            ..PERSON
        },
    ] {
        let step = next(&request(&asked, approved()));
        assert!(
            matches!(step, Step::Sign { .. }),
            "{} {step:?}",
            asked.signer
        );
    }
}

#[test]
fn what_is_approved_and_breaks_the_rules_fails_in_upstreams_words() {
    for (asked, words) in [
        (
            Asked {
                organization: "a",
                ..NODE
            },
            "subject organization is not system:nodes",
        ),
        (
            Asked {
                common_name: "a",
                ..NODE
            },
            "subject common name does not begin with system:node:",
        ),
        (
            Asked {
                names: &["a.example"],
                ..NODE
            },
            "DNS subjectAltNames are not allowed",
        ),
        (
            Asked {
                names: &["192.0.2.1"],
                ..NODE
            },
            "IP subjectAltNames are not allowed",
        ),
        (
            Asked {
                names: &["spiffe://a"],
                ..NODE
            },
            "URI subjectAltNames are not allowed",
        ),
        (
            Asked {
                usages: &["server auth", "digital signature"],
                ..NODE
            },
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            Asked {
                names: &[],
                ..SERVING
            },
            "DNS or IP subjectAltName is required",
        ),
        (
            Asked {
                names: &["192.0.2.1", "spiffe://a"],
                ..SERVING
            },
            "URI subjectAltNames are not allowed",
        ),
        (
            Asked {
                usages: &["client auth", "digital signature"],
                ..SERVING
            },
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            Asked {
                usages: &["digital signature"],
                ..PERSON
            },
            "missing required usage for client certificate: client auth",
        ),
        (
            Asked {
                usages: &["client auth", "server auth"],
                ..PERSON
            },
            "invalid usage for client certificate: server auth",
        ),
    ] {
        assert_eq!(
            next(&request(&asked, approved())),
            Step::Fail(words.to_owned())
        );
    }
}

#[test]
fn what_is_decided_or_not_ours_is_left_alone() {
    let issued =
        json!({"certificate": STANDARD.encode("x"), "conditions": approved()["conditions"]});
    let both = json!({"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]});
    for status in [
        issued,
        both,
        decided("Denied", "2026-11-16T12:00:00Z"),
        decided("Failed", "2026-11-16T12:00:00Z"),
    ] {
        assert_eq!(next(&request(&NODE, status)), Step::Nothing);
    }
    let foreign = Asked {
        signer: "example.com/signer",
        ..PERSON
    };
    assert_eq!(next(&request(&foreign, approved())), Step::Nothing);
}

#[test]
fn a_certificate_lives_as_long_as_asked_within_bounds() {
    let life = |asked: Option<i32>| {
        let (from, until) = validity(asked, &rules(), now());
        (
            now().duration_since(from).as_secs(),
            until.duration_since(now()).as_secs(),
        )
    };
    assert_eq!(life(None), (300, 8760 * 3600 - 300));
    assert_eq!(life(Some(3600)), (300, 3600));
    assert_eq!(life(Some(8 * 3600 - 1)), (300, 8 * 3600 - 1));
    assert_eq!(life(Some(8 * 3600)), (300, 8 * 3600 - 300));
    assert_eq!(life(Some(60)), (300, 600));
    assert_eq!(life(Some(i32::MAX)), (300, 8760 * 3600 - 300));
    let soon = Rules {
        ca_end: now() + SignedDuration::from_secs(5),
        ..rules()
    };
    assert_eq!(validity(None, &soon, now()).1, soon.ca_end);
}

#[test]
fn old_requests_go_in_their_time() {
    let hours = SignedDuration::from_hours;
    let second = SignedDuration::from_secs(1);
    let issued =
        json!({"certificate": STANDARD.encode("x"), "conditions": approved()["conditions"]});
    for (status, kept) in [
        (json!({}), hours(24)),
        (approved(), hours(24)),
        (decided("Denied", "2026-11-16T12:00:00Z"), hours(1)),
        (decided("Failed", "2026-11-16T12:00:00Z"), hours(1)),
        (issued, hours(1)),
    ] {
        let request = request(&NODE, status.clone());
        assert!(!is_old(&request, now() + kept), "{status}");
        assert!(is_old(&request, now() + kept + second), "{status}");
    }
}
