//! What a node answers itself: logs, and streams into its containers. The request goes on
//! to the node's own port, with the server's certificate; an upgraded connection is passed
//! through as it is.

mod kubelet;
mod log_options;
mod redirect;
mod target;

use std::future::Future;
use std::io;
use std::pin::Pin;

use http::{HeaderMap, HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use tracing::debug;

pub use kubelet::KubeletClient;
use target::Target;

use super::answer::{self, Answer, Body};
use super::attributes::Attributes;
use super::desk::Desk;
use super::query::Query;
use crate::failure::Failure;
use crate::kinds::Kind;

/// What goes on after an answer.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Of an error that a node answers with.
const LONGEST_ERROR: usize = 2048;

/// Between two of us only: not passed on.
const HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

pub(super) async fn answer(
    desk: &Desk,
    kind: &'static Kind,
    attributes: &Attributes,
    _rest: &[String],
    query: &Query,
    request: Request<Body>,
    carry_on: &(dyn Fn(Work) + Send + Sync),
) -> Result<Answer, Failure> {
    if attributes.subresource == "log" {
        log_options::check(query, &attributes.name)?;
    }
    let Some(target) = Target::find(&desk.parts.objects, kind, attributes, query, request.uri())?
    else {
        // A pod that no node has yet has said nothing.
        return Ok(answer::text(StatusCode::OK, ""));
    };
    let (mut sender, connection) = desk.parts.kubelets.dial(&target).await?;
    carry_on(connection);
    let (parts, body) = request.into_parts();
    let upgrades = parts.headers.contains_key(header::UPGRADE);
    let mut onward = Request::new(body);
    *onward.method_mut() = parts.method.clone();
    *onward.uri_mut() = target.uri.clone();
    *onward.headers_mut() = passed_on(&parts.headers, upgrades);
    // What the client proved to us is nothing to the node.
    onward.headers_mut().remove(header::AUTHORIZATION);
    if let Ok(host) = target.authority().parse() {
        onward.headers_mut().insert(header::HOST, host);
    }
    let unreachable =
        |cause: hyper::Error| Failure::internal(format!("error dialing backend: {cause}"));
    let mut answered = sender.send_request(onward).await.map_err(unreachable)?;
    if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut answered);
        let ours = hyper::upgrade::on(Request::from_parts(parts, ()));
        carry_on(Box::pin(async move {
            if let Err(error) = join(ours, theirs).await {
                debug!(err = %error, "a stream to a node ended early");
            }
        }));
        let mut answer = Response::new(answer::full(""));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *answer.headers_mut() = passed_on(answered.headers(), true);
        return Ok(answer);
    }
    if attributes.subresource == "log" && !answered.status().is_success() {
        return Err(refusal(answered).await);
    }
    let (mut head, body) = answered.into_parts();
    head.headers = passed_on(&head.headers, false);
    if attributes.subresource == "proxy" {
        redirect::behind_proxy(&mut head.headers, &parts, &target.authority());
    }
    // The version is that of our client.
    head.version = http::Version::default();
    // Kept until the answer has been read to its end.
    let body = body.map_err(io::Error::other).map_frame(move |frame| {
        let _ = &sender;
        frame
    });
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

fn passed_on(headers: &HeaderMap, upgrades: bool) -> HeaderMap {
    let mut headers = headers.clone();
    for name in HOP {
        if !(upgrades && name == header::CONNECTION) {
            headers.remove(name);
        }
    }
    if !upgrades {
        headers.remove(header::UPGRADE);
    }
    headers
}

/// What a node said, as a status.
async fn refusal(answered: Response<hyper::body::Incoming>) -> Failure {
    let code = answered.status();
    let body = Limited::new(answered.into_body(), LONGEST_ERROR)
        .collect()
        .await;
    let words = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    match code {
        StatusCode::BAD_REQUEST => Failure::bad_request(words),
        StatusCode::NOT_FOUND => Failure::new(code, "NotFound", words),
        StatusCode::UNAUTHORIZED => Failure::new(code, "Unauthorized", words),
        StatusCode::FORBIDDEN => Failure::new(code, "Forbidden", words),
        StatusCode::UNPROCESSABLE_ENTITY => Failure::new(code, "Invalid", words),
        _ => Failure::internal(words),
    }
}

async fn join(
    ours: hyper::upgrade::OnUpgrade,
    theirs: hyper::upgrade::OnUpgrade,
) -> Result<(), io::Error> {
    let (ours, theirs) = tokio::try_join!(ours, theirs).map_err(io::Error::other)?;
    let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
    tokio::io::copy_bidirectional(&mut ours, &mut theirs).await?;
    Ok(())
}
