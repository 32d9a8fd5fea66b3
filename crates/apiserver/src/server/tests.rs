use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::kinds::{CONFIG_MAPS, NAMESPACES};
use crate::store::Key;

fn options(data_dir: &Path) -> Options {
    // Certificates are judged by real time, and made some minutes before it.
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    Options {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        data_dir: Some(data_dir.to_owned()),
        names: ServingNames {
            names: Vec::new(),
            addresses: Vec::new(),
            service_address: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
            cluster_domain: "cluster.local".to_owned(),
        },
        clock: Clock::starting_at(start),
        window: Window::default(),
    }
}

async fn ended(server: Server) {
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    server.run(shutdown).await;
}

#[tokio::test]
async fn a_second_start_goes_on_with_the_same_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let first = Server::start(options(directory.path())).await.unwrap();
    let object = json!({"metadata": {"name": "a"}, "data": {"b": "c"}});
    first
        .objects()
        .create(&CONFIG_MAPS, "default", object)
        .await
        .unwrap();
    let key = Key::new(&CONFIG_MAPS, "default", "a");
    let (authority, made) = (first.ca_pem(), first.objects().get(&key).unwrap().value());
    ended(first).await;
    let second = Server::start(options(directory.path())).await.unwrap();
    assert_eq!(second.ca_pem(), authority);
    assert_eq!(second.objects().get(&key).unwrap().value(), made);
    ended(second).await;
}

#[tokio::test]
async fn every_cluster_has_its_namespaces_before_anybody_asks() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(options(directory.path())).await.unwrap();
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(
            server
                .objects()
                .get(&Key::global(&NAMESPACES, name))
                .is_ok(),
            "{name}"
        );
    }
    ended(server).await;
}

#[tokio::test]
async fn a_namespace_that_is_going_does_not_keep_the_server_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let (store, writer) = Store::open(Some(directory.path()), Window::default()).unwrap();
    let (shutdown, mut running) = (CancellationToken::new(), JoinSet::new());
    running.spawn(writer.run(shutdown.clone()));
    let going = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "default",
        "deletionTimestamp": "2027-01-15T08:00:00Z",
        "finalizers": ["example.com/hold"],
    }});
    let default = Key::global(&NAMESPACES, "default");
    store.create(default.clone(), going).await.unwrap();
    shutdown.cancel();
    running.join_all().await;
    drop(store);
    let server = Server::start(options(directory.path())).await.unwrap();
    let objects = server.objects().clone();
    assert!(objects.get(&default).is_ok());
    let info = Key::new(&CONFIG_MAPS, "kube-public", "cluster-info");
    assert!(objects.get(&info).is_ok(), "the others are made");
    ended(server).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(options(one.path())).await.unwrap();
    let taken = Options {
        listen: server.address(),
        ..options(other.path())
    };
    let problem = Server::start(taken).await.unwrap_err().to_string();
    let hint = format!("sport = :{}", server.address().port());
    assert!(problem.contains(&hint), "{problem}");
    ended(server).await;
}
