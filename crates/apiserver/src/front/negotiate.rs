//! In which form a client wants its answer, and has written its request.

use http::{HeaderMap, StatusCode, header};

use crate::failure::Failure;
use crate::schema::protobuf;

/// What an object is answered as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Object,
    Table,
    Metadata,
}

/// What is read from `Accept`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) form: Form,
}

impl Wanted {
    /// The first form of a client's list that we have.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let lines = headers.get_all(header::ACCEPT).iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
        if lines.iter().all(|line| line.trim().is_empty()) {
            return Ok(Self::default());
        }
        let clauses = lines.iter().flat_map(|line| line.split(','));
        let forms = clauses.filter_map(|clause| form(clause.trim()));
        forms
            .into_iter()
            .next()
            .map(|form| Self { form })
            .ok_or_else(not_acceptable)
    }
}

fn form(clause: &str) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameter = |name: &str| {
        let mut parts = clause.split(';').map(str::trim);
        parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    };
    let ours = matches!(
        (parameter("g"), parameter("v")),
        (Some("meta.k8s.io"), Some("v1"))
    );
    match parameter("as") {
        None => Some(Form::Object),
        Some("Table") if ours => Some(Form::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") if ours => Some(Form::Metadata),
        // Forms of discovery are chosen there; of those here it is none.
        Some(_) => None,
    }
}

pub(super) fn not_acceptable() -> Failure {
    let message = "only the following media types are accepted: application/json, application/json;stream=watch";
    Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

/// What a body is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Json,
    /// Of generated clients, which know nothing else.
    Protobuf,
}

impl Language {
    /// A body without a type is taken for JSON.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let given = headers.get(header::CONTENT_TYPE);
        let given = given
            .and_then(|given| given.to_str().ok())
            .unwrap_or_default();
        match given.split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Ok(Self::Json),
            protobuf::MEDIA_TYPE => Ok(Self::Protobuf),
            _ => {
                let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/vnd.kubernetes.protobuf";
                let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Err(Failure::new(code, "UnsupportedMediaType", message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> Result<Form, StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Wanted::of(&headers)
            .map(|wanted| wanted.form)
            .map_err(|failure| failure.code)
    }

    #[test]
    fn the_first_form_that_there_is_counts() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        let protobuf = "application/vnd.kubernetes.protobuf";
        for (accept, expected) in [
            (kubectl, Ok(Form::Table)),
            ("application/json", Ok(Form::Object)),
            ("*/*", Ok(Form::Object)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Ok(Form::Object),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Ok(Form::Metadata),
            ),
            (protobuf, Err(StatusCode::NOT_ACCEPTABLE)),
            (
                "application/json;as=Bread;v=v1;g=meta.k8s.io",
                Err(StatusCode::NOT_ACCEPTABLE),
            ),
        ] {
            assert_eq!(wanted(accept), expected, "{accept}");
        }
        assert_eq!(Wanted::of(&HeaderMap::new()).unwrap().form, Form::Object);
    }

    #[test]
    fn a_body_is_json_or_protobuf_or_refused_with_what_would_be_read() {
        let language = |given: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, given.parse().unwrap());
            Language::of(&headers).map_err(|failure| failure.code)
        };
        assert_eq!(Language::of(&HeaderMap::new()).ok(), Some(Language::Json));
        assert_eq!(
            language("application/json; charset=utf-8"),
            Ok(Language::Json)
        );
        assert_eq!(
            language("application/vnd.kubernetes.protobuf"),
            Ok(Language::Protobuf)
        );
        assert_eq!(
            language("application/cbor"),
            Err(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        );
    }
}
