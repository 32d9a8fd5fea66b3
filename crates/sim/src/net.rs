//! A connection in memory, on whose other side a simulated program speaks HTTP/1.1, and
//! answers questions about its health over gRPC.
//!
//! There is no task behind it: what is written is heard at once, and the answer is
//! there to be read from then on.

mod grpc;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More than that is no request that anybody makes of a pod.
const LONGEST_REQUEST: usize = 64 * 1024;

/// What a handshake of TLS begins with.
const TLS_HANDSHAKE: u8 = 0x16;

/// How a program answers over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Each request gets this.
    Status(StatusCode),
    /// It takes connections, and never says a word.
    Silent,
    /// It takes none.
    Refused,
    /// It says everything back.
    Echo,
}

/// One connection: one request, one answer, and then it is closed; or one that says
/// everything back.
#[derive(Debug)]
pub(crate) struct Conversation {
    manner: Manner,
    heard: Vec<u8>,
    /// What is to be said, and how much of it has been.
    text: Vec<u8>,
    said: usize,
    /// There will be no more of it.
    whole: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Conversation {
    pub(crate) fn new(manner: Manner) -> Self {
        Self {
            manner,
            heard: Vec::new(),
            text: Vec::new(),
            said: 0,
            whole: false,
            reader: None,
            writer: None,
        }
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        if self.whole {
            return;
        }
        if self.manner == Manner::Echo {
            self.text.extend_from_slice(bytes);
        } else {
            self.heard.extend_from_slice(bytes);
            let Some(text) = self.verdict() else {
                return;
            };
            self.text = text;
            self.whole = true;
            self.heard = Vec::new();
        }
        self.ring();
    }

    /// The other side has said all: who has not answered by now never will.
    pub(crate) fn hear_no_more(&mut self) {
        self.whole = true;
        self.ring();
    }

    /// What is said now, and whether that was all.
    pub(crate) fn say(&mut self) -> (Vec<u8>, bool) {
        let mut text = std::mem::take(&mut self.text);
        text.drain(..std::mem::take(&mut self.said));
        (text, self.whole)
    }

    fn ring(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// What is answered to what was heard, if that is enough.
    fn verdict(&self) -> Option<Vec<u8>> {
        let Manner::Status(status) = self.manner else {
            return None;
        };
        if grpc::is_spoken(&self.heard) && self.heard.len() <= LONGEST_REQUEST {
            let stream = grpc::question(&self.heard)?;
            return Some(grpc::answer(stream, status.as_u16() < 400));
        }
        self.status(status)
            .map(|status| answer(status).into_bytes())
    }

    fn status(&self, status: StatusCode) -> Option<StatusCode> {
        // As plain servers answer those who come with TLS.
        let foreign = self.heard.first() == Some(&TLS_HANDSHAKE);
        if foreign || self.heard.len() > LONGEST_REQUEST {
            return Some(StatusCode::BAD_REQUEST);
        }
        let whole = self.heard.windows(4).any(|end| end == b"\r\n\r\n");
        whole.then_some(status)
    }
}

fn answer(status: StatusCode) -> String {
    let words = status.canonical_reason().unwrap_or("Simulated");
    let code = status.as_u16();
    let body = format!("simulated: {code}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {code} {words}\r\nContent-Type: text/plain\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

impl AsyncRead for Conversation {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.text[self.said..];
        if left.is_empty() && !self.whole {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let now = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..now]);
        self.said += now;
        if self.said == self.text.len() {
            self.text.clear();
            self.said = 0;
            if let Some(writer) = self.writer.take() {
                writer.wake();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Conversation {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Who does not hear what is said back is not heard.
        if self.manner == Manner::Echo && self.text.len() > LONGEST_REQUEST {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.hear(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.manner == Manner::Echo {
            self.hear_no_more();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_request_in_pieces_gets_its_answer_when_it_is_whole() {
        let (mut reader, mut writer) =
            tokio::io::split(Conversation::new(Manner::Status(StatusCode::IM_A_TEAPOT)));
        let mut text = String::new();
        let mut reading = Box::pin(reader.read_to_string(&mut text));
        writer
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n")
            .await
            .unwrap();
        assert!(poll!(&mut reading).is_pending());
        writer.write_all(b"\r\n").await.unwrap();
        reading.await.unwrap();
        assert!(text.starts_with("HTTP/1.1 418 I'm a teapot\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nsimulated: 418\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 15\r\n"), "{text}");
    }

    #[tokio::test]
    async fn who_comes_with_tls_is_told_in_plain_words() {
        let mut connection = Conversation::new(Manner::Status(StatusCode::OK));
        connection.write_all(&[TLS_HANDSHAKE, 3, 1]).await.unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
    }

    #[tokio::test]
    async fn what_is_no_request_does_not_fill_the_memory() {
        let mut connection = Conversation::new(Manner::Status(StatusCode::OK));
        let long = vec![b'x'; LONGEST_REQUEST + 1];
        connection.write_all(&long).await.unwrap();
        connection.write_all(&long).await.unwrap();
        assert!(connection.heard.is_empty());
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    }

    #[tokio::test]
    async fn an_echo_comes_back_while_somebody_listens() {
        let (mut reader, mut writer) = tokio::io::split(Conversation::new(Manner::Echo));
        let long = vec![b'x'; LONGEST_REQUEST + 1];
        writer.write_all(&long).await.unwrap();
        let mut more = Box::pin(writer.write_all(b"y"));
        assert!(poll!(&mut more).is_pending());
        let mut heard = vec![0; long.len()];
        reader.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, long);
        more.await.unwrap();
        writer.shutdown().await.unwrap();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "y");
    }

    #[tokio::test]
    async fn the_silent_take_everything_and_say_nothing() {
        let mut connection = Conversation::new(Manner::Silent);
        connection
            .write_all(b"GET / HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut byte = [0];
        let mut reading = Box::pin(connection.read(&mut byte));
        assert!(poll!(&mut reading).is_pending());
    }
}
