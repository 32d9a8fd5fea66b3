//! Streams as a client of the streaming server sees them.

use bytes::BytesMut;
use seams::Net as _;
use seams::net::{Connection, Destination};
use spdy::{Decoder, Encoder, Event, data_head, ping};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::faults::RuntimeFault;

const COMMANDS: &str = "v4.channel.k8s.io";
const PORTS: &str = "portforward.k8s.io";

/// A client, after its request.
struct Client {
    connection: Box<dyn Connection>,
    read: BytesMut,
    decoder: Decoder,
    encoder: Encoder,
}

/// What came over one stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    text: String,
    last: bool,
    reset: bool,
}

impl Client {
    /// The answer to a request with these headers, and what comes after it.
    async fn asks(rig: &Rig, url: &str, headers: &str) -> (String, Self) {
        let (host, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .unwrap();
        let (host, port) = host.split_once(':').unwrap();
        let port = port.parse().unwrap();
        let mut connection = rig.runtime.dial(Destination { host, port }).await.unwrap();
        let request = format!("POST /{path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
        let client = Self {
            connection,
            read: BytesMut::new(),
            decoder: Decoder::of_server(),
            encoder: Encoder::default(),
        };
        (String::from_utf8(head).unwrap(), client)
    }

    async fn upgraded(rig: &Rig, url: &str, protocol: &str) -> Self {
        let headers = format!(
            "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\n\
             X-Stream-Protocol-Version: channel.k8s.io\r\n"
        );
        let (head, client) = Self::asks(rig, url, &headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let head = head.to_lowercase();
        let chosen = format!("x-stream-protocol-version: {protocol}\r\n");
        assert!(head.contains(&chosen), "{head}");
        assert!(head.contains("upgrade: spdy/3.1\r\n"), "{head}");
        client
    }

    /// With the streams of a command, which have the numbers 1, 3, 5, … in that order.
    async fn with_streams(rig: &Rig, url: &str, kinds: &[&str]) -> Self {
        let mut client = Self::upgraded(rig, url, COMMANDS).await;
        for (place, kind) in (0..).zip(kinds) {
            client.opens(2 * place + 1, &[("streamtype", kind)]).await;
        }
        client
    }

    async fn opens(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let mut frame = Vec::new();
        self.encoder.open(stream, headers, &mut frame);
        self.connection.write_all(&frame).await.unwrap();
        let accepted = Event::Accepted {
            stream,
            last: false,
        };
        assert_eq!(self.event().await, Some(accepted));
    }

    async fn says(&mut self, stream: u32, text: &str, last: bool) {
        let head = data_head(stream, text.len(), last);
        self.connection.write_all(&head).await.unwrap();
        self.connection.write_all(text.as_bytes()).await.unwrap();
    }

    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.decoder.next(&mut self.read).unwrap() {
                return Some(event);
            }
            // Frames come whole, as they were written.
            self.read.reserve(4096);
            if self.connection.read_buf(&mut self.read).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// The next text on a stream.
    async fn hears(&mut self) -> (u32, String) {
        match self.event().await {
            Some(Event::Data { stream, piece, .. }) => {
                (stream, String::from_utf8(piece.to_vec()).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    /// All that comes until the server says that it is over.
    async fn hear_all(mut self) -> BTreeMap<u32, Heard> {
        let mut all: BTreeMap<u32, Heard> = BTreeMap::new();
        loop {
            match self.event().await {
                Some(Event::Data {
                    stream,
                    piece,
                    last,
                }) => {
                    let heard = all.entry(stream).or_default();
                    heard.text += std::str::from_utf8(&piece).unwrap();
                    heard.last |= last;
                }
                Some(Event::Reset { stream }) => all.entry(stream).or_default().reset = true,
                Some(Event::GoAway) => return all,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn heard(text: &str) -> Heard {
    Heard {
        text: text.to_owned(),
        last: true,
        reset: false,
    }
}

fn verdict(all: &BTreeMap<u32, Heard>) -> serde_json::Value {
    assert!(all[&1].last);
    serde_json::from_str(&all[&1].text).unwrap()
}

async fn exec_url(rig: &Rig, container: &str, command: &[&str], tty: bool) -> String {
    let request = cri::ExecRequest {
        container_id: container.to_owned(),
        cmd: command.iter().map(|word| (*word).to_owned()).collect(),
        tty,
        stdin: true,
        stdout: true,
        stderr: !tty,
    };
    rig.runtime.exec(request).await.unwrap().url
}

const ALL: &[&str] = &["error", "stdin", "stdout", "stderr"];
const TERMINAL: &[&str] = &["error", "stdin", "stdout", "resize"];

#[tokio::test(start_paused = true)]
async fn a_command_prints_and_ends_with_its_code() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    for (command, stdout, code) in [
        (&["echo", "hello", "world"][..], "hello world\n", None),
        (&["sh", "-c", "exit 3"], "", Some("3")),
        (&["ls"], "simulated: ready\n", None),
    ] {
        let url = exec_url(&rig, &container, command, false).await;
        let client = Client::with_streams(&rig, &url, ALL).await;
        let all = client.hear_all().await;
        assert_eq!(all[&5], heard(stdout), "{command:?}");
        assert_eq!(all[&7], heard(""), "{command:?}");
        let verdict = verdict(&all);
        match code {
            None => assert_eq!(verdict["status"], "Success", "{command:?}"),
            Some(code) => {
                assert_eq!(verdict["reason"], "NonZeroExitCode");
                assert_eq!(verdict["details"]["causes"][0]["message"], code);
                assert_eq!(
                    verdict["message"],
                    "command terminated with non-zero exit code: error executing command [sh -c \
                     exit 3], exit code 3"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cat_hears_comes_back_to_the_end() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let url = exec_url(&rig, &container, &["cat"], false).await;
    let mut client = Client::with_streams(&rig, &url, ALL).await;
    client.says(3, "one", false).await;
    assert_eq!(client.hears().await, (5, "one".to_owned()));
    client.says(3, "two", true).await;
    let all = client.hear_all().await;
    assert_eq!(all[&5], heard("two"));
    assert_eq!(verdict(&all)["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_shows_what_is_typed_and_knows_two_keys() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    for (key, code) in [("\u{3}", Some("130")), ("\u{4}", None)] {
        let url = exec_url(&rig, &container, &["cat"], true).await;
        let mut client = Client::with_streams(&rig, &url, TERMINAL).await;
        client.says(7, "{\"Width\":80,\"Height\":24}", false).await;
        client.says(3, "hi\r", false).await;
        assert_eq!(client.hears().await, (5, "hi\r\n".to_owned()));
        client.says(3, key, false).await;
        let told = verdict(&client.hear_all().await);
        let told = told["details"]["causes"][0]["message"].as_str();
        assert_eq!(told, code, "{key:?}");
    }
    let url = exec_url(&rig, &container, &["echo", "a"], true).await;
    let client = Client::with_streams(&rig, &url, TERMINAL).await;
    assert_eq!(client.hear_all().await[&5], heard("a\r\n"));
    let url = exec_url(&rig, &container, &["sleep", "1000"], true).await;
    let mut client = Client::with_streams(&rig, &url, TERMINAL).await;
    client.says(3, "\u{3}", false).await;
    let told = verdict(&client.hear_all().await);
    assert_eq!(told["details"]["causes"][0]["message"], "130");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_lasts_and_answers_pings_and_ends_with_its_container() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let begun = rig.seconds();
    let url = exec_url(&rig, &container, &["sleep", "5"], false).await;
    let mut client = Client::with_streams(&rig, &url, ALL).await;
    client.connection.write_all(&ping(7)).await.unwrap();
    assert_eq!(client.event().await, Some(Event::Ping { number: 7 }));
    let all = client.hear_all().await;
    assert_eq!(verdict(&all)["status"], "Success");
    assert_eq!(rig.seconds(), begun + 5);
    let url = exec_url(&rig, &container, &["sleep", "5"], false).await;
    let client = Client::with_streams(&rig, &url, ALL).await;
    let (all, ()) = tokio::join!(client.hear_all(), rig.stop(&container, 0));
    assert_eq!(verdict(&all)["details"]["causes"][0]["message"], "137");
    assert_eq!(rig.seconds(), begun + 5);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_missing_is_told_in_containerds_words() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[("other-commands", "missing")]).await;
    let url = exec_url(&rig, &container, &["ls"], false).await;
    let client = Client::with_streams(&rig, &url, ALL).await;
    let told = verdict(&client.hear_all().await);
    let message = told["message"].as_str().unwrap();
    let beginning = "Internal error occurred: error executing command in container: failed to \
                     exec in container: failed to start exec \"";
    assert!(message.starts_with(beginning), "{message}");
    assert_eq!(told["code"], 500);
    let url = exec_url(&rig, &container, &["sh", "-c", "ls"], false).await;
    let client = Client::with_streams(&rig, &url, ALL).await;
    let all = client.hear_all().await;
    assert_eq!(all[&7], heard("sh: ls: not found\n"));
    assert_eq!(verdict(&all)["details"]["causes"][0]["message"], "127");
}

#[tokio::test(start_paused = true)]
async fn who_is_attached_sees_what_is_printed_from_then_on() {
    let rig = Rig::new();
    let notes = [
        ("log-lines", "1/s"),
        ("run-time", "10s"),
        ("exit-code", "4"),
    ];
    let (_, container) = rig.running(&notes).await;
    rig.pass(Duration::from_millis(5500)).await;
    let request = cri::AttachRequest {
        container_id: container.clone(),
        stdout: true,
        stderr: true,
        ..cri::AttachRequest::default()
    };
    let url = rig.runtime.attach(request.clone()).await.unwrap().url;
    let mut client = Client::with_streams(&rig, &url, &["error", "stdout", "stderr"]).await;
    assert_eq!(
        client.hears().await,
        (3, "simulated line 7\n".to_owned()),
        "six were printed before"
    );
    let all = client.hear_all().await;
    let rest = "simulated line 8\nsimulated line 9\nsimulated line 10\nsimulated line 11\n";
    assert_eq!(all[&3], heard(rest));
    // How the container ended is told elsewhere.
    assert_eq!(verdict(&all)["status"], "Success");
    assert_eq!(rig.seconds(), 10);
    let refused = rig.runtime.attach(request).await.unwrap_err();
    assert!(refused.message.contains("CONTAINER_EXITED"), "{refused}");
}

async fn forwarded(rig: &Rig, pod: &str) -> Client {
    let request = cri::PortForwardRequest {
        pod_sandbox_id: pod.to_owned(),
        port: Vec::new(),
    };
    let url = rig.runtime.port_forward(request).await.unwrap().url;
    Client::upgraded(rig, &url, PORTS).await
}

/// The stream for errors has the number before that for data.
async fn opens_port(client: &mut Client, data: u32, port: &str) {
    let request = data.to_string();
    for (stream, kind) in [(data - 2, "error"), (data, "data")] {
        let headers = [
            ("streamtype", kind),
            ("port", port),
            ("requestid", &request),
        ];
        client.opens(stream, &headers).await;
    }
}

#[tokio::test(start_paused = true)]
async fn several_conversations_go_over_one_forwarded_connection() {
    let rig = Rig::new();
    let (pod, _) = rig.running(&[]).await;
    let mut client = forwarded(&rig, &pod).await;
    opens_port(&mut client, 3, "80").await;
    opens_port(&mut client, 7, "8080").await;
    client.says(7, "GET / HTTP/1.1\r\n", false).await;
    client.says(3, "GET / HTTP/1.1\r\n\r\n", false).await;
    let (stream, answer) = client.hears().await;
    assert_eq!(stream, 3);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for stream in [3, 1] {
        assert_eq!(client.hears().await, (stream, String::new()));
    }
    client.says(7, "\r\n", false).await;
    assert_eq!(client.hears().await.0, 7);
    rig.stop_pod(&pod).await;
    let rest = client.hear_all().await;
    assert_eq!(rest.len(), 2, "the end of the second pair: {rest:?}");
}

#[tokio::test(start_paused = true)]
async fn an_echo_is_forwarded_until_the_client_has_said_all() {
    let rig = Rig::new();
    let (pod, _) = rig.running(&[("http", "echo")]).await;
    let mut client = forwarded(&rig, &pod).await;
    opens_port(&mut client, 3, "7").await;
    client.says(3, "hello", false).await;
    assert_eq!(client.hears().await, (3, "hello".to_owned()));
    client.says(3, "bye", true).await;
    assert_eq!(client.hears().await, (3, "bye".to_owned()));
    for stream in [3, 1] {
        let end = Event::Data {
            stream,
            piece: bytes::Bytes::new(),
            last: true,
        };
        assert_eq!(client.event().await, Some(end));
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_listens_the_reason_comes_over_the_stream_for_errors() {
    let rig = Rig::new();
    let (pod, _) = rig.running(&[("http", "refused")]).await;
    let mut client = forwarded(&rig, &pod).await;
    opens_port(&mut client, 3, "80").await;
    let (stream, words) = client.hears().await;
    assert_eq!(stream, 1);
    assert!(
        words.starts_with("error forwarding port 80 to pod "),
        "{words}"
    );
    assert!(words.ends_with("connection refused"), "{words}");
    assert_eq!(client.hears().await, (1, String::new()));
    assert_eq!(client.event().await, Some(Event::Reset { stream: 3 }));
    // A stream that means nothing does not end the others.
    let mut frame = Vec::new();
    client.encoder.open(5, &[("port", "x")], &mut frame);
    client.connection.write_all(&frame).await.unwrap();
    assert_eq!(client.event().await, Some(Event::Reset { stream: 5 }));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_for_one_who_comes_in_time_and_speaks_the_protocol() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let spdy = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let other = format!("{spdy}X-Stream-Protocol-Version: v3.channel.k8s.io\r\n");
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    for (headers, status) in [(spdy, "400"), (&other, "403"), (websocket, "400")] {
        let url = exec_url(&rig, &container, &["true"], false).await;
        let (head, _) = Client::asks(&rig, &url, headers).await;
        assert_eq!(&head["HTTP/1.1 ".len()..][..3], status, "{headers}");
        let (again, _) = Client::asks(&rig, &url, headers).await;
        assert!(again.starts_with("HTTP/1.1 404 "), "{again}");
    }
    let url = exec_url(&rig, &container, &["true"], false).await;
    rig.pass(60 * SECOND).await;
    let (late, _) = Client::asks(&rig, &url, &other).await;
    assert!(late.starts_with("HTTP/1.1 404 "), "{late}");
    rig.ail.send_replace(Faults {
        runtime: RuntimeFault::Down,
        ..Faults::default()
    });
    let (host, port) = ("127.0.0.1", 10010);
    assert!(rig.runtime.dial(Destination { host, port }).await.is_err());
}

#[tokio::test]
async fn others_find_the_streams_on_a_port() {
    let rig = Rig::new();
    let (_, container) = rig.running(&[]).await;
    let port = rig.runtime.open_streams_port().await.unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let url = exec_url(&rig, &container, &["echo", "hello"], false).await;
    let address = url.strip_prefix("http://").unwrap();
    let (address, path) = address.split_once('/').unwrap();
    assert!(!address.ends_with(":10010"), "{address}");
    let asking = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET /{path}x HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        shutdown.cancel();
        // It ends with the server.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        head
    };
    let (head, ()) = tokio::join!(asking, port.serve(shutdown.clone()));
    assert_eq!(&head, b"HTTP/1.1 404");
}
