//! Questions to programs at the other end of connections in memory, in time that
//! passes at once, and to a runtime that does as it is told.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use seams::cri::{ExecSyncRequest, ExecSyncResponse};
use seams::net::{Destination, DialError, Dialing};
use seams::runtime::{Answer as RuntimeAnswer, Code};
use seams::{Clock as _, Net, Runtime, RuntimeError};
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;

/// A network in which each connection is taken by the next of these.
#[derive(Debug, Default)]
struct Wires {
    programs: Mutex<VecDeque<Program>>,
    dialled: Mutex<Vec<(String, u16)>>,
    taken: Mutex<Option<mpsc::Sender<(Program, DuplexStream)>>>,
}

/// What is at the other end.
#[derive(Clone, Debug)]
enum Program {
    /// Nobody listens.
    Refused,
    /// Nobody even says so.
    Blackhole,
    /// Takes all, and says nothing.
    Silent,
    /// Reads a request and says that, then closes.
    Says(Vec<u8>),
    /// The same behind TLS, with a certificate that nobody vouches for.
    SaysSecurely(Vec<u8>),
    /// Says that to whatever it is sent.
    Blurts(Vec<u8>),
    /// Says that, and never closes.
    SaysAndStays(Vec<u8>),
    /// Says that, closes after so long, and tells who was first.
    SaysAndCloses(Vec<u8>, Duration),
    /// Says that, and then a byte each second.
    Dribbles(Vec<u8>),
    /// Says that, and then as many bytes as are taken.
    Floods(Vec<u8>),
    /// Speaks gRPC.
    Grpc(Grpc),
}

#[derive(Clone, Debug)]
enum Grpc {
    Health(u8),
    Code(u8, &'static str),
    /// Speaks HTTP/2, and has no answer.
    Mute,
}

impl Net for Wires {
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a> {
        Box::pin(async move {
            let asked = (to.host.to_owned(), to.port);
            self.dialled.lock().unwrap().push(asked);
            let program = self.programs.lock().unwrap().pop_front();
            let program = program.unwrap_or(Program::Refused);
            match program {
                Program::Refused => Err(DialError::Connect {
                    address: SocketAddr::from((Ipv4Addr::new(10, 0, 0, 7), to.port)),
                    cause: io::ErrorKind::ConnectionRefused.into(),
                }),
                Program::Blackhole => std::future::pending().await,
                program => {
                    let (ours, theirs) = tokio::io::duplex(64 * 1024);
                    let taken = self.taken.lock().unwrap().clone().unwrap();
                    taken.send((program, theirs)).await.unwrap();
                    Ok(Box::new(ours) as _)
                }
            }
        })
    }
}

/// A runtime in which commands end as it was told.
#[derive(Debug)]
struct Commands(fn(&ExecSyncRequest) -> Result<ExecSyncResponse, RuntimeError>);

impl Runtime for Commands {
    fn exec_sync(&self, request: ExecSyncRequest) -> RuntimeAnswer<'_, ExecSyncResponse> {
        Box::pin(async move { self.0(&request) })
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => asked.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&asked).into_owned()
}

/// What was asked of it.
async fn play(program: Program, mut stream: DuplexStream, clock: Arc<TokioClock>) -> String {
    match program {
        Program::Refused | Program::Blackhole => String::new(),
        Program::Silent => {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            String::new()
        }
        Program::Says(text) => {
            let asked = read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            asked
        }
        Program::SaysSecurely(text) => {
            let mut stream = acceptor().accept(stream).await.unwrap();
            let asked = read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            let _ = stream.shutdown().await;
            asked
        }
        Program::Blurts(text) => {
            let _ = stream.write_all(&text).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            String::new()
        }
        Program::SaysAndStays(text) => {
            let asked = read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            let _ = stream.read(&mut [0]).await;
            asked
        }
        Program::SaysAndCloses(text, after) => {
            read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            let mut rest = [0];
            tokio::select! {
                _ = stream.read(&mut rest) => "the agent".to_owned(),
                () = clock.sleep(after) => "the server".to_owned(),
            }
        }
        Program::Dribbles(text) => {
            let asked = read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            while stream.write_all(b"x").await.is_ok() {
                clock.sleep(Duration::from_secs(1)).await;
            }
            asked
        }
        Program::Floods(text) => {
            let asked = read_request(&mut stream).await;
            let _ = stream.write_all(&text).await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            asked
        }
        Program::Grpc(grpc) => serve_grpc(grpc, stream).await,
    }
}

fn acceptor() -> tokio_rustls::TlsAcceptor {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["nobody".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key.into());
    Arc::new(config.unwrap()).into()
}

/// Whom it was asked about, and by whom.
async fn serve_grpc(grpc: Grpc, stream: DuplexStream) -> String {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let Some(Ok((request, mut respond))) = connection.accept().await else {
        return String::new();
    };
    let path = request.uri().path().to_owned();
    let agent = request.headers().get("user-agent").cloned();
    let mut body = request.into_body();
    let serve = async {
        let mut question = Vec::new();
        while let Some(Ok(data)) = body.data().await {
            question.extend_from_slice(&data);
        }
        // A length of five bytes, then the field, its length, and the name.
        let name = question.get(7..).unwrap_or_default().to_vec();
        let head = || {
            let head = Response::builder().header("content-type", "application/grpc");
            head.body(()).unwrap()
        };
        let end = |code: u8, text: &'static str| {
            let mut trailers = HeaderMap::new();
            let code = HeaderValue::from_str(&code.to_string()).unwrap();
            trailers.insert("grpc-status", code);
            trailers.insert("grpc-message", HeaderValue::from_static(text));
            trailers
        };
        match grpc {
            Grpc::Health(status) => {
                let mut stream = respond.send_response(head(), false).unwrap();
                let answer = Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, status]);
                stream.send_data(answer, false).unwrap();
                stream.send_trailers(end(0, "")).unwrap();
            }
            Grpc::Code(code, text) => {
                let mut stream = respond.send_response(head(), false).unwrap();
                stream.send_trailers(end(code, text)).unwrap();
            }
            Grpc::Mute => std::future::pending().await,
        }
        String::from_utf8_lossy(&name).into_owned()
    };
    let mut serve = Box::pin(serve);
    let name = loop {
        tokio::select! {
            name = &mut serve => break name,
            next = connection.accept() => if next.is_none() { return String::new() },
        }
    };
    while connection.accept().await.is_some() {}
    format!("{path} {name} {:?}", agent.unwrap())
}

/// What came of a probe, how long it took, and what each program was asked.
struct Asked {
    outcome: Outcome,
    took: Duration,
    heard: Vec<String>,
    dialled: Vec<(String, u16)>,
}

fn container() -> Container {
    let container = json!({
        "name": "app",
        "ports": [{ "name": "web", "containerPort": 8080 }],
        "env": [{ "name": "A", "value": "b" }],
    });
    serde_json::from_value(container).unwrap()
}

fn subject<'a>(pod: &'a Pod, container: &'a Container, cut: &'a CancellationToken) -> Subject<'a> {
    Subject {
        pod,
        container,
        id: "c-1",
        ip: "10.0.0.7",
        cut,
    }
}

async fn ask(probe: &Value, programs: &[Program]) -> Asked {
    let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let (taken, mut connections) = mpsc::channel(16);
    let wires = Arc::new(Wires {
        programs: Mutex::new(programs.iter().cloned().collect()),
        taken: Mutex::new(Some(taken)),
        ..Wires::default()
    });
    let nobody = Commands(|_| unreachable!("no command was given"));
    let means = Means::new(Arc::new(nobody), wires.clone(), clock.clone());
    let probe: Probe = serde_json::from_value(probe.clone()).unwrap();
    let (pod, container, cut) = (Pod::default(), container(), CancellationToken::new());
    let began = clock.uptime();
    let mut played = JoinSet::new();
    let outcome = {
        let mut checking = Box::pin(means.check(&probe, subject(&pod, &container, &cut)));
        loop {
            tokio::select! {
                outcome = &mut checking => break outcome,
                Some((program, stream)) = connections.recv() => {
                    played.spawn(play(program, stream, clock.clone()));
                }
            }
        }
    };
    let took = clock.uptime().saturating_sub(began);
    let dialled = wires.dialled.lock().unwrap().clone();
    let heard = played.join_all().await;
    Asked {
        outcome,
        took,
        heard,
        dialled,
    }
}

fn says(text: &str) -> Program {
    Program::Says(text.as_bytes().to_vec())
}

fn failure(text: &str) -> Outcome {
    Outcome::Failure(text.to_owned())
}

fn get() -> Value {
    json!({ "httpGet": { "port": "web", "path": "/health" } })
}

#[tokio::test(start_paused = true)]
async fn any_answer_below_400_is_well_and_others_are_told_by_their_number() {
    for (status, wanted) in [
        ("200 OK", Outcome::Success),
        ("204 No Content", Outcome::Success),
        ("299 Odd", Outcome::Success),
        (
            "304 Not Modified",
            Outcome::Warning("Probe terminated redirects, Response body: ".to_owned()),
        ),
        ("400 Bad", failure("HTTP probe failed with statuscode: 400")),
        ("503 No", failure("HTTP probe failed with statuscode: 503")),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
        let asked = ask(&get(), &[says(&answer)]).await;
        assert_eq!(asked.outcome, wanted, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_as_upstream_asks() {
    let probe = json!({ "httpGet": {
        "port": 80, "path": "/a b", "host": "other",
        "httpHeaders": [{ "name": "x-own", "value": "1" }],
    } });
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let asked = ask(&probe, &[says(ok)]).await;
    assert_eq!(asked.outcome, Outcome::Success);
    assert_eq!(asked.dialled, [("other".to_owned(), 80)]);
    let mut lines: Vec<&str> = asked.heard[0].trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /a%20b HTTP/1.1");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "Accept: */*",
            "Connection: close",
            "Host: other:80",
            "User-Agent: kube-probe/1.36",
            "X-Own: 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_by_tls_whoever_vouches_for_it() {
    let probe = json!({ "httpGet": { "port": 8443, "path": "/health", "scheme": "HTTPS" } });
    let securely = |status: &str| {
        let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
        Program::SaysSecurely(answer.into_bytes())
    };
    let asked = ask(&probe, &[securely("200 OK")]).await;
    assert_eq!(asked.outcome, Outcome::Success);
    let heard = &asked.heard[0];
    assert!(heard.starts_with("GET /health HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("\r\nHost: 10.0.0.7:8443\r\n"), "{heard}");
    let asked = ask(&probe, &[securely("500 No")]).await;
    let wanted = failure("HTTP probe failed with statuscode: 500");
    assert_eq!(asked.outcome, wanted);
    let plain = Program::Blurts(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let wanted =
        "Get \"https://10.0.0.7:8443/health\": http: server gave HTTP response to HTTPS client";
    assert_eq!(ask(&probe, &[plain]).await.outcome, failure(wanted));
}

/// Whoever closes first keeps a port for a minute.
#[tokio::test(start_paused = true)]
async fn a_server_that_closes_soon_may_close_first_and_one_that_does_not_is_not_waited_for() {
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let moved = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_vec();
    for (after, first, took) in [
        (0, "the server", 0),
        (40, "the server", 40),
        (9000, "the agent", 50),
    ] {
        let program =
            |text: &[u8]| Program::SaysAndCloses(text.to_vec(), Duration::from_millis(after));
        let asked = ask(&get(), &[program(&ok)]).await;
        assert_eq!(asked.outcome, Outcome::Success);
        assert_eq!(
            (asked.heard, asked.took),
            (vec![first.to_owned()], Duration::from_millis(took))
        );
        let asked = ask(&get(), &[program(&moved), program(&ok)]).await;
        assert_eq!(asked.heard, [first, first], "after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_followed_to_the_same_host_and_to_another_it_is_a_warning() {
    let to = |place: &str| format!("HTTP/1.1 302 Found\r\nLocation: {place}\r\n\r\nmoved");
    let bad = "HTTP/1.1 500 No\r\n\r\n";
    let asked = ask(&get(), &[says(&to("/there")), says(bad)]).await;
    assert_eq!(
        asked.outcome,
        failure("HTTP probe failed with statuscode: 500")
    );
    assert!(
        asked.heard[1].starts_with("GET /there "),
        "{:?}",
        asked.heard
    );
    let asked = ask(&get(), &[says(&to("http://elsewhere/"))]).await;
    let warning = "Probe terminated redirects, Response body: moved";
    assert_eq!(asked.outcome, Outcome::Warning(warning.to_owned()));
    assert_eq!(asked.dialled.len(), 1);
    let asked = ask(&get(), &[says(&to("ftp://10.0.0.7/x"))]).await;
    let nowhere = "Get \"ftp://10.0.0.7/x\": unsupported protocol scheme \"ftp\"";
    assert_eq!(asked.outcome, failure(nowhere));
    let around: Vec<Program> = (0..11).map(|_| says(&to("/around"))).collect();
    let asked = ask(&get(), &around).await;
    let text = "Get \"/around\": stopped after 10 redirects";
    assert_eq!(asked.outcome, failure(text));
    assert_eq!(asked.dialled.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_head_of_many_lines_and_of_lines_that_go_on_is_read_as_go_reads_it() {
    let many = "X-Some: x\r\n".repeat(500);
    for head in [&many, "X-Long: so\r\n  long\r\n"] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 2\r\n\r\nok");
        let asked = ask(&get(), &[says(&answer)]).await;
        assert_eq!(asked.outcome, Outcome::Success, "{}", head.len());
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_in_time_has_failed() {
    let waiting = "Get \"http://10.0.0.7:8080/health\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    for (program, limit) in [
        (Program::Silent, 1),
        (Program::Silent, 3),
        (Program::Blackhole, 2),
        (Program::SaysAndStays(b"HTTP/1.1 200".to_vec()), 1),
    ] {
        let mut probe = get();
        probe["timeoutSeconds"] = json!(limit);
        let asked = ask(&probe, &[program]).await;
        assert_eq!(asked.outcome, failure(waiting));
        assert_eq!(asked.took, Duration::from_secs(limit));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_begins_and_does_not_end_counts_as_nothing_after_three_attempts() {
    let begin = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n".to_vec();
    let dribbles = vec![Program::Dribbles(begin.clone()); 4];
    let asked = ask(&get(), &dribbles).await;
    let cause =
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    let errored = |cause: &str| Outcome::Errored {
        state: "failure",
        cause: cause.to_owned(),
    };
    assert_eq!(asked.outcome, errored(cause));
    assert_eq!(asked.dialled.len(), 3);
    assert_eq!(asked.took, Duration::from_secs(3));
    let cut = vec![Program::Says(begin); 3];
    assert_eq!(ask(&get(), &cut).await.outcome, errored("unexpected EOF"));
}

#[tokio::test(start_paused = true)]
async fn of_an_endless_answer_the_beginning_is_enough() {
    let begin = b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n".to_vec();
    let asked = ask(&get(), &[Program::Floods(begin)]).await;
    assert_eq!(asked.outcome, Outcome::Success);
    let begin = b"HTTP/1.1 301 Away\r\nLocation: http://elsewhere/\r\n\r\n".to_vec();
    let asked = ask(&get(), &[Program::Floods(begin)]).await;
    let Outcome::Warning(text) = asked.outcome else {
        panic!("{:?}", asked.outcome);
    };
    let words = "Probe terminated redirects, Response body: ".len();
    assert_eq!(text.len(), words + 10 * 1024);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_there_is_told_in_gos_words() {
    let refused = "dial tcp 10.0.0.7:8080: connect: connection refused";
    let asked = ask(&get(), &[Program::Refused]).await;
    let text = format!("Get \"http://10.0.0.7:8080/health\": {refused}");
    assert_eq!(asked.outcome, failure(&text));
    let asked = ask(&get(), &[says("")]).await;
    let text = "Get \"http://10.0.0.7:8080/health\": EOF";
    assert_eq!(asked.outcome, failure(text));
    let tcp = json!({ "tcpSocket": { "port": "web" } });
    let asked = ask(&tcp, &[Program::Refused]).await;
    assert_eq!(asked.outcome, failure(refused));
}

#[tokio::test(start_paused = true)]
async fn a_port_that_nobody_has_cannot_be_asked() {
    for kind in ["httpGet", "tcpSocket"] {
        let asked = ask(&json!({ kind: { "port": "none" } }), &[]).await;
        let wanted = Outcome::Errored {
            state: "unknown",
            cause: "strconv.Atoi: parsing \"none\": invalid syntax".to_owned(),
        };
        assert_eq!(asked.outcome, wanted, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_is_a_failure_as_it_is_with_upstream() {
    let own = json!([{ "name": "X-Token", "value": "abc\n" }]);
    let get =
        |path: &str, headers: &Value| json!({ "port": 80, "path": path, "httpHeaders": headers });
    for (action, text) in [
        (
            get("/x", &own),
            "Get \"http://10.0.0.7:80/x\": net/http: invalid header field value for \"X-Token\"",
        ),
        (
            get("localhost:81/x", &json!([])),
            "Get \"http:81/x\": http: no Host in request URL",
        ),
    ] {
        let asked = ask(&json!({ "httpGet": action }), &[]).await;
        assert_eq!(asked.outcome, failure(text));
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_connection_is_well() {
    let tcp = json!({ "tcpSocket": { "port": 90, "host": "other" }, "timeoutSeconds": 2 });
    let asked = ask(&tcp, &[Program::Silent]).await;
    assert_eq!(asked.outcome, Outcome::Success);
    assert_eq!(asked.took, Duration::ZERO);
    assert_eq!(asked.dialled, [("other".to_owned(), 90)]);
    let asked = ask(&tcp, &[Program::Blackhole]).await;
    assert_eq!(asked.outcome, failure("dial tcp other:90: i/o timeout"));
    assert_eq!(asked.took, Duration::from_secs(2));
}

fn grpc(service: Option<&str>, limit: u32) -> Value {
    json!({ "grpc": { "port": 9000, "service": service }, "timeoutSeconds": limit })
}

#[tokio::test(start_paused = true)]
async fn a_service_is_as_well_as_it_says() {
    let unwell = |name: &str| failure(&format!("service unhealthy (responded with {name:?})"));
    for (status, wanted) in [
        (1, Outcome::Success),
        (0, unwell("UNKNOWN")),
        (2, unwell("NOT_SERVING")),
        (3, unwell("SERVICE_UNKNOWN")),
        (9, unwell("9")),
    ] {
        let asked = ask(
            &grpc(Some("shop"), 1),
            &[Program::Grpc(Grpc::Health(status))],
        )
        .await;
        assert_eq!(asked.outcome, wanted, "{status}");
        let heard = "/grpc.health.v1.Health/Check shop \"kube-probe/1.36\"";
        assert_eq!(asked.heard, [heard], "{status}");
    }
    let asked = ask(&grpc(None, 1), &[Program::Grpc(Grpc::Health(1))]).await;
    assert_eq!(asked.outcome, Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn what_a_service_refuses_is_told_in_gos_words() {
    let lacks = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown";
    for (code, message, text) in [
        (12, "unknown", lacks),
        (4, "slow", "timeout: health rpc did not complete within 1s"),
        (
            5,
            "no such service",
            "error: health rpc probe failed: rpc error: code = NotFound desc = no such service",
        ),
        (
            1,
            "gone",
            "error: health rpc probe failed: rpc error: code = Canceled desc = gone",
        ),
    ] {
        let asked = ask(&grpc(None, 1), &[Program::Grpc(Grpc::Code(code, message))]).await;
        assert_eq!(asked.outcome, failure(text), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_there_is_tried_until_the_time_is_up() {
    let text = |limit| {
        format!(
            "timeout: failed to connect service \"10.0.0.7:9000\" within {limit}s: context deadline exceeded"
        )
    };
    for (programs, limit) in [
        (vec![], 1),
        (vec![Program::Silent], 1),
        (vec![Program::Blackhole], 1),
        // It speaks something else.
        (vec![says("HTTP/1.1 400 Bad Request\r\n\r\n")], 1),
    ] {
        let asked = ask(&grpc(None, limit), &programs).await;
        assert_eq!(asked.outcome, failure(&text(limit)), "{programs:?}");
        assert_eq!(asked.took, Duration::from_secs(limit.into()));
    }
    let mute = ask(&grpc(None, 2), &[Program::Grpc(Grpc::Mute)]).await;
    let text = "timeout: health rpc did not complete within 2s";
    assert_eq!(mute.outcome, failure(text));
    // The second attempt comes after a second, about.
    let later = [Program::Refused, Program::Grpc(Grpc::Health(1))];
    let asked = ask(&grpc(None, 3), &later).await;
    assert_eq!(asked.outcome, Outcome::Success);
    assert!(asked.took < Duration::from_secs(2), "{:?}", asked.took);
}

/// What comes of a command, and how often the runtime was asked.
async fn run(
    answer: fn(&ExecSyncRequest) -> Result<ExecSyncResponse, RuntimeError>,
) -> (Outcome, Duration) {
    let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let runtime = Arc::new(Commands(answer));
    let means = Means::new(runtime, Arc::new(Wires::default()), clock.clone());
    let probe = json!({
        "exec": { "command": ["sh", "-c", "test $(A)"] }, "timeoutSeconds": 7,
    });
    let probe: Probe = serde_json::from_value(probe).unwrap();
    let (pod, container, cut) = (Pod::default(), container(), CancellationToken::new());
    let outcome = means.check(&probe, subject(&pod, &container, &cut)).await;
    (outcome, clock.uptime())
}

#[tokio::test(start_paused = true)]
async fn a_command_is_as_well_as_it_ends() {
    let (outcome, _) = run(|request| {
        assert_eq!(request.container_id, "c-1");
        assert_eq!(request.cmd, ["sh", "-c", "test b"]);
        assert_eq!(request.timeout, 7);
        Ok(ExecSyncResponse::default())
    })
    .await;
    assert_eq!(outcome, Outcome::Success);
    let (outcome, _) = run(|_| {
        Ok(ExecSyncResponse {
            stdout: b"out\n".to_vec(),
            stderr: vec![b'e'; 20_000],
            exit_code: 3,
        })
    })
    .await;
    let Outcome::Failure(text) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(text.starts_with("out\neee"), "{text}");
    assert_eq!(text.len(), 10 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_stays_has_failed_and_a_container_that_is_gone_counts_as_nothing() {
    let (outcome, _) = run(|_| {
        let code = Code::DeadlineExceeded;
        Err(RuntimeError::new("ExecSync", code, "timeout 7s exceeded"))
    })
    .await;
    let text = "command timed out: \"sh -c test b\" timed out after 7s";
    assert_eq!(outcome, failure(text));
    let (outcome, _) = run(|_| {
        let code = Code::NotFound;
        Err(RuntimeError::new("ExecSync", code, "no such container"))
    })
    .await;
    let wanted = Outcome::Errored {
        state: "unknown",
        cause: "rpc error: code = NotFound desc = no such container".to_owned(),
    };
    assert_eq!(outcome, wanted);
}

#[tokio::test(start_paused = true)]
async fn no_command_runs_in_a_pod_that_was_told_to_end_and_one_that_does_is_given_up() {
    let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let exec = json!({ "exec": { "command": ["x"] } });
    let exec: Probe = serde_json::from_value(exec).unwrap();
    let (pod, container) = (Pod::default(), container());
    let wanted = Outcome::Errored {
        state: "unknown",
        cause: "rpc error: code = Canceled desc = context canceled".to_owned(),
    };
    for after in [0, 5] {
        let runtime = Arc::new(Endless);
        let means = Means::new(runtime, Arc::new(Wires::default()), clock.clone());
        let cut = CancellationToken::new();
        let began = clock.uptime();
        let told = async {
            clock.sleep(Duration::from_secs(after)).await;
            cut.cancel();
        };
        let checked = means.check(&exec, subject(&pod, &container, &cut));
        let (outcome, ()) = tokio::join!(checked, told);
        assert_eq!(outcome, wanted, "{after}");
        let took = clock.uptime().saturating_sub(began);
        assert_eq!(took, Duration::from_secs(after));
    }
}

/// Its commands never end.
#[derive(Debug)]
struct Endless;

impl Runtime for Endless {
    fn exec_sync(&self, _: ExecSyncRequest) -> RuntimeAnswer<'_, ExecSyncResponse> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_asks_nothing_is_told_of() {
    let asked = ask(&json!({}), &[]).await;
    let wanted = Outcome::Errored {
        state: "unknown",
        cause: "missing probe handler for _():app".to_owned(),
    };
    assert_eq!(asked.outcome, wanted);
}

/// A clock that stands still while somebody sleeps, and then finds that much time gone.
#[derive(Debug)]
struct Stalling(TokioClock, Duration);

impl seams::Clock for Stalling {
    fn now(&self) -> std::time::SystemTime {
        self.0.now()
    }

    fn uptime(&self) -> Duration {
        self.0.uptime()
    }

    fn sleep(&self, duration: Duration) -> seams::Sleep {
        self.0.sleep(duration + self.1)
    }

    fn random(&self) -> f64 {
        self.0.random()
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_slow_does_not_blame_who_was_asked() {
    let probe = json!({ "tcpSocket": { "port": 90 } });
    let probe: Probe = serde_json::from_value(probe).unwrap();
    let nobody = Commands(|_| unreachable!("no command was given"));
    let nobody = Arc::new(nobody);
    for (stall, late) in [(400, false), (700, true)] {
        let stall = Duration::from_millis(stall);
        let clock = Stalling(TokioClock::starting_at(UNIX_EPOCH), stall);
        let wires = Wires {
            programs: Mutex::new([Program::Blackhole].into()),
            ..Wires::default()
        };
        let means = Means::new(nobody.clone(), Arc::new(wires), Arc::new(clock));
        let (pod, container, cut) = (Pod::default(), container(), CancellationToken::new());
        let outcome = means.check(&probe, subject(&pod, &container, &cut)).await;
        let wanted = if late {
            Outcome::Late(stall)
        } else {
            failure("dial tcp 10.0.0.7:90: i/o timeout")
        };
        assert_eq!(outcome, wanted, "{stall:?}");
    }
}
