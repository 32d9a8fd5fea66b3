//! Hooks against real sockets and a runtime that does as it is told.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use seams::cri::ExecSyncResponse;
use seams::runtime::{Answer, Code};
use seams::{Clock as _, Runtime, RuntimeError};
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use testkit::host::LinuxNet;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A runtime in which commands end as it was told, and then says what it was asked.
#[derive(Debug)]
struct Commands(fn(&ExecSyncRequest) -> Result<ExecSyncResponse, RuntimeError>);

impl Runtime for Commands {
    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        Box::pin(async move { self.0(&request) })
    }
}

fn hooks(runtime: Commands) -> (Hooks, Arc<TokioClock>) {
    let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let hooks = Hooks::new(Arc::new(runtime), Arc::new(LinuxNet), clock.clone());
    (hooks, clock)
}

fn handler(value: &Value) -> LifecycleHandler {
    serde_json::from_value(value.clone()).unwrap()
}

async fn run_in(hooks: &Hooks, value: &Value, ip: Option<&str>) -> Result<Ran, String> {
    let pod = json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u-1" } });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let container = Container {
        name: "app".to_owned(),
        ..Container::default()
    };
    let subject = Subject {
        pod: &pod,
        container: &container,
        id: "c-1",
        ip,
    };
    let ran = hooks.run(&handler(value), subject).await;
    ran.map_err(|error| error.to_string())
}

/// What comes of a hook in a pod on this machine.
async fn run(value: &Value) -> Result<Ran, String> {
    let (hooks, _) = hooks(Commands(|_| unreachable!("no command was given")));
    run_in(&hooks, value, Some("127.0.0.1")).await
}

#[tokio::test]
async fn a_command_runs_in_its_container_without_a_limit_of_time() {
    let exec = json!({ "exec": { "command": ["sh", "-c", "x"] } });
    let (good, _) = hooks(Commands(|request| {
        assert_eq!(request.container_id, "c-1");
        assert_eq!(request.cmd, ["sh", "-c", "x"]);
        assert_eq!(request.timeout, 0);
        Ok(ExecSyncResponse::default())
    }));
    assert_eq!(run_in(&good, &exec, None).await, Ok(Ran::default()));
    let (bad, _) = hooks(Commands(|_| {
        Ok(ExecSyncResponse {
            stdout: b"out\n".to_vec(),
            stderr: b"err".to_vec(),
            exit_code: 3,
        })
    }));
    assert_eq!(
        run_in(&bad, &exec, None).await.unwrap_err(),
        "Exec lifecycle hook ([sh -c x]) for Container \"app\" in Pod \"web_shop(u-1)\" failed \
         - error: command 'sh -c x' exited with 3: err, message: \"out\\nerr\""
    );
    let (broken, _) = hooks(Commands(|_| {
        Err(RuntimeError::new(
            "ExecSync",
            Code::Unknown,
            "no such program",
        ))
    }));
    assert_eq!(
        run_in(&broken, &exec, None).await.unwrap_err(),
        "Exec lifecycle hook ([sh -c x]) for Container \"app\" in Pod \"web_shop(u-1)\" failed \
         - error: rpc error: code = Unknown desc = no such program, message: \"\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_sleep_takes_its_seconds() {
    let (hooks, clock) = hooks(Commands(|_| unreachable!("no command was given")));
    let began = clock.uptime();
    for (seconds, since) in [(5, 5), (0, 5), (-1, 5)] {
        let sleep = json!({ "sleep": { "seconds": seconds } });
        assert_eq!(run_in(&hooks, &sleep, None).await, Ok(Ran::default()));
        assert_eq!(clock.uptime(), began + Duration::from_secs(since));
    }
}

#[tokio::test]
async fn what_is_no_hook_is_told_as_go_prints_it() {
    for (value, text) in [
        (
            json!({ "tcpSocket": { "port": 80 } }),
            "TCPSocket:&TCPSocketAction{Port:{0 80 },Host:,}",
        ),
        (
            json!({ "tcpSocket": { "port": "web", "host": "h" } }),
            "TCPSocket:&TCPSocketAction{Port:{1 0 web},Host:h,}",
        ),
        (json!({}), "TCPSocket:nil"),
    ] {
        let wanted = format!(
            "Cannot run handler: invalid handler: &LifecycleHandler{{Exec:nil,HTTPGet:nil,{text},Sleep:nil,}}"
        );
        assert_eq!(run(&value).await.unwrap_err(), wanted);
    }
}

/// Reads a request, and answers it: what was asked.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap() == 0 {
            break;
        }
        asked.push(byte[0]);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    String::from_utf8_lossy(&asked).into_owned()
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_server_is_asked_as_upstream_asks_and_whatever_it_answers_is_well() {
    let (listener, port) = listen().await;
    let get = json!({ "httpGet": {
        "port": port, "path": "/a b?c=d", "httpHeaders": [{ "name": "x-own", "value": "1" }],
    } });
    let served = async {
        let answer = "HTTP/1.1 500 Sorry\r\nContent-Length: 2\r\n\r\nno";
        serve(accept(&listener).await, answer).await
    };
    let (ran, asked) = tokio::join!(run(&get), served);
    assert_eq!(ran, Ok(Ran::default()));
    let mut lines: Vec<&str> = asked.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /a%20b?c=d HTTP/1.1");
    lines.sort_unstable();
    let host = format!("Host: 127.0.0.1:{port}");
    assert_eq!(
        lines,
        [
            "Accept-Encoding: gzip",
            "Accept: */*",
            host.as_str(),
            "User-Agent: kube-lifecycle/1.36",
            "X-Own: 1",
        ]
    );
}

#[tokio::test]
async fn who_does_not_answer_is_told_in_gos_words() {
    let (listener, port) = listen().await;
    let get = json!({ "httpGet": { "port": port, "path": "/x" } });
    let about =
        "HTTP lifecycle hook (/x) for Container \"app\" in Pod \"web_shop(u-1)\" failed - error: ";
    let served = async {
        serve(accept(&listener).await, "").await;
    };
    let (ran, ()) = tokio::join!(run(&get), served);
    let url = format!("http://127.0.0.1:{port}/x");
    assert_eq!(ran.unwrap_err(), format!("{about}Get \"{url}\": EOF"));
    drop(listener);
    let refused =
        format!("{about}Get \"{url}\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(run(&get).await.unwrap_err(), refused);
    let (hooks, _) = hooks(Commands(|_| unreachable!("no command was given")));
    let nowhere = run_in(&hooks, &get, None).await.unwrap_err();
    assert!(
        nowhere.starts_with(&format!("{about}failed to find networking container: ")),
        "{nowhere}"
    );
}

#[tokio::test]
async fn tls_is_spoken_with_anybody() {
    let (listener, port) = listen().await;
    let issued = rcgen::generate_simple_self_signed(vec!["nobody.example".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let served = async {
        let stream = accept(&listener).await;
        let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
        serve(stream.unwrap(), "HTTP/1.1 204 No Content\r\n\r\n").await
    };
    let get = json!({ "httpGet": { "port": port, "path": "/", "scheme": "HTTPS" } });
    let (ran, asked) = tokio::join!(run(&get), served);
    assert_eq!(ran, Ok(Ran::default()));
    assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "{asked}");
}

#[tokio::test]
async fn a_server_without_tls_is_asked_again_without_what_was_meant_for_tls_only() {
    let (listener, port) = listen().await;
    let served = async {
        let mut first = accept(&listener).await;
        first
            .write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        // It is read to its end, so that the answer is not lost by a reset.
        first.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = first.read_to_end(&mut rest).await;
        serve(
            accept(&listener).await,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        )
        .await
    };
    let get = json!({ "httpGet": {
        "port": port, "path": "/", "scheme": "HTTPS",
        "httpHeaders": [{ "name": "Authorization", "value": "Bearer secret" }],
    } });
    let (ran, asked) = tokio::join!(run(&get), served);
    let without_tls = Some(format!("127.0.0.1:{port}"));
    assert_eq!(ran, Ok(Ran { without_tls }));
    assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.contains("secret"), "{asked}");
}

#[tokio::test]
async fn redirects_are_followed_and_not_for_ever() {
    let (listener, port) = listen().await;
    let get = json!({ "httpGet": { "port": port, "path": "/0" } });
    for (redirects, wanted) in [(9, None), (10, Some("stopped after 10 redirects"))] {
        let served = async {
            for turn in 1..=redirects {
                let answer = format!("HTTP/1.1 302 Found\r\nLocation: /{turn}\r\n\r\n");
                serve(accept(&listener).await, &answer).await;
            }
            if wanted.is_none() {
                serve(accept(&listener).await, "HTTP/1.1 200 OK\r\n\r\n").await;
            }
        };
        let (ran, ()) = tokio::join!(run(&get), served);
        match wanted {
            None => assert_eq!(ran, Ok(Ran::default())),
            Some(text) => assert!(ran.unwrap_err().ends_with(text)),
        }
    }
}
