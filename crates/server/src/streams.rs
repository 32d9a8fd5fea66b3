//! Into containers, and into the network of pods: exec, attach, port-forward, run, and
//! checkpoints.
//!
//! The runtime is asked for a place where it serves the streams, and the client's
//! connection is joined with a connection to there. Two kinds of web sockets that runtimes
//! do not speak are made SPDY on the way (the gate `ExtendWebSocketsToKubelet`).

mod refusal;
mod replay;
mod runtime_end;
mod splice;
mod target;
mod translate;
mod tunnel;
mod upgrade;
mod verdict;
mod wanted;
mod websocket;

use std::path::PathBuf;

use http::request::Parts;
use http::{Extensions, HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prometheus::{IntCounterVec, Opts, Registry};
use seams::cri::{
    AttachRequest, CheckpointContainerRequest, ExecRequest, ExecSyncRequest, PortForwardRequest,
};
use seams::{RuntimeError, SharedClock, SharedNet, SharedRuntime};
use tracing::debug;
use types::PodBook;
use types::served::ServedPod;

use crate::body::{Body, full};
use crate::door::{Line, PathWords};
use runtime_end::{Answered, Location, NoStreams, RuntimeEnd};
use splice::splice;
use translate::Client;
use tunnel::tunnel;
use verdict::Verdict;
use wanted::{InPod, Wanted, values};

/// What streams are made of.
#[derive(Clone, Debug)]
pub struct StreamParts {
    pub pods: PodBook,
    pub runtime: SharedRuntime,
    pub net: SharedNet,
    pub clock: SharedClock,
    /// The gate `ExtendWebSocketsToKubelet`.
    pub websockets: bool,
    /// Where checkpoints are left: `checkpoints` in the kubelet's root directory.
    pub checkpoints: PathBuf,
}

/// The endpoints for streams.
#[derive(Clone, Debug)]
pub struct Streams {
    parts: StreamParts,
    end: RuntimeEnd,
    translated: IntCounterVec,
}

/// What is to be streamed, as it is counted.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Exec,
    Attach,
    PortForward,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }
}

/// An answer that says no.
#[derive(Debug)]
struct No(Box<Response<Body>>);

impl No {
    fn new(answer: Response<Body>) -> Self {
        Self(Box::new(answer))
    }
}

fn no(status: StatusCode, words: impl Into<String>) -> No {
    No::new(refusal::plain(status, words))
}

impl From<RuntimeError> for No {
    fn from(error: RuntimeError) -> Self {
        Self::new(refusal::of_runtime(&error))
    }
}

impl From<upgrade::Refused> for No {
    fn from(refused: upgrade::Refused) -> Self {
        Self::new(refused.answer())
    }
}

impl From<NoStreams> for No {
    fn from(error: NoStreams) -> Self {
        Self::new(refusal::broken(&error.to_string()))
    }
}

impl Streams {
    /// Figures go into `registry`.
    pub fn new(parts: StreamParts, registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = Opts::new(
            "kubelet_websocket_streaming_requests_total",
            "[ALPHA] WebSocket requests for streams that the node itself served",
        );
        let translated = IntCounterVec::new(options, &["subresource"])?;
        registry.register(Box::new(translated.clone()))?;
        Ok(Self {
            end: RuntimeEnd::new(parts.net.clone(), parts.clock.clone()),
            parts,
            translated,
        })
    }

    /// `/exec/NAMESPACE/POD[/UID]/CONTAINER?command=…`
    pub async fn exec(&self, request: Request<Incoming>) -> Response<Body> {
        either(self.try_exec(request).await)
    }

    /// `/attach/NAMESPACE/POD[/UID]/CONTAINER`
    pub async fn attach(&self, request: Request<Incoming>) -> Response<Body> {
        either(self.try_attach(request).await)
    }

    /// `/portForward/NAMESPACE/POD[/UID]`
    pub async fn port_forward(&self, request: Request<Incoming>) -> Response<Body> {
        either(self.try_port_forward(request).await)
    }

    /// `/run/NAMESPACE/POD[/UID]/CONTAINER?cmd=…`
    pub async fn run(&self, request: Request<Incoming>) -> Response<Body> {
        either(self.try_run(&request.into_parts().0).await)
    }

    /// `/checkpoint/NAMESPACE/POD/CONTAINER`
    pub async fn checkpoint(&self, request: Request<Incoming>) -> Response<Body> {
        either(self.try_checkpoint(&request.into_parts().0).await)
    }

    async fn try_exec(&self, mut request: Request<Incoming>) -> Result<Response<Body>, No> {
        let named = InPod::container(words(request.extensions())).ok_or_else(unknown_path)?;
        let wanted = understood(Wanted::of(request.uri()))?;
        let pod = self.pod(&named)?;
        let container_id = self.container(&pod, &named).await?.ok_or_else(|| {
            let words = format!("container not found ({:?})", named.container);
            no(StatusCode::INTERNAL_SERVER_ERROR, words)
        })?;
        let asked = ExecRequest {
            container_id,
            cmd: values(request.uri(), "command").collect(),
            tty: wanted.tty,
            stdin: wanted.stdin,
            stdout: wanted.stdout,
            stderr: wanted.stderr,
        };
        upgrade_wanted(request.headers())?;
        let url = self.parts.runtime.exec(asked).await?.url;
        let on_upgrade = hyper::upgrade::on(&mut request);
        let request = request.into_parts().0;
        self.command(Kind::Exec, &request, on_upgrade, wanted, &url)
            .await
    }

    async fn try_attach(&self, mut request: Request<Incoming>) -> Result<Response<Body>, No> {
        let named = InPod::container(words(request.extensions())).ok_or_else(unknown_path)?;
        let wanted = understood(Wanted::of(request.uri()))?;
        let pod = self.pod(&named)?;
        let lacking = || {
            let InPod { container, .. } = &named;
            let words = format!(
                "container {container} not found in pod {}",
                named.full_name()
            );
            no(StatusCode::INTERNAL_SERVER_ERROR, words)
        };
        let container_id = self.container(&pod, &named).await?.ok_or_else(lacking)?;
        if named.uid.as_deref().is_some_and(|uid| !pod.has_uid(uid)) {
            let words = format!("pod {} not found", named.full_name());
            return Err(no(StatusCode::INTERNAL_SERVER_ERROR, words));
        }
        // Whether it has a terminal was decided when it started.
        let tty = has_terminal(&pod.pod.pod, &named.container).ok_or_else(lacking)?;
        let asked = AttachRequest {
            container_id,
            stdin: wanted.stdin,
            tty,
            stdout: wanted.stdout,
            stderr: wanted.stderr,
        };
        upgrade_wanted(request.headers())?;
        let url = self.parts.runtime.attach(asked).await?.url;
        let on_upgrade = hyper::upgrade::on(&mut request);
        let request = request.into_parts().0;
        self.command(Kind::Attach, &request, on_upgrade, wanted, &url)
            .await
    }

    async fn try_port_forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, No> {
        let on_upgrade = hyper::upgrade::on(&mut request);
        let (request, _) = request.into_parts();
        let named = InPod::network(words(&request.extensions)).ok_or_else(unknown_path)?;
        let tunnelled = self.parts.websockets && !upgrade::tunnelled(&request.headers).is_empty();
        let port = if tunnelled {
            Vec::new()
        } else {
            understood(wanted::ports(&request))?
        };
        let pod = self.pod(&named)?;
        if named.uid.as_deref().is_some_and(|uid| !pod.has_uid(uid)) {
            return Err(no(StatusCode::NOT_FOUND, "pod not found"));
        }
        let sandbox = target::ready_sandbox(&*self.parts.runtime, pod.uid.as_str()).await?;
        let pod_sandbox_id = sandbox.ok_or_else(|| {
            let words = format!("pod not found ({:?})", named.full_name());
            no(StatusCode::INTERNAL_SERVER_ERROR, words)
        })?;
        upgrade_wanted(&request.headers)?;
        if tunnelled {
            upgrade::check(&request)?;
        }
        let asked = PortForwardRequest {
            pod_sandbox_id,
            port,
        };
        let url = self.parts.runtime.port_forward(asked).await?.url;
        let location = Location::parse(&url)?;
        if tunnelled {
            return self.tunnelled(&request, on_upgrade, &location).await;
        }
        self.proxied(Kind::PortForward, &request, on_upgrade, &location)
            .await
    }

    async fn try_run(&self, request: &Parts) -> Result<Response<Body>, No> {
        let named = InPod::container(words(&request.extensions)).ok_or_else(unknown_path)?;
        let pod = self.pod(&named)?;
        let failed = |words: String| no(StatusCode::INTERNAL_SERVER_ERROR, words);
        let container = self.container(&pod, &named).await;
        // Whatever the runtime's reason is: the code is for streams alone.
        let container = container.map_err(|error| failed(refusal::words(&error)))?;
        let container_id = container
            .ok_or_else(|| failed(format!("container not found ({:?})", named.container)))?;
        let command = values(&request.uri, "cmd").next().unwrap_or_default();
        let asked = ExecSyncRequest {
            container_id,
            cmd: command.split(' ').map(str::to_owned).collect(),
            timeout: 0,
        };
        let ran = self.parts.runtime.exec_sync(asked).await;
        let ran = ran.map_err(|error| failed(refusal::words(&error)))?;
        if ran.exit_code != 0 {
            let stderr = String::from_utf8_lossy(&ran.stderr);
            let code = ran.exit_code;
            return Err(failed(format!(
                "command '{command}' exited with {code}: {stderr}"
            )));
        }
        let mut output = ran.stdout;
        output.extend(ran.stderr);
        if output.is_empty() {
            return Ok(Response::new(full("")));
        }
        Ok(json(output))
    }

    async fn try_checkpoint(&self, request: &Parts) -> Result<Response<Body>, No> {
        let named =
            InPod::container(words(&request.extensions)).filter(|named| named.uid.is_none());
        let named = named.ok_or_else(unknown_path)?;
        let pod = self.pod(&named)?;
        let InPod {
            namespace,
            pod: name,
            container,
            ..
        } = &named;
        if has_terminal(&pod.pod.pod, container).is_none() {
            let words = format!("container {container} does not exist");
            return Err(no(StatusCode::NOT_FOUND, words));
        }
        let timeout = match values(&request.uri, "timeout").last() {
            None => 0,
            Some(text) => text.parse().map_err(|_| {
                let words = "cannot parse value of timeout parameter";
                no(StatusCode::NOT_FOUND, words)
            })?,
        };
        let failed = |words: String| {
            let words = format!("checkpointing of {namespace}/{name}/{container} failed ({words})");
            no(StatusCode::INTERNAL_SERVER_ERROR, words)
        };
        let found = self.container(&pod, &named).await;
        let found = found.map_err(|error| failed(refusal::words(&error)))?;
        let container_id =
            found.ok_or_else(|| failed(format!("container {container} not found")))?;
        let now = Timestamp::try_from(self.parts.clock.now()).unwrap_or_default();
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ");
        let file = format!("checkpoint-{}-{container}-{now}.tar", named.full_name());
        let location = self.parts.checkpoints.join(file).display().to_string();
        let asked = CheckpointContainerRequest {
            container_id,
            location: location.clone(),
            timeout,
        };
        let written = self.parts.runtime.checkpoint_container(asked).await;
        written.map_err(|error| failed(refusal::words(&error)))?;
        let items = serde_json::json!({ "items": [location] });
        Ok(json(items.to_string().into_bytes()))
    }

    fn pod(&self, named: &InPod) -> Result<ServedPod, No> {
        let pod = self.parts.pods.named(&named.namespace, &named.pod);
        pod.ok_or_else(|| no(StatusCode::NOT_FOUND, "pod does not exist"))
    }

    async fn container(
        &self,
        pod: &ServedPod,
        named: &InPod,
    ) -> Result<Option<String>, RuntimeError> {
        let runtime = &*self.parts.runtime;
        target::running_container(runtime, pod.uid.as_str(), &named.container).await
    }

    /// The streams of a process, as the client wants to have them.
    async fn command(
        &self,
        kind: Kind,
        request: &Parts,
        on_upgrade: OnUpgrade,
        wanted: Wanted,
        url: &str,
    ) -> Result<Response<Body>, No> {
        let location = Location::parse(url)?;
        if self.parts.websockets && upgrade::is_translatable(&request.headers) {
            return self.translated(kind, request, on_upgrade, wanted, location);
        }
        self.proxied(kind, request, on_upgrade, &location).await
    }

    /// The runtime speaks what the client does.
    async fn proxied(
        &self,
        kind: Kind,
        request: &Parts,
        on_upgrade: OnUpgrade,
        location: &Location,
    ) -> Result<Response<Body>, No> {
        let replayed = replay::as_it_came(request, location);
        let (switched, runtime) = self.switched(location, replayed).await?;
        let answer = switched.map(|()| full(""));
        let clock = self.parts.clock.clone();
        carry_on(request, async move {
            let Ok(client) = on_upgrade.await else {
                return;
            };
            let ended = splice(&*clock, TokioIo::new(client), runtime).await;
            if let Err(error) = ended {
                debug!(err = %error, "{} ended by a broken connection", kind.word());
            }
        });
        Ok(answer)
    }

    /// The runtime speaks SPDY, the client too, but inside a WebSocket.
    async fn tunnelled(
        &self,
        request: &Parts,
        on_upgrade: OnUpgrade,
        location: &Location,
    ) -> Result<Response<Body>, No> {
        self.count(Kind::PortForward);
        let replayed = replay::without_websocket(request, location);
        let (switched, runtime) = self.switched(location, replayed).await?;
        let chosen = switched.headers().get(upgrade::PROTOCOL_VERSION);
        let chosen = chosen.and_then(|value| value.to_str().ok()).map(str::trim);
        let chosen = chosen.filter(|chosen| !chosen.is_empty());
        let protocol = chosen.map(|chosen| format!("{}{chosen}", upgrade::TUNNEL_PREFIX));
        let answer = upgrade::accept(request, protocol.as_deref())?;
        let clock = self.parts.clock.clone();
        carry_on(request, async move {
            if let Ok(client) = on_upgrade.await {
                tunnel(&*clock, TokioIo::new(client), runtime).await;
            }
        });
        Ok(answer)
    }

    /// The runtime speaks SPDY, the client something else. It is told over its WebSocket
    /// what becomes of it, from the first moment on.
    fn translated(
        &self,
        kind: Kind,
        request: &Parts,
        on_upgrade: OnUpgrade,
        wanted: Wanted,
        location: Location,
    ) -> Result<Response<Body>, No> {
        self.count(kind);
        let answer = upgrade::accept(request, Some(upgrade::V5))?;
        let (clock, end) = (self.parts.clock.clone(), self.end.clone());
        carry_on(request, async move {
            let Ok(connection) = on_upgrade.await else {
                return;
            };
            let Some(client) = Client::greet(TokioIo::new(connection), wanted).await else {
                return;
            };
            let request = replay::for_command(&location);
            match end.ask(&location, request).await {
                Ok(Answered::Switched(answer, runtime)) => match replay::agreed(&answer) {
                    Ok(()) => client.translate(&*clock, wanted, runtime).await,
                    Err(words) => client.tell(&*clock, &Verdict::Failure(words)).await,
                },
                Ok(Answered::Not(refusal)) => {
                    let words = replay::refused(&refusal);
                    client.tell(&*clock, &Verdict::Failure(words)).await;
                }
                Err(error) => {
                    let verdict = Verdict::Failure(error.to_string());
                    client.tell(&*clock, &verdict).await;
                }
            }
        });
        Ok(answer)
    }

    /// Asks the runtime to change the protocol. What it answers instead is passed on.
    async fn switched(
        &self,
        location: &Location,
        request: replay::Replayed,
    ) -> Result<(Response<()>, TokioIo<hyper::upgrade::Upgraded>), No> {
        match self.end.ask(location, request).await {
            Ok(Answered::Switched(answer, runtime)) => Ok((replay::passed_on(answer), runtime)),
            Ok(Answered::Not(answer)) if answer.status().as_u16() < 400 => {
                let status = answer.status().as_u16();
                let words = format!("invalid upgrade response: status code {status}");
                Err(No::new(refusal::broken(&words)))
            }
            Ok(Answered::Not(answer)) => Err(No::new(replay::echo(answer))),
            Err(error) => Err(error.into()),
        }
    }

    fn count(&self, kind: Kind) {
        self.translated.with_label_values(&[kind.word()]).inc();
    }
}

fn either(answer: Result<Response<Body>, No>) -> Response<Body> {
    answer.unwrap_or_else(|No(answer)| *answer)
}

/// What the path says after the endpoint's own name.
fn words(extensions: &Extensions) -> &[String] {
    let words = extensions.get::<PathWords>();
    words.map_or(&[], |PathWords(words)| words)
}

/// What goes on over the client's connection when the answer has been sent.
fn carry_on(request: &Parts, work: impl Future<Output = ()> + Send + 'static) {
    if let Some(line) = request.extensions.get::<Line>() {
        line.carry_on(work);
    }
}

/// A path that no endpoint has.
fn unknown_path() -> No {
    no(StatusCode::NOT_FOUND, "404: Page Not Found")
}

fn understood<T>(asked: Result<T, wanted::Misunderstood>) -> Result<T, No> {
    asked.map_err(|error| no(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Checked before the runtime keeps a place for streams that nobody can come for.
fn upgrade_wanted(headers: &HeaderMap) -> Result<(), No> {
    if upgrade::is_upgrade(headers) {
        return Ok(());
    }
    Err(No::new(refusal::broken("Upgrade request required")))
}

/// Whether a container of this name is to have a terminal; `None`: the pod has none of
/// that name.
fn has_terminal(pod: &Pod, name: &str) -> Option<bool> {
    let spec = pod.spec.as_ref()?;
    let plain = spec.containers.iter();
    let init = spec.init_containers.iter().flatten();
    let mut plain = plain.chain(init).map(|one| (&one.name, one.tty));
    let found = plain.find(|(own, _)| *own == name).or_else(|| {
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        let mut ephemeral = ephemeral.map(|one| (&one.name, one.tty));
        ephemeral.find(|(own, _)| *own == name)
    });
    found.map(|(_, tty)| tty == Some(true))
}

fn json(content: Vec<u8>) -> Response<Body> {
    let mut answer = Response::new(full(content));
    let kind = http::HeaderValue::from_static("application/json");
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests;
