//! The server's end of a connection on which SPDY is spoken.

use std::time::Duration;

use bytes::BytesMut;
use seams::{Clock, timeout};
use spdy::{Decoder, Encoder, Event, FrameError, data_head, go_away, ping, reset};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What is read at once.
const READ_AT_ONCE: usize = 32 * 1024;

/// Of what is to be said.
const LONGEST_FRAME: usize = 32 * 1024;

/// For the other side to take the last words.
const LAST_WORDS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Talk<C> {
    connection: C,
    read: BytesMut,
    decoder: Decoder,
    encoder: Encoder,
    /// What is to be said.
    out: BytesMut,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Talk<C> {
    pub(super) fn new(connection: C) -> Result<Self, FrameError> {
        Ok(Self {
            connection,
            read: BytesMut::new(),
            decoder: Decoder::of_client()?,
            encoder: Encoder::default(),
            out: BytesMut::new(),
        })
    }

    /// What comes next, once all has been said that was to be said: who does not listen is
    /// not heard. `None`: the other side has gone, or cannot be understood. Can be given up
    /// at any time, and nothing is lost.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            self.said().await?;
            match self.decoder.next(&mut self.read).ok()? {
                // A number of the client's own, which it wants back.
                Some(Event::Ping { number }) if number % 2 == 1 => {
                    self.out.extend_from_slice(&ping(number));
                }
                Some(Event::GoAway) => return None,
                Some(event) => return Some(event),
                None => {
                    self.read.reserve(READ_AT_ONCE);
                    let length = self.connection.read_buf(&mut self.read).await.ok()?;
                    if length == 0 {
                        return None;
                    }
                }
            }
        }
    }

    /// Says all that is to be said. `None`: nobody takes it.
    pub(super) async fn said(&mut self) -> Option<()> {
        if self.out.is_empty() {
            return Some(());
        }
        while !self.out.is_empty() {
            self.connection.write_buf(&mut self.out).await.ok()?;
        }
        self.connection.flush().await.ok()
    }

    pub(super) fn accept(&mut self, stream: u32) {
        let mut frame = Vec::new();
        self.encoder.accept(stream, &mut frame);
        self.out.extend_from_slice(&frame);
    }

    pub(super) fn say(&mut self, stream: u32, text: &[u8]) {
        for piece in text.chunks(LONGEST_FRAME) {
            self.out
                .extend_from_slice(&data_head(stream, piece.len(), false));
            self.out.extend_from_slice(piece);
        }
    }

    /// Nothing more is said on this stream.
    pub(super) fn finish(&mut self, stream: u32) {
        self.out.extend_from_slice(&data_head(stream, 0, true));
    }

    pub(super) fn reset(&mut self, stream: u32) {
        self.out.extend_from_slice(&reset(stream));
    }

    /// Says that this was all. A connection that is closed while the other side still
    /// speaks would take the last words along: so it has time to hear them.
    pub(super) async fn part(mut self, clock: &dyn Clock) {
        self.out.extend_from_slice(&go_away());
        let parting = async {
            self.said().await?;
            self.connection.shutdown().await.ok()?;
            loop {
                self.read.clear();
                self.read.reserve(READ_AT_ONCE);
                let length = self.connection.read_buf(&mut self.read).await.ok()?;
                if length == 0 {
                    return Some(());
                }
            }
        };
        let _ = timeout(clock, LAST_WORDS, parting).await;
    }
}
