//! Where the client speaks WebSocket, and the runtime SPDY.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use seams::Clock as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::runtime::Streaming;
use super::*;

const V5: &str = "v5.channel.k8s.io";
const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

struct Client(WebSocketStream<TokioIo<Upgraded>>);

impl Client {
    async fn new(node: &mut Node, path: &str) -> Self {
        let (answer, connection) = node.upgraded(websocket(path, V5)).await;
        assert_eq!(answer.headers()["sec-websocket-protocol"], V5);
        Self(WebSocketStream::from_raw_socket(connection, Role::Client, None).await)
    }

    async fn says(&mut self, message: &[u8]) {
        self.0
            .send(Message::Binary(message.to_vec().into()))
            .await
            .unwrap();
    }

    async fn hears(&mut self) -> Vec<u8> {
        match self.0.next().await.unwrap().unwrap() {
            Message::Binary(message) => message.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// The verdict, and then the end.
    async fn hears_the_end(&mut self) -> serde_json::Value {
        let verdict = self.hears().await;
        assert_eq!(verdict[0], 3);
        let closed = self.0.next().await.unwrap().unwrap();
        assert!(matches!(&closed, Message::Close(Some(frame)) if u16::from(frame.code) == 1000));
        serde_json::from_slice(&verdict[1..]).unwrap()
    }
}

async fn connected(node: &mut Node, path: &str, kinds: &[&str]) -> (Client, Streaming) {
    let mut runtime = node.net.expect();
    let taking = async {
        let head = runtime.switches("v4.channel.k8s.io").await;
        assert!(head.starts_with("POST /place HTTP/1.1\r\n"), "{head}");
        runtime.takes(kinds).await;
    };
    let ((), client) = tokio::join!(taking, Client::new(node, path));
    (client, runtime)
}

#[tokio::test]
async fn streams_go_both_ways_and_the_end_is_told() {
    let mut node = Node::new();
    let path = "/exec/shop/web/app?command=cat&input=1&output=1&error=1";
    let kinds = ["error", "stdin", "stdout", "stderr"];
    let (mut client, mut runtime) = connected(&mut node, path, &kinds).await;
    assert_eq!(client.hears().await, [1], "it is told that it may begin");
    client.says(b"\0some").await;
    assert_eq!(runtime.data().await, Some((3, b"some".to_vec(), false)));
    runtime.says(5, b"out", false).await;
    assert_eq!(client.hears().await, b"\x01out");
    runtime.says(7, b"err", true).await;
    assert_eq!(client.hears().await, b"\x02err");
    // What is no stream of this client is not passed on.
    for ignored in [&b"\x01x"[..], b"\x04{}", b"\x07x", b""] {
        client.says(ignored).await;
    }
    client.says(&[255, 0]).await;
    assert_eq!(runtime.data().await, Some((3, Vec::new(), true)));
    client.says(b"\0late").await;
    let exit = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    runtime.says(1, exit, true).await;
    runtime.says(5, b"", true).await;
    let verdict = client.hears_the_end().await;
    assert_eq!(verdict["details"]["causes"][0]["message"], "3");
    runtime.until_left().await;
    assert!((node.counted("exec") - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn a_terminal_has_a_size() {
    let mut node = Node::new();
    let path = "/attach/shop/web/shell?input=1&output=1&error=1&tty=1";
    let kinds = ["error", "stdin", "stdout", "resize"];
    let (mut client, mut runtime) = connected(&mut node, path, &kinds).await;
    let size = br#"{"Width":80,"Height":24}"#;
    client.says(&[&[4][..], size].concat()).await;
    assert_eq!(runtime.data().await, Some((7, size.to_vec(), false)));
    runtime.says(1, SUCCESS, true).await;
    runtime.goes_away().await;
    assert_eq!(client.hears().await, [1]);
    assert_eq!(client.hears_the_end().await["status"], "Success");
    assert!((node.counted("attach") - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn much_goes_through_little_room() {
    let mut node = Node::new();
    let path = "/exec/shop/web/app?command=cat&input=1&output=1";
    let (client, mut runtime) = connected(&mut node, path, &["error", "stdin", "stdout"]).await;
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut to, mut from) = client.0.split();
    let sending = async {
        for piece in content.chunks(1_200_000) {
            let message = [&[0], piece].concat();
            to.send(Message::Binary(message.into())).await.unwrap();
        }
        to.send(Message::Binary(vec![255, 0].into())).await.unwrap();
    };
    let echoing = async {
        loop {
            let (_, data, last) = runtime.data().await.unwrap();
            runtime.says(5, &data, last).await;
            if last {
                runtime.says(1, SUCCESS, true).await;
                return runtime;
            }
        }
    };
    let reading = async {
        let mut heard = Vec::new();
        loop {
            let message = from.next().await.unwrap().unwrap().into_data();
            assert!(
                message.len() <= 32 * 1024 + 1,
                "{} bytes at once",
                message.len()
            );
            match message[0] {
                1 => heard.extend_from_slice(&message[1..]),
                _ => return heard,
            }
        }
    };
    let ((), runtime, heard) = tokio::join!(sending, echoing, reading);
    assert!(heard == content);
    drop((to, from));
    runtime.until_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_takes_the_runtimes_end_along() {
    for vanishing in ["dropped", "closed", "nonsense"] {
        let mut node = Node::new();
        let path = "/exec/shop/web/app?command=sleep&output=1";
        let (mut client, runtime) = connected(&mut node, path, &["error", "stdout"]).await;
        match vanishing {
            "closed" => client.0.close(None).await.unwrap(),
            "nonsense" => client.says(&[255, 0, 0]).await,
            _ => {}
        }
        if vanishing == "nonsense" {
            assert_eq!(client.hears().await, [1]);
            assert!(matches!(client.0.next().await, Some(Ok(Message::Close(_)))));
        }
        drop(client);
        runtime.until_left().await;
        node.tasks.join_all().await;
    }
}

#[tokio::test]
async fn a_runtime_that_breaks_off_is_told_of() {
    let path = "/exec/shop/web/app?command=x&output=1";
    let told = async |breaking: &str| {
        let mut node = Node::new();
        let (mut client, mut runtime) = connected(&mut node, path, &["error", "stdout"]).await;
        match breaking {
            "nonsense" => tokio::io::AsyncWriteExt::write_all(&mut runtime.0, &[0; 8])
                .await
                .unwrap(),
            "goes" => runtime.goes_away().await,
            _ => {}
        }
        drop(runtime);
        assert_eq!(client.hears().await, [1]);
        let verdict = client.hears_the_end().await;
        assert_eq!(verdict["reason"], "InternalError");
        verdict["message"].as_str().unwrap().to_owned()
    };
    let cut = "Internal error occurred: the runtime closed the connection and did not say how \
               the command ended";
    assert_eq!(told("ends").await, cut);
    assert_eq!(told("goes").await, cut);
    let nonsense = "Internal error occurred: the runtime sent a frame about stream 0";
    assert_eq!(told("nonsense").await, nonsense);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_be_streamed_from_is_told_of_over_the_websocket() {
    let path = "/exec/shop/web/app?command=x&error=1";
    let mut node = Node::new();
    let told = async |client: &mut Client| {
        assert_eq!(client.hears().await, [2]);
        client.hears_the_end().await["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut client = Client::new(&mut node, path).await;
    let words = told(&mut client).await;
    assert!(words.contains("connection refused"), "{words}");
    let mut runtime = node.net.expect();
    let refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\ngone\n";
    let (_, mut client) = tokio::join!(runtime.answers(refusal), Client::new(&mut node, path));
    let words = told(&mut client).await;
    assert_eq!(
        words,
        "Internal error occurred: unable to upgrade connection: gone"
    );
    let mut runtime = node.net.expect();
    let (_, mut client) = tokio::join!(runtime.switches("v2"), Client::new(&mut node, path));
    let words = told(&mut client).await;
    assert!(words.contains("chose the protocol \"v2\""), "{words}");
    // One that takes no streams.
    let mut runtime = node.net.expect();
    let switched = runtime.switches("v4.channel.k8s.io");
    let (_, mut client) = tokio::join!(switched, Client::new(&mut node, path));
    let words = told(&mut client).await;
    assert!(
        words.contains("did not take the streams within 30 s"),
        "{words}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_awake_and_ended_in_the_end() {
    let mut node = Node::new();
    let path = "/exec/shop/web/app?command=x&output=1";
    let (mut client, mut runtime) = connected(&mut node, path, &["error", "stdout"]).await;
    // A number of the runtime's comes back.
    let ping = spdy::ping(4);
    tokio::io::AsyncWriteExt::write_all(&mut runtime.0, &ping)
        .await
        .unwrap();
    let began = node.clock.uptime();
    let mut numbers = Vec::new();
    while let Some(frame) = runtime.frame().await {
        match frame {
            runtime::Frame::Ping(number) => numbers.push(number),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(numbers[..4], [4, 1, 3, 5]);
    let lasted = node.clock.uptime().saturating_sub(began);
    let hours = Duration::from_secs(4 * 60 * 60);
    assert!(
        lasted >= hours && lasted < hours + Duration::from_secs(6),
        "{lasted:?}"
    );
    assert_eq!(client.hears().await, [1]);
    assert!(matches!(client.0.next().await, Some(Ok(Message::Close(_)))));
}

#[tokio::test]
async fn a_request_that_is_no_websockets_is_refused() {
    let mut node = Node::new();
    let path = "/exec/shop/web/app?output=1";
    let mut request = websocket(path, V5);
    request.headers_mut().remove("Sec-WebSocket-Key");
    assert_eq!(node.told(request).await.0, 400);
    let mut request = websocket(path, V5);
    *request.method_mut() = http::Method::POST;
    assert_eq!(node.told(request).await.0, 405);
}
