//! A command's streams between a WebSocket that a client speaks (`v5.channel.k8s.io`) and
//! SPDY that the runtime speaks.
//!
//! One task carries both directions; each waits for its own receiver only, and what is
//! on the way is no more than one piece in each.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use seams::{Clock, Sleep, timeout};
use spdy::{Decoder, Encoder, Event, FrameError, data_head, ping};
use thiserror::Error;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split,
};
use tokio::sync::mpsc;

use super::verdict::Verdict;
use super::wanted::Wanted;
use super::websocket::{FromClient, Said, ToClient, serve};

/// The channels of the WebSocket.
mod channel {
    pub(super) const STDIN: u8 = 0;
    pub(super) const STDOUT: u8 = 1;
    pub(super) const STDERR: u8 = 2;
    pub(super) const ERROR: u8 = 3;
    pub(super) const RESIZE: u8 = 4;
    /// Not one of them: what follows it is the one that the client has closed.
    pub(super) const CLOSE: u8 = 255;
}

/// What is read of the runtime at once.
const READ_AT_ONCE: usize = 32 * 1024;

/// A frame to the runtime is no longer, whatever the client sends.
const LONGEST_FRAME: usize = 1024 * 1024;

/// What a runtime may say of how a command ended.
const LONGEST_VERDICT: usize = 1024 * 1024;

/// For the runtime to take the streams that it is offered.
const OPENING: Duration = Duration::from_secs(30);

/// So that a runtime does not take a quiet stream for one that nobody needs.
const PINGS: Duration = Duration::from_secs(5);

/// Upstream's: a stream over which nothing goes for so long is ended.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);

/// Why a runtime was not understood.
#[derive(Debug, Error)]
pub(crate) enum SpdyError {
    #[error("the connection to the runtime broke: {0}")]
    Broken(#[from] io::Error),
    #[error("the runtime sent {0}")]
    Frame(#[from] FrameError),
    #[error(
        "the runtime closed the connection before it had taken all streams; its log may say why"
    )]
    Closed,
    #[error("the runtime refused a stream; its log may say why")]
    Refused,
    #[error("the runtime did not take the streams within {} s; its log may say why", OPENING.as_secs())]
    Silent,
    #[error("the runtime's word on how the command ended is longer than {LONGEST_VERDICT} bytes")]
    Endless,
}

/// The numbers that the streams have, for those that are wanted.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    error: u32,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl Numbers {
    /// In upstream's order; a client's are odd.
    fn of(wanted: Wanted) -> Self {
        let mut last = 1;
        let mut next = |wanted: bool| {
            wanted.then(|| {
                last += 2;
                last
            })
        };
        Self {
            error: 1,
            stdin: next(wanted.stdin),
            stdout: next(wanted.stdout),
            stderr: next(wanted.stderr),
            resize: next(wanted.tty),
        }
    }

    fn all(&self) -> impl Iterator<Item = (u32, &'static str)> {
        let named = [
            (Some(self.error), "error"),
            (self.stdin, "stdin"),
            (self.stdout, "stdout"),
            (self.stderr, "stderr"),
            (self.resize, "resize"),
        ];
        named
            .into_iter()
            .filter_map(|(number, name)| Some((number?, name)))
    }
}

/// The client's end of a translation, which has begun: it has been told so.
#[derive(Debug)]
pub(crate) struct Client<C> {
    to_client: ToClient<C>,
    from_client: FromClient<C>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Client<C> {
    /// `None`: the client has gone.
    pub(crate) async fn greet(connection: C, wanted: Wanted) -> Option<Self> {
        let (mut to_client, from_client) = serve(connection).await;
        let first = match wanted {
            Wanted { stdout: true, .. } => channel::STDOUT,
            Wanted { stderr: true, .. } => channel::STDERR,
            _ => channel::ERROR,
        };
        let greeting = Bytes::copy_from_slice(&[first]);
        to_client.send(greeting).await.ok()?;
        Some(Self {
            to_client,
            from_client,
        })
    }

    /// Tells the client how it ended, and parts.
    pub(crate) async fn tell(self, clock: &dyn Clock, verdict: &Verdict) {
        let last = on_channel(channel::ERROR, &verdict.told());
        let Self {
            to_client,
            from_client,
        } = self;
        to_client.end(clock, Some(last), from_client).await;
    }

    /// Carries the streams until the command has ended, or the client has gone.
    pub(crate) async fn translate<R>(mut self, clock: &dyn Clock, wanted: Wanted, runtime: R)
    where
        R: AsyncRead + AsyncWrite + Unpin,
    {
        let numbers = Numbers::of(wanted);
        let opening = timeout(clock, OPENING, open(numbers, runtime)).await;
        let (speech, to_runtime) = match opening.unwrap_or(Err(SpdyError::Silent)) {
            Ok(opened) => opened,
            Err(error) => {
                let verdict = Verdict::Failure(error.to_string());
                return self.tell(clock, &verdict).await;
            }
        };
        let quiet = Quiet::new(clock);
        // A few numbers that the runtime wants back; it does not wait for them.
        let (numbers_back, wanted_back) = mpsc::channel(8);
        let outputs = Outputs {
            numbers,
            speech,
            to_client: &mut self.to_client,
            numbers_back,
            quiet: &quiet,
        };
        let inputs = Inputs {
            numbers,
            from_client: &mut self.from_client,
            to_runtime: Some(to_runtime),
            wanted_back,
            quiet: &quiet,
        };
        let verdict = tokio::select! {
            biased;
            verdict = outputs.carry() => verdict,
            () = inputs.carry(clock) => None,
            () = quiet.for_too_long() => None,
        };
        match verdict {
            Some(verdict) => self.tell(clock, &verdict).await,
            None => self.to_client.end(clock, None, self.from_client).await,
        }
    }
}

/// How long nothing has gone over a connection.
struct Quiet<'a> {
    clock: &'a dyn Clock,
    /// Of the clock's uptime.
    milliseconds: AtomicU64,
}

impl<'a> Quiet<'a> {
    fn new(clock: &'a dyn Clock) -> Self {
        let quiet = Self {
            clock,
            milliseconds: AtomicU64::new(0),
        };
        quiet.broken();
        quiet
    }

    fn broken(&self) {
        let now = self.clock.uptime().as_millis();
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        self.milliseconds.store(now, Relaxed);
    }

    fn lasts(&self) -> Duration {
        let last = Duration::from_millis(self.milliseconds.load(Relaxed));
        self.clock.uptime().saturating_sub(last)
    }

    async fn for_too_long(&self) {
        loop {
            match IDLE.checked_sub(self.lasts()) {
                Some(left) if !left.is_zero() => self.clock.sleep(left).await,
                _ => return,
            }
        }
    }
}

/// What the runtime says.
#[derive(Debug)]
struct Speech<R> {
    connection: ReadHalf<R>,
    read: BytesMut,
    decoder: Decoder,
}

impl<R: AsyncRead> Speech<R> {
    /// `None`: it has ended.
    async fn next(&mut self) -> Result<Option<Event>, SpdyError> {
        loop {
            if let Some(event) = self.decoder.next(&mut self.read)? {
                return Ok(Some(event));
            }
            self.read.reserve(READ_AT_ONCE);
            if self.connection.read_buf(&mut self.read).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Opens the streams. A runtime begins when it has taken them all, so nothing else is
/// heard before; and it forgets what comes on a stream that it has not taken yet.
async fn open<R>(numbers: Numbers, runtime: R) -> Result<(Speech<R>, WriteHalf<R>), SpdyError>
where
    R: AsyncRead + AsyncWrite + Unpin,
{
    let (connection, mut to_runtime) = split(runtime);
    let mut speech = Speech {
        connection,
        read: BytesMut::new(),
        decoder: Decoder::of_server(),
    };
    let mut encoder = Encoder::default();
    let mut opening = Vec::new();
    let mut awaited: Vec<u32> = Vec::new();
    for (number, name) in numbers.all() {
        encoder.open(number, &[("streamtype", name)], &mut opening);
        awaited.push(number);
    }
    to_runtime.write_all(&opening).await?;
    to_runtime.flush().await?;
    while !awaited.is_empty() {
        match speech.next().await? {
            Some(Event::Accepted { stream, .. }) => awaited.retain(|number| *number != stream),
            Some(Event::Reset { .. }) => return Err(SpdyError::Refused),
            Some(Event::GoAway) | None => return Err(SpdyError::Closed),
            // A server opens none; the decoder sees to that.
            Some(Event::Ping { .. } | Event::Data { .. } | Event::Opened { .. }) => {}
        }
    }
    Ok((speech, to_runtime))
}

/// From the runtime to the client.
struct Outputs<'a, C, R> {
    numbers: Numbers,
    speech: Speech<R>,
    to_client: &'a mut ToClient<C>,
    numbers_back: mpsc::Sender<u32>,
    quiet: &'a Quiet<'a>,
}

impl<C, R> Outputs<'_, C, R>
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncRead,
{
    /// Until the runtime has said all. `None`: the client takes no more.
    async fn carry(mut self) -> Option<Verdict> {
        let Numbers {
            error,
            stdout,
            stderr,
            ..
        } = self.numbers;
        let mut open: Vec<u32> = [Some(error), stdout, stderr]
            .into_iter()
            .flatten()
            .collect();
        let mut said = Vec::new();
        while !open.is_empty() {
            let event = match self.speech.next().await {
                Ok(Some(event)) => event,
                // Who has said how it ended may go.
                Ok(None) => break,
                Err(_) if !said.is_empty() => break,
                Err(error) => return Some(Verdict::Failure(error.to_string())),
            };
            match event {
                Event::Data {
                    stream,
                    piece,
                    last,
                } => {
                    self.quiet.broken();
                    if stream == error {
                        if said.len() + piece.len() > LONGEST_VERDICT {
                            let error = SpdyError::Endless;
                            return Some(Verdict::Failure(error.to_string()));
                        }
                        said.extend_from_slice(&piece);
                    } else if let Some(channel) = self.channel(stream)
                        && !piece.is_empty()
                    {
                        let message = on_channel(channel, &piece);
                        self.to_client.send(message).await.ok()?;
                    }
                    if last {
                        open.retain(|number| *number != stream);
                    }
                }
                Event::Reset { stream } => open.retain(|number| *number != stream),
                // A number of its own: ours are odd.
                Event::Ping { number } if number % 2 == 0 => {
                    let _ = self.numbers_back.try_send(number);
                }
                Event::GoAway => break,
                Event::Ping { .. } | Event::Accepted { .. } | Event::Opened { .. } => {}
            }
        }
        Some(Verdict::heard(&said))
    }

    fn channel(&self, stream: u32) -> Option<u8> {
        let Numbers { stdout, stderr, .. } = self.numbers;
        match Some(stream) {
            number if number == stdout => Some(channel::STDOUT),
            number if number == stderr => Some(channel::STDERR),
            _ => None,
        }
    }
}

fn on_channel(channel: u8, piece: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(1 + piece.len());
    message.put_u8(channel);
    message.put_slice(piece);
    message.freeze()
}

/// From the client to the runtime.
struct Inputs<'a, C, R> {
    numbers: Numbers,
    from_client: &'a mut FromClient<C>,
    /// `None`: it takes no more. It may have words left, so this is not the end.
    to_runtime: Option<WriteHalf<R>>,
    wanted_back: mpsc::Receiver<u32>,
    quiet: &'a Quiet<'a>,
}

impl<C, R> Inputs<'_, C, R>
where
    C: AsyncRead + AsyncWrite + Unpin,
    R: AsyncWrite,
{
    /// Until the client has gone, or says what no client says.
    async fn carry(mut self, clock: &dyn Clock) {
        let mut own_number: u32 = 1;
        let mut next_ping: Sleep = clock.sleep(PINGS);
        loop {
            tokio::select! {
                said = self.from_client.next() => {
                    self.quiet.broken();
                    let going_on = match said {
                        Some(Said::Binary(message) | Said::Text(message)) => self.take(&message).await,
                        None => false,
                    };
                    if !going_on {
                        return;
                    }
                }
                Some(number) = self.wanted_back.recv() => self.write(&ping(number)[..]).await,
                () = &mut next_ping => {
                    // A ping that meets a runtime which has just closed would take along what
                    // that has said and the kernel still holds.
                    let left = PINGS.saturating_sub(self.quiet.lasts());
                    if !left.is_zero() {
                        next_ping = clock.sleep(left);
                        continue;
                    }
                    self.write(&ping(own_number)[..]).await;
                    own_number = own_number.checked_add(2).unwrap_or(1);
                    next_ping = clock.sleep(PINGS);
                }
            }
        }
    }

    /// Whether the client goes on.
    async fn take(&mut self, message: &[u8]) -> bool {
        match *message {
            [channel::CLOSE, channel] => {
                if channel == channel::STDIN
                    && let Some(stdin) = self.numbers.stdin.take()
                {
                    self.write(&data_head(stdin, 0, true)[..]).await;
                }
                channel <= channel::RESIZE
            }
            [channel::CLOSE, ..] => false,
            [channel, ref rest @ ..] => {
                let stream = match channel {
                    channel::STDIN => self.numbers.stdin,
                    channel::RESIZE => self.numbers.resize,
                    _ => None,
                };
                if let Some(stream) = stream {
                    for piece in rest.chunks(LONGEST_FRAME) {
                        let head = data_head(stream, piece.len(), false);
                        self.write(Buf::chain(&head[..], piece)).await;
                    }
                }
                true
            }
            [] => true,
        }
    }

    async fn write(&mut self, mut bytes: impl Buf) {
        let Some(to_runtime) = &mut self.to_runtime else {
            return;
        };
        let written = async {
            to_runtime.write_all_buf(&mut bytes).await?;
            to_runtime.flush().await
        };
        if written.await.is_err() {
            self.to_runtime = None;
        }
    }
}
