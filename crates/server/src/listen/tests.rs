use std::net::Ipv4Addr;
use std::time::SystemTime;

use testkit::clock::TokioClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

fn health_port(address: SocketAddr, clock: SharedClock) -> PlainPort {
    PlainPort {
        purpose: Purpose::Health,
        address,
        clock,
    }
}

const CHECK: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";

/// A port that nobody has now.
async fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap()
}

struct Port {
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinSet<()>,
}

impl Port {
    async fn open() -> Self {
        Self::at(free().await)
    }

    fn at(address: SocketAddr) -> Self {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let shutdown = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(health_port(address, clock).run(shutdown.clone()));
        Self {
            address,
            shutdown,
            serving,
        }
    }

    async fn connect(&self) -> TcpStream {
        loop {
            match TcpStream::connect(self.address).await {
                Ok(stream) => return stream,
                // It is about to listen.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// The same, for a port that opens only as time passes.
    async fn connect_after(&self, clock: &SharedClock) -> TcpStream {
        clock.sleep(2 * RETRY).await;
        self.connect().await
    }

    async fn end(mut self) {
        self.shutdown.cancel();
        self.serving.join_next().await.unwrap().unwrap();
    }
}

/// What the far end says before it closes.
async fn said(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // A connection that is reset has said all.
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn a_connection_asks_again_and_again() {
    let port = Port::open().await;
    let mut stream = port.connect().await;
    for request in [
        CHECK,
        b"GET / HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n",
    ] {
        stream.write_all(request).await.unwrap();
    }
    let said = said(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    assert!(
        said.contains("\r\n\r\nokHTTP/1.1 404 Not Found\r\n"),
        "{said}"
    );
    port.end().await;
}

#[tokio::test]
async fn the_answer_to_head_has_the_length_and_no_body() {
    let port = Port::open().await;
    let mut stream = port.connect().await;
    let request = b"HEAD /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let said = said(&mut stream).await;
    assert!(said.contains("content-length: 2\r\n"), "{said}");
    assert!(said.ends_with("\r\n\r\n"), "{said}");
    port.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_sends_slowly_or_idles_is_let_go() {
    let port = Port::open().await;
    let mut slow = port.connect().await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHo")
        .await
        .unwrap();
    assert!(!said(&mut slow).await.contains("200"));

    let mut idle = port.connect().await;
    idle.write_all(CHECK).await.unwrap();
    assert!(said(&mut idle).await.ends_with("ok"));
    port.end().await;
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let port = Port::open().await;
    let mut stream = port.connect().await;
    let long = "x".repeat(2 * LARGEST_HEAD);
    let request = format!("GET /healthz HTTP/1.1\r\nHost: node\r\nA: {long}\r\n\r\n");
    // It may close before it was sent.
    let _ = stream.write_all(request.as_bytes()).await;
    assert!(!said(&mut stream).await.contains("200 OK"));
    port.end().await;
}

#[tokio::test(start_paused = true)]
async fn beyond_the_most_connections_one_waits_until_another_ends() {
    let port = Port::open().await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(port.connect().await);
    }
    let mut late = port.connect().await;
    late.write_all(CHECK).await.unwrap();
    let early = tokio::time::timeout(LIFETIME / 2, late.peek(&mut [0])).await;
    assert!(early.is_err(), "there was room for one more");
    // Those who say nothing are let go, and the late one has its turn.
    assert!(said(&mut late).await.contains("200 OK"));
    port.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_port_that_is_taken_is_named_and_opened_when_it_is_free() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = other.local_addr().unwrap();
    let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let healthz = PlainPort {
        purpose: Purpose::Health,
        address,
        clock: clock.clone(),
    };
    let problem = healthz.bind().await.unwrap_err().to_string();
    let hint = format!("sport = :{}", address.port());
    assert!(problem.contains(&hint), "{problem}");
    assert!(problem.contains("healthzPort"), "{problem}");

    let port = Port::at(address);
    clock.sleep(RETRY / 2).await;
    drop(other);
    let mut stream = port.connect_after(&clock).await;
    stream.write_all(CHECK).await.unwrap();
    assert!(said(&mut stream).await.contains("200 OK"));
    port.end().await;
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_refused_with_its_name() {
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    let address: SocketAddr = "192.0.2.1:10248".parse().unwrap();
    let error = health_port(address, clock).bind().await.unwrap_err();
    assert!(matches!(error, BindError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("192.0.2.1:10248"), "{error}");
}
