//! The machine's own network.

use std::io;

use seams::Net;
use seams::net::{Destination, DialError, Dialing};
use tokio::net::TcpStream;

/// Connections as the kernel makes them: whoever the machine can reach is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxNet;

impl Net for LinuxNet {
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a> {
        Box::pin(async move {
            let stream = connect(to).await?;
            Ok(Box::new(stream) as _)
        })
    }
}

/// Of a name's addresses the first that answers; else what the first one said.
async fn connect(to: Destination<'_>) -> Result<TcpStream, DialError> {
    let lookup = |cause| DialError::Lookup {
        host: to.host.to_owned(),
        cause,
    };
    let addresses = tokio::net::lookup_host((to.host, to.port)).await;
    let mut refusal = None;
    for address in addresses.map_err(lookup)? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(cause) => {
                refusal.get_or_insert(DialError::Connect { address, cause });
            }
        }
    }
    let nobody = || lookup(io::Error::new(io::ErrorKind::NotFound, "no such host"));
    Err(refusal.unwrap_or_else(nobody))
}

#[cfg(test)]
mod tests {
    use seams::net::Connection;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn destination(host: &str, port: u16) -> Destination<'_> {
        Destination { host, port }
    }

    #[tokio::test]
    async fn what_is_said_arrives_on_both_sides() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut dialled: Box<dyn Connection> =
            LinuxNet.dial(destination("localhost", port)).await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        dialled.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        accepted.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        accepted.write_all(b"pong").await.unwrap();
        drop(accepted);
        let mut heard = String::new();
        dialled.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "pong");
    }

    #[tokio::test]
    async fn who_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = LinuxNet.dial(destination("127.0.0.1", address.port()));
        match refused.await.unwrap_err() {
            DialError::Connect { address: at, cause } => {
                assert_eq!(at, address);
                assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
            }
            other @ DialError::Lookup { .. } => panic!("{other}"),
        }
        let unknown = LinuxNet.dial(destination("nobody.invalid", 1)).await;
        let unknown = unknown.unwrap_err();
        assert!(matches!(unknown, DialError::Lookup { .. }), "{unknown}");
    }
}
