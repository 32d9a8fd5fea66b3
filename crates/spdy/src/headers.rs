//! The headers with which a stream is opened. Those of all streams of a connection are one
//! compressed text.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use super::decode::FrameError;
use super::dictionary;

/// Of one stream, when unpacked: a few words are usual.
const LONGEST: usize = 16 * 1024;

/// What is unpacked at once.
const AT_ONCE: usize = 1024;

/// What the compressed text begins with: how it is made, and the name of the dictionary.
const BEGINNING: usize = 6;

/// The headers of a stream: names in small letters, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of a header, whose name is given in small letters.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        let found = pairs.find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Headers {
    fn from(pairs: [(&str, &str); N]) -> Self {
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(pairs.into())
    }
}

/// Unpacks the headers of one connection.
pub(crate) struct Unpacker {
    inflate: Decompress,
    begun: bool,
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    pub(crate) fn new() -> Result<Self, FrameError> {
        let mut unpacker = Self {
            inflate: Decompress::new(false),
            begun: false,
        };
        // The decompressor takes no dictionary. But it looks back at what it has unpacked:
        // so that is what it unpacks first, as a block that is stored as it is.
        let dictionary = dictionary::dictionary();
        let length = u16::try_from(dictionary.len()).map_err(|_| FrameError::Headers)?;
        let mut block = vec![0];
        block.extend(length.to_le_bytes());
        block.extend((!length).to_le_bytes());
        block.extend(dictionary);
        unpacker.inflated(&block)?;
        Ok(unpacker)
    }

    pub(crate) fn unpack(&mut self, block: &[u8]) -> Result<Headers, FrameError> {
        let block = if self.begun {
            block
        } else {
            let (beginning, rest) = block
                .split_at_checked(BEGINNING)
                .ok_or(FrameError::Headers)?;
            if beginning[2..] != dictionary::NAME {
                return Err(FrameError::Headers);
            }
            self.begun = true;
            rest
        };
        let plain = self.inflated(block)?;
        read(&plain).ok_or(FrameError::Headers)
    }

    fn inflated(&mut self, mut packed: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut plain = Vec::new();
        loop {
            plain.reserve(AT_ONCE);
            let (read, written) = (self.inflate.total_in(), plain.len());
            let status = self
                .inflate
                .decompress_vec(packed, &mut plain, FlushDecompress::Sync)
                .map_err(|_| FrameError::Headers)?;
            let read = usize::try_from(self.inflate.total_in() - read).unwrap_or(packed.len());
            packed = packed.get(read..).unwrap_or_default();
            if plain.len() > LONGEST || status == Status::StreamEnd {
                return Err(FrameError::Headers);
            }
            let full = plain.len() == plain.capacity();
            if packed.is_empty() && !full {
                return Ok(plain);
            }
            // Neither more to be read nor to be written, and yet not through.
            if read == 0 && plain.len() == written {
                return Err(FrameError::Headers);
            }
        }
    }
}

fn read(mut plain: &[u8]) -> Option<Headers> {
    let count = number(&mut plain)?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let name = text(&mut plain)?.to_ascii_lowercase();
        pairs.push((name, text(&mut plain)?));
    }
    plain.is_empty().then_some(Headers(pairs))
}

fn text(plain: &mut &[u8]) -> Option<String> {
    let length = number(plain)?;
    let (text, rest) = plain.split_at_checked(usize::try_from(length).ok()?)?;
    *plain = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

fn number(plain: &mut &[u8]) -> Option<u32> {
    let (number, rest) = plain.split_first_chunk()?;
    *plain = rest;
    Some(u32::from_be_bytes(*number))
}
