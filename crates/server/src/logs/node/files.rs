//! Files and directories, by path.

use std::io;
use std::path::Path;

use http::header::{CONTENT_TYPE, HeaderValue, LAST_MODIFIED};
use http::request::Parts;
use http::{Response, StatusCode};
use seams::host::{Below, Directory, HostError};

use super::content::{self, NamedFile};
use super::{NodeLogs, ROOT, error, listing, redirect};
use crate::body::{Body, full};

const INDEX: &str = "index.html";

/// `path` begins with a slash.
pub(super) async fn answer(logs: &NodeLogs, path: &str, request: &Parts) -> Response<Body> {
    if path.ends_with("/index.html") {
        return redirect("./", request);
    }
    let Some(name) = below(path) else {
        return error(StatusCode::NOT_FOUND, "404 page not found");
    };
    let own = name.rsplit('/').next().unwrap_or_default();
    let is_directory = path.ends_with('/');
    match look(logs, &name).await {
        Err(answer) => answer,
        Ok(Found::File(file)) if is_directory => {
            drop(file);
            redirect(&format!("../{own}"), request)
        }
        Ok(Found::File(file)) => content::answer(file, request, &*logs.clock).await,
        Ok(Found::Directory(_)) if !is_directory => redirect(&format!("{own}/"), request),
        Ok(Found::Directory(directory)) => {
            let index = Path::new(&name).join(INDEX);
            match look(logs, &index.to_string_lossy()).await {
                Ok(Found::File(file)) => content::answer(file, request, &*logs.clock).await,
                _ => listed(&directory, request),
            }
        }
    }
}

enum Found {
    File(NamedFile),
    Directory(Directory),
}

async fn look(logs: &NodeLogs, name: &str) -> Result<Found, Response<Body>> {
    let path = if name.is_empty() { "." } else { name };
    let forbidden = || error(StatusCode::FORBIDDEN, "403 Forbidden");
    match logs.host.below(Path::new(ROOT), Path::new(path)).await {
        Err(problem) => Err(refusal(&problem)),
        Ok(Below::Absent) => Err(error(StatusCode::NOT_FOUND, "404 page not found")),
        // Go follows links wherever they lead.
        Ok(Below::Outside | Below::Other) => Err(forbidden()),
        Ok(Below::Directory(directory)) => Ok(Found::Directory(directory)),
        Ok(Below::File(file)) => Ok(Found::File(NamedFile {
            file,
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        })),
    }
}

fn refusal(problem: &HostError) -> Response<Body> {
    match problem.cause.kind() {
        io::ErrorKind::NotFound => error(StatusCode::NOT_FOUND, "404 page not found"),
        io::ErrorKind::PermissionDenied => error(StatusCode::FORBIDDEN, "403 Forbidden"),
        _ => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "500 Internal Server Error",
        ),
    }
}

/// Below the root, whatever the path says; empty for the root itself, and `None` for
/// what cannot be a path.
pub(super) fn below(path: &str) -> Option<String> {
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    (!path.contains('\0')).then(|| names.join("/"))
}

fn listed(directory: &Directory, request: &Parts) -> Response<Body> {
    if let Some(answer) = content::unmodified(request, directory.modified) {
        return answer;
    }
    let mut answer = Response::new(full(listing::page(&directory.entries)));
    let headers = answer.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(CONTENT_TYPE, html);
    headers.insert(LAST_MODIFIED, content::date(directory.modified));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_above_the_root() {
        for (path, wanted) in [
            ("/", Some("")),
            ("//a/./b/", Some("a/b")),
            ("/../../etc/passwd", Some("etc/passwd")),
            ("/a/../../b", Some("b")),
            ("/..", Some("")),
            ("/...", Some("...")),
            ("/a\0b", None),
        ] {
            assert_eq!(below(path).as_deref(), wanted, "{path}");
        }
    }
}
