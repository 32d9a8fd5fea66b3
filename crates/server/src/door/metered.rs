//! A connection whose reading is counted, as far as it is the head of a request: there is
//! so much room for all heads together. And one that tells when an answer has been sent: a
//! reader may be slow, and what hyper still holds for it is lost with the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use seams::SharedClock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::line::Line;

pub(crate) struct Metered<S> {
    stream: S,
    line: Line,
    clock: SharedClock,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, line: Line, clock: SharedClock) -> Self {
        Self {
            stream,
            line,
            clock,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 && !self.line.has_room_for(bytes) {
            let words = "there is no room for such large heads of requests";
            return Poll::Ready(Err(io::Error::other(words)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        // hyper flushes when it has written all that it holds.
        if let Poll::Ready(Ok(())) = flushed {
            self.line.seat().sent(|| self.clock.uptime());
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use http::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use testkit::clock::TokioClock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio_util::task::TaskTracker;

    use super::super::ending::while_sent;
    use super::*;
    use crate::body::whole;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_busy_until_its_reader_has_the_answer() {
        let (mut client, ours) = duplex(1000);
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let line = Line::of_test("192.0.2.7:1234".parse().unwrap(), &TaskTracker::new());
        let service = service_fn(async |_: http::Request<hyper::body::Incoming>| {
            line.begins(clock.uptime());
            let answer = whole(Response::new("x".repeat(10_000).into()));
            Ok::<_, Infallible>(while_sent(answer, line.clone()))
        });
        let metered = Metered::new(ours, line.clone(), clock.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(metered), service);
        let mut connection = std::pin::pin!(connection);
        let get = b"GET / HTTP/1.1\r\nHost: n\r\n\r\n";
        client.write_all(get).await.unwrap();
        let paused = clock.sleep(Duration::from_secs(100));
        tokio::select! {
            ended = connection.as_mut() => panic!("{ended:?}"),
            () = paused => {}
        }
        assert!(line.seat().is_busy(), "nothing of it was read");
        let mut heard = Vec::new();
        while !heard.ends_with(&[b'x'; 10_000]) {
            tokio::select! {
                ended = connection.as_mut() => panic!("{ended:?}"),
                read = client.read_buf(&mut heard) => assert!(read.unwrap() > 0),
            }
        }
        assert!(!line.seat().is_busy());
        assert_eq!(line.seat().lasts(clock.uptime()), Duration::ZERO);
    }
}
