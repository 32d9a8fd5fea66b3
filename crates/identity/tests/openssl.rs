//! What we make, as another program reads it: OpenSSL's command line.
//!
//! In: requests, keys and the self-signed pair, made by this crate and written to
//! files. Out: a verdict on whether OpenSSL verifies them and sees the names that
//! a signer would. It must not know how they are made.
#![allow(clippy::expect_used, reason = "the helpers of a test may fail it")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use identity::request::NodeAddress;
use identity::serving::ServingFiles;
use identity::{PrivateKey, Purpose, SigningRequest, Template};

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(arguments)
        .output()
        .expect("openssl runs: apt install openssl");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {text}");
    text.into_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn openssl_verifies_our_requests_and_sees_their_names() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("request.pem");
    let addresses = [
        NodeAddress::Hostname("n1.example".to_owned()),
        NodeAddress::InternalIp("10.0.0.1".to_owned()),
        NodeAddress::InternalIp("fd00::1".to_owned()),
    ];
    let serving = Template::serving("n1", &addresses, false).unwrap();
    let rsa = include_bytes!("../testdata/rsa3072-pkcs1.pem");
    let cases = [
        (
            PrivateKey::generate().unwrap(),
            Template::client("n1"),
            vec!["ecdsa-with-SHA256"],
        ),
        (
            PrivateKey::from_pem(rsa).unwrap(),
            serving,
            vec![
                "sha384WithRSAEncryption",
                "DNS:n1.example, IP Address:10.0.0.1, IP Address:FD00:0:0:0:0:0:0:1",
            ],
        ),
    ];
    for (key, template, expected) in cases {
        let request = SigningRequest::generated(Purpose::Serving, &template, &key).unwrap();
        std::fs::write(&file, request.pem()).unwrap();
        let text = openssl(&["req", "-in", path(&file), "-noout", "-verify", "-text"]);
        assert!(text.contains("self-signature verify OK"), "{text}");
        assert!(
            text.contains("Subject: O = system:nodes, CN = system:node:n1"),
            "{text}"
        );
        for expected in expected {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}

#[test]
fn openssl_reads_our_keys_and_the_self_signed_pair() {
    let root = tempfile::tempdir().unwrap();
    let files = ServingFiles::in_directory(root.path());
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    files.obtain("n1", now).unwrap();
    let (certificate, key) = (path(&files.certificate), path(&files.key));

    let text = openssl(&["x509", "-in", certificate, "-noout", "-text"]);
    for expected in [
        "Issuer: CN = n1-ca@1800000000",
        "Not Before: Jan 15 07:00:00 2027 GMT",
        "Not After : Jan 15 07:00:00 2028 GMT",
        "Subject: CN = n1@1800000000",
        "CA:FALSE",
        "TLS Web Server Authentication",
        "DNS:n1",
        "NIST CURVE: P-256",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let of_certificate = openssl(&["x509", "-in", certificate, "-noout", "-pubkey"]);
    let of_key = openssl(&["ec", "-in", key, "-pubout"]);
    assert!(of_key.contains(of_certificate.trim()), "{of_key}");

    // The second certificate in the file is the CA that signed the first.
    let chain = std::fs::read_to_string(&files.certificate).unwrap();
    let ca = chain
        .rfind("-----BEGIN")
        .map(|start| &chain[start..])
        .unwrap();
    let ca_file = root.path().join("ca.pem");
    std::fs::write(&ca_file, ca).unwrap();
    let at = ["-attime", "1800000000"];
    let verify = [
        "verify",
        at[0],
        at[1],
        "-CAfile",
        path(&ca_file),
        certificate,
    ];
    assert!(openssl(&verify).contains("OK"));
}
