//! The lab's image registry: serves an OCI layout, read-only, and misbehaves
//! on request, so that pulls can be seen to succeed, wait and fail for real.
//!
//! In: a listening address and a layout. Out: the pull half of the OCI
//! distribution protocol below `/v2/`. The first part of a repository's name
//! says how it behaves: `open/NAME` answers, `private/NAME` wants the user
//! `lab` with the password `secret`, `slow/NAME` sends its blobs at
//! 1 MiB a second, `stuck/NAME` begins to send them and never ends,
//! `failing/NAME` answers 500, `busy/NAME` 429. It must not know who pulls.

#![allow(
    clippy::disallowed_methods,
    reason = "a lab tool owns its process, and its tasks end with it"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

/// `lab:secret`, as HTTP carries it.
const CREDENTIALS: &str = "Basic bGFiOnNlY3JldA==";
const SLOW_CHUNK: usize = 64 * 1024;
const SLOW_PAUSE: Duration = Duration::from_millis(62);

struct Registry {
    blobs: PathBuf,
    /// Digest by `name:tag`.
    tags: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Open,
    Private,
    Slow,
    Stuck,
    Failing,
    Busy,
}

/// What a path below `/v2/` asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    behaviour: Behaviour,
    name: &'a str,
    kind: Kind,
    reference: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Manifest,
    Blob,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: lab-registry ADDRESS:PORT OCI-LAYOUT";
    let address = arguments.next().context(usage)?;
    let layout = PathBuf::from(arguments.next().context(usage)?);
    let registry = Arc::new(Registry::open(&layout)?);
    let listener = tokio::net::TcpListener::bind(&address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    let routes = Router::new().fallback(answer).with_state(registry);
    axum::serve(listener, routes).await?;
    Ok(())
}

impl Registry {
    fn open(layout: &Path) -> Result<Self> {
        let index = layout.join("index.json");
        let index =
            std::fs::read(&index).with_context(|| format!("cannot read {}", index.display()))?;
        let index: Value = serde_json::from_slice(&index)?;
        let manifests = index["manifests"].as_array().into_iter().flatten();
        let tags = manifests
            .filter_map(|manifest| {
                let name = manifest["annotations"]["io.containerd.image.name"].as_str()?;
                Some((name.to_owned(), manifest["digest"].as_str()?.to_owned()))
            })
            .collect();
        Ok(Self {
            blobs: layout.join("blobs/sha256"),
            tags,
        })
    }

    async fn content(&self, wanted: &Wanted<'_>) -> Option<(String, Bytes)> {
        let digest = if wanted.reference.starts_with("sha256:") {
            wanted.reference.to_owned()
        } else {
            let tag = format!("{}:{}", wanted.name, wanted.reference);
            self.tags.get(&tag)?.clone()
        };
        let file = digest.strip_prefix("sha256:")?;
        let plain = file.len() == 64 && file.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain {
            return None;
        }
        let bytes = tokio::fs::read(self.blobs.join(file)).await.ok()?;
        Some((digest, bytes.into()))
    }
}

async fn answer(State(registry): State<Arc<Registry>>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return error(
            StatusCode::METHOD_NOT_ALLOWED,
            "UNSUPPORTED",
            "this registry is read-only",
        );
    }
    let path = request.uri().path();
    if path == "/v2/" || path == "/v2" {
        return StatusCode::OK.into_response();
    }
    let Some(wanted) = parse(path) else {
        return error(StatusCode::NOT_FOUND, "NAME_UNKNOWN", "no such repository");
    };
    match wanted.behaviour {
        Behaviour::Failing => {
            return error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "UNKNOWN",
                "failing as it was asked to",
            );
        }
        Behaviour::Busy => {
            return error(
                StatusCode::TOO_MANY_REQUESTS,
                "TOOMANYREQUESTS",
                "busy as it was asked to",
            );
        }
        Behaviour::Private if !may_enter(request.headers()) => {
            let mut refusal = error(
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED",
                "authentication required",
            );
            let challenge = axum::http::HeaderValue::from_static("Basic realm=\"lab\"");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            return refusal;
        }
        Behaviour::Private | Behaviour::Open | Behaviour::Slow | Behaviour::Stuck => {}
    }
    let Some((digest, bytes)) = registry.content(&wanted).await else {
        let code = match wanted.kind {
            Kind::Manifest => "MANIFEST_UNKNOWN",
            Kind::Blob => "BLOB_UNKNOWN",
        };
        return error(StatusCode::NOT_FOUND, code, wanted.reference);
    };
    let media_type = match wanted.kind {
        Kind::Manifest => media_type(&bytes),
        Kind::Blob => "application/octet-stream".to_owned(),
    };
    let headers = [
        (CONTENT_TYPE.as_str(), media_type),
        (CONTENT_LENGTH.as_str(), bytes.len().to_string()),
        ("docker-content-digest", digest),
    ];
    let body = if *request.method() == Method::HEAD {
        Body::empty()
    } else {
        match (wanted.behaviour, wanted.kind) {
            (Behaviour::Slow, Kind::Blob) => slowly(bytes),
            (Behaviour::Stuck, Kind::Blob) => beginning_of(&bytes),
            _ => Body::from(bytes),
        }
    };
    (headers, body).into_response()
}

fn parse(path: &str) -> Option<Wanted<'_>> {
    let (repository, kind, reference) = path.strip_prefix("/v2/").and_then(|path| {
        path.split_once("/manifests/")
            .map(|(repository, reference)| (repository, Kind::Manifest, reference))
            .or_else(|| {
                path.split_once("/blobs/")
                    .map(|(repository, reference)| (repository, Kind::Blob, reference))
            })
    })?;
    let (behaviour, name) = repository.split_once('/')?;
    let behaviour = match behaviour {
        "open" => Behaviour::Open,
        "private" => Behaviour::Private,
        "slow" => Behaviour::Slow,
        "stuck" => Behaviour::Stuck,
        "failing" => Behaviour::Failing,
        "busy" => Behaviour::Busy,
        _ => return None,
    };
    Some(Wanted {
        behaviour,
        name,
        kind,
        reference,
    })
}

fn may_enter(headers: &HeaderMap) -> bool {
    headers
        .get(AUTHORIZATION)
        .is_some_and(|given| given.as_bytes() == CREDENTIALS.as_bytes())
}

fn media_type(manifest: &[u8]) -> String {
    serde_json::from_slice::<Value>(manifest)
        .ok()
        .and_then(|manifest| Some(manifest["mediaType"].as_str()?.to_owned()))
        .unwrap_or_else(|| "application/vnd.oci.image.manifest.v1+json".to_owned())
}

fn slowly(bytes: Bytes) -> Body {
    let (mut writer, reader) = tokio::io::duplex(SLOW_CHUNK);
    tokio::spawn(async move {
        for chunk in bytes.chunks(SLOW_CHUNK) {
            tokio::time::sleep(SLOW_PAUSE).await;
            // The client went away: nobody is left to be slow for.
            if tokio::io::AsyncWriteExt::write_all(&mut writer, chunk)
                .await
                .is_err()
            {
                return;
            }
        }
    });
    Body::from_stream(tokio_util::io::ReaderStream::new(reader))
}

/// Some of it, and never the rest: it lasts until the client leaves.
fn beginning_of(bytes: &Bytes) -> Body {
    let some = bytes.slice(..SLOW_CHUNK.min(bytes.len() / 2));
    let sent = stream::iter([Ok::<_, Infallible>(some)]);
    Body::from_stream(sent.chain(stream::pending()))
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "errors": [{ "code": code, "message": message }] }).to_string();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_stuck_begins_and_does_not_end() {
        let content = Bytes::from(vec![7; 3 * SLOW_CHUNK]);
        let mut body = beginning_of(&content).into_data_stream();
        let first = body.next().await.unwrap().unwrap();
        assert_eq!(first, content[..SLOW_CHUNK]);
        let more = tokio::time::timeout(Duration::from_millis(50), body.next()).await;
        assert!(more.is_err(), "{more:?}");
    }

    #[test]
    fn the_first_part_of_a_name_is_its_behaviour() {
        let wanted = parse("/v2/slow/some/name/manifests/v1").unwrap();
        assert_eq!(wanted.behaviour, Behaviour::Slow);
        assert_eq!(wanted.name, "some/name");
        assert_eq!(wanted.kind, Kind::Manifest);
        assert_eq!(wanted.reference, "v1");
        assert_eq!(parse("/v2/open/a/blobs/sha256:0").unwrap().kind, Kind::Blob);
        let wanted = parse("/v2/stuck/a/blobs/sha256:0").unwrap();
        assert_eq!(wanted.behaviour, Behaviour::Stuck);
        for path in [
            "/v2/odd/name/manifests/v1",
            "/v2/open",
            "/",
            "/v2/open/a/tags/list",
        ] {
            assert_eq!(parse(path), None, "{path}");
        }
    }
}
