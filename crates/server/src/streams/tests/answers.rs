//! What is said when there is nothing to be streamed, and what needs no streams.

use seams::cri::ExecSyncResponse;
use seams::runtime::Code;

use super::*;

#[tokio::test]
async fn who_asks_wrongly_is_told_as_upstream_tells() {
    let mut node = Node::new();
    for (request, status, words) in [
        (
            spdy("/exec/shop/web/app?command=ls"),
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        (
            spdy("/exec/shop/other/app?output=1"),
            404,
            "pod does not exist",
        ),
        (
            spdy("/attach/other/web/app?output=1"),
            404,
            "pod does not exist",
        ),
        (
            spdy("/exec/shop/web/nope?output=1"),
            500,
            "container not found (\"nope\")",
        ),
        (
            spdy("/attach/shop/web/before?output=1"),
            500,
            "container before not found in pod web_shop",
        ),
        (
            spdy("/attach/shop/web/u-2/app?output=1"),
            500,
            "pod web_shop not found",
        ),
        (spdy("/portForward/shop/web/u-2"), 404, "pod not found"),
        (
            websocket("/portForward/shop/web", "v4.channel.k8s.io"),
            400,
            "query parameter \"port\" is required",
        ),
        (
            plain("/exec/shop/web/app?output=1"),
            500,
            "Upgrade request required\n",
        ),
        (
            plain("/attach/shop/web/app?output=1"),
            500,
            "Upgrade request required\n",
        ),
        (
            plain("/portForward/shop/web"),
            500,
            "Upgrade request required\n",
        ),
        (
            spdy("/exec/shop/web/app?output=1"),
            500,
            "error dialing backend: 10.1.2.3:4: connection refused\n",
        ),
    ] {
        let uri = request.uri().clone();
        let told = node.told(request).await;
        assert_eq!(told, (status, words.to_owned()), "{uri}");
    }
}

#[tokio::test]
async fn a_runtime_that_does_not_want_to_has_its_word() {
    for (code, status) in [(Code::NotFound, 404), (Code::ResourceExhausted, 429)] {
        let mut node = Node::with(FakeRuntime {
            fails: Some(code),
            ..FakeRuntime::default()
        });
        for path in [
            "/exec/shop/web/app?output=1",
            "/attach/shop/web/app?output=1",
            "/portForward/shop/web",
        ] {
            let words = format!("rpc error: code = {code} desc = not now");
            assert_eq!(node.told(spdy(path)).await, (status, words), "{path}");
        }
    }
    let mut node = Node::with(FakeRuntime {
        url: Some("unix:///run/streams"),
        ..FakeRuntime::default()
    });
    let (status, words) = node.told(spdy("/exec/shop/web/app?output=1")).await;
    assert_eq!(status, 500);
    assert!(words.contains("\"unix:///run/streams\""), "{words}");
}

#[tokio::test]
async fn a_command_is_run_and_its_output_is_the_answer() {
    let ran = |stdout: &str, stderr: &str, exit_code| {
        Node::with(FakeRuntime {
            ran: ExecSyncResponse {
                stdout: stdout.into(),
                stderr: stderr.into(),
                exit_code,
            },
            ..FakeRuntime::default()
        })
    };
    let path = "/run/shop/web/app?cmd=ls+-l++x";
    let mut node = ran("out", "err", 0);
    assert_eq!(node.told(plain(path)).await, (200, "outerr".to_owned()));
    assert_eq!(
        node.ask(plain(path)).await.headers()["content-type"],
        "application/json"
    );
    let asked = node.runtime.asked.lock().unwrap()[0].clone();
    assert!(asked.contains(r#"cmd: ["ls", "-l", "", "x"]"#), "{asked}");
    assert!(asked.contains(r#"container_id: "new""#), "{asked}");
    let mut node = ran("", "", 0);
    assert!(
        !node
            .ask(plain(path))
            .await
            .headers()
            .contains_key("content-type")
    );
    assert_eq!(
        node.told(plain("/run/shop/web/u-1/app")).await,
        (200, String::new())
    );
    let words = "command 'ls -l  x' exited with 3: no\n".to_owned();
    assert_eq!(ran("", "no\n", 3).told(plain(path)).await, (500, words));
    let mut node = Node::new();
    let words = "container not found (\"nope\")".to_owned();
    assert_eq!(
        node.told(plain("/run/shop/web/nope?cmd=ls")).await,
        (500, words)
    );
}

#[tokio::test]
async fn a_checkpoint_is_written_where_upstream_writes_it() {
    let mut node = Node::new();
    let path = "/checkpoint/shop/web/app?timeout=1&timeout=30";
    let file = "/var/lib/kubelet/checkpoints/checkpoint-web_shop-app-1970-01-01T00:00:00Z.tar";
    let told = node.told(plain(path)).await;
    assert_eq!(told, (200, format!("{{\"items\":[\"{file}\"]}}")));
    let asked = node.runtime.asked.lock().unwrap()[0].clone();
    assert!(
        asked.contains("timeout: 30") && asked.contains(file),
        "{asked}"
    );
    for (path, status, words) in [
        ("/checkpoint/shop/nope/app", 404, "pod does not exist"),
        (
            "/checkpoint/shop/web/nope",
            404,
            "container nope does not exist",
        ),
        (
            "/checkpoint/shop/web/app?timeout=1m",
            404,
            "cannot parse value of timeout parameter",
        ),
        (
            "/checkpoint/shop/web/debug",
            500,
            "checkpointing of shop/web/debug failed (container debug not found)",
        ),
    ] {
        assert_eq!(
            node.told(plain(path)).await,
            (status, words.to_owned()),
            "{path}"
        );
    }
    let mut node = Node::with(FakeRuntime {
        fails: Some(Code::Unimplemented),
        ..FakeRuntime::default()
    });
    let words = "checkpointing of shop/web/app failed (rpc error: code = Unimplemented desc = \
                 not now)";
    let told = node.told(plain("/checkpoint/shop/web/app")).await;
    assert_eq!(told, (500, words.to_owned()));
}
