//! What is answered when something cannot be done: `metav1.Status`, in upstream's words.

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// An answer that is not a success.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: StatusCode,
    /// Upstream's word for the kind of failure; empty when it has none.
    pub reason: &'static str,
    pub message: String,
    /// `details` of the status, or null.
    pub details: Value,
    /// For the header `Retry-After`, which is also in the details.
    pub retry_after: Option<u32>,
    /// How a list that has expired can go on all the same.
    pub continued: Option<Box<str>>,
    /// What the writer should know beside it.
    pub warnings: Box<[String]>,
}

impl Failure {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            continued: None,
            warnings: Box::default(),
        }
    }

    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self { details, ..self }
    }

    #[must_use]
    pub fn with_warnings(self, warnings: &[String]) -> Self {
        let warnings = warnings.into();
        Self { warnings, ..self }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(named(kind, name))
    }

    /// There is no such path.
    pub fn no_such_page() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(json!({}))
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", kind.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(named(kind, name))
    }

    pub fn conflict(kind: &Kind, name: &str, cause: impl AsRef<str>) -> Self {
        Self::conflict_on(kind.plural, kind, name, cause)
    }

    /// The same where upstream calls the resource by another word, such as its kind.
    pub fn conflict_on(word: &str, kind: &Kind, name: &str, cause: impl AsRef<str>) -> Self {
        let qualified = match kind.group {
            "" => word.to_owned(),
            group => format!("{word}.{group}"),
        };
        let message = format!(
            "Operation cannot be fulfilled on {qualified} \"{name}\": {}",
            cause.as_ref()
        );
        let mut details = named(kind, name);
        details["kind"] = word.into();
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details)
    }

    /// The object changed under the writer's hands.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(kind: &Kind, name: &str, cause: impl AsRef<str>) -> Self {
        let what = match name {
            "" => kind.qualified(),
            name => format!("{} \"{name}\"", kind.qualified()),
        };
        let message = format!("{what} is forbidden: {}", cause.as_ref());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(named(kind, name))
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
            .with_details(json!({}))
    }

    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {cause}");
        let details = json!({"causes": [{"message": cause.to_string()}]});
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message).with_details(details)
    }

    /// The revision that was asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        if let Some(token) = &self.continued {
            status["metadata"]["continue"] = (&**token).into();
        }
        status
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Which object a status speaks of. Upstream calls the plural name `kind` here.
fn named(kind: &Kind, name: &str) -> Value {
    let mut details = json!({"kind": kind.plural});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !kind.group.is_empty() {
        details["group"] = kind.group.into();
    }
    details
}
