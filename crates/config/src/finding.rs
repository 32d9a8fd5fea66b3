//! What is wrong with a configuration, said so that the reader can mend it:
//! where it stands, what was found, what is allowed, what was perhaps meant.

use std::fmt;
use std::sync::Arc;

use crate::source::Place;

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub file: Arc<str>,
    pub place: Place,
}

impl fmt::Display for Spot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        // As compilers print it: editors know how to go there.
        if self.place.is_known() {
            write!(formatter, "{}:{line}:{column}", self.file)
        } else {
            formatter.write_str(&self.file)
        }
    }
}

/// What kind of fault it is: a kubelet forgives some, `config validate` none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Cannot be read at all.
    Syntax,
    /// Not a `KubeletConfiguration` v1beta1.
    Header,
    /// A field that does not exist. A kubelet skips it.
    Unknown,
    /// A key that stands twice. A kubelet takes the last one, but refuses it in
    /// a drop-in.
    Duplicate,
    /// A value of another type.
    Type,
    /// A value of the right type that is not allowed.
    Value,
    /// A feature gate that does not exist or cannot be set so.
    Gate,
    /// Accepted, with something to say about it.
    Notice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub class: Class,
    pub spot: Option<Spot>,
    /// The field, with indexes of lists; empty for the file as a whole.
    pub path: String,
    /// What was found and what is allowed, as a sentence without its end.
    pub message: String,
    /// The next step, if there is one to name.
    pub advice: Option<String>,
}

impl Finding {
    pub fn new(class: Class, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            class,
            spot: None,
            path: path.into(),
            message: message.into(),
            advice: None,
        }
    }

    #[must_use]
    pub fn at(mut self, spot: Option<Spot>) -> Self {
        self.spot = spot;
        self
    }

    #[must_use]
    pub fn advise(mut self, advice: Option<String>) -> Self {
        self.advice = advice;
        self
    }

    pub fn is_error(&self) -> bool {
        self.class != Class::Notice
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(spot) = &self.spot {
            write!(formatter, "{spot}: ")?;
        }
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)?;
        if let Some(advice) = &self.advice {
            write!(formatter, "; {advice}")?;
        }
        Ok(())
    }
}

/// The last word of a message about a misspelt name.
pub(crate) fn did_you_mean(nearest: Option<&str>) -> Option<String> {
    nearest.map(|name| format!("did you mean {name}?"))
}
