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

async fn up<C, W>(from_client: &mut FromClient<C>, mut to_runtime: W)
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncWrite + Unpin,
{
    // SPDY is no text: whoever sends some speaks something else.
    while let Some(Said::Binary(piece)) = from_client.next().await {
        if to_runtime.write_all(&piece).await.is_err() || to_runtime.flush().await.is_err() {
            return;
        }
    }
}
