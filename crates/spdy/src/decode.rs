//! From bytes to what they mean.

use bytes::{Buf as _, Bytes, BytesMut};
use thiserror::Error;

use super::headers::{Headers, Unpacker};
use super::{FIN, HEAD, VERSION, kind};

/// The top bit of a frame says that it is about streams, not part of one.
const CONTROL: u8 = 0x80;

/// Of the frame with which a stream is opened: what comes before its headers.
const OPENING: usize = 10;

/// And what there can be of it, packed.
const LONGEST_OPENING: u32 = 16 * 1024;

/// What the other side has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client opens a stream, and perhaps will send nothing on it.
    Opened {
        stream: u32,
        headers: Headers,
        last: bool,
    },
    /// A server accepts a stream, and perhaps will send nothing on it.
    Accepted { stream: u32, last: bool },
    /// A piece of a stream; a frame may come in several.
    Data {
        stream: u32,
        piece: Bytes,
        last: bool,
    },
    /// It wants no more of a stream.
    Reset { stream: u32 },
    /// It wants this number back, if it is one of its own.
    Ping { number: u32 },
    /// It will say no more.
    GoAway,
}

/// What nobody says who speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("a frame of SPDY version {0}, where {VERSION} was agreed on")]
    Version(u16),
    #[error("a control frame of kind {kind} with {length} bytes")]
    Length { kind: u16, length: u32 },
    #[error("a frame about stream 0")]
    NoStream,
    #[error("a stream that the other side opened")]
    Opened,
    #[error("headers that cannot be unpacked")]
    Headers,
}

/// Reads frames as their bytes come. What it needs of them at once is no more than the head
/// of a frame, or, of those that open a stream, the whole.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// `None`: the other side opens no streams.
    unpacker: Option<Unpacker>,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Between,
    InData {
        stream: u32,
        left: usize,
        last: bool,
    },
    /// Within what nobody reads.
    Skipping { left: usize },
}

impl Decoder {
    /// For what a server says.
    pub fn of_server() -> Self {
        Self {
            state: State::default(),
            unpacker: None,
        }
    }

    /// For what a client says.
    pub fn of_client() -> Result<Self, FrameError> {
        Ok(Self {
            state: State::default(),
            unpacker: Some(Unpacker::new()?),
        })
    }

    /// The next event in `bytes`, which lose what was read; `None`: there is none
    /// before more bytes come.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Result<Option<Event>, FrameError> {
        loop {
            match self.state {
                State::Between => match self.begin(bytes)? {
                    Begun::Event(event) => return Ok(Some(event)),
                    Begun::Silent => {}
                    Begun::Incomplete => return Ok(None),
                },
                State::InData { stream, left, last } => {
                    if left > 0 && bytes.is_empty() {
                        return Ok(None);
                    }
                    let piece = bytes.split_to(left.min(bytes.len())).freeze();
                    let left = left - piece.len();
                    self.state = if left == 0 {
                        State::Between
                    } else {
                        State::InData { stream, left, last }
                    };
                    let last = last && left == 0;
                    return Ok(Some(Event::Data {
                        stream,
                        piece,
                        last,
                    }));
                }
                State::Skipping { left } => {
                    let skipped = left.min(bytes.len());
                    bytes.advance(skipped);
                    if skipped < left {
                        self.state = State::Skipping {
                            left: left - skipped,
                        };
                        return Ok(None);
                    }
                    self.state = State::Between;
                }
            }
        }
    }

    fn begin(&mut self, bytes: &mut BytesMut) -> Result<Begun, FrameError> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Ok(Begun::Incomplete);
        };
        let [word @ .., flags, high, middle, low] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let last = flags & FIN != 0;
        let [first, second, kind @ ..] = word;
        if first & CONTROL == 0 {
            let stream = u32::from_be_bytes(word);
            if stream == 0 {
                return Err(FrameError::NoStream);
            }
            bytes.advance(HEAD);
            self.state = State::InData {
                stream,
                left: length as usize,
                last,
            };
            return Ok(Begun::Silent);
        }
        let version = u16::from_be_bytes([first & !CONTROL, second]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        self.control(bytes, u16::from_be_bytes(kind), length, last)
    }

    fn control(
        &mut self,
        bytes: &mut BytesMut,
        kind: u16,
        length: u32,
        last: bool,
    ) -> Result<Begun, FrameError> {
        if kind == kind::SYN_STREAM {
            return self.opened(bytes, length, last);
        }
        // How much of a frame is read, and whether that must be all of it.
        let (read, whole) = match kind {
            // Compressed headers follow, and stay so: they are empty.
            kind::SYN_REPLY => (4, false),
            kind::PING => (4, true),
            kind::RST_STREAM | kind::GOAWAY => (8, true),
            // Settings, headers, windows, and whatever there may be: not for us.
            _ => (0, false),
        };
        if length < read || (whole && length != read) {
            return Err(FrameError::Length { kind, length });
        }
        if bytes.len() < HEAD + read as usize {
            return Ok(Begun::Incomplete);
        }
        bytes.advance(HEAD);
        let number = if read == 0 { 0 } else { bytes.get_u32() };
        self.state = State::Skipping {
            left: (length as usize).saturating_sub(if read == 0 { 0 } else { 4 }),
        };
        if number == 0 && matches!(kind, kind::SYN_REPLY | kind::RST_STREAM) {
            return Err(FrameError::NoStream);
        }
        // The top bit of a stream's number means nothing.
        let stream = number & 0x7fff_ffff;
        Ok(match kind {
            kind::SYN_REPLY => Begun::Event(Event::Accepted { stream, last }),
            kind::RST_STREAM => Begun::Event(Event::Reset { stream }),
            kind::PING => Begun::Event(Event::Ping { number }),
            kind::GOAWAY => Begun::Event(Event::GoAway),
            _ => Begun::Silent,
        })
    }

    fn opened(
        &mut self,
        bytes: &mut BytesMut,
        length: u32,
        last: bool,
    ) -> Result<Begun, FrameError> {
        let unpacker = self.unpacker.as_mut().ok_or(FrameError::Opened)?;
        let whole = length as usize;
        if whole < OPENING || length > LONGEST_OPENING {
            let kind = kind::SYN_STREAM;
            return Err(FrameError::Length { kind, length });
        }
        if bytes.len() < HEAD + whole {
            return Ok(Begun::Incomplete);
        }
        bytes.advance(HEAD);
        let mut frame = bytes.split_to(whole);
        let stream = frame.get_u32() & 0x7fff_ffff;
        if stream == 0 {
            return Err(FrameError::NoStream);
        }
        // Of which stream it is part, and how urgent it is: all are alike.
        frame.advance(OPENING - 4);
        let headers = unpacker.unpack(&frame)?;
        Ok(Begun::Event(Event::Opened {
            stream,
            headers,
            last,
        }))
    }
}

enum Begun {
    Event(Event),
    /// Something that is no event by itself.
    Silent,
    /// More bytes have to come.
    Incomplete,
}
