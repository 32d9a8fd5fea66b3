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
        [page @ ("healthz" | "livez" | "readyz"), checks @ ..] => {
            let is_failing = desk.parts.objects.store().is_failing();
            return Ok(health(page, checks, is_failing));
        }
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

/// How the server is, in upstream's form: the store is what it calls etcd.
fn health(page: &str, checks: &[&str], store_fails: bool) -> Answer {
    let asked = checks.first().is_none_or(|check| check.starts_with("etcd"));
    if asked && store_fails {
        let words = format!("[+]ping ok\n[-]etcd failed: reason withheld\n{page} check failed\n");
        return answer::text(StatusCode::INTERNAL_SERVER_ERROR, words);
    }
    answer::text(StatusCode::OK, "ok")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_store_cannot_be_written_is_not_well() {
        for (page, checks, store_fails, well) in [
            ("readyz", &[][..], false, true),
            ("readyz", &[], true, false),
            ("livez", &[], true, false),
            ("livez", &["etcd"], true, false),
            ("readyz", &["etcd-readiness"], true, false),
            ("livez", &["ping"], true, true),
        ] {
            let code = health(page, checks, store_fails).status();
            assert_eq!(code.is_success(), well, "{page} {checks:?}");
        }
    }
}
