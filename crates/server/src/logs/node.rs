//! `/logs/`: the files below `/var/log`, shown as Go's file server shows them; and with
//! a query, what the machine's services have written.

mod content;
mod files;
mod journal;
mod kind;
mod listing;
mod pattern;
mod query;
mod ranges;

use std::path::Path;

use http::header::{ALLOW, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use seams::host::Below;
use seams::{SharedClock, SharedHost};

use crate::answer::{text, unguessed};
use crate::body::{Body, full, whole};
use crate::query::Query;
use query::{Asked, NodeQuery};

/// Where a machine's logs are.
const ROOT: &str = "/var/log";

const PREFIX: &str = "/logs/";

/// The answers of `/logs/`.
#[derive(Clone, Debug)]
pub struct NodeLogs {
    pub host: SharedHost,
    pub clock: SharedClock,
    /// `enableSystemLogQuery`: whether services may be asked for.
    pub queries: bool,
}

impl NodeLogs {
    pub async fn answer(&self, request: &Parts) -> Response<Body> {
        if request.method != Method::GET {
            let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
            let get = HeaderValue::from_static("GET");
            answer.headers_mut().insert(ALLOW, get);
            return answer;
        }
        let path = percent_decode_str(request.uri.path()).decode_utf8_lossy();
        if path == PREFIX.trim_end_matches('/') {
            return redirect(PREFIX, request);
        }
        let Some(below) = path.strip_prefix(PREFIX) else {
            return error(StatusCode::NOT_FOUND, "404 page not found");
        };
        if !self.queries {
            return files::answer(self, &format!("/{below}"), request).await;
        }
        match self.asked(below, request).await {
            Err((status, words)) => error(status, &words),
            Ok(Asked::Nothing) => files::answer(self, &format!("/{below}"), request).await,
            Ok(Asked::File(name)) => {
                let name = name.trim_start_matches('/');
                files::answer(self, &format!("/{name}"), request).await
            }
            Ok(Asked::Services(query)) => journal::answer(self, query, request),
        }
    }

    /// What a query means; without one, nothing.
    async fn asked(&self, below: &str, request: &Parts) -> Result<Asked, (StatusCode, String)> {
        let query = Query::read(request.uri.query().unwrap_or_default());
        let query = NodeQuery::read(&query).map_err(|words| (StatusCode::BAD_REQUEST, words))?;
        let Some(query) = query else {
            return Ok(Asked::Nothing);
        };
        if !matches!(below, "" | "/") {
            let words = "path not allowed in query mode".to_owned();
            return Err((StatusCode::NOT_ACCEPTABLE, words));
        }
        let missing = match query.file() {
            None => None,
            Some(file) => self.missing(file).await,
        };
        query
            .asked(missing)
            .map_err(|words| (StatusCode::NOT_ACCEPTABLE, words))
    }

    /// Why there is no such file, in Go's words.
    async fn missing(&self, file: &str) -> Option<String> {
        // Upstream's documents begin names with a slash, and its program refuses them:
        // here they are below the root like others.
        let climbs = file.split('/').any(|name| name == "..");
        let found = match files::below(file) {
            Some(path) if !climbs => self.host.below(Path::new(ROOT), Path::new(&path)).await,
            _ => Ok(Below::Outside),
        };
        match found {
            Ok(Below::Absent) => Some(format!("statat {file}: no such file or directory")),
            Ok(Below::Outside) => Some(format!("statat {file}: path escapes from parent")),
            Ok(_) => None,
            Err(error) => Some(error.in_gos_words()),
        }
    }
}

/// As Go's `http.Error`.
fn error(status: StatusCode, words: &str) -> Response<Body> {
    whole(unguessed(text(status, format!("{words}\n"))))
}

/// To a path that is relative to the one asked for, with the same query.
fn redirect(to: &str, request: &Parts) -> Response<Body> {
    let query = request.uri.query().filter(|query| !query.is_empty());
    let place = match query {
        Some(query) => format!("{to}?{query}"),
        None => to.to_owned(),
    };
    let mut answer = Response::new(full(""));
    let Ok(place) = HeaderValue::from_bytes(place.as_bytes()) else {
        return error(StatusCode::NOT_FOUND, "404 page not found");
    };
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    answer.headers_mut().insert(LOCATION, place);
    answer
}

#[cfg(test)]
mod tests;
