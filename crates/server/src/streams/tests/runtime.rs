//! A runtime whose streaming server is the test itself.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use seams::cri::{
    AttachResponse, CheckpointContainerResponse, Container, ExecResponse, ExecSyncResponse,
    ListContainersRequest, ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse,
    PodSandbox, PodSandboxState, PortForwardResponse,
};
use seams::net::{Destination, DialError, Dialing};
use seams::runtime::{Answer, Code};
use seams::{Net, Runtime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

/// What it was asked, and what it answers.
#[derive(Debug, Default)]
pub(super) struct FakeRuntime {
    pub(super) asked: Mutex<Vec<String>>,
    pub(super) fails: Option<Code>,
    pub(super) ran: ExecSyncResponse,
    pub(super) url: Option<&'static str>,
}

impl FakeRuntime {
    fn answer<A: Send + 'static>(&self, asked: String, answer: A) -> Answer<'_, A> {
        self.asked.lock().unwrap().push(asked);
        let answer = match self.fails {
            Some(code) => Err(RuntimeError::new("Call", code, "not now")),
            None => Ok(answer),
        };
        Box::pin(std::future::ready(answer))
    }

    fn url(&self) -> String {
        self.url.unwrap_or("http://10.1.2.3:4/place").to_owned()
    }
}

fn runs(labels: &BTreeMap<String, String>) -> bool {
    let label = |name: &str| labels.get(name).map(String::as_str);
    let container = label("io.kubernetes.container.name");
    label("io.kubernetes.pod.uid") == Some("u-1") && matches!(container, Some("app" | "shell"))
}

impl Runtime for FakeRuntime {
    fn list_containers(
        &self,
        request: ListContainersRequest,
    ) -> Answer<'_, ListContainersResponse> {
        let filter = request.filter.unwrap();
        let state = filter.state.unwrap().state();
        assert_eq!(state, seams::cri::ContainerState::ContainerRunning);
        let ids = [("old", 1), ("new", 3), ("older", 0)];
        let containers = ids.map(|(id, created_at)| Container {
            id: id.to_owned(),
            created_at,
            ..Container::default()
        });
        let containers = if runs(&filter.label_selector) {
            containers.to_vec()
        } else {
            Vec::new()
        };
        Box::pin(std::future::ready(Ok(ListContainersResponse {
            containers,
        })))
    }

    fn list_pod_sandbox(
        &self,
        request: ListPodSandboxRequest,
    ) -> Answer<'_, ListPodSandboxResponse> {
        let labels = request.filter.unwrap().label_selector;
        assert_eq!(labels["io.kubernetes.pod.uid"], "u-1");
        let all = [
            ("ready", PodSandboxState::SandboxReady, 1),
            ("ended", PodSandboxState::SandboxNotready, 2),
        ];
        let items = all.map(|(id, state, created_at)| PodSandbox {
            id: id.to_owned(),
            state: state.into(),
            created_at,
            ..PodSandbox::default()
        });
        let items = items.to_vec();
        Box::pin(std::future::ready(Ok(ListPodSandboxResponse { items })))
    }

    fn exec(&self, request: ExecRequest) -> Answer<'_, ExecResponse> {
        let url = self.url();
        self.answer(format!("{request:?}"), ExecResponse { url })
    }

    fn attach(&self, request: AttachRequest) -> Answer<'_, AttachResponse> {
        let url = self.url();
        self.answer(format!("{request:?}"), AttachResponse { url })
    }

    fn port_forward(&self, request: PortForwardRequest) -> Answer<'_, PortForwardResponse> {
        let url = self.url();
        self.answer(format!("{request:?}"), PortForwardResponse { url })
    }

    fn exec_sync(&self, request: ExecSyncRequest) -> Answer<'_, ExecSyncResponse> {
        self.answer(format!("{request:?}"), self.ran.clone())
    }

    fn checkpoint_container(
        &self,
        request: CheckpointContainerRequest,
    ) -> Answer<'_, CheckpointContainerResponse> {
        self.answer(format!("{request:?}"), CheckpointContainerResponse {})
    }
}

/// A network in which somebody waits at the other end, or nobody.
#[derive(Debug, Default)]
pub(super) struct FakeNet {
    waiting: Mutex<Option<DuplexStream>>,
}

impl FakeNet {
    /// The runtime's end of the next connection.
    pub(super) fn expect(&self) -> Streaming {
        let (ours, theirs) = duplex(PIPE);
        *self.waiting.lock().unwrap() = Some(ours);
        Streaming(theirs)
    }
}

impl Net for FakeNet {
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a> {
        assert_eq!((to.host, to.port), ("10.1.2.3", 4));
        let waiting = self.waiting.lock().unwrap().take();
        Box::pin(std::future::ready(match waiting {
            Some(connection) => Ok(Box::new(connection) as _),
            None => Err(DialError::Connect {
                address: "10.1.2.3:4".parse().unwrap(),
                cause: io::ErrorKind::ConnectionRefused.into(),
            }),
        }))
    }
}

/// The runtime's streaming server.
#[derive(Debug)]
pub(super) struct Streaming(pub(super) DuplexStream);

/// A frame of a client, as far as a server cares.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Open {
        stream: u32,
        kind: String,
    },
    Data {
        stream: u32,
        data: Vec<u8>,
        last: bool,
    },
    Ping(u32),
}

impl Streaming {
    /// The head of the request that came, and the answer to it.
    pub(super) async fn answers(&mut self, answer: &str) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        self.0.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(head).unwrap()
    }

    /// The same, for one that changes to SPDY.
    pub(super) async fn switches(&mut self, protocol: &str) -> String {
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        );
        self.answers(&answer).await
    }

    /// `None`: the client has closed the connection.
    pub(super) async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).await.ok()?;
        let [word @ .., flags, high, middle, low] = head;
        let mut body = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        self.0.read_exact(&mut body).await.ok()?;
        let number = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        Some(match word {
            [0x80, 3, 0, 1] => {
                // Stored as it is: the last word but five bytes.
                let text = String::from_utf8_lossy(&body).into_owned();
                let kinds = ["error", "stdin", "stdout", "stderr", "resize"];
                let kind = kinds.into_iter().find(|kind| text.contains(kind)).unwrap();
                Frame::Open {
                    stream: number(0),
                    kind: kind.to_owned(),
                }
            }
            [0x80, 3, 0, 6] => Frame::Ping(number(0)),
            stream => Frame::Data {
                stream: u32::from_be_bytes(stream),
                data: body,
                last: flags == 1,
            },
        })
    }

    /// The next frame that is no ping.
    pub(super) async fn data(&mut self) -> Option<(u32, Vec<u8>, bool)> {
        loop {
            match self.frame().await? {
                Frame::Data { stream, data, last } => return Some((stream, data, last)),
                Frame::Ping(_) => {}
                open @ Frame::Open { .. } => panic!("{open:?}"),
            }
        }
    }

    /// Takes the streams that the client opens.
    pub(super) async fn takes(&mut self, kinds: &[&str]) {
        for (place, kind) in (0..).zip(kinds) {
            let stream = 2 * place + 1;
            let open = Frame::Open {
                stream,
                kind: (*kind).to_owned(),
            };
            assert_eq!(self.frame().await, Some(open));
        }
        for place in 0..kinds.len() {
            let stream = u8::try_from(2 * place + 1).unwrap();
            let reply = [0x80, 3, 0, 2, 0, 0, 0, 6, 0, 0, 0, stream, 0x78, 0xbb];
            self.0.write_all(&reply).await.unwrap();
        }
    }

    pub(super) async fn says(&mut self, stream: u32, data: &[u8], last: bool) {
        let head = spdy::data_head(stream, data.len(), last);
        self.0.write_all(&head).await.unwrap();
        self.0.write_all(data).await.unwrap();
    }

    pub(super) async fn goes_away(&mut self) {
        let frame = [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        self.0.write_all(&frame).await.unwrap();
    }

    /// Waits until the client has closed: both ways, not one alone.
    pub(super) async fn until_left(mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
        while self.0.write_all(&[0; 100]).await.is_ok() {}
    }
}
