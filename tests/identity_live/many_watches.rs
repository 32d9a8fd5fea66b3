//! Two hundred watches on a few connections, and heartbeats beside them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::transport::LaneOptions;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;
use testkit::wait;
use tokio::runtime::Runtime;

use crate::control_plane::{ControlPlane, Swept, unique};
use crate::load::Load;
use crate::node::{heartbeats, transport};
use crate::watches::{MARK, Watches};

const WATCHES: usize = 200;
/// Ordinary requests beside the watches.
const AT_ONCE: usize = 8;
const MOST_CONNECTIONS: usize = 4;
const BEAT: Duration = Duration::from_millis(200);
const BEATING: Duration = Duration::from_secs(10);
const SLOWEST_BEAT: Duration = Duration::from_secs(1);

#[test]
fn two_hundred_watches_share_a_few_connections_and_do_not_hold_up_heartbeats() -> Result<()> {
    let control_plane = ControlPlane::take()?;
    let namespace = unique("many-watches");
    let mut swept = Swept::new(&control_plane.lab);
    swept.later("namespace", "", &namespace);
    control_plane
        .lab
        .kubectl()
        .run(["create", "namespace", &namespace])?;
    let runtime = Runtime::new()?;
    let _inside = runtime.enter();
    let others = control_plane.connections()?;
    let transport = transport(&control_plane.lab.admin_kubeconfig())?;
    let ours = || Ok::<_, anyhow::Error>((&control_plane.connections()? - &others).len());
    let shared = transport.lane(LaneOptions {
        name: "requests",
        limits: None,
        timeout: None,
        own_connections: false,
    });
    let shared = shared.client(&namespace);

    let mut watches = Watches::new();
    for number in 0..WATCHES {
        let one = watcher::Config::default().fields(&format!("metadata.name=cm-{number}"));
        let api: Api<ConfigMap> = Api::default_namespaced(shared.clone());
        watches.follow("config map", api, one);
    }
    runtime.block_on(mark_all(&shared, "one"))?;
    watches.wait_for("one")?;
    let connections = ours()?;
    ensure!(connections > 0, "no connection is seen at the server");
    // One of them is for the heartbeats to come.
    ensure!(
        connections < MOST_CONNECTIONS,
        "{WATCHES} watches have {connections} connections"
    );

    let heartbeat = heartbeats(&transport).client("default");
    let mut rounds = 0;
    wait::promised("the slowest heartbeat", SLOWEST_BEAT, || {
        let load = Load::new();
        let heartbeat = heartbeat.clone();
        load.send_every(BEAT, move || {
            let namespaces: Api<Namespace> = Api::all(heartbeat.clone());
            async move { namespaces.get("kube-node-lease").await }
        });
        let start = Instant::now();
        // Meanwhile the shared connections are kept busy, and every watch delivers.
        while start.elapsed() < BEATING {
            rounds += 1;
            let mark = format!("round-{rounds}");
            runtime
                .block_on(mark_all(&shared, &mark))
                .context("an ordinary request beside the watches")?;
            watches.wait_for(&mark)?;
        }
        let with_heartbeats = ours()?;
        runtime.block_on(load.stop());
        let beats = load.tally.so_far();
        println!(
            "{WATCHES} watches on {connections} connections ({with_heartbeats} with heartbeats); \
             {} heartbeats beside changes, until round {rounds}: median {:.0?}, slowest {:.0?}",
            beats.requests(),
            beats.median(),
            beats.slowest(),
        );
        ensure!(beats.failures.is_empty(), "{:#?}", beats.failures);
        ensure!(beats.requests() >= 45, "only {} beats", beats.requests());
        ensure!(
            with_heartbeats <= MOST_CONNECTIONS,
            "{with_heartbeats} connections with the heartbeats'"
        );
        Ok((beats.slowest(), ()))
    })?;
    let errors = watches.tally.so_far().failures;
    ensure!(errors.is_empty(), "{errors:#?}");
    runtime.block_on(async {
        watches.stop().await;
        transport.close().await;
    });
    wait::until(
        "the connections to be gone",
        Duration::from_secs(10),
        || {
            let left = ours()?;
            ensure!(left == 0, "{left} are left");
            Ok(())
        },
    )
}

/// Changes the object of each watch, or makes it: ordinary requests, a few at a time.
async fn mark_all(client: &Client, mark: &str) -> kube::Result<()> {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let params = PatchParams::apply("identity-live");
    let marked = (0..WATCHES).map(|number| {
        let (api, params) = (api.clone(), params.clone());
        async move {
            let name = format!("cm-{number}");
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "annotations": { MARK: mark } },
            });
            api.patch(&name, &params, &Patch::Apply(&object)).await
        }
    });
    let mut marked = stream::iter(marked).buffer_unordered(AT_ONCE);
    while let Some(outcome) = marked.next().await {
        outcome?;
    }
    Ok(())
}
