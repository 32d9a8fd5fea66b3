//! What the API server says of this machine's node. It is asked as the node itself,
//! and as an administrator where the node may not see.

use std::path::Path;
use std::time::Duration;

use api::kubeconfig::{ClientConfig, GivenIdentity, Identity, Kubeconfig};
use api::transport::{Credentials, LaneOptions, Options, Transport};
use cluster::csr::{Described, describe};
use cluster::preflight::ClockSkew;
use cluster::{CallError, CallProblem};
use http::{Request, header};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client};
use seams::{SharedClock, timeout};

use super::LocalNode;
use super::look::{Hidden, Look};
use crate::cluster_access::{ClusterAccess, ClusterArguments};
use crate::connection;
use crate::version;

const LEASES: &str = "kube-node-lease";

/// The last whole list of pods, in seconds since 1970.
const LAST_SEEN: &str = "kubelet_pleg_last_seen_seconds";

/// How to see what the node's credentials do not show.
const AS_ADMINISTRATOR: &str = "ferrolet doctor --admin-kubeconfig FILE";

/// Whether the API server answers at all, to nobody in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// No kubeconfig names one.
    NoServer,
    Answers {
        skew: Option<ClockSkew>,
    },
    Silent(String),
}

/// What the API server makes of the node's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    Known,
    /// It does not know them.
    Refused,
    /// It knows them, and does not let the node see itself.
    Forbidden(String),
    /// There are none that could be shown, or nobody to show them to.
    Untried(String),
}

/// The ways to the API server.
pub(crate) struct Cluster {
    node_name: String,
    /// The server's URL.
    pub(crate) server: Option<String>,
    /// As nobody.
    anybody: Option<(Transport, Client)>,
    own: Result<ClusterAccess, String>,
    administrator: Option<ClusterAccess>,
    clock: SharedClock,
    limit: Duration,
}

impl Cluster {
    /// To be called inside a runtime. Nothing is asked yet.
    pub(crate) fn open(node: &LocalNode, options: &Options, limit: Duration) -> Self {
        let main = &node.places.kubeconfig;
        let own = ClusterAccess::with_kubeconfig(main.clone(), None);
        let own = own.map_err(|error| error.to_string());
        let config = match &own {
            Ok(access) => Some(access.config.clone()),
            Err(_) => config_of(main).or_else(|| config_of(&node.places.bootstrap_kubeconfig)),
        };
        let server = config.as_ref().map(|config| config.server.text.clone());
        Self {
            node_name: node.name.clone(),
            anybody: config.and_then(|config| client_of(&anonymous(config), options, limit)),
            administrator: administrator(node.admin_kubeconfig.as_deref(), server.as_deref()),
            own,
            server,
            clock: options.clock.clone(),
            limit,
        }
    }

    pub(crate) async fn close(self) {
        if let Some((transport, _)) = &self.anybody {
            transport.close().await;
        }
        for access in self.own.iter().chain(&self.administrator) {
            access.close().await;
        }
    }

    /// Any answer is one, and has a date.
    pub(crate) async fn reach(&self) -> Reach {
        let Some((_, client)) = &self.anybody else {
            return match &self.server {
                None => Reach::NoServer,
                Some(server) => Reach::Silent(format!("{server} cannot be dialled")),
            };
        };
        let request = match Request::get("/version").body(Body::empty()) {
            Ok(request) => request,
            Err(error) => return Reach::Silent(error.to_string()),
        };
        match timeout(&*self.clock, self.limit, client.send(request)).await {
            Err(_) => Reach::Silent(self.no_answer()),
            Ok(Err(error)) => {
                let error = CallError::new("ask", "it", &error);
                let (CallProblem::Unreachable(cause) | CallProblem::Rejected(cause)) =
                    error.problem
                else {
                    return Reach::Answers { skew: None };
                };
                Reach::Silent(cause)
            }
            Ok(Ok(answer)) => {
                let date = answer.headers().get(header::DATE);
                let date = date.and_then(|date| date.to_str().ok());
                Reach::Answers {
                    skew: date.and_then(|date| ClockSkew::of_date_header(date, self.clock.now())),
                }
            }
        }
    }

    /// The node's object, and whether the API server takes its credentials.
    pub(crate) async fn node(&self) -> (Welcome, Look<Option<Node>>) {
        let get = async |client: Client| {
            let nodes: Api<Node> = Api::all(client);
            nodes.get_opt(&self.node_name).await
        };
        let (welcome, seen) = match &self.own {
            Err(why) => (Welcome::Untried(why.clone()), None),
            Ok(access) => match self.call("get", access.client.clone(), &get).await {
                Ok(node) => (Welcome::Known, Some(node)),
                Err(CallProblem::Unauthorized) => (Welcome::Refused, None),
                Err(CallProblem::Forbidden(why)) => (Welcome::Forbidden(why), None),
                Err(problem) => (Welcome::Untried(problem.to_string()), None),
            },
        };
        let look = match (seen, &self.administrator) {
            (Some(node), _) => Look::Seen(node),
            (None, Some(access)) => match self.call("get", access.client.clone(), &get).await {
                Ok(node) => Look::Seen(node),
                Err(problem) => Self::hidden(&problem),
            },
            (None, None) => Look::Hidden(Hidden::new(
                "the node's own credentials cannot be used",
                Some(AS_ADMINISTRATOR),
            )),
        };
        (welcome, look)
    }

    pub(crate) async fn lease(&self) -> Look<Option<Lease>> {
        self.ask(async |client: Client| {
            let leases: Api<Lease> = Api::namespaced(client, LEASES);
            leases.get_opt(&self.node_name).await
        })
        .await
    }

    /// The requests for certificates of this node, the newest first.
    pub(crate) async fn requests(&self) -> Look<Vec<Described>> {
        let listed = self
            .ask(async |client: Client| {
                let requests: Api<CertificateSigningRequest> = Api::all(client);
                requests.list(&ListParams::default()).await
            })
            .await;
        match listed {
            Look::Seen(list) => Look::Seen(requests_of(&list.items, &self.node_name)),
            Look::Hidden(hidden) => Look::Hidden(hidden),
            Look::Skipped => Look::Skipped,
        }
    }

    pub(crate) async fn pods(&self) -> Look<Vec<Pod>> {
        let fields = format!("spec.nodeName={}", self.node_name);
        let listed = self
            .ask(async |client: Client| {
                let pods: Api<Pod> = Api::all(client);
                pods.list(&ListParams::default().fields(&fields)).await
            })
            .await;
        match listed {
            Look::Seen(list) => Look::Seen(list.items),
            Look::Hidden(hidden) => Look::Hidden(hidden),
            Look::Skipped => Look::Skipped,
        }
    }

    /// The node that has a pod of this name, for an administrator: a node sees only its own.
    /// Of several, `first` comes first.
    pub(crate) async fn node_of_pod(
        &self,
        namespace: Option<&str>,
        name: &str,
        first: &str,
    ) -> Option<String> {
        let access = self.administrator.as_ref()?;
        let fields = format!("metadata.name={name}");
        let list = async |client: Client| {
            let pods: Api<Pod> = match namespace {
                Some(namespace) => Api::namespaced(client, namespace),
                None => Api::all(client),
            };
            pods.list(&ListParams::default().fields(&fields)).await
        };
        let pods = self.call("list", access.client.clone(), &list).await.ok()?;
        let nodes = pods.items.into_iter().filter_map(|pod| pod.spec?.node_name);
        nodes.min_by_key(|node| node != first)
    }

    /// A node may write events, and read none.
    pub(crate) async fn events(&self, pod: &Pod) -> Look<Vec<Event>> {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let fields = format!("involvedObject.uid={uid}");
        let listed = self
            .ask(async |client: Client| {
                let events: Api<Event> = Api::namespaced(client, &namespace);
                events.list(&ListParams::default().fields(&fields)).await
            })
            .await;
        match listed {
            Look::Seen(list) => Look::Seen(list.items),
            Look::Hidden(hidden) => Look::Hidden(hidden),
            Look::Skipped => Look::Skipped,
        }
    }

    /// When the agent last listed its pods, by its own figures.
    pub(crate) async fn last_relist(
        &self,
        read_only_port: u16,
        options: &Options,
    ) -> Look<Timestamp> {
        let page = match self.figures(read_only_port, options).await {
            Look::Seen(page) => page,
            Look::Hidden(hidden) => return Look::Hidden(hidden),
            Look::Skipped => return Look::Skipped,
        };
        match last_seen(&page) {
            Some(moment) => Look::Seen(moment),
            None => Look::Hidden(Hidden::new(
                format!("the agent's figures hold no {LAST_SEEN}"),
                None,
            )),
        }
    }

    async fn figures(&self, read_only_port: u16, options: &Options) -> Look<String> {
        if read_only_port != 0 {
            let url = format!("http://127.0.0.1:{read_only_port}");
            return match get_text(&url, "/metrics", options, self.limit).await {
                Ok(page) => Look::Seen(page),
                Err(why) => Look::Hidden(Hidden::new(why, None)),
            };
        }
        let Some(access) = &self.administrator else {
            return Look::Hidden(Hidden::new(
                "a node may not read its own figures, and its read-only port is off",
                Some(AS_ADMINISTRATOR),
            ));
        };
        let path = format!("/api/v1/nodes/{}/proxy/metrics", self.node_name);
        let get = async |client: Client| {
            let request = Request::get(&path).body(Vec::new());
            client
                .request_text(request.map_err(kube::Error::HttpError)?)
                .await
        };
        match self.call("get", access.client.clone(), &get).await {
            Ok(page) => Look::Seen(page),
            Err(problem) => Self::hidden(&problem),
        }
    }

    /// As the node, or else as an administrator.
    async fn ask<T>(&self, call: impl AsyncFn(Client) -> Result<T, kube::Error>) -> Look<T> {
        let mut last = None;
        for access in self.own.iter().chain(&self.administrator) {
            match self.call("read", access.client.clone(), &call).await {
                Ok(answer) => return Look::Seen(answer),
                Err(problem) => last = Some(problem),
            }
        }
        match last {
            Some(problem) => Self::hidden(&problem),
            None => Look::Skipped,
        }
    }

    async fn call<T>(
        &self,
        verb: &'static str,
        client: Client,
        call: impl AsyncFn(Client) -> Result<T, kube::Error>,
    ) -> Result<T, CallProblem> {
        match timeout(&*self.clock, self.limit, call(client)).await {
            Err(_) => Err(CallProblem::Unreachable(self.no_answer())),
            Ok(Err(error)) => Err(CallError::new(verb, "it", &error).problem),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    fn hidden<T>(problem: &CallProblem) -> Look<T> {
        let (why, command) = match problem {
            CallProblem::Forbidden(_) => (
                "the API server does not show it to the node".to_owned(),
                Some(AS_ADMINISTRATOR),
            ),
            // That is a finding of its own.
            CallProblem::Unauthorized => return Look::Skipped,
            other => (other.to_string(), None),
        };
        Look::Hidden(Hidden::new(why, command))
    }

    fn no_answer(&self) -> String {
        format!("no answer within {} s", self.limit.as_secs())
    }
}

/// Asks a port of this machine.
pub(crate) async fn get_text(
    url: &str,
    path: &str,
    options: &Options,
    limit: Duration,
) -> Result<String, String> {
    let kubeconfig = format!(
        "{{clusters: [{{name: a, cluster: {{server: '{url}'}}}}], contexts: [{{name: a, context: {{cluster: a}}}}], current-context: a}}"
    );
    let parsed = Kubeconfig::parse(kubeconfig.as_bytes(), Path::new("/local"));
    let config = parsed.map_err(|error| error.to_string())?;
    let config = config.resolve(None).map_err(|error| error.to_string())?;
    // What is on this machine is behind no proxy.
    let (transport, client) = plain_client_of(&config, options.clone(), limit)?;
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = timeout(&*options.clock, limit, client.request_text(request)).await;
    transport.close().await;
    match answer {
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
        Ok(Err(error)) => Err(match CallError::new("ask", url, &error).problem {
            CallProblem::Unreachable(cause) | CallProblem::Rejected(cause) => cause,
            problem => problem.to_string(),
        }),
        Ok(Ok(text)) => Ok(text),
    }
}

fn config_of(kubeconfig: &Path) -> Option<ClientConfig> {
    let parsed = Kubeconfig::read(kubeconfig).ok()?;
    if let Ok(config) = parsed.resolve(None) {
        return Some(config);
    }
    // An agent that bootstraps writes the kubeconfig first, and what it points at later.
    let mut parsed = parsed;
    parsed.users.clear();
    parsed.resolve(None).ok()
}

fn anonymous(config: ClientConfig) -> ClientConfig {
    ClientConfig {
        identity: Identity::Given(GivenIdentity::default()),
        impersonation: None,
        ..config
    }
}

fn client_of(
    config: &ClientConfig,
    options: &Options,
    limit: Duration,
) -> Option<(Transport, Client)> {
    let options = connection::with_proxy(options, config).ok()?;
    plain_client_of(config, options, limit).ok()
}

fn plain_client_of(
    config: &ClientConfig,
    options: Options,
    limit: Duration,
) -> Result<(Transport, Client), String> {
    let transport = Transport::new(config, Credentials::Configured, options);
    let transport = transport.map_err(|error| error.to_string())?;
    let lane = transport.lane(LaneOptions {
        name: "look",
        limits: None,
        timeout: Some(limit),
        own_connections: false,
    });
    let client = lane.client("default");
    Ok((transport, client))
}

/// What every way is made with.
pub(crate) fn options() -> Options {
    connection::options(version::command_user_agent())
}

/// The given one; or whichever kubectl would use, if it is for the same server: another
/// cluster must not be asked about this node.
fn administrator(given: Option<&Path>, server: Option<&str>) -> Option<ClusterAccess> {
    let access = ClusterAccess::open(&ClusterArguments {
        kubeconfig: given.map(Path::to_owned),
        context: None,
    });
    let access = access.ok()?;
    let same = server == Some(access.config.server.text.as_str());
    (given.is_some() || same).then_some(access)
}

/// Those that ask for a certificate of this node, the newest first.
fn requests_of(requests: &[CertificateSigningRequest], node_name: &str) -> Vec<Described> {
    let user = format!("system:node:{node_name}");
    let mut own: Vec<Described> = requests
        .iter()
        .map(describe)
        .filter(|request| {
            let asked_for = request.content.as_ref().map(|content| &content.common_name);
            asked_for.is_ok_and(|name| *name == user)
        })
        .collect();
    own.sort_by_key(|request| std::cmp::Reverse(request.created));
    own
}

/// From a page of figures.
fn last_seen(page: &str) -> Option<Timestamp> {
    let value = page.lines().find_map(|line| {
        let rest = line.strip_prefix(LAST_SEEN)?;
        rest.strip_prefix(' ')?.split(' ').next()
    })?;
    let seconds: f64 = value.parse().ok()?;
    // Before anything was listed it is nothing.
    if seconds <= 0.0 {
        return None;
    }
    Timestamp::try_from(
        std::time::SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(seconds).ok()?,
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_relist_is_read_off_a_page_of_figures() {
        let page = "# HELP kubelet_pleg_last_seen_seconds x\n\
                    kubelet_pleg_last_seen_seconds_other 3\n\
                    kubelet_pleg_last_seen_seconds 1.8e+09\n";
        let moment = last_seen(page).unwrap();
        assert_eq!(moment.as_second(), 1_800_000_000);
        assert_eq!(last_seen("kubelet_pleg_last_seen_seconds 0\n"), None);
        assert_eq!(last_seen(""), None);
    }
}
