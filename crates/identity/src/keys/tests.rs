use sha2::{Digest, Sha256};

use super::*;
use crate::certificate;

fn key(name: &str) -> Result<PrivateKey, KeyError> {
    PrivateKey::from_pem(text(name).as_bytes())
}

fn text(name: &str) -> &'static str {
    match name {
        "p256-sec1" => include_str!("../../testdata/p256-sec1.pem"),
        "p256-pkcs8" => include_str!("../../testdata/p256-pkcs8.pem"),
        "p384-sec1" => include_str!("../../testdata/p384-sec1.pem"),
        "p384-pkcs8" => include_str!("../../testdata/p384-pkcs8.pem"),
        "p384-no-public" => include_str!("../../testdata/p384-sec1-no-public.pem"),
        "p521-pkcs8" => include_str!("../../testdata/p521-pkcs8.pem"),
        "rsa2048-pkcs1" => include_str!("../../testdata/rsa2048-pkcs1.pem"),
        "rsa2048-pkcs8" => include_str!("../../testdata/rsa2048-pkcs8.pem"),
        "rsa3072-pkcs1" => include_str!("../../testdata/rsa3072-pkcs1.pem"),
        "ed25519-pkcs8" => include_str!("../../testdata/ed25519-pkcs8.pem"),
        "encrypted-pkcs8" => include_str!("../../testdata/encrypted-pkcs8.pem"),
        "encrypted-sec1" => include_str!("../../testdata/encrypted-sec1.pem"),
        other => panic!("no test data {other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

#[test]
fn every_form_of_a_key_is_read_and_written_as_upstream_writes_it() {
    let cases = [
        ("p256-sec1", "p256-sec1", KeyKind::EcdsaP256),
        ("p256-pkcs8", "p256-sec1", KeyKind::EcdsaP256),
        ("p384-sec1", "p384-sec1", KeyKind::EcdsaP384),
        ("p384-pkcs8", "p384-sec1", KeyKind::EcdsaP384),
        ("rsa2048-pkcs1", "rsa2048-pkcs1", KeyKind::Rsa),
        ("rsa2048-pkcs8", "rsa2048-pkcs1", KeyKind::Rsa),
        ("rsa3072-pkcs1", "rsa3072-pkcs1", KeyKind::Rsa),
        ("ed25519-pkcs8", "ed25519-pkcs8", KeyKind::Ed25519),
    ];
    for (read, written, kind) in cases {
        let key = key(read).unwrap_or_else(|error| panic!("{read}: {error}"));
        assert_eq!(key.kind(), kind, "{read}");
        assert_eq!(key.to_pem().unwrap(), text(written), "{read}");
    }
}

#[test]
fn a_key_that_cannot_be_used_says_why() {
    let unreadable = |name: &str| key(name).unwrap_err();
    assert_eq!(unreadable("encrypted-pkcs8"), KeyError::Encrypted);
    assert_eq!(unreadable("encrypted-sec1"), KeyError::Encrypted);
    assert_eq!(unreadable("p384-no-public"), KeyError::WithoutPublicHalf);
    let unsupported = unreadable("p521-pkcs8");
    assert!(
        matches!(unsupported, KeyError::Unsupported(_)),
        "{unsupported}"
    );

    let certificate = include_bytes!("../../testdata/ca.pem");
    for keyless in [b"".as_slice(), b"no PEM at all", certificate] {
        assert_eq!(
            PrivateKey::from_pem(keyless).unwrap_err(),
            KeyError::Missing
        );
    }
    let whole = text("p256-sec1");
    let half = PrivateKey::from_pem(&whole.as_bytes()[..whole.len() / 2]).unwrap_err();
    assert_eq!(half, KeyError::Missing, "half a block is none");
    let mixed = whole.replace("EC PRIVATE", "RSA PRIVATE");
    let mislabelled = PrivateKey::from_pem(mixed.as_bytes()).unwrap_err();
    assert!(
        matches!(mislabelled, KeyError::Malformed { .. }),
        "{mislabelled}"
    );
}

#[test]
fn blocks_before_the_key_are_passed_over() {
    let certificate = include_str!("../../testdata/ca.pem");
    let curve = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let combined = format!("a note\n{certificate}{curve}{}", text("p256-sec1"));
    let key = PrivateKey::from_pem(combined.as_bytes()).unwrap();
    assert_eq!(key.to_pem().unwrap(), text("p256-sec1"));
}

#[test]
fn the_public_half_is_the_der_that_upstream_hashes() {
    let generator = key("p256-sec1").unwrap().public_der();
    assert_eq!(
        hex(&Sha256::digest(generator)),
        "5cd252fb0ce8932436faf8ccd1040981b89ee4ad6b9fe9e2a2b7e71aacb27cd3"
    );
    let ca = include_bytes!("../../testdata/ca.pem");
    let leaves = certificate::read_leaves(ca).unwrap();
    assert_eq!(
        hex(&Sha256::digest(&leaves[0].public_der)),
        "0ee6305f65d45bec480c959251e20a89c0c1caa799a4285161b1c6c18971ae6e"
    );
}

#[test]
fn a_fresh_key_is_p256_and_survives_its_file() {
    let fresh = PrivateKey::generate().unwrap();
    assert_eq!(fresh.kind(), KeyKind::EcdsaP256);
    let pem = fresh.to_pem().unwrap();
    assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    let read = PrivateKey::from_pem(pem.as_bytes()).unwrap();
    assert!(read.matches(&fresh.public_der()));
    assert!(!PrivateKey::generate().unwrap().matches(&fresh.public_der()));
}

#[test]
fn a_key_never_shows_in_debug_output() {
    let key = key("p256-sec1").unwrap();
    assert_eq!(format!("{key:?}"), "PrivateKey { kind: EcdsaP256, .. }");
}
