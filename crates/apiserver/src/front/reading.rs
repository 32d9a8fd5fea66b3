//! Bodies of requests, read as the objects that they should be.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use super::answer::Body;
use super::negotiate::Language;
use super::query::Query;
use crate::failure::Failure;
use crate::schema;

/// Upstream's.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// What becomes of fields that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    Ignore,
    Warn,
    Strict,
}

impl Strictness {
    pub(super) fn of(query: &Query) -> Result<Self, Failure> {
        match query.text("fieldValidation") {
            "" | "Warn" => Ok(Self::Warn),
            "Ignore" => Ok(Self::Ignore),
            "Strict" => Ok(Self::Strict),
            other => Err(Failure::bad_request(format!(
                "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }
}

/// The kind of object that a body should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
}

pub(super) async fn body(request: Request<Body>) -> Result<Bytes, Failure> {
    let read = Limited::new(request.into_body(), LARGEST_BODY)
        .collect()
        .await;
    match read {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {LARGEST_BODY}"),
        )),
        Err(error) => Err(Failure::bad_request(format!(
            "the body cannot be read: {error}"
        ))),
    }
}

/// The object in a body, without what nobody knows, and warnings of that.
pub(super) fn object(
    expected: Expected<'_>,
    language: Language,
    body: &[u8],
    strictness: Strictness,
) -> Result<(Value, Vec<String>), Failure> {
    if language == Language::Protobuf {
        let object = from_protobuf(expected.kind, body)?;
        return checked(expected, object, &[], strictness);
    }
    let (object, duplicates) = schema::read(body).map_err(|error| {
        Failure::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })?;
    checked(expected, object, &duplicates, strictness)
}

pub(super) fn from_protobuf(kind: &str, body: &[u8]) -> Result<Value, Failure> {
    let read = schema::protobuf::read(body, kind);
    read.map_err(|error| Failure::bad_request(error.to_string()))
}

/// The same for what was parsed already.
pub(super) fn checked(
    expected: Expected<'_>,
    mut object: Value,
    duplicates: &[String],
    strictness: Strictness,
) -> Result<(Value, Vec<String>), Failure> {
    let Expected { api_version, kind } = expected;
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let unfit = |cause: &str| {
        Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {cause}"
        ))
    };
    if object.is_object() {
        let given = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let (given_version, given_kind) = (given("apiVersion"), given("kind"));
        if !given_version.is_empty() && given_version != api_version {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
            )));
        }
        if !given_kind.is_empty() && given_kind != kind {
            return Err(Failure::bad_request(format!(
                "{given_kind} in version {version:?} cannot be handled as a {kind}: no kind {given_kind:?} is served here"
            )));
        }
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
    }
    let decoded = schema::decode(kind, object).map_err(|error| unfit(&error.0))?;
    let findings = schema::strict_findings(&decoded.unknown, duplicates);
    match strictness {
        Strictness::Strict if !findings.is_empty() => Err(unfit(&schema::strict_error(&findings))),
        Strictness::Warn => Ok((decoded.object, findings)),
        _ => Ok((decoded.object, Vec::new())),
    }
}
