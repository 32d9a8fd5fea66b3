//! The files of a log: the one that is written to, and those that were put aside, whose
//! names tell when (`0.log.20261116-131500`) and whether they were packed (`….gz`). Who
//! follows a log slower than it is rotated reads them all, in their order.

use std::io::{self, Write as _};
use std::sync::Arc;

use flate2::write::GzDecoder;
use seams::host::OpenFile;

use super::tail::BLOCK;

/// Of a packed file, read at once: it may become a thousand times as much.
const PACKED_BLOCK: usize = 4 * 1024;

/// So much of their beginning tells two files of a log apart: a time to the nanosecond is
/// in it.
const BEGINNING: usize = 256;

/// When a file was put aside, as its name has it. It sorts as the times do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(String);

/// A file that was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aside {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    pub(super) packed: bool,
}

/// Those of `names` that were put aside of the log that is called `log`, the oldest first.
/// Of one that is being packed the packed file counts, as the other is about to go.
pub(super) fn put_aside<'a>(log: &str, names: impl Iterator<Item = &'a str>) -> Vec<Aside> {
    let mut found: Vec<Aside> = names.filter_map(|name| aside(log, name)).collect();
    found.sort_by(|one, other| {
        let stamps = one.stamp.cmp(&other.stamp);
        stamps.then(other.packed.cmp(&one.packed))
    });
    found.dedup_by(|later, kept| later.stamp == kept.stamp);
    found
}

fn aside(log: &str, name: &str) -> Option<Aside> {
    let rest = name.strip_prefix(log)?.strip_prefix('.')?;
    let (stamp, packed) = match rest.strip_suffix(".gz") {
        Some(stamp) => (stamp, true),
        None => (rest, false),
    };
    let (day, time) = stamp.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = day.len() == 8 && time.len() == 6 && digits(day) && digits(time);
    fits.then(|| Aside {
        name: name.to_owned(),
        stamp: Stamp(stamp.to_owned()),
        packed,
    })
}

/// A file of a log, read from its beginning, unpacked if it is packed.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) file: Arc<dyn OpenFile>,
    /// How much of the file was read.
    pub(super) at: u64,
    unpacking: Option<Box<GzDecoder<Vec<u8>>>>,
}

impl Content {
    pub(super) fn new(file: Arc<dyn OpenFile>, packed: bool) -> Self {
        Self {
            file,
            at: 0,
            unpacking: packed.then(|| Box::new(GzDecoder::new(Vec::new()))),
        }
    }

    /// From so far into it.
    pub(super) fn from(file: Arc<dyn OpenFile>, at: u64) -> Self {
        Self {
            at,
            ..Self::new(file, false)
        }
    }

    /// The next block; an empty one at the end.
    pub(super) async fn read(&mut self) -> io::Result<Vec<u8>> {
        let Some(unpacking) = &mut self.unpacking else {
            let block = self.file.read_at(self.at, BLOCK).await?;
            self.at += block.len() as u64;
            return Ok(block);
        };
        loop {
            let block = self.file.read_at(self.at, PACKED_BLOCK).await?;
            self.at += block.len() as u64;
            if block.is_empty() {
                return Ok(block);
            }
            unpacking.write_all(&block)?;
            unpacking.flush()?;
            let unpacked = std::mem::take(unpacking.get_mut());
            if !unpacked.is_empty() {
                return Ok(unpacked);
            }
        }
    }

    /// Whether this file, which is not packed, is that one, which was just opened.
    pub(super) async fn is(&self, mut other: Self) -> io::Result<bool> {
        if other.unpacking.is_none() {
            return Ok(self.file.facts()?.id == other.file.facts()?.id);
        }
        let own = self.file.read_at(0, BEGINNING).await?;
        let other = other.read().await?;
        Ok(!own.is_empty() && other.starts_with(&own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::testing::MemoryFile;

    #[test]
    fn files_put_aside_are_told_by_their_names_and_come_in_their_order() {
        let names = [
            "0.log",
            "0.log.20261116-131501.gz",
            "0.log.20261116-131500",
            "0.log.20261116-131500.gz",
            "0.log.20251116-131500.gz",
            "0.log.20261116-131502",
            "0.log.20261116-131500.tmp",
            "0.log.20261116-131500.gz.tmp",
            "0.log.2026-131500",
            "1.log.20261116-131500",
        ];
        let found = put_aside("0.log", names.into_iter());
        let found: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            found,
            [
                "0.log.20251116-131500.gz",
                "0.log.20261116-131500.gz",
                "0.log.20261116-131501.gz",
                "0.log.20261116-131502",
            ]
        );
    }

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packing.write_all(content).unwrap();
        packing.finish().unwrap()
    }

    #[tokio::test]
    async fn a_packed_file_is_read_as_it_was() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
        let file = Arc::new(MemoryFile::new(packed(&plain)).giving(1000));
        let mut content = Content::new(file, true);
        let mut read = Vec::new();
        loop {
            let block = content.read().await.unwrap();
            if block.is_empty() {
                break;
            }
            read.extend(block);
        }
        assert!(read == plain, "{} of {} bytes", read.len(), plain.len());
        let broken = Arc::new(MemoryFile::new("no archive at all"));
        assert!(Content::new(broken, true).read().await.is_err());
    }

    #[tokio::test]
    async fn a_file_is_known_again_when_it_was_packed() {
        let open = |content: &[u8], packed| {
            Content::new(Arc::new(MemoryFile::new(content.to_vec())), packed)
        };
        let own = open(b"2016 stdout F a\n2017 stdout F b\n", false);
        let same = open(&packed(b"2016 stdout F a\n2017 stdout F b\n"), true);
        assert!(own.is(same).await.unwrap());
        let other = open(&packed(b"2017 stdout F b\n"), true);
        assert!(!own.is(other).await.unwrap());
        assert!(
            !open(b"", false)
                .is(open(&packed(b"x"), true))
                .await
                .unwrap()
        );
    }
}
