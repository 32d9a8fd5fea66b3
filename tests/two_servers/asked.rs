//! A request as it is meant: both servers are asked the same, each with names of its own for
//! what only it knows (revisions, uids, names that it made up, pages).

use std::fmt;

use http::Method;
use serde_json::Value;

/// Which resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Pod,
}

pub(crate) const KINDS: [Kind; 2] = [Kind::ConfigMap, Kind::Pod];

impl Kind {
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Pod => "pods",
        }
    }
}

/// Where in a request something goes that each server has its own word for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Own {
    /// The uid of what was last seen under this name.
    Uid(Kind, String),
    /// The revision of it.
    Version(Kind, String),
    /// Of a write of this sequence, counted from its beginning.
    Past(usize),
    /// How the last list goes on.
    Continue,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    None,
    /// With what belongs at these places (JSON pointers) put in.
    Json(Value, Vec<(&'static str, Own)>),
    /// The object that was last seen under this name, with these places changed.
    Seen {
        kind: Kind,
        name: String,
        otherwise: Value,
        changes: Vec<(&'static str, Value)>,
        own: Vec<(&'static str, Own)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) kind: Kind,
    /// After the namespace and the resource: a name and a subresource, or nothing.
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) own: Vec<(&'static str, Own)>,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Body,
}

pub(crate) const JSON: &str = "application/json";

impl Asked {
    pub(crate) fn new(method: Method, kind: Kind, path: impl Into<String>) -> Self {
        Self {
            method,
            kind,
            path: path.into(),
            query: Vec::new(),
            own: Vec::new(),
            content_type: JSON,
            accept: JSON,
            body: Body::None,
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    #[must_use]
    pub(crate) fn with_own(mut self, key: &'static str, own: Own) -> Self {
        self.own.push((key, own));
        self
    }

    #[must_use]
    pub(crate) fn body(self, body: Body) -> Self {
        Self { body, ..self }
    }

    /// Whether it is there to change something.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.method, self.kind.plural())?;
        if !self.path.is_empty() {
            write!(out, "/{}", self.path)?;
        }
        for (key, value) in &self.query {
            write!(out, " {key}={value}")?;
        }
        for (key, own) in &self.own {
            write!(out, " {key}={own:?}")?;
        }
        if self.accept != JSON {
            write!(out, " accept={}", self.accept)?;
        }
        match &self.body {
            Body::None => Ok(()),
            Body::Json(value, own) => write!(out, " {} {value} {own:?}", self.content_type),
            Body::Seen {
                name, changes, own, ..
            } => {
                write!(out, " {name} as seen, with")?;
                for (place, value) in changes {
                    write!(out, " {place}={value}")?;
                }
                write!(out, " {own:?}")
            }
        }
    }
}
