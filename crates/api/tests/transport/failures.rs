//! What is said when the server cannot be reached or believed, and how that heals.

use std::fs;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::support::certificates::Authority;
use crate::support::clock::TurnableClock;
use crate::support::server::{Kind, TestServer};
use crate::support::{config, eventually, get, open_lane, piece, text, transport, trusting};

async fn failure(server: &str, cluster: &str) -> String {
    let clock = TurnableClock::new();
    let transport = transport(&config(server, cluster, ""), &clock);
    let error = text(&open_lane(&transport), "/short").await.unwrap_err();
    assert_eq!(transport.connections(), 0);
    error.to_string()
}

#[tokio::test]
async fn an_error_names_the_server_and_what_is_wrong() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let address = server.address();
    let unreachable = format!("{address} cannot be reached: ");

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let error = failure(&format!("https://127.0.0.1:{port}"), &trusting(&authority)).await;
    assert_eq!(
        error,
        format!("https://127.0.0.1:{port} cannot be reached: connection refused: 127.0.0.1:{port}")
    );

    let other = trusting(&Authority::new("other"));
    let error = failure(&address, &other).await;
    assert!(error.starts_with(&unreachable), "{error}");
    assert!(error.contains("signed by an unknown authority"), "{error}");

    let named = format!("{}, tls-server-name: api.example", trusting(&authority));
    let error = failure(&address, &named).await;
    assert!(
        error.contains("not valid for api.example, but for "),
        "{error}"
    );

    let error = failure("https://no-such-host.invalid:6443", &trusting(&authority)).await;
    assert!(
        error.contains("the name no-such-host.invalid cannot be resolved"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_address_that_swallows_everything_is_given_up_after_five_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Room for one that waits, and it is taken: whoever comes now is not even refused.
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = TcpStream::connect(address).await.unwrap();

    let clock = TurnableClock::new();
    let server = format!("http://{address}");
    let transport = transport(&config(&server, "", ""), &clock);
    let lane = open_lane(&transport);
    let asked = text(&lane, "/short");
    let turned = async {
        eventually("the address is waited for", || clock.begun(5) == 1).await;
        clock.turn(Duration::from_secs(5));
    };
    let (answer, ()) = tokio::join!(asked, turned);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("timed out"), "{error}");
}

#[tokio::test]
async fn a_server_name_stands_in_for_the_address_and_insecure_takes_anybody() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let named = format!("{}, tls-server-name: localhost", trusting(&authority));
    for cluster in [named.as_str(), "insecure-skip-tls-verify: true"] {
        let clock = TurnableClock::new();
        let transport = transport(&config(&server.address(), cluster, ""), &clock);
        assert_eq!(
            text(&open_lane(&transport), "/short").await.unwrap(),
            "/short"
        );
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_after_ten_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", silent.local_addr().unwrap());
    let clock = TurnableClock::new();
    let cluster = trusting(&Authority::new("ca"));
    let transport = transport(&config(&address, &cluster, ""), &clock);
    let lane = open_lane(&transport);
    let asked = tokio::spawn(async move { text(&lane, "/short").await });
    let (_client, _) = silent.accept().await.unwrap();
    eventually("it waits for ten seconds", || clock.begun(10) == 1).await;
    clock.turn(Duration::from_secs(11));
    let error = asked.await.unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{address} cannot be reached: no TLS handshake with 127.0.0.1 within 10 s")
    );
}

#[tokio::test]
async fn a_certificate_that_the_server_does_not_take_is_told() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let stranger = Authority::new("stranger").sign("stranger", &[]);
    let directory = tempfile::tempdir().unwrap();
    let pair = directory.path().join("pair.pem");
    fs::write(&pair, stranger.pem()).unwrap();
    let user = format!("client-certificate: {0}, client-key: {0}", pair.display());
    let config = config(&server.address(), &trusting(&authority), &user);
    let clock = TurnableClock::new();
    let transport = transport(&config, &clock);
    let lane = open_lane(&transport);
    let error = text(&lane, "/short").await.unwrap_err().to_string();
    assert!(error.contains("check the client certificate"), "{error}");

    // A failed handshake looks at the files, but not more often than every ten seconds.
    fs::write(&pair, authority.sign("known", &[]).pem()).unwrap();
    text(&lane, "/short").await.unwrap_err();
    clock.turn(Duration::from_secs(11));
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(server.last_request().client.as_deref(), Some("known"));

    // Without a failure they are looked at every five minutes.
    fs::write(&pair, "junk").unwrap();
    clock.turn(Duration::from_secs(301));
    eventually("the files were looked at", || clock.begun(300) == 2).await;
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    fs::write(&pair, authority.sign("renewed", &[]).pem()).unwrap();
    clock.turn(Duration::from_secs(301));
    eventually("the old connection is closed", || server.open() == 0).await;
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(server.last_request().client.as_deref(), Some("renewed"));
}

#[tokio::test]
async fn a_new_ca_is_believed_at_the_next_handshake() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = TestServer::start(&old, Kind::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("ca.pem");
    fs::write(&bundle, old.pem()).unwrap();
    let cluster = format!("certificate-authority: {}", bundle.display());
    let clock = TurnableClock::new();
    let transport = transport(&config(&server.address(), &cluster, ""), &clock);
    let lane = open_lane(&transport);
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");

    // The file follows the server: nobody has to wait for the timer.
    server.move_to(&new);
    fs::write(&bundle, new.pem()).unwrap();
    lane.reconnect();
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");

    // The file comes before the server: connections made under the old bundle are drained.
    let mut watching = get(&lane, "/x?watch=true").await.unwrap().into_body();
    fs::write(&bundle, "").unwrap();
    clock.turn(Duration::from_secs(301));
    eventually("the file was looked at", || clock.begun(300) == 2).await;
    let before = server.connections();
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(
        server.connections(),
        before,
        "an empty file changes nothing"
    );
    fs::write(&bundle, format!("{}{}", new.pem(), old.pem())).unwrap();
    clock.turn(Duration::from_secs(301));
    eventually("the file was looked at", || clock.begun(300) == 3).await;
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    assert_eq!(
        server.connections(),
        before + 1,
        "a new bundle, a new connection"
    );
    clock.turn(Duration::from_secs(6));
    assert!(piece(&mut watching).await.is_none());
    eventually("the connection is closed", || server.open() == 1).await;
    server.move_to(&old);
    lane.reconnect();
    assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
}
