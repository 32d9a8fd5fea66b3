//! Whom a certificate is for, as people write it: `/CN=mary/O=dev` as for openssl,
//! or `CN=mary,O=dev`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Whom a certificate is for: its parts in the order given. Kubernetes takes the
/// common name for the user and each organization for a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    parts: Vec<(Attribute, String)>,
}

/// A part's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    CommonName,
    Organization,
    OrganizationalUnit,
    Country,
    Locality,
    State,
}

impl Attribute {
    fn of(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "CN" => Self::CommonName,
            "O" => Self::Organization,
            "OU" => Self::OrganizationalUnit,
            "C" => Self::Country,
            "L" => Self::Locality,
            "ST" => Self::State,
            _ => return None,
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::CommonName => "CN",
            Self::Organization => "O",
            Self::OrganizationalUnit => "OU",
            Self::Country => "C",
            Self::Locality => "L",
            Self::State => "ST",
        }
    }

    /// The last number of its object identifier below X.520's (2.5.4).
    pub(super) fn x520(self) -> u8 {
        match self {
            Self::CommonName => 3,
            Self::Country => 6,
            Self::Locality => 7,
            Self::State => 8,
            Self::Organization => 10,
            Self::OrganizationalUnit => 11,
        }
    }
}

/// Why a text names nobody.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubjectError {
    #[error(
        "the subject {0:?} has no CN, and so no user; write it as CN=mary,O=dev or /CN=mary/O=dev"
    )]
    NoCommonName(String),
    #[error("the subject {0:?} has more than one CN; a certificate is for one user")]
    SeveralCommonNames(String),
    #[error(
        "the part {0:?} of the subject is not of the form NAME=VALUE; put a backslash before a separator that belongs to a value"
    )]
    Form(String),
    #[error(
        "the part {0:?} of the subject is of no known kind; the kinds are CN, O, OU, C, L and ST"
    )]
    Kind(String),
    #[error("the part {0:?} of the subject has no value")]
    Empty(String),
    #[error("the part {0:?} of the subject is not a country's code of two letters")]
    Country(String),
}

impl Subject {
    pub fn common_name(&self) -> &str {
        self.all(Attribute::CommonName).next().unwrap_or_default()
    }

    pub fn organizations(&self) -> Vec<&str> {
        self.all(Attribute::Organization).collect()
    }

    pub(super) fn parts(&self) -> &[(Attribute, String)] {
        &self.parts
    }

    fn all(&self, attribute: Attribute) -> impl Iterator<Item = &str> {
        let of_it = self
            .parts
            .iter()
            .filter(move |(kind, _)| *kind == attribute);
        of_it.map(|(_, value)| value.as_str())
    }
}

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (separator, body) = match text.strip_prefix('/') {
            Some(body) => ('/', body),
            None => (',', text),
        };
        let parts = split(body, separator)
            .iter()
            .map(|part| read_part(part))
            .collect::<Result<_, _>>()?;
        let subject = Self { parts };
        let count = subject.all(Attribute::CommonName).count();
        match count {
            0 => Err(SubjectError::NoCommonName(text.to_owned())),
            1 => Ok(subject),
            _ => Err(SubjectError::SeveralCommonNames(text.to_owned())),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (attribute, value)) in self.parts.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let value = value.replace('\\', "\\\\").replace(',', "\\,");
            write!(formatter, "{separator}{}={value}", attribute.text())?;
        }
        Ok(())
    }
}

/// The parts between separators. A backslash makes the next character one of the
/// value.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == separator {
            parts.push(String::new());
            continue;
        }
        let literal = if character == '\\' {
            characters.next()
        } else {
            Some(character)
        };
        if let Some(part) = parts.last_mut() {
            part.extend(literal);
        }
    }
    parts
}

fn read_part(part: &str) -> Result<(Attribute, String), SubjectError> {
    let (kind, value) = part
        .split_once('=')
        .ok_or_else(|| SubjectError::Form(part.to_owned()))?;
    let attribute =
        Attribute::of(kind.trim()).ok_or_else(|| SubjectError::Kind(part.to_owned()))?;
    let value = value.trim();
    if value.is_empty() {
        return Err(SubjectError::Empty(part.to_owned()));
    }
    let two_letters = value.len() == 2 && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    if attribute == Attribute::Country && !two_letters {
        return Err(SubjectError::Country(part.to_owned()));
    }
    Ok((attribute, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Result<Subject, SubjectError> {
        text.parse()
    }

    #[test]
    fn both_ways_of_writing_mean_the_same() {
        let expected = subject("CN=system:node:a,O=system:nodes").unwrap();
        assert_eq!(expected.common_name(), "system:node:a");
        assert_eq!(expected.organizations(), ["system:nodes"]);
        for text in [
            "/CN=system:node:a/O=system:nodes",
            "cn=system:node:a, o=system:nodes",
            " CN = system:node:a , O = system:nodes ",
        ] {
            assert_eq!(subject(text), Ok(expected.clone()), "{text}");
        }
    }

    #[test]
    fn the_order_several_groups_and_escaped_separators_are_kept() {
        let text = r"O=a,OU=x,CN=mary,O=b\,c,C=FR";
        let parsed = subject(text).unwrap();
        assert_eq!(parsed.organizations(), ["a", "b,c"]);
        assert_eq!(parsed.to_string(), text);
        let slashes = subject(r"/CN=a\/b=c/O=x,y").unwrap();
        assert_eq!(slashes.common_name(), "a/b=c");
        assert_eq!(slashes.organizations(), ["x,y"]);
    }

    #[test]
    fn each_fault_is_told() {
        let text = |text: &str| text.to_owned();
        for (bad, expected) in [
            ("", SubjectError::Form(text(""))),
            ("mary", SubjectError::Form(text("mary"))),
            ("CN=mary,dev", SubjectError::Form(text("dev"))),
            ("O=dev", SubjectError::NoCommonName(text("O=dev"))),
            (
                "CN=a,CN=b",
                SubjectError::SeveralCommonNames(text("CN=a,CN=b")),
            ),
            ("CN=", SubjectError::Empty(text("CN="))),
            ("CN=a,UID=1", SubjectError::Kind(text("UID=1"))),
            ("CN=a,C=France", SubjectError::Country(text("C=France"))),
        ] {
            assert_eq!(subject(bad), Err(expected), "{bad:?}");
        }
    }
}
