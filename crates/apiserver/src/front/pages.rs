//! What is no object: versions, health, discovery, schemas.

use http::{Method, Request, StatusCode, header};

use super::answer::{self, Answer, Body};
use super::desk::Desk;
use crate::failure::Failure;
use crate::{discovery, openapi};

pub(super) fn answer(desk: &Desk, request: &Request<Body>) -> Result<Answer, Failure> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed());
    }
    let path = request.uri().path().trim_matches('/');
    let words: Vec<&str> = path.split('/').collect();
    let found = match words.as_slice() {
        [""] => Some(discovery::paths()),
        ["version"] => Some(discovery::version()),
        ["healthz" | "livez" | "readyz", ..] => return Ok(answer::text(StatusCode::OK, "ok")),
        ["api"] if wants_all(request) => return Ok(all(&discovery::aggregated_core())),
        ["apis"] if wants_all(request) => return Ok(all(&discovery::aggregated_groups())),
        ["api"] => Some(discovery::core_versions(&desk.parts.address)),
        ["apis"] => Some(discovery::groups()),
        ["api", version] => discovery::resources("", version),
        ["apis", group] => discovery::group(group),
        ["apis", group, version] => discovery::resources(group, version),
        ["openapi", "v3"] => Some(openapi::index()),
        ["openapi", "v3", "api", version] => openapi::document("", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(group, version),
        _ => None,
    };
    let found = found.ok_or_else(|| {
        // Outside of the API upstream says no more than this.
        let message = "the server could not find the requested resource";
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message)
    })?;
    Ok(answer::value(StatusCode::OK, &found))
}

/// Whether a client asks for all resources at once.
fn wants_all(request: &Request<Body>) -> bool {
    let lines = request.headers().get_all(header::ACCEPT).iter();
    let clauses = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    clauses.into_iter().any(|clause| {
        let has = |word: &str| clause.split(';').any(|part| part.trim() == word);
        has("application/json") && has("v=v2") && has("as=APIGroupDiscoveryList")
    })
}

fn all(list: &serde_json::Value) -> Answer {
    let mut answer = answer::value(StatusCode::OK, list);
    let media_type = header::HeaderValue::from_static(discovery::AGGREGATED);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    answer
}
