//! An API server for each test, in memory, and agents in the same process that come in as
//! nodes do: with a token, over TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::{Access, AgentError, Config, Membership, Place, Rates};
use anyhow::{Context, Result, ensure};
use api::kubeconfig::Kubeconfig;
use api::transport::{Credentials, LaneOptions, Limits, Transport};
use apiserver::faults::{Faults, Rule};
use identity::client::Wanted;
use jiff::tz::TimeZone;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{Api, Client};
use node::config::Timing;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api_server;
use crate::in_process::{node_config, options, pods_config, seams};

/// For what takes a second or two on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

/// Leases are renewed every two seconds; every look is told.
const TIMING: Timing = Timing {
    update: Duration::from_secs(4),
    report: Duration::from_secs(1),
    lease: Duration::from_secs(8),
};

/// A cluster with nobody in it.
pub(crate) struct Embedded {
    pub(crate) faults: Faults,
    /// Everybody's: the server's and the agents'.
    pub(crate) clock: Arc<TokioClock>,
    /// As one who may do everything.
    pub(crate) admin: Client,
    transport: Transport,
    server: JoinHandle<()>,
    ending: CancellationToken,
    directory: TempDir,
    runtime: Runtime,
}

/// A node of ours that runs.
pub(crate) struct Agent {
    /// What runs its pods.
    pub(crate) pods: Arc<sim::Runtime>,
    running: JoinHandle<Result<(), AgentError>>,
    shutdown: CancellationToken,
}

impl Embedded {
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let clock = Arc::new(TokioClock::starting_at(SystemTime::now()));
        let server = runtime.block_on(api_server::start(clock.clone()))?;
        let directory = TempDir::new()?;
        let admin = directory.path().join("admin.conf");
        fs::write(&admin, server.admin_kubeconfig())?;
        fs::write(
            directory.path().join("bootstrap-kubelet.conf"),
            bootstrap_kubeconfig(&server.admin_kubeconfig())?,
        )?;
        let transport = transport(&admin, &clock)?;
        let client = client(&transport);
        runtime.block_on(make_token(&client))?;
        let (faults, ending) = (server.faults().clone(), CancellationToken::new());
        let server = runtime.spawn(server.run(ending.clone()));
        drop(inside);
        Ok(Self {
            faults,
            clock,
            admin: client,
            transport,
            server,
            ending,
            directory,
            runtime,
        })
    }

    /// Starts a node, or starts it again: its files are where they were.
    pub(crate) fn agent(&self, name: &str) -> Result<Agent> {
        let place = self.place(name);
        let limits = Limits::from_settings(50.0, 100);
        let membership = Membership {
            access: Access::Own {
                identity: Wanted {
                    node_name: name.to_owned(),
                    kubeconfig: place.join("kubelet.conf"),
                    bootstrap_kubeconfig: Some(
                        self.directory.path().join("bootstrap-kubelet.conf"),
                    ),
                    directory: place.join("pki"),
                    rotate: true,
                    zone: TimeZone::UTC,
                },
                rates: Rates {
                    requests: limits,
                    events: limits,
                },
            },
            node: node_config(name, &place, TIMING),
        };
        let config = Config {
            place: Place::Cluster(Box::new(membership)),
            serving: None,
            door: None,
            healthz: None,
            pods: pods_config()?,
        };
        let _inside = self.runtime.enter();
        let (seams, pods) = seams(name, options(self.clock.clone()));
        let (shutdown, (started, _)) = (CancellationToken::new(), oneshot::channel());
        let running = agent::run(config, seams, started, shutdown.clone());
        Ok(Agent {
            pods,
            running: self.runtime.spawn(running),
            shutdown,
        })
    }

    /// Ends an agent as SIGTERM does. Nobody at the API server is told.
    pub(crate) fn end(&self, agent: Agent) -> Result<()> {
        ensure!(
            !agent.running.is_finished(),
            "the agent has ended by itself"
        );
        agent.shutdown.cancel();
        Ok(self.run(agent.running)??)
    }

    /// Where a node keeps its files.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// As the node itself, with what it keeps.
    pub(crate) fn as_node(&self, name: &str) -> Result<Client> {
        let _inside = self.runtime.enter();
        let transport = transport(&self.place(name).join("kubelet.conf"), &self.clock)?;
        Ok(client(&transport))
    }

    /// Waits for a call to come back.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    pub(crate) fn node(&self, name: &str) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.admin.clone());
        self.run(nodes.get(name)).context("no node")
    }

    pub(crate) fn lease(&self, name: &str) -> Result<Lease> {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), "kube-node-lease");
        self.run(leases.get(name)).context("no lease")
    }

    /// A node that is Ready, when it is.
    pub(crate) fn wait_ready(&self, name: &str) -> Result<Node> {
        wait::until(&format!("{name} to be Ready"), PATIENCE, || {
            let node = self.node(name)?;
            ensure!(ready(&node) == Some("True"), "{:?}", node.status);
            anyhow::Ok(node)
        })
    }

    /// Waits until so many renewals of a lease were seen from now on.
    pub(crate) fn wait_renewed(&self, name: &str, times: usize) -> Result<()> {
        let look = || {
            let spec = self.lease(name)?.spec;
            anyhow::Ok(spec.and_then(|spec| Some(spec.renew_time?.0)))
        };
        let mut last = wait::until(&format!("the lease of {name}"), PATIENCE, look)?;
        for turn in 1..=times {
            let what = format!("renewal {turn} of the lease of {name}");
            last = wait::until(&what, PATIENCE, || {
                let now = look()?;
                ensure!(now > last, "renewed at {now:?}");
                anyhow::Ok(now)
            })?;
        }
        Ok(())
    }

    /// Waits until every rule that is over after some times has been met that often.
    pub(crate) fn wait_faults_met(&self) -> Result<()> {
        wait::until("the faults to be met", PATIENCE, || {
            let left = self.faults.left();
            let left: Vec<&Rule> = left.iter().filter(|rule| rule.times.is_some()).collect();
            ensure!(left.is_empty(), "not yet met: {left:?}");
            anyhow::Ok(())
        })
    }

    /// Ends the server, in order.
    pub(crate) fn stop(self) -> Result<()> {
        self.runtime.block_on(self.transport.close());
        self.ending.cancel();
        Ok(self.runtime.block_on(self.server)?)
    }
}

/// What its Ready condition says.
pub(crate) fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    Some(&ready.status)
}

fn transport(kubeconfig: &Path, clock: &Arc<TokioClock>) -> Result<Transport> {
    let config = Kubeconfig::read(kubeconfig)?.resolve(None)?;
    let options = options(clock.clone());
    Ok(Transport::new(&config, Credentials::Configured, options)?)
}

fn client(transport: &Transport) -> Client {
    let lane = transport.lane(LaneOptions {
        name: "test",
        limits: None,
        timeout: Some(PATIENCE),
        own_connections: false,
    });
    lane.client("default")
}

/// The same server, as one who has nothing but a token.
fn bootstrap_kubeconfig(admin: &str) -> Result<String> {
    let mut kubeconfig: Value = serde_json::from_str(admin)?;
    let (id, secret) = TOKEN;
    let name = kubeconfig["users"][0]["name"].clone();
    kubeconfig["users"] = json!([{"name": name, "user": {"token": format!("{id}.{secret}")}}]);
    Ok(kubeconfig.to_string())
}

async fn make_token(client: &Client) -> Result<()> {
    let (id, secret) = TOKEN;
    let token: Secret = serde_json::from_value(json!({
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": id,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    }))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    secrets
        .create(&kube::api::PostParams::default(), &token)
        .await?;
    Ok(())
}
