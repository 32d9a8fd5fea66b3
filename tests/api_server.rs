//! The embedded API server in the test's own process, in memory.
//!
//! Shared by the test targets that run one: each takes it in as a module.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::Result;
use apiserver::access::ServingNames;
use apiserver::store::Window;
use apiserver::{Clock, Options, Server};
use seams::Clock as _;
use testkit::clock::TokioClock;

/// To be called inside the server's runtime; it goes by `clock`.
pub(crate) async fn start(clock: Arc<TokioClock>) -> Result<Server> {
    let server = Server::start(Options {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        data_dir: None,
        names: ServingNames {
            names: Vec::new(),
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            service_address: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
            cluster_domain: "cluster.local".to_owned(),
        },
        clock: Clock::new(move || clock.now()),
        window: Window::default(),
    });
    Ok(server.await?)
}
