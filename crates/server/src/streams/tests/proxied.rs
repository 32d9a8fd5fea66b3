//! Where the runtime speaks what the client does.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn a_client_and_a_runtime_are_joined() {
    for (path, asked_for) in [
        (
            "/exec/shop/web/app?command=sh&command=-c&input=1&output=1",
            "cmd: [\"sh\", \"-c\"]",
        ),
        ("/attach/shop/web/u-1/shell?input=1&output=1", "tty: true"),
        ("/attach/shop/web/app?input=1&output=1&tty=1", "tty: false"),
        ("/portForward/shop/web", "pod_sandbox_id: \"ready\""),
    ] {
        let mut node = Node::new();
        let mut runtime = node.net.expect();
        let (request, (answer, mut client)) = tokio::join!(
            runtime.switches("v4.channel.k8s.io"),
            node.upgraded(spdy(path))
        );
        assert!(request.starts_with("POST /place HTTP/1.1\r\n"), "{request}");
        assert_eq!(answer.headers()["upgrade"], "SPDY/3.1");
        assert_eq!(
            answer.headers()["x-stream-protocol-version"],
            "v4.channel.k8s.io"
        );
        let asked = node.runtime.asked.lock().unwrap()[0].clone();
        assert!(asked.contains(asked_for), "{asked}");
        client.write_all(b"question").await.unwrap();
        let mut heard = [0; 8];
        runtime.0.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"question");
        // The last words of a runtime reach the client.
        let said = async {
            runtime.0.write_all(&vec![7; 100_000]).await.unwrap();
            drop(runtime);
        };
        let mut answer = Vec::new();
        let ((), read) = tokio::join!(said, client.read_to_end(&mut answer));
        assert_eq!((read.unwrap(), answer.len()), (100_000, 100_000));
        assert!(node.counted("exec").abs() < 0.1, "no WebSocket was served");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let mut node = Node::new();
    let mut runtime = node.net.expect();
    let (_, (_, client)) = tokio::join!(
        runtime.switches("v4.channel.k8s.io"),
        node.upgraded(spdy("/exec/shop/web/app?output=1"))
    );
    drop(client);
    runtime.until_left().await;
    node.tasks.join_all().await;
}

#[tokio::test]
async fn what_a_runtime_says_instead_is_passed_on() {
    let mut node = Node::new();
    let path = "/exec/shop/web/app?output=1";
    let refusal = "HTTP/1.1 403 Forbidden\r\nX-Accepted-Stream-Protocol-Versions: v4\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\nnope\r\n0\r\n\r\n";
    let mut runtime = node.net.expect();
    let (_, answer) = tokio::join!(runtime.answers(refusal), node.ask(spdy(path)));
    assert_eq!(answer.status(), 403);
    assert_eq!(
        answer.headers()["x-accepted-stream-protocol-versions"],
        "v4"
    );
    assert_eq!(answer.headers()["connection"], "close");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&body[..], b"nope");
    let found = "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n";
    let mut runtime = node.net.expect();
    let (_, told) = tokio::join!(runtime.answers(found), node.told(spdy(path)));
    let words = "invalid upgrade response: status code 302\n".to_owned();
    assert_eq!(told, (500, words));
    // Not even HTTP.
    let mut runtime = node.net.expect();
    let (_, (status, _)) = tokio::join!(runtime.answers("hello\r\n\r\n"), node.told(spdy(path)));
    assert_eq!(status, 500);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_is_not_waited_for_without_end() {
    let mut node = Node::new();
    let runtime = node.net.expect();
    let (status, words) = node.told(spdy("/exec/shop/web/app?output=1")).await;
    assert_eq!(status, 500);
    assert!(words.contains("did not answer within 30 s"), "{words}");
    runtime.until_left().await;
}

#[tokio::test]
async fn websockets_that_runtimes_speak_are_theirs() {
    let mut node = Node::new();
    let mut runtime = node.net.expect();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
    let request = websocket("/exec/shop/web/app?output=1", "v4.channel.k8s.io");
    let (head, (answer, _)) = tokio::join!(runtime.answers(switch), node.upgraded(request));
    assert!(head.contains("v4.channel.k8s.io"), "{head}");
    assert_eq!(answer.headers()["sec-websocket-accept"], "x");
}
