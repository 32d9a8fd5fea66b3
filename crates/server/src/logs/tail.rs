//! Where the last lines of a log begin, found from its end: what it costs depends on
//! the lines, not on the log.

use std::io;

use memchr::memrchr_iter;
use seams::host::OpenFile;

/// As much as is read at once, here and elsewhere.
pub(super) const BLOCK: usize = 64 * 1024;

/// After so many blocks others have their turn: what is in memory is read without a wait.
const TURN: u64 = 16;

/// Behind the line end before the last `lines`; the beginning, if there are no more. A
/// line that has no end yet is not counted.
pub(super) async fn start(file: &dyn OpenFile, lines: u64) -> io::Result<u64> {
    let mut right = file.facts()?.size;
    let mut ends = 0;
    let mut blocks = 0;
    while right > 0 {
        blocks += 1;
        if blocks % TURN == 0 {
            tokio::task::yield_now().await;
        }
        let left = right.saturating_sub(BLOCK as u64);
        let block = whole(file, left, right).await?;
        for end in memrchr_iter(b'\n', &block) {
            if ends == lines {
                return Ok(left + end as u64 + 1);
            }
            ends += 1;
        }
        right = left;
    }
    Ok(0)
}

/// All that is between two places, if the file still is as long.
async fn whole(file: &dyn OpenFile, left: u64, right: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(right - left).map_err(io::Error::other)?;
    let mut block = file.read_at(left, length).await?;
    while block.len() < length {
        let at = left + block.len() as u64;
        let more = file.read_at(at, length - block.len()).await?;
        if more.is_empty() {
            break;
        }
        block.extend(more);
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logs::testing::MemoryFile;

    fn naive(text: &[u8], lines: u64) -> u64 {
        let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
        let lines = usize::try_from(lines).unwrap();
        let before = ends.len().checked_sub(lines + 1);
        before.map_or(0, |before| ends[before] as u64 + 1)
    }

    fn found(file: &MemoryFile, lines: u64) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(start(file, lines)).unwrap()
    }

    #[test]
    fn the_last_lines_begin_behind_the_line_before_them() {
        for (text, lines, wanted) in [
            ("", 0, 0),
            ("", 3, 0),
            ("a\nb\nc\n", 0, 6),
            ("a\nb\nc\n", 1, 4),
            ("a\nb\nc\n", 3, 0),
            ("a\nb\nc\n", 9, 0),
            ("a\nb\nc", 1, 2),
            ("a\nb\nc", 0, 4),
            ("c", 0, 0),
        ] {
            let file = MemoryFile::new(text);
            assert_eq!(found(&file, lines), wanted, "{text:?} {lines}");
        }
    }

    #[test]
    fn a_long_log_is_read_from_its_end_and_no_more_of_it_than_it_takes() {
        let line = "2016-10-06T00:17:09.123456789Z stdout F a line of a log\n";
        let count = 8 * 1024 * 1024 / line.len();
        let file = MemoryFile::new(line.repeat(count));
        let size = file.facts().unwrap().size;
        assert_eq!(found(&file, 10), size - 10 * line.len() as u64);
        assert!(file.bytes_read() <= BLOCK as u64, "{}", file.bytes_read());
        assert_eq!(found(&file, 5000), size - 5000 * line.len() as u64);
    }

    #[tokio::test]
    async fn others_have_their_turn_while_a_long_log_is_looked_through() {
        let file = MemoryFile::new("x".repeat(64 * BLOCK));
        let mut turns = 0;
        let others = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            found = start(&file, 10) => assert_eq!(found.unwrap(), 0),
            () = others => {}
        }
        assert_eq!(turns, 4);
    }

    proptest! {
        #[test]
        fn the_beginning_is_that_of_who_counts_from_the_start(
            lines in prop::collection::vec(0..9000usize, 0..60),
            ended in any::<bool>(),
            short in 1..5000usize,
            count in 0..70u64,
        ) {
            let mut text: Vec<u8> = Vec::new();
            for length in lines {
                text.extend(vec![b'x'; length]);
                text.push(b'\n');
            }
            if !ended {
                text.pop();
            }
            let wanted = naive(&text, count);
            let file = MemoryFile::new(text).giving(short);
            prop_assert_eq!(found(&file, count), wanted);
        }
    }
}
