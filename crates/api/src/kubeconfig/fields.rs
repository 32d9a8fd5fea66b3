//! Typed reading of a tree of values, with the path of what is wrong.
//!
//! As upstream's decoder: unknown fields are passed over, `null` is "not there", and a value of
//! another type is an error wherever it stands. Empty text counts as not there, since no field of
//! a kubeconfig tells the two apart.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

/// A value that is not what its field takes. It never quotes the value: it may be a token.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{path}: {expected} is needed, and {found} is there{}", if *quote { "; put it in quotes" } else { "" })]
pub struct FieldError {
    pub path: String,
    expected: &'static str,
    found: &'static str,
    quote: bool,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// The fields of a mapping; none for `null`.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    entries: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: String::new(),
        }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn fields(self) -> Result<Fields<'a>, FieldError> {
        match self.value {
            Value::Null => Ok(Fields {
                entries: None,
                path: self.path,
            }),
            Value::Object(entries) => Ok(Fields {
                entries: Some(entries),
                path: self.path,
            }),
            _ => Err(self.is_not("a mapping")),
        }
    }

    fn text(&self) -> Result<Option<&'a str>, FieldError> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)
                .filter(|text| !text.is_empty())
                .map(String::as_str)),
            _ => Err(self.is_not("text")),
        }
    }

    fn items(self) -> Result<Vec<Node<'a>>, FieldError> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(values) => Ok(values
                .iter()
                .enumerate()
                .map(|(index, value)| Node {
                    value,
                    path: format!("{}[{index}]", self.path),
                })
                .collect()),
            _ => Err(self.is_not("a list")),
        }
    }

    fn texts(self) -> Result<Vec<String>, FieldError> {
        self.items()?
            .iter()
            .map(|item| Ok(item.text()?.unwrap_or_default().to_owned()))
            .collect()
    }

    fn is_not(&self, expected: &'static str) -> FieldError {
        let (found, scalar) = match self.value {
            Value::Null => ("nothing", false),
            Value::Bool(_) => ("a boolean", true),
            Value::Number(_) => ("a number", true),
            Value::String(_) => ("text", false),
            Value::Array(_) => ("a list", false),
            Value::Object(_) => ("a mapping", false),
        };
        let path = if self.path.is_empty() {
            "the top level".to_owned()
        } else {
            self.path.clone()
        };
        FieldError {
            path,
            expected,
            found,
            quote: scalar && expected == "text",
        }
    }
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, name: &str) -> Option<Node<'a>> {
        let value = self.entries?.get(name).filter(|value| !value.is_null())?;
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Some(Node { value, path })
    }

    /// The mapping in a field; an empty one where there is none.
    pub(super) fn fields(&self, name: &str) -> Result<Fields<'a>, FieldError> {
        match self.get(name) {
            Some(node) => node.fields(),
            None => Ok(Fields {
                entries: None,
                path: String::new(),
            }),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, FieldError> {
        Ok(self
            .get(name)
            .map(|node| node.text())
            .transpose()?
            .flatten()
            .map(str::to_owned))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, FieldError> {
        match self.get(name) {
            None => Ok(false),
            Some(Node {
                value: Value::Bool(flag),
                ..
            }) => Ok(*flag),
            Some(node) => Err(node.is_not("true or false")),
        }
    }

    pub(super) fn items(&self, name: &str) -> Result<Vec<Node<'a>>, FieldError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), Node::items)
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, FieldError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), Node::texts)
    }

    /// A mapping of names to lists of text.
    pub(super) fn text_lists(&self, name: &str) -> Result<Vec<(String, Vec<String>)>, FieldError> {
        let inner = self.fields(name)?;
        inner
            .entries
            .into_iter()
            .flat_map(Map::keys)
            .map(|key| Ok((key.clone(), inner.texts(key)?)))
            .collect()
    }

    /// Base64 text, decoded as Go does: lines may be broken, left-over bits are dropped.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, FieldError> {
        let Some(node) = self.get(name) else {
            return Ok(None);
        };
        let Some(text) = node.text()? else {
            return Ok(None);
        };
        let text: String = text
            .chars()
            .filter(|character| !matches!(character, '\n' | '\r'))
            .collect();
        let engine = GeneralPurpose::new(
            &alphabet::STANDARD,
            GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
        );
        let bytes = engine.decode(text).map_err(|_| FieldError {
            path: node.path,
            expected: "base64",
            found: "other text",
            quote: false,
        })?;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}
