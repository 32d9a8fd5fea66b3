//! SPDY inside a WebSocket: what a client and a runtime say to each other over a
//! WebSocket that is not the runtime's. The bytes mean nothing here.

use bytes::{Bytes, BytesMut};
use seams::Clock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

use super::websocket::{FromClient, Said, ToClient, serve};

/// What is on its way to the client.
const ON_THE_WAY: usize = 32 * 1024;

/// Until either side ends. Neither is open afterwards.
pub(crate) async fn tunnel<C, R>(clock: &dyn Clock, client: C, runtime: R)
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead + AsyncWrite + Unpin,
{
    let (mut to_client, mut from_client) = serve(client).await;
    let (from_runtime, to_runtime) = split(runtime);
    tokio::select! {
        biased;
        () = down(from_runtime, &mut to_client) => {}
        () = up(&mut from_client, to_runtime) => {}
    }
    to_client.end(clock, None, from_client).await;
}

async fn down<R, C>(mut from_runtime: R, to_client: &mut ToClient<C>)
where
    R: AsyncRead + Unpin,
    C: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = BytesMut::new();
    loop {
        read.reserve(ON_THE_WAY);
        match from_runtime.read_buf(&mut read).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let piece: Bytes = read.split().freeze();
        if to_client.send(piece).await.is_err() {
            return;
        }
    }
}

/// What the client says, until it ends, to a runtime that may listen no more: one that is
/// done may have said what the client has not read yet.
async fn up<C, W>(from_client: &mut FromClient<C>, to_runtime: W)
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut listener = Some(to_runtime);
    // SPDY is no text: whoever sends some speaks something else.
    while let Some(Said::Binary(piece)) = from_client.next().await {
        if let Some(to_runtime) = &mut listener {
            let written = async {
                to_runtime.write_all(&piece).await?;
                to_runtime.flush().await
            };
            if written.await.is_err() {
                listener = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use futures_util::{SinkExt as _, StreamExt as _};
    use testkit::clock::TokioClock;
    use tokio::io::duplex;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_client_says_after_the_runtime_has_ended_costs_nothing_of_what_was_said() {
        let said = 4 * ON_THE_WAY;
        let ((client, ours), (theirs, mut runtime)) = (duplex(100), duplex(said));
        runtime.write_all(&vec![7; said]).await.unwrap();
        drop(runtime);
        let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
        let client = async move {
            let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            let ping = Message::Binary(Bytes::from_static(b"ping"));
            client.send(ping).await.unwrap();
            let mut heard = 0;
            while let Some(Ok(Message::Binary(piece))) = client.next().await {
                heard += piece.len();
            }
            heard
        };
        let (heard, ()) = tokio::join!(client, tunnel(&clock, ours, theirs));
        assert_eq!(heard, said);
    }
}
