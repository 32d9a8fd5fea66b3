//! What is in a file, by its name or by its first bytes, in Go's words. Of the many
//! kinds that Go knows, those that are found among logs; the rest is text, or bytes.

/// How many of the first bytes count.
pub(super) const SAMPLE: usize = 512;

pub(super) fn by_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "txt" | "text" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "htm" | "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "xml" => "text/xml; charset=utf-8",
        "gz" => "application/gzip",
        "zip" => "application/zip",
        "bin" => "application/octet-stream",
        _ => return None,
    })
}

pub(super) fn by_content(sample: &[u8]) -> &'static str {
    let sample = &sample[..sample.len().min(SAMPLE)];
    for (beginning, kind) in [
        (&b"\xFE\xFF"[..], "text/plain; charset=utf-16be"),
        (b"\xFF\xFE", "text/plain; charset=utf-16le"),
        (b"\xEF\xBB\xBF", "text/plain; charset=utf-8"),
        (b"\x1F\x8B\x08", "application/x-gzip"),
        (b"PK\x03\x04", "application/zip"),
    ] {
        // A mark of two bytes counts when two more follow.
        if sample.starts_with(beginning) && sample.len() > 3 {
            return kind;
        }
    }
    let binary = |byte: &u8| matches!(byte, 0..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F);
    if sample.iter().any(binary) {
        "application/octet-stream"
    } else {
        "text/plain; charset=utf-8"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_or_by_what_it_begins_with() {
        assert_eq!(by_name("a.JSON"), Some("application/json"));
        assert_eq!(by_name("a.log"), None);
        assert_eq!(by_name("gz"), None);
        let text = "text/plain; charset=utf-8";
        for (sample, wanted) in [
            (&b""[..], text),
            (b"Nov 16 started\n", text),
            ("größer\x1b[0m\n".as_bytes(), text),
            (b"a\0b", "application/octet-stream"),
            (b"\x1F\x8B\x08\x00", "application/x-gzip"),
            (b"\xFF\xFEa\0", "text/plain; charset=utf-16le"),
        ] {
            assert_eq!(by_content(sample), wanted, "{sample:?}");
        }
    }
}
