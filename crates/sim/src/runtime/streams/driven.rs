//! A connection in memory whose other end has no task: it goes on whenever somebody reads
//! from this end, or writes to it. So nobody has to own it, and it ends with this end.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

/// What is on the way in each direction.
const ON_THE_WAY: usize = 32 * 1024;

type Server = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Driven {
    connection: DuplexStream,
    /// `None`: it has ended.
    server: Option<Server>,
    drivers: Arc<Drivers>,
}

/// Who is to come back when the server can go on. The two may be in other tasks.
#[derive(Debug, Default)]
struct Drivers {
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl Wake for Drivers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.reader.wake();
        self.writer.wake();
    }
}

impl fmt::Debug for Driven {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Driven").finish_non_exhaustive()
    }
}

impl Driven {
    /// `serve` gets the other end.
    pub(super) fn new<F>(serve: impl FnOnce(DuplexStream) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (connection, theirs) = duplex(ON_THE_WAY);
        Self {
            connection,
            server: Some(Box::pin(serve(theirs))),
            drivers: Arc::default(),
        }
    }

    fn drive(&mut self) {
        if let Some(server) = &mut self.server {
            let waker = Waker::from(Arc::clone(&self.drivers));
            let ended = server.as_mut().poll(&mut Context::from_waker(&waker));
            if ended.is_ready() {
                self.server = None;
            }
        }
    }
}

impl AsyncRead for Driven {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.drivers.reader.register(context.waker());
        self.drive();
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl AsyncWrite for Driven {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.drivers.writer.register(context.waker());
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        // After it: what was written may be all that it waits for.
        self.drive();
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.connection).poll_shutdown(context);
        self.drive();
        shut
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};

    use tokio::task::JoinSet;

    use super::*;

    /// Says everything twice.
    fn twice() -> Driven {
        Driven::new(|mut connection| async move {
            let mut byte = [0];
            while connection.read_exact(&mut byte).await.is_ok() {
                let [byte] = byte;
                if connection.write_all(&[byte, byte]).await.is_err() {
                    return;
                }
            }
        })
    }

    #[tokio::test]
    async fn more_than_is_on_the_way_goes_through() {
        let (mut reader, mut writer) = split(twice());
        let many = vec![7; 5 * ON_THE_WAY];
        let writing = async {
            writer.write_all(&many).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let (read, ()) = tokio::join!(reader.read_to_end(&mut heard), writing);
        read.unwrap();
        assert_eq!(heard, [&many[..], &many].concat());
    }

    #[tokio::test]
    async fn the_two_directions_may_be_in_two_tasks() {
        let (mut reader, mut writer) = split(twice());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            writer.write_all(&vec![7; 5 * ON_THE_WAY]).await.unwrap();
            writer.shutdown().await.unwrap();
        });
        tasks.spawn(async move {
            let mut heard = Vec::new();
            reader.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard.len(), 10 * ON_THE_WAY);
        });
        tasks.join_all().await;
    }
}
