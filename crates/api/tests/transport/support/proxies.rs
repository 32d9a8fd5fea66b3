//! Proxies that pass bytes on, and remember what they were asked.

use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Speaks CONNECT, and passes everything on to `port` of this machine.
    pub(crate) async fn tunneling_to(port: u16) -> Self {
        Self::start(move |client, asked| tunnel(client, port, asked)).await
    }

    /// The same behind TLS.
    pub(crate) async fn tunneling_securely_to(port: u16, tls: Arc<ServerConfig>) -> Self {
        let acceptor = TlsAcceptor::from(tls);
        Self::start(move |client, asked| {
            let accepted = acceptor.accept(client);
            async move { tunnel(accepted.await.unwrap(), port, asked).await }
        })
        .await
    }

    /// Speaks SOCKS5 with a user and a password, and passes everything on to `port`.
    pub(crate) async fn socks_to(port: u16) -> Self {
        Self::start(move |mut client, asked| async move {
            let mut greeting = [0; 3];
            client.read_exact(&mut greeting).await.unwrap();
            assert_eq!(greeting, [5, 1, 2], "a user and a password are offered");
            client.write_all(&[5, 2]).await.unwrap();
            let mut login = [0; 12];
            client.read_exact(&mut login).await.unwrap();
            assert_eq!(&login, b"\x01\x02me\x07hunter2");
            client.write_all(&[1, 0]).await.unwrap();
            let mut head = [0; 5];
            client.read_exact(&mut head).await.unwrap();
            assert_eq!(head[..4], [5, 1, 0, 3], "the proxy resolves the name");
            let mut name = vec![0; usize::from(head[4])];
            client.read_exact(&mut name).await.unwrap();
            client.read_u16().await.unwrap();
            asked.lock().unwrap().push(String::from_utf8(name).unwrap());
            client
                .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
                .await
                .unwrap();
            pass_on(client, port).await;
        })
        .await
    }

    async fn start<F>(
        serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let log = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                clients.spawn(serve(client, Arc::clone(&log)));
            }
        });
        Self {
            port,
            asked,
            _tasks: tasks,
        }
    }
}

async fn tunnel(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let known = head.contains("Proxy-Authorization: Basic bWU6aHVudGVyMg==\r\n");
    asked.lock().unwrap().push(head);
    if !known {
        let refusal = b"HTTP/1.1 407 Who are you?\r\n\r\n";
        client.write_all(refusal).await.unwrap();
        return;
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    pass_on(client, port).await;
}

async fn pass_on(mut client: impl AsyncRead + AsyncWrite + Unpin, port: u16) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
