//! What is wrong with the fields of an object, in upstream's words, and the status that
//! is made of it.

use std::fmt::Display;

use http::StatusCode;
use serde_json::{Value, json};

use crate::Failure;
use crate::kinds::Kind;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Upstream's word for the kind of finding.
    pub reason: &'static str,
    /// `spec.containers[0].image`.
    pub field: String,
    /// `Required value`, or more.
    pub body: String,
}

impl FieldError {
    fn line(&self) -> String {
        match self.field.as_str() {
            "" => self.body.clone(),
            field => format!("{field}: {}", self.body),
        }
    }
}

/// What was found so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Errors(pub Vec<FieldError>);

impl Errors {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(
        &mut self,
        reason: &'static str,
        word: &str,
        field: impl Display,
        value: Option<&Value>,
        detail: &str,
    ) {
        let value = value.map(Value::to_string);
        let parts = [
            Some(word),
            value.as_deref(),
            Some(detail).filter(|detail| !detail.is_empty()),
        ];
        let body = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        self.0.push(FieldError {
            reason,
            field: field.to_string(),
            body,
        });
    }

    pub fn required(&mut self, field: impl Display, detail: &str) {
        self.add("FieldValueRequired", "Required value", field, None, detail);
    }

    pub fn forbidden(&mut self, field: impl Display, detail: &str) {
        self.add("FieldValueForbidden", "Forbidden", field, None, detail);
    }

    pub fn invalid(&mut self, field: impl Display, value: impl Into<Value>, detail: &str) {
        self.add(
            "FieldValueInvalid",
            "Invalid value",
            field,
            Some(&value.into()),
            detail,
        );
    }

    /// One finding for each message.
    pub fn invalid_all(
        &mut self,
        field: impl Display,
        value: impl Into<Value>,
        details: Vec<String>,
    ) {
        let value = value.into();
        for detail in details {
            self.add(
                "FieldValueInvalid",
                "Invalid value",
                &field,
                Some(&value),
                &detail,
            );
        }
    }

    pub fn duplicate(&mut self, field: impl Display, value: impl Into<Value>) {
        self.add(
            "FieldValueDuplicate",
            "Duplicate value",
            field,
            Some(&value.into()),
            "",
        );
    }

    /// With a value in a form that is not its JSON.
    pub fn duplicate_shown(&mut self, field: impl Display, shown: &str, detail: &str) {
        let word = format!("Duplicate value: {shown}");
        self.add("FieldValueDuplicate", &word, field, None, detail);
    }

    pub fn not_found(&mut self, field: impl Display, value: impl Into<Value>) {
        self.add(
            "FieldValueNotFound",
            "Not found",
            field,
            Some(&value.into()),
            "",
        );
    }

    pub fn internal(&mut self, field: impl Display, detail: &str) {
        self.add("InternalError", "Internal error", field, None, detail);
    }

    pub fn too_long(&mut self, field: impl Display, limit: usize) {
        let detail = format!("may not be more than {limit} bytes");
        self.add("FieldValueTooLong", "Too long", field, None, &detail);
    }

    pub fn too_many(&mut self, field: impl Display, found: usize, limit: usize) {
        let items = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {items}");
        self.add(
            "FieldValueTooMany",
            "Too many",
            field,
            Some(&found.into()),
            &detail,
        );
    }

    /// `value` is none of `allowed`.
    pub fn unsupported(&mut self, field: impl Display, value: impl Into<Value>, allowed: &[&str]) {
        let quoted: Vec<_> = allowed.iter().map(|text| format!("{text:?}")).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        self.add(
            "FieldValueNotSupported",
            "Unsupported value",
            field,
            Some(&value.into()),
            &detail,
        );
    }

    /// `value` must be one of `allowed`, and be there.
    pub fn choice(&mut self, field: impl Display, value: &str, allowed: &[&str]) {
        if value.is_empty() {
            self.required(field, "");
        } else if !allowed.contains(&value) {
            self.unsupported(field, value, allowed);
        }
    }

    /// The answer to who sent an object with these faults.
    pub fn into_result(self, kind: &Kind, name: &str) -> Result<(), Failure> {
        self.into_result_on(kind.kind, kind.group, name)
    }

    /// The same where what was sent is nothing that is kept, such as options.
    pub fn into_result_on(self, kind: &str, group: &str, name: &str) -> Result<(), Failure> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.failure(kind, group, name))
        }
    }

    fn failure(self, kind: &str, group: &str, name: &str) -> Failure {
        let causes = self.0.iter().map(|error| {
            let mut cause = json!({"reason": error.reason, "message": error.body});
            if !error.field.is_empty() {
                cause["field"] = error.field.as_str().into();
            }
            cause
        });
        let mut details = json!({"kind": kind, "causes": causes.collect::<Vec<_>>()});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        let mut qualified = kind.to_owned();
        if !group.is_empty() {
            details["group"] = group.into();
            qualified = format!("{qualified}.{group}");
        }
        let message = format!("{qualified} {name:?} is invalid: {}", self.words());
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(details)
    }

    /// All findings as upstream aggregates them: the same one only once.
    pub fn words(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for error in &self.0 {
            let line = error.line();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        match lines.as_slice() {
            [line] => line.clone(),
            lines => format!("[{}]", lines.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn findings_become_a_status_with_causes() {
        let mut errors = Errors::default();
        errors.required("spec.containers[0].image", "");
        errors.invalid("metadata.name", "A", "must be small");
        errors.unsupported("spec.os", "dos", &["linux", "windows"]);
        errors.invalid("metadata.name", "A", "must be small");
        let failure = errors.into_result(&kinds::PODS, "A").unwrap_err();
        assert_eq!(
            failure.message,
            r#"Pod "A" is invalid: [spec.containers[0].image: Required value, metadata.name: Invalid value: "A": must be small, spec.os: Unsupported value: "dos": supported values: "linux", "windows"]"#
        );
        assert_eq!(
            failure.details["causes"][0],
            json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"})
        );
        assert_eq!(failure.details["causes"].as_array().unwrap().len(), 4);
        let mut errors = Errors::default();
        errors.forbidden("spec", "no");
        let failure = errors.into_result(&kinds::LEASES, "l").unwrap_err();
        assert_eq!(
            failure.message,
            r#"Lease.coordination.k8s.io "l" is invalid: spec: Forbidden: no"#
        );
        assert_eq!(failure.details["group"], "coordination.k8s.io");
        assert_eq!(Errors::default().into_result(&kinds::PODS, "a"), Ok(()));
    }
}
