//! What the tests of the transport are made of: certificates, an API server in this process,
//! and a clock whose hands can be turned.

pub(crate) mod certificates;
pub(crate) mod clock;
pub(crate) mod proxies;
pub(crate) mod server;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::kubeconfig::{ClientConfig, Kubeconfig, Surroundings};
use api::metrics::ClientMetrics;
use api::transport::{Credentials, Lane, LaneOptions, Options, ResponseBody, SendError, Transport};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use rustls::crypto::ring::default_provider;
use tower::Service as _;

use certificates::Authority;
use clock::TurnableClock;

/// Options with a clock that the test keeps.
pub(crate) fn options(clock: &Arc<TurnableClock>) -> Options {
    Options {
        clock: Arc::clone(clock) as _,
        provider: Arc::new(default_provider()),
        user_agent: "ferrolet-test/1".to_owned(),
        surroundings: Surroundings {
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            terminal: false,
            timeout: Duration::from_secs(10),
        },
        environment_proxy: None,
        metrics: ClientMetrics::new(),
    }
}

/// The kubeconfig of a cluster at `server` whose other fields, and whose user, are given in
/// YAML's flow form.
pub(crate) fn config(server: &str, cluster: &str, user: &str) -> ClientConfig {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: '{server}', {cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    Kubeconfig::parse(text.as_bytes(), Path::new("/etc/kubernetes/kubelet.conf"))
        .unwrap()
        .resolve(None)
        .unwrap()
}

/// The cluster's field that trusts `authority`.
pub(crate) fn trusting(authority: &Authority) -> String {
    let data = STANDARD.encode(authority.pem());
    format!("certificate-authority-data: {data}")
}

pub(crate) fn transport(config: &ClientConfig, clock: &Arc<TurnableClock>) -> Transport {
    Transport::new(config, Credentials::Configured, options(clock)).unwrap()
}

pub(crate) fn open_lane(transport: &Transport) -> Lane {
    transport.lane(LaneOptions {
        name: "test",
        limits: None,
        timeout: None,
        own_connections: false,
    })
}

pub(crate) async fn get(lane: &Lane, path: &str) -> Result<Response<ResponseBody>, SendError> {
    send(lane, Request::get(path).body(Body::empty()).unwrap()).await
}

pub(crate) async fn send(
    lane: &Lane,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, SendError> {
    lane.clone().call(request).await
}

/// The whole text of what `path` answers.
pub(crate) async fn text(lane: &Lane, path: &str) -> Result<String, SendError> {
    let response = get(lane, path).await?;
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

/// The next piece of a body; None at its end.
pub(crate) async fn piece(body: &mut ResponseBody) -> Option<Result<String, SendError>> {
    let frame = body.frame().await?;
    Some(frame.map(|frame| {
        let data = frame.into_data().unwrap();
        String::from_utf8(data.to_vec()).unwrap()
    }))
}

/// Waits until it is so; the test fails if that takes ten seconds.
pub(crate) async fn eventually(what: &str, so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within ten seconds: {what}");
}
