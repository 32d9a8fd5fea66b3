//! The node's own port: who asks, whether they may, and who answers; and the read-only
//! port, which asks nobody.

mod authenticate;
mod authorize;
mod config;
mod ending;
mod endpoints;
mod line;
mod listen;
mod metered;
mod metrics;
mod remembered;
mod review;
mod routes;
mod tls;
mod token_metrics;
mod trust;
mod user;

pub use config::{
    AuthenticationConfig, AuthorizationConfig, DoorConfig, DoorConfigError, Handlers, TlsConfig,
};
pub use endpoints::{Endpoints, PathWords};
pub use line::Line;
pub(crate) use routes::{cleaned, words};
pub use tls::TlsSetupError;
pub use trust::TrustError;

use http::header::{ACCEPT, ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use kube::Client;
use prometheus::Registry;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::ResolvesServerCert;
use seams::{SharedClock, SharedHost};
use std::sync::Arc;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::answer::{Answer, moved, no_host_in, not_found, text, unguessed};
use crate::body::{Body, whole};
use crate::listen::BindError;
use authenticate::{Authentication, Tokens};
use authorize::{Authorization, Verdict};
use ending::AtEnd;
use listen::Listening;
use metrics::DoorMetrics;
use review::Reviews;
use routes::{Place, Side, Target};
use tls::Handshakes;
use token_metrics::TokenMetrics;
use trust::FollowedTrust;

/// What the port stands on.
pub struct DoorFoundations<'a> {
    pub node_name: String,
    pub clock: SharedClock,
    pub host: SharedHost,
    pub provider: Arc<CryptoProvider>,
    /// What handshakes show.
    pub certificate: Arc<dyn ResolvesServerCert>,
    /// Who is asked about tokens and rights; `None`: there is no API server.
    pub client: Option<Client>,
    pub registry: &'a Registry,
    pub endpoints: Endpoints,
}

impl std::fmt::Debug for DoorFoundations<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("DoorFoundations")
            .finish_non_exhaustive()
    }
}

/// Why the node cannot be asked.
#[derive(Debug, Error)]
pub enum DoorError {
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    #[error("figures cannot be set up: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(
        "{0} asks the API server, and a node without --kubeconfig has none: change it, or give \
         --kubeconfig"
    )]
    NoApi(&'static str),
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// The port, not yet open.
#[derive(Debug)]
pub struct Door {
    listening: Listening,
    following: Option<FollowedTrust>,
}

/// What answers a request.
#[derive(Debug)]
pub(crate) struct Desk {
    authentication: Authentication,
    authorization: Authorization,
    handlers: Handlers,
    endpoints: Endpoints,
    metrics: DoorMetrics,
    clock: SharedClock,
}

impl Door {
    /// What can be wrong with the configuration is found here.
    pub fn build(config: DoorConfig, on: DoorFoundations<'_>) -> Result<Self, DoorError> {
        let metrics = DoorMetrics::new(on.registry)?;
        let reviews = on.client.map(|client| Reviews {
            client,
            clock: on.clock.clone(),
            node_name: on.node_name.into(),
            metrics: metrics.clone(),
        });
        let wanted = config.authentication;
        let (following, trusted) = match wanted.client_ca_file {
            None => (None, None),
            Some(path) => {
                let (clock, provider) = (on.clock.clone(), Arc::clone(&on.provider));
                let (followed, trusted) = FollowedTrust::read(path, on.host, clock, provider)?;
                (Some(followed), Some(trusted))
            }
        };
        let tokens = match (wanted.tokens, &reviews) {
            (None, _) => None,
            (Some(_), None) => return Err(DoorError::NoApi("authentication.webhook.enabled")),
            (Some(ttl), Some(reviews)) => {
                let metrics = TokenMetrics::new(on.registry)?;
                Some(Tokens::new(reviews.clone(), ttl, metrics))
            }
        };
        let authorization = Authorization::new(config.authorization, reviews);
        let authorization = authorization.ok_or(DoorError::NoApi("authorization.mode"))?;
        let handshakes =
            Handshakes::new(&config.tls, &on.provider, on.clock.clone(), on.certificate)?;
        let desk = Desk {
            authentication: Authentication {
                trusted: trusted.clone(),
                uid_of_certificate: wanted.uid_of_certificate,
                tokens,
                anonymous: wanted.anonymous,
                clock: on.clock.clone(),
                metrics: metrics.clone(),
            },
            authorization,
            handlers: config.handlers,
            endpoints: on.endpoints,
            metrics,
            clock: on.clock,
        };
        Ok(Self {
            listening: Listening::new(
                config.address,
                config.read_only,
                (handshakes, trusted),
                Arc::new(desk),
            )?,
            following,
        })
    }

    /// Answers until told to end; fails when nobody can ask.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), DoorError> {
        let following = async {
            if let Some(following) = self.following {
                following.run(shutdown.clone()).await;
            }
            Ok(())
        };
        let listening = self.listening.run(shutdown.clone());
        tokio::try_join!(listening, following)?;
        Ok(())
    }
}

impl Desk {
    pub(crate) fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// The answer to one request, which came over `line` from somebody who has shown these
    /// certificates.
    pub(crate) async fn answer(
        &self,
        side: Side,
        line: &Line,
        certificates: &[CertificateDer<'static>],
        request: Request<Incoming>,
    ) -> Response<Body> {
        let labels = self.labels(side, &request);
        let begun = self.clock.uptime();
        self.metrics.came(labels);
        let (metrics, clock) = (self.metrics.clone(), Arc::clone(&self.clock));
        // Also when nobody waits for the answer any more.
        let end = Arc::new(AtEnd::new(move || {
            metrics.went(labels, clock.uptime().saturating_sub(begun));
        }));
        line.answers(Arc::clone(&end));
        let answer = self.find_answer(side, line, certificates, request).await;
        drop(line.answered());
        ending::then(answer, end)
    }

    fn labels(&self, side: Side, request: &Request<Incoming>) -> [&'static str; 4] {
        let path = routes::bucket((side, self.handlers), request.uri().path());
        let long_running = matches!(path, "exec" | "attach" | "debug");
        [
            counted_method(request.method()),
            path,
            match side {
                Side::ReadWrite => "readwrite",
                Side::ReadOnly => "readonly",
            },
            if long_running { "true" } else { "false" },
        ]
    }

    async fn find_answer(
        &self,
        side: Side,
        line: &Line,
        certificates: &[CertificateDer<'static>],
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        if let Some(refusal) = no_host_in(request.version(), request.headers()) {
            return whole(refusal);
        }
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        let path = request.uri().path();
        let place = routes::find(
            (side, self.handlers),
            request.method().as_str(),
            path,
            accept,
        );
        let (subresources, target) = match place {
            Place::Outside => return whole(not_found()),
            Place::Moved(path) => return whole(moved(&path, request.method(), request.uri())),
            Place::Inside {
                subresources,
                target,
            } => (subresources, target),
        };
        if side == Side::ReadWrite {
            let refusal = self
                .refuse(line, certificates, subresources, &mut request)
                .await;
            if let Some(refusal) = refusal {
                return whole(refusal);
            }
        }
        match target {
            Target::Endpoint(endpoint, words) => {
                let extensions = request.extensions_mut();
                extensions.insert(PathWords(words));
                extensions.insert(line.clone());
                self.endpoints.answer(endpoint, request).await
            }
            Target::Disabled(words) => whole(unguessed(text(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("{words}\n"),
            ))),
            Target::NotFound => whole(text(StatusCode::NOT_FOUND, "404: Page Not Found")),
            Target::MethodNotAllowed(methods) => {
                let words = "405: Method Not Allowed";
                let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, words);
                let methods = HeaderValue::from_static(methods);
                answer.headers_mut().insert(ALLOW, methods);
                whole(answer)
            }
            Target::NotAcceptable => {
                let words = "406: Not Acceptable\n\nAvailable representations: application/json";
                whole(text(StatusCode::NOT_ACCEPTABLE, words))
            }
        }
    }

    /// What somebody is told who may not.
    async fn refuse(
        &self,
        line: &Line,
        certificates: &[CertificateDer<'static>],
        subresources: &'static [&'static str],
        request: &mut Request<Incoming>,
    ) -> Option<Answer> {
        let unauthorized = || Some(text(StatusCode::UNAUTHORIZED, "Unauthorized"));
        let verb = routes::verb(request.method().as_str());
        let headers = request.headers_mut();
        let user = match self.authentication.user(certificates, headers).await {
            Ok(Some(user)) => user,
            Ok(None) => return unauthorized(),
            Err(doubts) => {
                let doubts: Vec<String> = doubts.iter().map(ToString::to_string).collect();
                info!(v = 1, peer = %line.peer(), doubts = doubts.join("; "), "a request was turned away: nobody knows who asks");
                return unauthorized();
            }
        };
        if !user.is_anonymous() {
            line.seat().known();
        }
        match self.authorization.judge(&user, verb, subresources).await {
            Verdict::Allowed => {
                debug!(user = user.name, verb, "a request was let in");
                None
            }
            Verdict::Forbidden => {
                info!(
                    v = 2,
                    user = user.name,
                    verb,
                    subresources = subresources.join(" "),
                    "a request was turned away: it is not allowed"
                );
                let words = format!(
                    "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
                    user.name,
                    subresources.join(" ")
                );
                Some(text(StatusCode::FORBIDDEN, words))
            }
            Verdict::Unknown(subresource, error) => {
                warn!(user = user.name, verb, subresource, err = %error, "a request was turned away: the API server does not say whether it is allowed");
                let words = format!(
                    "Authorization error (user={}, verb={verb}, resource=nodes, subresource={subresource})",
                    user.name
                );
                Some(text(StatusCode::INTERNAL_SERVER_ERROR, words))
            }
        }
    }
}

/// Others are counted together: whoever asks could make up as many as they like.
fn counted_method(method: &Method) -> &'static str {
    match *method {
        Method::OPTIONS => "OPTIONS",
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
