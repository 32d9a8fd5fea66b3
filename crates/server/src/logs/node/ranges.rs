//! The `Range` of a request: which parts of a file are wanted.

/// A part: where it begins, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeError {
    Invalid,
    /// All of it is behind the end.
    NoOverlap,
}

impl RangeError {
    /// Go's words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Invalid => "invalid range",
            Self::NoOverlap => "invalid range: failed to overlap",
        }
    }
}

impl Part {
    /// As `Content-Range` has it.
    pub(super) fn of(self, size: u64) -> String {
        let last = (self.start + self.length).saturating_sub(1);
        format!("bytes {}-{last}/{size}", self.start)
    }
}

/// None for the whole file.
pub(super) fn read(header: &str, size: u64) -> Result<Vec<Part>, RangeError> {
    if header.is_empty() {
        return Ok(Vec::new());
    }
    let list = header.strip_prefix("bytes=").ok_or(RangeError::Invalid)?;
    let (mut parts, mut beyond) = (Vec::new(), false);
    for wanted in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        match part(wanted, size)? {
            Some(part) => parts.push(part),
            None => beyond = true,
        }
    }
    if beyond && parts.is_empty() {
        return Err(RangeError::NoOverlap);
    }
    // More than there is: somebody wants to make work.
    let total: u64 = parts.iter().map(|part| part.length).sum();
    if total > size {
        parts.clear();
    }
    Ok(parts)
}

fn part(wanted: &str, size: u64) -> Result<Option<Part>, RangeError> {
    let (start, end) = wanted.split_once('-').ok_or(RangeError::Invalid)?;
    let number = |text: &str| -> Result<u64, RangeError> {
        let number: i64 = text.parse().map_err(|_| RangeError::Invalid)?;
        u64::try_from(number).map_err(|_| RangeError::Invalid)
    };
    let (start, end) = (start.trim(), end.trim());
    if start.is_empty() {
        let length = number(end)?.min(size);
        return Ok(Some(Part {
            start: size - length,
            length,
        }));
    }
    let start = number(start)?;
    if start >= size {
        return Ok(None);
    }
    let end = match end {
        "" => size - 1,
        end => number(end)?,
    };
    if end < start {
        return Err(RangeError::Invalid);
    }
    Ok(Some(Part {
        start,
        length: end.min(size - 1) - start + 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_go_reads_them() {
        let part = |start, length| Part { start, length };
        for (header, wanted) in [
            ("", Ok(vec![])),
            ("bytes=0-4", Ok(vec![part(0, 5)])),
            ("bytes=2-", Ok(vec![part(2, 8)])),
            ("bytes=-5", Ok(vec![part(5, 5)])),
            ("bytes=-99", Ok(vec![part(0, 10)])),
            ("bytes=3-99", Ok(vec![part(3, 7)])),
            ("bytes=0-0, 2-3 ,", Ok(vec![part(0, 1), part(2, 2)])),
            ("bytes=0-0,99-", Ok(vec![part(0, 1)])),
            ("bytes=0-9,0-9", Ok(vec![])),
            ("bytes=", Ok(vec![])),
            ("bytes=10-", Err(RangeError::NoOverlap)),
            ("bytes=5-2", Err(RangeError::Invalid)),
            ("bytes=--2", Err(RangeError::Invalid)),
            ("bytes=-", Err(RangeError::Invalid)),
            ("bytes=x-2", Err(RangeError::Invalid)),
            ("lines=1-2", Err(RangeError::Invalid)),
        ] {
            assert_eq!(read(header, 10), wanted, "{header}");
        }
        assert_eq!(part(3, 7).of(10), "bytes 3-9/10");
        assert_eq!(read("bytes=0-1", 0), Err(RangeError::NoOverlap));
    }
}
