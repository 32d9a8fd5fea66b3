//! Where requests come in: who asks, whether they may, and who answers.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use rustls_pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::answer::{self, Answer, Body};
use super::attributes::Attributes;
use super::negotiate::Wanted;
use super::proxy::{self, KubeletClient, Work};
use super::query::Query;
use super::request::Asked;
use super::{pages, reading, subresources, verbs, watching};
use crate::access::impersonate::acting_user;
use crate::access::{Authenticator, Authorizer, User};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::faults::{Fault, Faults};
use crate::kinds::{self, Kind};
use crate::rest::Objects;

/// For an answer that is not a stream; upstream's.
const LONGEST: Duration = Duration::from_secs(60);

/// What answers are made of.
#[derive(Clone, Debug)]
pub struct DeskParts {
    pub objects: Objects,
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    pub kubelets: KubeletClient,
    pub faults: Faults,
    /// Where clients reach the server.
    pub address: String,
    /// Ends watches.
    pub shutdown: CancellationToken,
}

#[derive(Debug)]
pub struct Desk {
    pub(super) parts: DeskParts,
}

/// Who asks for what, for those who read along.
#[derive(Default)]
struct Asking {
    /// Empty: nobody who is believed.
    user: String,
    verb: String,
}

impl Desk {
    pub fn new(parts: DeskParts) -> Self {
        Self { parts }
    }

    pub fn clock(&self) -> &Clock {
        self.parts.objects.clock()
    }

    pub(super) async fn answer(
        &self,
        request: Request<Body>,
        certificates: &[CertificateDer<'static>],
        peer: SocketAddr,
        carry_on: &(dyn Fn(Work) + Send + Sync),
    ) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut asking = Asking::default();
        let answer = self.judged(request, certificates, carry_on, &mut asking);
        let answer = answer.await.unwrap_or_else(|failure| {
            debug!(%peer, %method, path, err = %failure, "a request was refused");
            answer::failure(&failure)
        });
        let Asking { user, verb } = asking;
        info!(
            v = 3,
            user,
            verb,
            path,
            code = answer.status().as_u16(),
            "answered"
        );
        answer
    }

    async fn judged(
        &self,
        request: Request<Body>,
        certificates: &[CertificateDer<'static>],
        carry_on: &(dyn Fn(Work) + Send + Sync),
        asking: &mut Asking,
    ) -> Result<Answer, Failure> {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let path = request.uri().path();
        let (attributes, rest) = Attributes::of(request.method(), path, &query);
        asking.verb.clone_from(&attributes.verb);
        let user = self
            .parts
            .authenticator
            .user(certificates, request.headers());
        let user = user.map_err(|cause| {
            info!(v = 2, err = %cause, path, "somebody was not believed");
            Failure::unauthorized()
        })?;
        let authorizer = &self.parts.authorizer;
        let user = acting_user(user, request.headers(), authorizer)?;
        asking.user.clone_from(&user.name);
        authorizer.check(&user, &attributes)?;
        let fault = self.parts.faults.meet(&attributes);
        if let Some(delay) = fault.delay {
            self.clock().sleep(delay).await;
        }
        if let Some(failure) = fault.failure {
            return Err(failure);
        }
        if !attributes.is_for_resource() {
            return pages::answer(self, &request);
        }
        let Attributes {
            group,
            version,
            resource,
            ..
        } = &attributes;
        let kind = kinds::find(group, version, resource).ok_or_else(Failure::no_such_page)?;
        let streams = ["log", "exec", "attach", "portforward", "proxy"];
        if streams.contains(&attributes.subresource.as_str()) {
            allowed(kind, &attributes)?;
            return proxy::answer(self, kind, &attributes, &rest, &query, request, carry_on).await;
        }
        if !rest.is_empty() {
            return Err(Failure::no_such_page());
        }
        let answered = self.object(kind, user, attributes, query, request, fault);
        let late = |_| {
            let message = "Timeout: request did not complete within the allotted timeout";
            Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
        };
        tokio::time::timeout(LONGEST, answered)
            .await
            .map_err(late)?
    }

    async fn object(
        &self,
        kind: &'static Kind,
        user: User,
        attributes: Attributes,
        query: Query,
        request: Request<Body>,
        fault: Fault,
    ) -> Result<Answer, Failure> {
        reachable(kind, &attributes)?;
        allowed(kind, &attributes)?;
        let headers = request.headers().clone();
        let wanted = Wanted::of(&headers)?;
        let body = match *request.method() {
            Method::GET | Method::HEAD => bytes::Bytes::new(),
            _ => reading::body(request).await?,
        };
        let asked = Asked {
            user,
            attributes,
            query,
            headers,
            wanted,
            body,
        };
        if !asked.attributes.subresource.is_empty() || !kind.stored {
            return subresources::answer(self, kind, asked).await;
        }
        match asked.attributes.verb.as_str() {
            "watch" => watching::answer(self, kind, &asked, &fault),
            "list" => verbs::list(self, kind, &asked, &fault),
            "get" => verbs::get(self, kind, &asked),
            "create" => verbs::create(self, kind, &asked).await,
            "update" => verbs::update(self, kind, &asked).await,
            "patch" => verbs::patch(self, kind, &asked).await,
            "delete" => verbs::delete(self, kind, &asked).await,
            "deletecollection" => verbs::delete_collection(self, kind, &asked).await,
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

/// Objects with a namespace are found in it, the others are not.
fn reachable(kind: &Kind, attributes: &Attributes) -> Result<(), Failure> {
    let own = kind.kind == "Namespace" && attributes.namespace == attributes.name;
    let by_selector = matches!(
        attributes.verb.as_str(),
        "list" | "watch" | "deletecollection"
    );
    let lost = match (kind.namespaced, attributes.namespace.is_empty()) {
        (true, true) => !attributes.name.is_empty() && !by_selector,
        (false, false) => !own,
        _ => false,
    };
    if lost {
        return Err(Failure::no_such_page());
    }
    let all_namespaces = kind.namespaced && attributes.namespace.is_empty();
    if all_namespaces && matches!(attributes.verb.as_str(), "create" | "deletecollection") {
        return Err(Failure::method_not_allowed());
    }
    Ok(())
}

fn allowed(kind: &Kind, attributes: &Attributes) -> Result<(), Failure> {
    let verb = attributes.verb.as_str();
    let allowed = match attributes.subresource.as_str() {
        "" => kind.allows(verb),
        name => {
            let subresource = kind.subresource(name).ok_or_else(Failure::no_such_page)?;
            subresource.verbs.contains(&verb)
        }
    };
    if allowed {
        Ok(())
    } else {
        Err(Failure::method_not_allowed())
    }
}
