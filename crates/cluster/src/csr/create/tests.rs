use super::*;
use crate::csr::RequestContent;
use crate::testing::FakeApi;

fn request(subject: &str) -> NewRequest {
    NewRequest {
        subject: subject.parse().unwrap(),
        ..NewRequest::default()
    }
}

fn content(new: &NewRequest, key: &PrivateKey) -> RequestContent {
    let object = new.object(key).unwrap();
    RequestContent::of_pem(&object.spec.request.0).unwrap()
}

#[test]
fn every_kind_of_key_signs_a_request_that_proves_its_possession() {
    for (kind, text, expected) in [
        (KeyType::EcdsaP256, "ecdsa-p256", "ECDSA P-256"),
        (KeyType::EcdsaP384, "ECDSA-P384", "ECDSA P-384"),
        (KeyType::Ed25519, "ed25519", "Ed25519"),
    ] {
        assert_eq!(text.parse(), Ok(kind));
        let key = kind.generate().unwrap();
        let found = content(&request("CN=mary,O=dev"), &key);
        assert_eq!(found.key, expected);
        assert_eq!(found.proves_possession, Some(true), "{expected}");
        assert_eq!(found.common_name, "mary");
        // What is written to a file must be readable again.
        let pem = key.to_pem().unwrap();
        PrivateKey::from_pem(pem.as_bytes()).unwrap();
    }
}

#[test]
fn rsa_is_told_how_to_be_had_and_other_kinds_are_refused() {
    assert_eq!("rsa".parse::<KeyType>(), Err(CreateError::Rsa));
    assert_eq!("RSA-4096".parse::<KeyType>(), Err(CreateError::Rsa));
    assert!(CreateError::Rsa.to_string().contains("openssl genrsa"));
    assert!(matches!(
        "dsa".parse::<KeyType>(),
        Err(CreateError::KeyType(_))
    ));
}

#[test]
fn all_groups_and_names_are_in_the_request_in_their_order() {
    let new = NewRequest {
        dns_names: vec!["a.example".to_owned(), "b.example".to_owned()],
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        ..request("O=dev,CN=mary,O=ops,O=caf\u{e9}")
    };
    let found = content(&new, &PrivateKey::generate().unwrap());
    assert_eq!(found.organizations, ["dev", "ops", "caf\u{e9}"]);
    assert_eq!(found.subject, "O=dev, CN=mary, O=ops, O=caf\u{e9}");
    assert_eq!(found.dns_names, ["a.example", "b.example"]);
    assert_eq!(found.addresses, new.addresses);
    assert_eq!(found.proves_possession, Some(true));
}

#[test]
fn usages_follow_from_the_signer_and_the_key() {
    let client = |kind| default_usages(CLIENT_SIGNER, kind).unwrap();
    assert_eq!(
        client(KeyKind::EcdsaP256),
        ["digital signature", "client auth"]
    );
    assert_eq!(
        client(KeyKind::Rsa),
        ["digital signature", "key encipherment", "client auth"]
    );
    assert_eq!(
        default_usages(NODE_SERVING_SIGNER, KeyKind::Ed25519).unwrap(),
        ["digital signature", "server auth"]
    );
    assert!(matches!(
        default_usages("example.com/mine", KeyKind::EcdsaP256),
        Err(CreateError::NoUsages(_))
    ));
}

#[test]
fn what_the_api_would_refuse_is_refused_before() {
    let key = PrivateKey::generate().unwrap();
    let fault = |new: &NewRequest| new.object(&key).unwrap_err();
    let with_signer = |signer: &str| NewRequest {
        signer: signer.to_owned(),
        usages: Some(vec!["client auth".to_owned()]),
        ..request("CN=mary")
    };
    assert_eq!(
        fault(&with_signer(LEGACY_SIGNER)),
        CreateError::LegacySigner
    );
    for bad in ["", "mine", "example.com/", "/x", "nodots/x"] {
        assert_eq!(
            fault(&with_signer(bad)),
            CreateError::Signer(bad.to_owned())
        );
    }
    let with_usages = |usages: &[&str]| NewRequest {
        usages: Some(usages.iter().map(|usage| (*usage).to_owned()).collect()),
        ..request("CN=mary")
    };
    assert!(matches!(
        fault(&with_usages(&["clientAuth"])),
        CreateError::Usage(_)
    ));
    assert!(matches!(
        fault(&with_usages(&["client auth", "client auth"])),
        CreateError::UsageTwice(_)
    ));
    let living = |seconds| NewRequest {
        life: Some(Duration::from_secs(seconds)),
        ..request("CN=mary")
    };
    assert!(matches!(fault(&living(599)), CreateError::ShortLife(_)));
    assert!(matches!(
        fault(&living(u64::from(u32::MAX))),
        CreateError::LongLife(_)
    ));
    let object = living(600).object(&key).unwrap();
    assert_eq!(object.spec.expiration_seconds, Some(600));
    let odd = NewRequest {
        dns_names: vec!["caf\u{e9}".to_owned()],
        ..request("CN=mary")
    };
    assert!(matches!(fault(&odd), CreateError::DnsName(_)));
}

#[tokio::test]
async fn a_request_is_handed_in_and_comes_back_with_a_name() {
    let api = FakeApi::new();
    let key = PrivateKey::generate().unwrap();
    let object = request("CN=mary").object(&key).unwrap();
    let created = submit(&api.client(), &object).await.unwrap();
    assert_eq!(created.metadata.name.as_deref(), Some("csr-1"));
    assert!(created.metadata.uid.is_some());
}
