//! The log of a container as the runtime would have written it, only larger.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context, Result};

/// In one piece before it is written.
const PIECE: usize = 1 << 20;

/// Behind the hole of a long one.
const END: u64 = 4 << 20;

/// Lines of forty to two hundred characters, about so many bytes of them.
pub(super) fn fill(path: &Path, bytes: u64) -> Result<()> {
    write_at(path, 0, bytes)
}

/// As long as this, most of it without anything.
pub(super) fn stretch(path: &Path, bytes: u64) -> Result<()> {
    write_at(path, bytes.saturating_sub(END), END)
}

/// The file stays the one that the runtime has open.
fn write_at(path: &Path, from: u64, bytes: u64) -> Result<()> {
    let open = || -> std::io::Result<File> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(file)
    };
    let file = open().with_context(|| format!("cannot open {}", path.display()))?;
    let mut file = BufWriter::with_capacity(PIECE, file);
    if from > 0 {
        writeln!(file)?;
    }
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        let line = line(number);
        file.write_all(line.as_bytes())?;
        written += line.len() as u64;
        number += 1;
    }
    file.flush()?;
    Ok(())
}

fn line(number: u64) -> String {
    let (second, nano) = (number / 100_000 % 60, number % 1_000_000_000);
    let length = usize::try_from(40 + number * 37 % 161).unwrap_or(40);
    let stream = if number.is_multiple_of(16) {
        "stderr"
    } else {
        "stdout"
    };
    let words = format!("request {number} was answered ");
    let content: String = words.chars().cycle().take(length).collect();
    format!("2026-11-16T12:00:{second:02}.{nano:09}Z {stream} F {content}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_the_runtime_writes_them() {
        let line = line(16);
        let begun = "2026-11-16T12:00:00.000000016Z stderr F request 16 was answered request";
        assert!(line.starts_with(begun) && line.ends_with('\n'), "{line}");
        let lengths: Vec<usize> = (0..161).map(|number| super::line(number).len()).collect();
        let head = "2026-11-16T12:00:00.000000016Z stderr F \n".len();
        assert_eq!(lengths.iter().min(), Some(&(head + 40)));
        assert_eq!(lengths.iter().max(), Some(&(head + 200)));
    }

    #[test]
    fn a_long_one_ends_with_lines() {
        let place = std::env::temp_dir().join(format!("bench-log-{}", std::process::id()));
        std::fs::write(&place, "what was there").unwrap();
        stretch(&place, 64 << 20).unwrap();
        let length = std::fs::metadata(&place).unwrap().len();
        fill(&place, 1000).unwrap();
        let text = std::fs::read_to_string(&place).unwrap();
        std::fs::remove_file(&place).unwrap();
        assert!((64 << 20..65 << 20).contains(&length), "{length}");
        assert!(text.lines().all(|line| line.starts_with("2026-11-16T12:")));
        assert!((1000..1300).contains(&text.len()), "{}", text.len());
    }
}
