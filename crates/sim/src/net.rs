//! A connection in memory, on whose other side a simulated program speaks HTTP/1.1.
//!
//! There is no task behind it: what is written is heard at once, and the answer is
//! there to be read from then on.

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
}

/// One connection: one request, one answer, and then it is closed.
#[derive(Debug)]
pub(crate) struct Conversation {
    manner: Manner,
    heard: Vec<u8>,
    /// `None`: the request is not whole yet.
    answer: Option<Answer>,
    reader: Option<Waker>,
}

#[derive(Debug)]
struct Answer {
    text: Vec<u8>,
    said: usize,
}

impl Conversation {
    pub(crate) fn new(manner: Manner) -> Self {
        Self {
            manner,
            heard: Vec::new(),
            answer: None,
            reader: None,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        if self.answer.is_some() {
            return;
        }
        self.heard.extend_from_slice(bytes);
        let Some(status) = self.verdict() else {
            return;
        };
        self.answer = Some(Answer {
            text: answer(status).into_bytes(),
            said: 0,
        });
        self.heard = Vec::new();
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// What is answered to what was heard, if that is enough.
    fn verdict(&self) -> Option<StatusCode> {
        let Manner::Status(status) = self.manner else {
            return None;
        };
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
        let Some(answer) = &mut self.answer else {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        let left = &answer.text[answer.said..];
        let now = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..now]);
        answer.said += now;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Conversation {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.hear(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
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
