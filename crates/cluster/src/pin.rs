//! The pin of a certificate authority: a digest of its public key, short enough
//! to be carried by hand, which stays the same when the certificate is renewed.

use std::fmt;
use std::str::FromStr;

use identity::Leaf;
use identity::certificate::{self, CertificateError};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use thiserror::Error;

const ALGORITHM: &str = "sha256";

/// SHA-256 over the public key (PKIX DER) of a certificate authority.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CaPin([u8; SHA256_OUTPUT_LEN]);

/// Why a text is no pin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PinFormatError {
    #[error(
        "the CA hash {0:?} is not of the form sha256:HEX; `ferrolet token create --print-join-command` prints it"
    )]
    Form(String),
    #[error("the CA hash {text:?} uses {algorithm:?}; sha256 is the only one that is known")]
    Algorithm { text: String, algorithm: String },
    #[error(
        "the CA hash {text:?} has {found} characters after sha256: where 64 are needed; copy it whole"
    )]
    Length { text: String, found: usize },
    #[error("the CA hash {0:?} has characters that are not hexadecimal digits")]
    NotHex(String),
}

impl CaPin {
    /// The pin of a public key (PKIX DER).
    pub fn of_public_key(der: &[u8]) -> Self {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest(&SHA256, der).as_ref());
        Self(bytes)
    }

    pub fn of(certificate: &Leaf) -> Self {
        Self::of_public_key(&certificate.public_der)
    }

    /// The pins of all certificates in PEM text, in their order.
    pub fn of_pem(text: &[u8]) -> Result<Vec<Self>, CertificateError> {
        let certificates = certificate::read_leaves(text)?;
        Ok(certificates.iter().map(Self::of).collect())
    }

    /// Whether any of the authorities has any of the pins.
    pub fn any_matches(pins: &[Self], authorities: &[Self]) -> bool {
        authorities.iter().any(|found| pins.contains(found))
    }
}

impl FromStr for CaPin {
    type Err = PinFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (algorithm, hex) = text
            .split_once(':')
            .filter(|(_, hex)| !hex.contains(':'))
            .ok_or_else(|| PinFormatError::Form(text.to_owned()))?;
        if !algorithm.eq_ignore_ascii_case(ALGORITHM) {
            return Err(PinFormatError::Algorithm {
                text: text.to_owned(),
                algorithm: algorithm.to_owned(),
            });
        }
        let found = hex.chars().count();
        if found != 2 * SHA256_OUTPUT_LEN {
            return Err(PinFormatError::Length {
                text: text.to_owned(),
                found,
            });
        }
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = hex_byte(digits).ok_or_else(|| PinFormatError::NotHex(text.to_owned()))?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for CaPin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{ALGORITHM}:")?;
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for CaPin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaPin({self})")
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let &[high, low] = digits else {
        return None;
    };
    let value = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(value(high)? * 16 + value(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CA_PEM, CA_PIN, authority};

    #[test]
    fn the_pin_of_a_certificate_is_the_one_that_kubeadm_computes() {
        let pins = CaPin::of_pem(CA_PEM.as_bytes()).unwrap();
        assert_eq!(pins, [CA_PIN.parse().unwrap()]);
        assert_eq!(pins[0].to_string(), CA_PIN);
    }

    #[test]
    fn the_case_of_the_algorithm_and_of_the_digits_does_not_matter() {
        let upper = CA_PIN.to_uppercase();
        assert_eq!(upper.parse::<CaPin>(), CA_PIN.parse());
    }

    #[test]
    fn each_malformed_pin_is_refused_with_its_own_reason() {
        let long = format!("{CA_PIN}00");
        let not_hex = format!("sha256:{}", "0g".repeat(32));
        let wide = format!("sha256:{}", "\u{e9}".repeat(32));
        let form = |text: &str| PinFormatError::Form(text.to_owned());
        let length = |text: &str, found| PinFormatError::Length {
            text: text.to_owned(),
            found,
        };
        for (text, expected) in [
            ("", form("")),
            ("abc", form("abc")),
            ("sha256:ab:cd", form("sha256:ab:cd")),
            ("sha256:", length("sha256:", 0)),
            ("sha256:abc", length("sha256:abc", 3)),
            (&long, length(&long, 66)),
            (&wide, length(&wide, 32)),
            (&not_hex, PinFormatError::NotHex(not_hex.clone())),
            (
                "md5:00",
                PinFormatError::Algorithm {
                    text: "md5:00".to_owned(),
                    algorithm: "md5".to_owned(),
                },
            ),
        ] {
            assert_eq!(text.parse::<CaPin>(), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn one_pin_of_several_and_one_authority_of_several_suffice() {
        let bundle = format!("{}{CA_PEM}", authority("another"));
        let authorities = CaPin::of_pem(bundle.as_bytes()).unwrap();
        let right: CaPin = CA_PIN.parse().unwrap();
        let wrong: CaPin = format!("sha256:{}", "00".repeat(32)).parse().unwrap();
        assert!(CaPin::any_matches(&[wrong.clone(), right], &authorities));
        assert!(!CaPin::any_matches(&[wrong], &authorities));
        assert!(!CaPin::any_matches(&[], &authorities));
    }
}
