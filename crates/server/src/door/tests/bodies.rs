//! Bodies of requests: what is asked for needs none, or a short one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Far more than the machine keeps of what nobody reads.
const LARGE: usize = 256 << 20;

const SOON: Duration = Duration::from_secs(30);

async fn where_everybody_may_do_everything(change: impl FnOnce(&mut DoorConfig)) -> (Node, Shown) {
    let node = Node::start(|config| {
        config.authorization = AuthorizationConfig::AlwaysAllow;
        change(config);
    })
    .await;
    let ann = node.authority.client("ann", &[]);
    (node, ann)
}

#[tokio::test]
async fn a_verbosity_that_does_not_end_is_refused_however_its_length_is_told() {
    let level = Arc::new(AtomicU32::new(0));
    let set = Arc::clone(&level);
    let (node, ann) = where_everybody_may_do_everything(|config| {
        config.process.set_verbosity = Arc::new(move |level| set.store(level, Ordering::Relaxed));
    })
    .await;
    for (zeros, status) in [(1000, 200), (2047, 400)] {
        // A number however long, for who reads all of it.
        let number = format!("{}4", "0".repeat(zeros));
        let length = number.len();
        for told in [
            format!("Content-Length: {length}\r\n\r\n{number}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{number}\r\n0\r\n"),
        ] {
            level.store(0, Ordering::Relaxed);
            let answer = node.ask(Some(&ann), "PUT /debug/flags/v", &told).await;
            assert_eq!(answer.0, status, "{answer:?}");
            let taken = level.load(Ordering::Relaxed);
            assert_eq!(taken, if status == 200 { 4 } else { 0 });
            let why = "error reading request body: length limit exceeded\n";
            assert_eq!(answer.1 == why, status == 400, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_nobody_has_use_for_is_neither_waited_for_nor_taken() {
    let (node, ann) = where_everybody_may_do_everything(|_| ()).await;
    for (what, status) in [("POST /pods", 405), ("GET /pods", 200), ("POST /nope", 404)] {
        let mut stream = node.connect(Some(&ann)).await.unwrap();
        let head = format!("{what} HTTP/1.1\r\nHost: n1\r\nContent-Length: {LARGE}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let answered = tokio::time::timeout(SOON, stream.read_exact(&mut answer));
        answered.await.expect("an answer without the body").unwrap();
        assert_eq!(parsed(&answer).0, status, "{what}");
        let piece = vec![0; 1 << 20];
        let mut sent = 0;
        // Until the connection is closed.
        while sent < LARGE && stream.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        assert!(sent < LARGE / 4, "{what}: {sent} bytes were taken");
    }
}
