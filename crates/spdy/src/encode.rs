//! From what is to be said to bytes.

use super::dictionary;
use super::{FIN, HEAD, VERSION, kind};

/// How the one stream of compressed headers begins: deflate, with a dictionary, whose name
/// follows.
const COMPRESSED: [u8; 2] = [0x78, 0x20];

/// An empty block, at which readers hand out what they have.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// Writes what has headers. It never refers to what it wrote before: the
/// headers, a few words, go into blocks that are stored as they are, which every
/// decompressor takes, and no window has to be kept.
#[derive(Debug, Default)]
pub struct Encoder {
    opened: bool,
}

impl Encoder {
    /// Opens a stream.
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)], out: &mut Vec<u8>) {
        let block = self.block(headers);
        out.extend(control(kind::SYN_STREAM, 10 + block.len()));
        out.extend(stream.to_be_bytes());
        // Not part of another stream; of the highest priority, as all are.
        out.extend([0; 6]);
        out.extend(block);
    }

    /// Accepts a stream that the other side has opened.
    pub fn accept(&mut self, stream: u32, out: &mut Vec<u8>) {
        let block = self.block(&[]);
        out.extend(control(kind::SYN_REPLY, 4 + block.len()));
        out.extend(stream.to_be_bytes());
        out.extend(block);
    }

    fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = count(headers.len()).to_vec();
        for (name, value) in headers {
            for text in [name, value] {
                plain.extend(count(text.len()));
                plain.extend(text.as_bytes());
            }
        }
        let mut block = Vec::new();
        if !self.opened {
            block.extend(COMPRESSED);
            block.extend(dictionary::NAME);
            self.opened = true;
        }
        for piece in plain.chunks(usize::from(u16::MAX)) {
            // No chunk is longer.
            let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
            block.push(0);
            block.extend(length.to_le_bytes());
            block.extend((!length).to_le_bytes());
            block.extend(piece);
        }
        block.extend(FLUSH);
        block
    }
}

/// What a piece of a stream begins with. It has to be shorter than 16 MiB.
pub fn data_head(stream: u32, length: usize, last: bool) -> [u8; HEAD] {
    head(stream.to_be_bytes(), if last { FIN } else { 0 }, length)
}

pub fn ping(number: u32) -> [u8; HEAD + 4] {
    let mut frame = [0; HEAD + 4];
    let (head, body) = frame.split_at_mut(HEAD);
    head.copy_from_slice(&control(kind::PING, 4));
    body.copy_from_slice(&number.to_be_bytes());
    frame
}

/// Ends a stream in both directions.
pub fn reset(stream: u32) -> [u8; HEAD + 8] {
    /// The sender has no use for it any more.
    const CANCEL: u32 = 5;
    with_numbers(kind::RST_STREAM, stream, CANCEL)
}

/// Says that no more will be said, nor heard.
pub fn go_away() -> [u8; HEAD + 8] {
    with_numbers(kind::GOAWAY, 0, 0)
}

fn with_numbers(kind: u16, first: u32, second: u32) -> [u8; HEAD + 8] {
    let mut frame = [0; HEAD + 8];
    let (head, body) = frame.split_at_mut(HEAD);
    head.copy_from_slice(&control(kind, 8));
    let numbers = u64::from(first) << 32 | u64::from(second);
    body.copy_from_slice(&numbers.to_be_bytes());
    frame
}

fn control(kind: u16, length: usize) -> [u8; HEAD] {
    let version = u32::from(0x8000 | VERSION);
    head((version << 16 | u32::from(kind)).to_be_bytes(), 0, length)
}

fn head([first, second, third, fourth]: [u8; 4], flags: u8, length: usize) -> [u8; HEAD] {
    let [_, high, middle, low] = count(length);
    [first, second, third, fourth, flags, high, middle, low]
}

/// Nothing here is longer than that.
fn count(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}
