//! Web sockets as both of their uses here have them.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use seams::{Clock, timeout};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// A message may be as long as upstream takes it.
const LONGEST_MESSAGE: usize = 32 * 1024 * 1024;

/// What is read of a connection at once.
const READ_AT_ONCE: usize = 32 * 1024;

/// For a client to take the last that is said to it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What is said to a client.
#[derive(Debug)]
pub(crate) struct ToClient<C>(SplitSink<WebSocketStream<C>, Message>);

/// What a client says.
#[derive(Debug)]
pub(crate) struct FromClient<C>(SplitStream<WebSocketStream<C>>);

/// One message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Binary(Bytes),
    Text(Bytes),
}

/// The server's end of a WebSocket whose opening is over.
pub(crate) async fn serve<C>(connection: C) -> (ToClient<C>, FromClient<C>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE))
        .read_buffer_size(READ_AT_ONCE)
        // Every message is flushed: none waits for another.
        .write_buffer_size(0);
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
    let (to_client, from_client) = socket.split();
    (ToClient(to_client), FromClient(from_client))
}

impl<C: AsyncRead + AsyncWrite + Unpin> ToClient<C> {
    pub(crate) async fn send(&mut self, message: Bytes) -> Result<(), Error> {
        self.0.send(Message::Binary(message)).await
    }

    /// The last message, if there is one, and the end of it all: the client has time to
    /// read it, and what it says in the meantime is not heard. Without that, a connection
    /// that is closed while the client still speaks would take the message along.
    pub(crate) async fn end(
        mut self,
        clock: &dyn Clock,
        last: Option<Bytes>,
        mut unheard: FromClient<C>,
    ) {
        let normal = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        let ending = async {
            if let Some(last) = last {
                self.send(last).await?;
            }
            self.0.send(Message::Close(Some(normal))).await
        };
        let drained = async { while unheard.next().await.is_some() {} };
        let both = async {
            // Who does not read what is said, but speaks, must be heard to be drained.
            tokio::join!(ending, drained)
        };
        let _ = timeout(clock, LAST_WORDS, both).await;
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> FromClient<C> {
    /// `None`: the client has closed, or vanished, or said what is no WebSocket's.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Binary(message) => return Some(Said::Binary(message)),
                Message::Text(message) => return Some(Said::Text(message.into())),
                Message::Close(_) => return None,
                // Answered by the library.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}
