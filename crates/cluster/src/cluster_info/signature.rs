//! The detached JWS (HS256) over the kubeconfig of cluster-info: header, an empty
//! payload, signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac::{self, HMAC_SHA256, Key};
use serde::Serialize;

use crate::token::Token;

/// The header; the order of its fields is part of what is signed.
#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
}

/// The signature of `content` by `token`.
pub fn sign(content: &str, token: &Token) -> String {
    let (header, input) = signing_input(content, token);
    let tag = hmac::sign(&key(token), input.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

/// Whether `signature` is the one that `token` gives `content`. As upstream, there
/// is one valid text: another header (another algorithm, more fields) is not it.
pub fn verify(signature: &str, content: &str, token: &Token) -> bool {
    let (header, input) = signing_input(content, token);
    let tag = signature
        .strip_prefix(&header)
        .and_then(|rest| rest.strip_prefix(".."))
        .and_then(|tag| URL_SAFE_NO_PAD.decode(tag).ok());
    // Compared in constant time.
    tag.is_some_and(|tag| hmac::verify(&key(token), input.as_bytes(), &tag).is_ok())
}

fn signing_input(content: &str, token: &Token) -> (String, String) {
    let header = Header {
        alg: "HS256",
        kid: token.id().as_str(),
    };
    // Two texts without special characters: there is nothing that could fail.
    let header = serde_json::to_vec(&header).unwrap_or_default();
    let header = URL_SAFE_NO_PAD.encode(header);
    let input = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    (header, input)
}

fn key(token: &Token) -> Key {
    Key::new(HMAC_SHA256, token.expose_secret().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../testdata/cluster-info-kubeconfig.txt");

    fn token(text: &str) -> Token {
        text.parse().unwrap()
    }

    #[test]
    fn signatures_are_those_that_the_control_plane_makes() {
        let token = token("abcdef.0123456789abcdef");
        for (content, expected) in [
            (
                RECORDED,
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..G6lZ4mJEXwtJbFYf7ketv12Lgyf8Ov72iLRz8_kAN-A",
            ),
            (
                "apiVersion: v1\n",
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..K1chermAQEq0rdqy-ehj0VDfmA_ytv8Wzh9g26FldrE",
            ),
        ] {
            assert_eq!(sign(content, &token), expected);
            assert!(verify(expected, content, &token));
        }
    }

    #[test]
    fn other_content_another_token_and_another_header_are_not_signed() {
        let signer = token("abcdef.0123456789abcdef");
        let signature = sign("content", &signer);
        assert!(verify(&signature, "content", &signer));
        assert!(!verify(&signature, "content ", &signer));
        assert!(!verify(
            &signature,
            "content",
            &token("abcdef.0123456789abcdeg")
        ));
        assert!(!verify(
            &signature,
            "content",
            &token("abcdeg.0123456789abcdef")
        ));
        let (_, tag) = signature.split_once("..").unwrap();
        for header in [
            r#"{"alg":"none","kid":"abcdef"}"#,
            r#"{"kid":"abcdef","alg":"HS256"}"#,
        ] {
            let forged = format!("{}..{tag}", URL_SAFE_NO_PAD.encode(header));
            assert!(!verify(&forged, "content", &signer), "{header}");
        }
        for malformed in ["", "..", ".", &signature[1..], &format!("{signature}=")] {
            assert!(!verify(malformed, "content", &signer), "{malformed:?}");
        }
    }
}
