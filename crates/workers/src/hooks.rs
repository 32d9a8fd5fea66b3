//! Lifecycle hooks of containers: what is to happen right after one has begun, and
//! before it ends.
//!
//! [`Hooks`] carries one out, and knows nothing of when, of how long it may take, or
//! of what comes of a failure: that is the executor's. What users read of a failure
//! is upstream's text.

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::{
    Container, HTTPGetAction, LifecycleHandler, Pod, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use probes::web::{Asker, Get, GetError, NoAnswer, Web};
use seams::cri::ExecSyncRequest;
use seams::{SharedClock, SharedNet, SharedRuntime};
use thiserror::Error;
use types::PodRef;

use crate::act::grpc;
use crate::spec::pod_ref;

/// Carries hooks out.
#[derive(Clone, Debug)]
pub struct Hooks {
    runtime: SharedRuntime,
    clock: SharedClock,
    web: Web,
}

/// The container that a hook is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) id: &'a str,
    /// The pod's own, if it has one.
    pub(crate) ip: Option<&'a str>,
}

/// A hook that has done its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Where TLS was wanted and plain words had to do; for people to be told.
    pub(crate) without_tls: Option<String>,
}

/// A hook that failed, as its container's status tells it.
#[derive(Debug, Error)]
pub(crate) enum HookError {
    #[error(
        "Exec lifecycle hook ([{command}]) for Container {container:?} in Pod \"{pod}\" failed - error: {cause}, message: {output:?}"
    )]
    Exec {
        command: String,
        container: String,
        pod: PodRef,
        cause: String,
        output: String,
    },
    #[error(
        "HTTP lifecycle hook ({path}) for Container {container:?} in Pod \"{pod}\" failed - error: {cause}"
    )]
    Http {
        path: String,
        container: String,
        pod: PodRef,
        cause: HttpError,
    },
    #[error("Cannot run handler: invalid handler: {0}")]
    Invalid(String),
}

/// Why a server was not asked, or did not answer. Whatever it answers is well.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("failed to find networking container: the pod has no address of its own")]
    NoAddress,
    #[error(transparent)]
    Request(#[from] GetError),
    #[error(transparent)]
    Exchange(#[from] NoAnswer),
}

impl Hooks {
    pub fn new(runtime: SharedRuntime, net: SharedNet, clock: SharedClock) -> Self {
        Self {
            runtime,
            clock,
            web: Web::new(net),
        }
    }

    /// Takes as long as it takes. Dropped, it is cut short.
    pub(crate) async fn run(
        &self,
        handler: &LifecycleHandler,
        subject: Subject<'_>,
    ) -> Result<Ran, HookError> {
        if let Some(exec) = &handler.exec {
            let command = exec.command.clone().unwrap_or_default();
            return self.exec(command, subject).await;
        }
        if let Some(action) = &handler.http_get {
            let answered = self.http(action, subject).await;
            return answered.map_err(|cause| HookError::Http {
                path: action.path.clone().unwrap_or_default(),
                container: subject.container.name.clone(),
                pod: pod_ref(subject.pod),
                cause,
            });
        }
        if let Some(sleep) = &handler.sleep {
            let seconds = u64::try_from(sleep.seconds).unwrap_or_default();
            self.clock.sleep(Duration::from_secs(seconds)).await;
            return Ok(Ran::default());
        }
        Err(HookError::Invalid(told(handler)))
    }

    async fn exec(&self, command: Vec<String>, subject: Subject<'_>) -> Result<Ran, HookError> {
        let words = command.join(" ");
        let request = ExecSyncRequest {
            container_id: subject.id.to_owned(),
            cmd: command,
            timeout: 0,
        };
        let (cause, output) = match self.runtime.exec_sync(request).await {
            Ok(answer) if answer.exit_code == 0 => return Ok(Ran::default()),
            Ok(answer) => {
                let said = String::from_utf8_lossy(&answer.stderr);
                let code = answer.exit_code;
                let cause = format!("command '{words}' exited with {code}: {said}");
                let output = [answer.stdout.as_slice(), &answer.stderr].concat();
                (cause, String::from_utf8_lossy(&output).into_owned())
            }
            Err(error) => (grpc(&error), String::new()),
        };
        Err(HookError::Exec {
            command: words,
            container: subject.container.name.clone(),
            pod: pod_ref(subject.pod),
            cause,
            output,
        })
    }

    async fn http(&self, action: &HTTPGetAction, subject: Subject<'_>) -> Result<Ran, HttpError> {
        let has_host = action.host.as_ref().is_some_and(|host| !host.is_empty());
        let ip = match subject.ip {
            Some(ip) => ip,
            None if has_host => "",
            None => return Err(HttpError::NoAddress),
        };
        let mut get = Get::of(action, subject.container, ip, Asker::Hook)?;
        let refused = match self.web.get(&get).await {
            Ok(_) => return Ok(Ran::default()),
            Err(error) if error.is_plain() => error,
            Err(error) => return Err(error.into()),
        };
        get.https = false;
        // What was meant for a protected way does not go over this one.
        get.headers.remove(AUTHORIZATION);
        match self.web.get(&get).await {
            Ok(_) => Ok(Ran {
                without_tls: Some(get.authority()),
            }),
            Err(_) => Err(refused.into()),
        }
    }
}

/// A handler that none of the ways fits, as Go prints it.
fn told(handler: &LifecycleHandler) -> String {
    let socket = handler
        .tcp_socket
        .as_ref()
        .map_or("nil".to_owned(), |socket| {
            let TCPSocketAction { host, port } = socket;
            let host = host.as_deref().unwrap_or_default();
            let port = match port {
                IntOrString::Int(number) => format!("{{0 {number} }}"),
                IntOrString::String(name) => format!("{{1 0 {name}}}"),
            };
            format!("&TCPSocketAction{{Port:{port},Host:{host},}}")
        });
    format!("&LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},Sleep:nil,}}")
}
