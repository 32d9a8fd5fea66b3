//! The cluster without its nodes: the API server, a kubeconfig for people, and a token
//! with which nodes come in.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use apiserver::access::ServingNames;
use apiserver::store::Window;
use apiserver::{Clock, Options, Server};
use cluster::kubeconfig;
use cluster::token::{Token, TokenSpec, create, secret_name};

use super::arguments::Arguments;
use super::place::Place;
use crate::cluster_access::ClusterAccess;
use crate::join::machine::own_name;
use crate::output::Failure;

/// kubeadm's.
const PORT: u16 = 6443;
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
const CLUSTER_DOMAIN: &str = "cluster.local";

/// Nodes use it within seconds; `ferrolet token create` makes others.
const TOKEN_LIFE: Duration = Duration::from_secs(60 * 60);

/// Starts the API server.
pub(super) async fn serve(arguments: &Arguments, place: &Place) -> Result<Server, Failure> {
    let options = Options {
        listen: (Ipv4Addr::LOCALHOST, port(arguments, place)).into(),
        data_dir: place.server_data(),
        names: ServingNames {
            names: vec![own_name()]
                .into_iter()
                .filter(|name| !name.is_empty())
                .collect(),
            addresses: Vec::new(),
            service_address: SERVICE_ADDRESS,
            cluster_domain: CLUSTER_DOMAIN.to_owned(),
        },
        clock: Clock::new(SystemTime::now),
        window: Window::default(),
    };
    Ok(Server::start(options).await?)
}

fn port(arguments: &Arguments, place: &Place) -> u16 {
    let last = place.last_server();
    let last = last.and_then(|server| server.rsplit_once(':')?.1.parse().ok());
    match (arguments.port, arguments.ephemeral) {
        (Some(port), _) => port,
        (None, true) => 0,
        (None, false) => last.unwrap_or(PORT),
    }
}

/// Writes the files by which the cluster is reached, and reaches it.
pub(super) fn reach(server: &Server, place: &Place) -> Result<ClusterAccess, Failure> {
    place.put(&place.authority(), &server.ca_pem())?;
    place.put(&place.kubeconfig(), &server.admin_kubeconfig())?;
    place.keep_server(&format!("https://{}", server.address()))?;
    Ok(ClusterAccess::with_kubeconfig(place.kubeconfig(), None)?)
}

/// Makes a token, and the kubeconfig with it. What it is called.
pub(super) async fn invite(access: &ClusterAccess, place: &Place) -> Result<String, Failure> {
    let token = Token::generate()?;
    let spec = TokenSpec {
        ttl: Some(TOKEN_LIFE),
        description: "made by ferrolet up for its nodes".to_owned(),
        ..TokenSpec::default()
    };
    let text = kubeconfig::bootstrap(&access.endpoint()?, &access.cluster_name, &token)?;
    text.write(&place.bootstrap_kubeconfig())?;
    create(&access.client, &token, &spec, access.now()).await?;
    Ok(secret_name(token.id()))
}
