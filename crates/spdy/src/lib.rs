//! SPDY/3.1, as far as the streaming servers of container runtimes and their clients speak
//! it: they all use one library, in which only clients open streams, replies have no
//! headers of interest, and there are no windows: a stream goes as fast as the connection
//! that it is part of.
//!
//! In: bytes as they come, or what is to be said. Out: events, or bytes. It must not know
//! of connections, nor of what the streams are for.

mod decode;
mod dictionary;
mod encode;
mod headers;

pub use decode::{Decoder, Event, FrameError};
pub use encode::{Encoder, data_head, go_away, ping, reset};
pub use headers::Headers;

/// The version on the wire, whose last digit is nowhere to be seen.
const VERSION: u16 = 3;

/// Of a frame: who or what, flags, and how long the rest is.
const HEAD: usize = 8;

/// The kinds of control frames that we tell apart.
mod kind {
    pub(super) const SYN_STREAM: u16 = 1;
    pub(super) const SYN_REPLY: u16 = 2;
    pub(super) const RST_STREAM: u16 = 3;
    pub(super) const PING: u16 = 6;
    pub(super) const GOAWAY: u16 = 7;
}

/// The sender will send no more on this stream.
const FIN: u8 = 1;

#[cfg(test)]
mod tests;
