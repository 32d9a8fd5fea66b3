//! The key of service-account tokens: JWTs signed with ECDSA P-256 (ES256), one of
//! the algorithms that upstream's own `sa.key` may have.
//!
//! Made of ring's primitives, which are here anyway: the kept crate for JWTs
//! (jsonwebtoken) brings a second crypto library for the sake of three base64 texts.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData as _};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

const ALGORITHM: &str = "ES256";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenKeyError {
    #[error("the key cannot sign tokens; an ECDSA P-256 key is expected")]
    Unusable,
    #[error("the system's random source failed, so no token was made; try again")]
    Random,
}

/// Why a text is not a token of this key. Which, its holder is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TokenFault {
    #[error("it is not a JWT")]
    NotJwt,
    #[error("it was signed with another key or algorithm")]
    OtherKey,
    #[error("its signature is not valid")]
    Signature,
    #[error("its claims cannot be read")]
    Claims,
}

/// Signs tokens, and knows its own again.
pub struct TokenKey {
    id: String,
    public: Vec<u8>,
    signer: EcdsaKeyPair,
    random: SystemRandom,
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
}

#[derive(Deserialize)]
struct FoundHeader {
    alg: String,
    kid: Option<String>,
}

impl TokenKey {
    pub(crate) fn new(key: &KeyPair) -> Result<Self, TokenKeyError> {
        let random = SystemRandom::new();
        let signer = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            key.serialized_der(),
            &random,
        )
        .map_err(|_| TokenKeyError::Unusable)?;
        // As upstream names keys: by a hash of the public half.
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &key.subject_public_key_info()));
        Ok(Self {
            id,
            public: key.public_key_raw().to_vec(),
            signer,
            random,
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The coordinates of the public half, for who publishes the key as a JWK.
    pub fn public_point(&self) -> &[u8] {
        &self.public
    }

    pub(crate) fn sign<C: Serialize>(&self, claims: &C) -> Result<String, TokenKeyError> {
        let header = Header {
            alg: ALGORITHM,
            kid: &self.id,
        };
        let part = |json: serde_json::Result<Vec<u8>>| {
            json.map(|json| URL_SAFE_NO_PAD.encode(json))
                .map_err(|_| TokenKeyError::Unusable)
        };
        let header = part(serde_json::to_vec(&header))?;
        let claims = part(serde_json::to_vec(claims))?;
        let input = format!("{header}.{claims}");
        let signature = self
            .signer
            .sign(&self.random, input.as_bytes())
            .map_err(|_| TokenKeyError::Random)?;
        Ok(format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token that this key has signed.
    pub(crate) fn open<C: DeserializeOwned>(&self, token: &str) -> Result<C, TokenFault> {
        let (input, signature) = token.rsplit_once('.').ok_or(TokenFault::NotJwt)?;
        let (header, claims) = input.split_once('.').ok_or(TokenFault::NotJwt)?;
        let bytes = |text: &str| {
            let decoded = URL_SAFE_NO_PAD.decode(text);
            decoded.map_err(|_| TokenFault::NotJwt)
        };
        let header: FoundHeader =
            serde_json::from_slice(&bytes(header)?).map_err(|_| TokenFault::NotJwt)?;
        if header.alg != ALGORITHM || header.kid.is_some_and(|id| id != self.id) {
            return Err(TokenFault::OtherKey);
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public)
            .verify(input.as_bytes(), &bytes(signature)?)
            .map_err(|_| TokenFault::Signature)?;
        serde_json::from_slice(&bytes(claims)?).map_err(|_| TokenFault::Claims)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key() -> TokenKey {
        TokenKey::new(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn a_token_is_known_by_the_key_that_signed_it_and_by_no_other() {
        let (key, other) = (key(), key());
        let claims = json!({"sub": "system:serviceaccount:default:a"});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.open::<Value>(&token).unwrap(), claims);
        assert_eq!(other.open::<Value>(&token), Err(TokenFault::OtherKey));
    }

    #[test]
    fn what_was_changed_or_says_another_algorithm_is_refused() {
        let key = key();
        let token = key.sign(&json!({"sub": "a"})).unwrap();
        let parts: Vec<_> = token.split('.').collect();
        let header = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let claims = URL_SAFE_NO_PAD.encode(r#"{"sub":"b"}"#);
        for (forged, fault) in [
            (
                format!("{}.{claims}.{}", parts[0], parts[2]),
                TokenFault::Signature,
            ),
            (format!("{}.{}.", parts[0], parts[1]), TokenFault::Signature),
            (
                format!("{}.{}.", header(r#"{"alg":"none"}"#), parts[1]),
                TokenFault::OtherKey,
            ),
            (
                format!("{}.{}.{}", header(r#"{"alg":"HS256"}"#), parts[1], parts[2]),
                TokenFault::OtherKey,
            ),
            (
                format!("{}.{}.{}", header(r#"{"alg":"ES256"}"#), parts[1], parts[2]),
                TokenFault::Signature,
            ),
            (parts[0].to_owned(), TokenFault::NotJwt),
            (String::new(), TokenFault::NotJwt),
        ] {
            assert_eq!(key.open::<Value>(&forged), Err(fault), "{forged}");
        }
    }
}
