//! Where client and runtime speak SPDY, with a WebSocket around it on one side.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::runtime::Streaming;
use super::*;

const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const PATH: &str = "/portForward/shop/web";

async fn connected(node: &mut Node) -> (WebSocketStream<TokioIo<Upgraded>>, Streaming) {
    let mut runtime = node.net.expect();
    let request = websocket(PATH, TUNNEL);
    let (head, (answer, connection)) = tokio::join!(
        runtime.switches("portforward.k8s.io"),
        node.upgraded(request)
    );
    assert!(head.starts_with("POST /place HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    assert!(
        head.contains("x-stream-protocol-version: portforward.k8s.io"),
        "{head}"
    );
    assert!(!head.contains("websocket"), "{head}");
    assert_eq!(answer.headers()["sec-websocket-protocol"], TUNNEL);
    let client = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
    (client, runtime)
}

#[tokio::test]
async fn bytes_are_carried_in_messages() {
    let mut node = Node::new();
    let (mut client, mut runtime) = connected(&mut node).await;
    client
        .send(Message::Binary(b"question".to_vec().into()))
        .await
        .unwrap();
    let mut heard = [0; 8];
    runtime.0.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"question");
    let said = async {
        runtime.0.write_all(&vec![7; 100_000]).await.unwrap();
        drop(runtime);
    };
    let reading = async {
        let mut heard = Vec::new();
        loop {
            match client.next().await.unwrap().unwrap() {
                Message::Binary(piece) => heard.extend_from_slice(&piece),
                Message::Close(Some(close)) => {
                    assert_eq!(u16::from(close.code), 1000);
                    return heard;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let ((), heard) = tokio::join!(said, reading);
    assert!(heard == vec![7; 100_000]);
    assert!((node.counted("portforward") - 1.0).abs() < 0.1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_or_sends_text_is_left() {
    for text in [false, true] {
        let mut node = Node::new();
        let (mut client, runtime) = connected(&mut node).await;
        if text {
            client.send(Message::Text("hello".into())).await.unwrap();
            assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
        }
        drop(client);
        runtime.until_left().await;
        node.tasks.join_all().await;
    }
}

#[tokio::test]
async fn a_runtimes_refusal_is_passed_on() {
    let mut node = Node::new();
    let mut runtime = node.net.expect();
    let refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope";
    let (_, told) = tokio::join!(runtime.answers(refusal), node.told(websocket(PATH, TUNNEL)));
    assert_eq!(told, (404, "nope".to_owned()));
    let mut request = websocket(PATH, TUNNEL);
    request.headers_mut().remove("Sec-WebSocket-Version");
    assert_eq!(node.told(request).await.0, 400);
    // With the gate off it is what a runtime would make of it: it needs ports.
    let mut parts = node.streams.parts.clone();
    parts.websockets = false;
    node.streams = Arc::new(Streams::new(parts, &Registry::new()).unwrap());
    assert_eq!(node.told(websocket(PATH, TUNNEL)).await.0, 400);
}
