//! What happens in the cluster, as anybody with the kubeconfig can see it: three watches,
//! told in one stream.

use std::fmt;
use std::future::ready;

use futures_util::stream::{BoxStream, SelectAll, select_all};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

/// One event.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is held at a time, and looked at where it is"
)]
pub(super) enum News {
    Request(Event<CertificateSigningRequest>),
    Node(Event<Node>),
    Pod(Event<Pod>),
}

/// Goes on for ever: a watch that breaks is taken up again.
pub(super) fn follow(client: &Client) -> SelectAll<BoxStream<'static, News>> {
    select_all([
        events(client.clone()).map(News::Request).boxed(),
        events(client.clone()).map(News::Node).boxed(),
        events(client.clone()).map(News::Pod).boxed(),
    ])
}

fn events<K>(client: Client) -> impl Stream<Item = Event<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(Api::<K>::all(client), Config::default());
    events.default_backoff().filter_map(|event| {
        ready(match event {
            Ok(event) => Some(event),
            Err(error) => {
                debug!(err = %error, "what happens in the cluster cannot be followed");
                None
            }
        })
    })
}
