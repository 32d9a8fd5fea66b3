//! In which form somebody wants to have an object: what `Accept` says, as upstream's
//! servers read it.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::Value;

use crate::answer::Answer;
use crate::healthz::asked;

const GROUP: &str = "config.k8s.io";

/// More wishes than anybody has.
const MOST_CLAUSES: usize = 64;

/// What a refusal tells: what there would have been.
const FORMS: &str = "application/json, application/yaml, text/plain";

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    Json,
    /// For people: whoever asks with a browser or curl, or for `pretty`.
    Indented,
    Yaml,
}

/// The form in which somebody wants to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Object {
        notation: Notation,
        version: &'static str,
    },
}

/// There is no form that they want; and how they are told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwanted(Notation);

/// One wish of `Accept`.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    sub_kind: &'a str,
    weight: f32,
    words: Vec<(&'a str, &'a str)>,
}

/// The best wish that can be met; an object has to be wanted by its kind.
pub(crate) fn form(headers: &HeaderMap, query: &str, kind: &str) -> Result<Form, Unwanted> {
    let accept = header(headers, ACCEPT);
    if accept.trim().is_empty() {
        return Ok(Form::Text);
    }
    let clauses = clauses(accept);
    let indented = is_for_people(headers, query);
    let found = clauses
        .iter()
        .find_map(|clause| clause.form(kind, indented));
    found.ok_or_else(|| {
        // Written as they wanted the object, if they named no kind; else for people.
        let mut simple = clauses.iter().filter(|clause| !clause.names_object());
        let notation = simple.find_map(|clause| clause.notation(indented));
        Unwanted(notation.unwrap_or(Notation::Indented))
    })
}

impl<'a> Clause<'a> {
    /// `None`: what no server can make sense of.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media = parts.next().unwrap_or_default().trim();
        let (kind, sub_kind) = match media.split_once('/') {
            Some((_, rest)) if rest.contains('/') => return None,
            Some((kind, sub_kind)) => (kind.trim(), sub_kind.trim()),
            None if media == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self {
            kind,
            sub_kind,
            weight: 1.0,
            words: Vec::new(),
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => clause.weight = value.parse().unwrap_or_default(),
                name => clause.words.push((name, value.trim())),
            }
        }
        Some(clause)
    }

    fn word(&self, wanted: &str) -> Option<&'a str> {
        let of_name = self.words.iter().filter(|(name, _)| *name == wanted);
        of_name.map(|(_, value)| *value).next_back()
    }

    fn names_object(&self) -> bool {
        ["as", "g", "v"]
            .iter()
            .any(|name| self.word(name).is_some())
    }

    fn covers(&self, kind: &str, sub_kind: &str) -> bool {
        (self.kind == kind && (self.sub_kind == sub_kind || self.sub_kind == "*"))
            || (self.kind == "*" && self.sub_kind == "*")
    }

    fn notation(&self, indented: bool) -> Option<Notation> {
        if self.covers("application", "json") {
            let indented = indented || self.word("pretty") == Some("1");
            return Some(if indented {
                Notation::Indented
            } else {
                Notation::Json
            });
        }
        self.covers("application", "yaml").then_some(Notation::Yaml)
    }

    fn form(&self, kind: &str, indented: bool) -> Option<Form> {
        // Neither is there: a version of the server's own, or a stream.
        let lacking = |name| self.word(name).is_some_and(|value| !value.is_empty());
        if lacking("sv") || lacking("stream") {
            return None;
        }
        if !self.names_object() {
            return self.covers("text", "plain").then_some(Form::Text);
        }
        let named = (self.word("as"), self.word("g"), self.word("v"));
        let version = match named {
            (Some(named), Some(GROUP), Some("v1alpha1")) if named == kind => "v1alpha1",
            (Some(named), Some(GROUP), Some("v1beta1")) if named == kind => "v1beta1",
            _ => return None,
        };
        let notation = self.notation(indented)?;
        Some(Form::Object { notation, version })
    }
}

/// What they want most comes first, what they name before what they leave open.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let clauses = accept.split(',').take(MOST_CLAUSES);
    let mut clauses: Vec<Clause<'_>> = clauses.filter_map(Clause::parse).collect();
    clauses.sort_by(|one, other| {
        let openness = |clause: &Clause<'_>| (clause.kind == "*", clause.sub_kind == "*");
        let weights = other.weight.total_cmp(&one.weight);
        weights.then_with(|| openness(one).cmp(&openness(other)))
    });
    clauses
}

fn is_for_people(headers: &HeaderMap, query: &str) -> bool {
    let asked = asked(query);
    let pretty = asked.iter().find(|(name, _)| name == "pretty");
    if let Some((_, value)) = pretty
        && !value.is_empty()
    {
        return matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = header(headers, USER_AGENT);
    let people = ["curl", "Wget", "Mozilla/5.0"];
    people.iter().any(|start| agent.starts_with(start))
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> &str {
    let value = headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// An object of this server's: who it is about, and what it says.
#[derive(Serialize)]
struct Object<'a, T> {
    kind: &'a str,
    #[serde(rename = "apiVersion")]
    api_version: String,
    metadata: Metadata<'a>,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
}

/// The object as it was wanted; the answer names its whole kind.
pub(crate) fn object(
    (kind, version): (&str, &str),
    notation: Notation,
    name: &str,
    content: impl Serialize,
) -> Answer {
    let object = Object {
        kind,
        api_version: format!("{GROUP}/{version}"),
        metadata: Metadata { name },
        content,
    };
    let media = media(notation);
    let media = format!("{media};g={GROUP};v={version};as={kind}");
    answer(StatusCode::OK, &media, written(notation, &object))
}

/// What the API calls a status.
#[derive(Serialize)]
struct Refusal {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Value,
    status: &'static str,
    message: String,
    reason: &'static str,
    code: u16,
}

impl Unwanted {
    pub(crate) fn answer(self) -> Answer {
        let refusal = Refusal {
            kind: "Status",
            api_version: "v1",
            metadata: Value::Object(serde_json::Map::new()),
            status: "Failure",
            message: format!("only the following media types are accepted: {FORMS}"),
            reason: "NotAcceptable",
            code: StatusCode::NOT_ACCEPTABLE.as_u16(),
        };
        let written = written(self.0, &refusal);
        answer(StatusCode::NOT_ACCEPTABLE, media(self.0), written)
    }
}

fn media(notation: Notation) -> &'static str {
    match notation {
        Notation::Json | Notation::Indented => "application/json",
        Notation::Yaml => "application/yaml",
    }
}

/// None of what is written here can fail to be.
fn written(notation: Notation, object: &impl Serialize) -> String {
    match notation {
        Notation::Json => serde_json::to_string(object).unwrap_or_default() + "\n",
        Notation::Indented => serde_json::to_string_pretty(object).unwrap_or_default(),
        // By name, as upstream's are.
        Notation::Yaml => {
            let object = serde_json::to_value(object).unwrap_or_default();
            serde_saphyr::to_string(&object).unwrap_or_default()
        }
    }
}

fn answer(status: StatusCode, media: &str, written: String) -> Answer {
    let mut answer = Response::new(Full::new(written.into()));
    *answer.status_mut() = status;
    if let Ok(media) = HeaderValue::from_str(media) {
        answer.headers_mut().insert(CONTENT_TYPE, media);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        headers
    }

    #[test]
    fn an_object_is_for_those_who_name_its_kind() {
        let object = |notation, version| Ok(Form::Object { notation, version });
        let no = |notation| Err(Unwanted(notation));
        for (accept, wanted) in [
            ("", Ok(Form::Text)),
            ("*/*", Ok(Form::Text)),
            ("*", Ok(Form::Text)),
            ("text/*", Ok(Form::Text)),
            ("text/plain", Ok(Form::Text)),
            ("application/json", no(Notation::Json)),
            ("application/*", no(Notation::Json)),
            ("application/json;pretty=1", no(Notation::Indented)),
            ("application/yaml", no(Notation::Yaml)),
            ("application/json, text/plain;q=0.5", Ok(Form::Text)),
            (
                "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
                object(Notation::Json, "v1beta1"),
            ),
            (
                "*/*;as=Statusz;v=v1beta1;g=config.k8s.io",
                object(Notation::Json, "v1beta1"),
            ),
            (
                "application/yaml; g=config.k8s.io; v=v1alpha1; as=Statusz",
                object(Notation::Yaml, "v1alpha1"),
            ),
            (
                "text/plain;q=0.5, application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
                object(Notation::Json, "v1beta1"),
            ),
            (
                "application/json;as=Flagz;v=v1beta1;g=config.k8s.io",
                no(Notation::Indented),
            ),
            (
                "application/json;as=Statusz;v=v1;g=config.k8s.io",
                no(Notation::Indented),
            ),
            (
                "application/json;as=Statusz;v=v1beta1",
                no(Notation::Indented),
            ),
            (
                "text/plain;as=Statusz;v=v1beta1;g=config.k8s.io",
                no(Notation::Indented),
            ),
            ("text/plain;stream=watch", no(Notation::Indented)),
            ("application/xml", no(Notation::Indented)),
            ("nonsense", no(Notation::Indented)),
        ] {
            assert_eq!(form(&wants(accept), "", "Statusz"), wanted, "{accept}");
        }
    }

    #[test]
    fn people_get_lines() {
        for (agent, query, indented) in [
            ("curl/8.0", "", true),
            ("curl/8.0", "pretty=false", false),
            ("Go-http-client/1.1", "", false),
            ("Go-http-client/1.1", "pretty=true", true),
            ("Mozilla/5.0 (X11)", "pretty", true),
        ] {
            let mut headers = wants("application/json");
            headers.insert(USER_AGENT, HeaderValue::from_str(agent).unwrap());
            assert_eq!(is_for_people(&headers, query), indented, "{agent} {query}");
        }
    }

    #[test]
    fn a_refusal_is_an_object_that_says_what_there_is() {
        let answer = Unwanted(Notation::Indented).answer();
        assert_eq!(answer.status(), StatusCode::NOT_ACCEPTABLE);
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
        let refusal = written(Notation::Json, &serde_json::json!({ "a": 1 }));
        assert_eq!(refusal, "{\"a\":1}\n");
        let named = object(("Flagz", "v1beta1"), Notation::Yaml, "kubelet", Value::Null);
        assert_eq!(
            named.headers()[CONTENT_TYPE],
            "application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz"
        );
    }
}
