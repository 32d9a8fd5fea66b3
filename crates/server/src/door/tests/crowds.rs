//! Many at once, who mean no good.

use super::*;

/// Of a head that never ends; the largest that is taken is little more.
const UNFINISHED: usize = 1000 << 10;

/// Over the room that there is for all of them, by seven.
const FLOODERS: usize = 40;
const TOO_MANY: usize = 7;

#[tokio::test]
async fn requests_that_never_end_make_room_for_one_that_does() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    // The bounds of both ports are the same, and this one costs no cryptography.
    let node = Node::start(|config| config.read_only = Some(address)).await;
    // Both are open by then.
    node.get(None, "/nope").await;
    let begun = |length: usize| {
        let filler = "x".repeat(length);
        format!("GET /healthz HTTP/1.1\r\nHost: n1\r\nConnection: close\r\nX: {filler}")
    };
    let mut flooders = JoinSet::new();
    for _ in 0..FLOODERS {
        let request = begun(UNFINISHED);
        flooders.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // Until it is closed, now or later.
            let _ = stream.write_all(request.as_bytes()).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
    }
    for _ in 0..TOO_MANY {
        flooders.join_next().await.unwrap().unwrap();
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = begun(UNFINISHED * 9 / 10) + "\r\n\r\n";
    let _ = stream.write_all(request.as_bytes()).await;
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    assert_eq!(parsed(&heard).0, 200);
}
