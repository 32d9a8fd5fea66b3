//! Bootstrap tokens: six public characters, a dot, sixteen secret ones.

mod join_command;
mod listed;
mod spec;
mod store;

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

pub use join_command::{Discovery, JoinCommand};
pub use listed::{BrokenToken, Expiry, ListedToken, StoredToken, read_secret};
pub use spec::{DEFAULT_GROUP, DEFAULT_TTL, SpecError, TokenSpec, Usage, validate_group};
pub use store::{TokenError, create, delete, list, secret_name};

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A bootstrap token. `Debug` shows its id only.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    secret: String,
}

/// The public part of a token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

/// Why a text is no token. It never repeats the text: it may be most of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenFormatError {
    #[error(
        "the bootstrap token is not of the form ID.SECRET with 6 and 16 characters of a-z and 0-9 (abcdef.0123456789abcdef); `ferrolet token create` prints a whole one"
    )]
    Token,
    #[error(
        "the token id {0:?} is not made of 6 characters of a-z and 0-9; `ferrolet token list` shows the ids that there are"
    )]
    Id(String),
    #[error("the system's random source failed, so no token was made; try again")]
    Random,
}

impl Token {
    /// A fresh token. Every character is equally likely: bytes that would favour
    /// the first ones are drawn again.
    pub fn generate() -> Result<Self, TokenFormatError> {
        let random = SystemRandom::new();
        Ok(Self {
            id: TokenId(random_text(&random, ID_LENGTH)?),
            secret: random_text(&random, SECRET_LENGTH)?,
        })
    }

    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// The secret half, for the wire.
    pub fn expose_secret(&self) -> &str {
        &self.secret
    }

    /// The whole token, for whoever may have it.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id.0, self.secret)
    }
}

impl FromStr for Token {
    type Err = TokenFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, secret) = text.split_once('.').ok_or(TokenFormatError::Token)?;
        if !is_made_of(id, ID_LENGTH) || !is_made_of(secret, SECRET_LENGTH) {
            return Err(TokenFormatError::Token);
        }
        Ok(Self {
            id: TokenId(id.to_owned()),
            secret: secret.to_owned(),
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token({}.(hidden))", self.id.0)
    }
}

impl TokenId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id alone or a whole token, whose secret is then of no interest: what
    /// `token delete` is given.
    pub fn of_token_or_id(text: &str) -> Result<Self, TokenFormatError> {
        if text.contains('.') {
            return Ok(text.parse::<Token>()?.id);
        }
        text.parse()
    }
}

impl FromStr for TokenId {
    type Err = TokenFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !is_made_of(text, ID_LENGTH) {
            return Err(TokenFormatError::Id(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn is_made_of(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

fn random_text(random: &SystemRandom, length: usize) -> Result<String, TokenFormatError> {
    let mut text = String::with_capacity(length);
    let mut byte = [0];
    while text.len() < length {
        random
            .fill(&mut byte)
            .map_err(|_| TokenFormatError::Random)?;
        text.extend(character(byte[0]));
    }
    Ok(text)
}

/// A character for a random byte; none for those beyond the largest multiple of
/// the alphabet's size.
fn character(byte: u8) -> Option<char> {
    let (drawn, size) = (usize::from(byte), ALPHABET.len());
    let limit = usize::from(u8::MAX) / size * size;
    (drawn < limit).then(|| char::from(ALPHABET[drawn % size]))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const GOOD: &str = "abcdef.0123456789abcdef";

    #[test]
    fn a_token_is_six_and_sixteen_lower_case_letters_and_digits() {
        let token: Token = GOOD.parse().unwrap();
        assert_eq!(
            (token.id().as_str(), token.expose_secret()),
            ("abcdef", "0123456789abcdef")
        );
        assert_eq!(token.expose(), GOOD);
        for bad in [
            "",
            ".",
            "abcdef",
            "abcdef.",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef0",
            "abcde.0123456789abcdef",
            "abcdefg.0123456789abcdef",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789ABCDEF",
            "abcdef.0123456789abcdef\n",
            " abcdef.0123456789abcdef",
            "abcdef:0123456789abcdef",
            "abcdef..123456789abcdef",
            "abcd\u{e9}.0123456789abcdef",
        ] {
            assert_eq!(
                bad.parse::<Token>(),
                Err(TokenFormatError::Token),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_secret_is_neither_in_the_debug_text_nor_in_an_error() {
        let token: Token = GOOD.parse().unwrap();
        assert_eq!(format!("{token:?}"), "Token(abcdef.(hidden))");
        let error = "abcdef.0123456789abcdeX".parse::<Token>().unwrap_err();
        assert!(!error.to_string().contains("123456789abcdeX"));
    }

    #[test]
    fn what_is_deleted_may_be_named_by_id_or_by_token() {
        for text in ["abcdef", GOOD] {
            assert_eq!(TokenId::of_token_or_id(text).unwrap().as_str(), "abcdef");
        }
        for bad in ["", "abcde", "ABCDEF", "abcdef.short"] {
            assert!(TokenId::of_token_or_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_character_is_equally_likely() {
        let mut counts = BTreeMap::new();
        for character in (0..=u8::MAX).filter_map(character) {
            *counts.entry(character).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), ALPHABET.len());
        assert!(counts.values().all(|count| *count == 7), "{counts:?}");
    }

    #[test]
    fn fresh_tokens_are_valid_differ_and_use_the_whole_alphabet() {
        let tokens: BTreeSet<String> = (0..200)
            .map(|_| Token::generate().unwrap().expose())
            .collect();
        assert_eq!(tokens.len(), 200);
        let used: BTreeSet<u8> = tokens.iter().flat_map(|token| token.bytes()).collect();
        assert_eq!(used.len(), ALPHABET.len() + 1, "36 characters and the dot");
        for token in &tokens {
            token.parse::<Token>().unwrap();
        }
    }
}
