//! Ways that are not HTTP/2 straight to the server.

use api::transport::{Credentials, Transport};
use futures_util::future::join_all;

use crate::support::certificates::Authority;
use crate::support::clock::TurnableClock;
use crate::support::proxies::Proxy;
use crate::support::server::{Kind, TestServer, tls};
use crate::support::{
    config, eventually, get, open_lane, options, piece, text, transport, trusting,
};

#[tokio::test]
async fn a_server_of_http_1_serves_one_request_at_a_time_on_each_connection() {
    let authority = Authority::new("ca");
    for plain in [false, true] {
        let kind = Kind {
            http1_only: true,
            plain,
            ..Kind::default()
        };
        let server = TestServer::start(&authority, kind).await;
        let clock = TurnableClock::new();
        let transport = transport(
            &config(&server.address(), &trusting(&authority), ""),
            &clock,
        );
        let lane = open_lane(&transport);
        for _ in 0..10 {
            assert_eq!(text(&lane, "/short?a=b").await.unwrap(), "/short?a=b");
        }
        assert_eq!(server.connections(), 1, "an idle connection is used again");
        let host = server.last_request().headers["host"].clone();
        assert_eq!(host.to_str().unwrap(), format!("127.0.0.1:{}", server.port));

        let mut watching = get(&lane, "/x?watch=true").await.unwrap().into_body();
        for answer in join_all((0..40).map(|_| text(&lane, "/short"))).await {
            assert_eq!(answer.unwrap(), "/short");
        }
        assert!(server.connections() > 2);
        server.tell_watches("line\n");
        assert_eq!(piece(&mut watching).await.unwrap().unwrap(), "line\n");
        eventually("few idle connections are kept", || server.open() <= 26).await;
        drop(watching);
        assert_eq!(text(&lane, "/short").await.unwrap(), "/short");
    }
}

#[tokio::test]
async fn a_proxy_is_told_the_server_and_who_we_are() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let proxy = Proxy::tunneling_to(server.port).await;
    let cluster = format!(
        "{}, tls-server-name: localhost, proxy-url: 'http://me:hunter2@127.0.0.1:{}'",
        trusting(&authority),
        proxy.port
    );
    let clock = TurnableClock::new();
    let transport = transport(&config("https://api.example:6443", &cluster, ""), &clock);
    assert_eq!(
        text(&open_lane(&transport), "/short").await.unwrap(),
        "/short"
    );
    let asked = proxy.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].starts_with("CONNECT api.example:6443 HTTP/1.1\r\n"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_proxy_behind_tls_is_believed_as_the_server_is() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let certificate = authority.sign("proxy", &["127.0.0.1"]);
    let tls = tls(&certificate, &authority, true);
    let proxy = Proxy::tunneling_securely_to(server.port, tls).await;
    let cluster = format!(
        "{}, proxy-url: 'https://me:hunter2@127.0.0.1:{}'",
        trusting(&authority),
        proxy.port
    );
    let clock = TurnableClock::new();
    let transport = transport(&config(&server.address(), &cluster, ""), &clock);
    assert_eq!(
        text(&open_lane(&transport), "/short").await.unwrap(),
        "/short"
    );
    assert_eq!(proxy.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_the_password() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let proxy = Proxy::tunneling_to(server.port).await;
    let cluster = format!(
        "{}, proxy-url: 'http://me:wrong@127.0.0.1:{}'",
        trusting(&authority),
        proxy.port
    );
    let clock = TurnableClock::new();
    let transport = transport(&config(&server.address(), &cluster, ""), &clock);
    let error = text(&open_lane(&transport), "/short").await.unwrap_err();
    let said = format!("{error} {error:?}");
    let through = format!(
        "cannot be reached through http://127.0.0.1:{}: the proxy did not pass us on",
        proxy.port
    );
    assert!(said.contains(&through), "{said}");
    assert!(!said.contains("wrong"), "{said}");
}

#[tokio::test]
async fn a_socks_proxy_resolves_the_name() {
    let authority = Authority::new("ca");
    let server = TestServer::start(&authority, Kind::default()).await;
    let proxy = Proxy::socks_to(server.port).await;
    let cluster = format!(
        "{}, tls-server-name: localhost, proxy-url: 'socks5://me:hunter2@127.0.0.1:{}'",
        trusting(&authority),
        proxy.port
    );
    let clock = TurnableClock::new();
    let transport = transport(&config("https://api.example:6443", &cluster, ""), &clock);
    assert_eq!(
        text(&open_lane(&transport), "/short").await.unwrap(),
        "/short"
    );
    assert_eq!(*proxy.asked.lock().unwrap(), ["api.example"]);
}

#[tokio::test]
async fn a_plain_server_is_reached_through_a_tunnel_too() {
    let authority = Authority::new("ca");
    let kind = Kind {
        plain: true,
        ..Kind::default()
    };
    let server = TestServer::start(&authority, kind).await;
    let proxy = Proxy::tunneling_to(server.port).await;
    let named = format!("proxy-url: 'http://me:hunter2@127.0.0.1:{}'", proxy.port);
    let environment_proxy = config("http://x", &named, "").proxy;
    let clock = TurnableClock::new();
    let options = api::transport::Options {
        environment_proxy,
        ..options(&clock)
    };
    let config = config("http://api.example", "", "");
    let transport = Transport::new(&config, Credentials::Configured, options).unwrap();
    assert_eq!(
        text(&open_lane(&transport), "/short").await.unwrap(),
        "/short"
    );
    let asked = proxy.asked.lock().unwrap().clone();
    assert!(asked[0].starts_with("CONNECT api.example:80 "), "{asked:?}");
}
