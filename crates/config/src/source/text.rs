//! From bytes to the characters that YAML allows.

use std::borrow::Cow;

use super::document::SyntaxError;
use super::tree::Place;

/// Decodes a YAML file: UTF-8, or UTF-16 if a byte order mark says so.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, SyntaxError> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, rest @ ..] => decode_utf8(rest)?,
        _ => decode_utf8(bytes)?,
    };
    match text
        .char_indices()
        .find(|(_, character)| !is_allowed(*character))
    {
        None => Ok(text),
        Some((offset, character)) => Err(SyntaxError::new(
            place_at(&text, offset),
            format!(
                "the control character U+{:04X} is not allowed; remove it, or write it as an \
                 escape in double quotes",
                u32::from(character)
            ),
        )),
    }
}

fn decode_utf8(bytes: &[u8]) -> Result<Cow<'_, str>, SyntaxError> {
    std::str::from_utf8(bytes)
        .map(Cow::Borrowed)
        .map_err(|error| {
            let (valid, invalid) = bytes
                .split_at_checked(error.valid_up_to())
                .unwrap_or_default();
            let valid = std::str::from_utf8(valid).unwrap_or_default();
            SyntaxError::new(
                place_at(valid, valid.len()),
                format!(
                    "the byte 0x{:02x} is not UTF-8; save the file in UTF-8",
                    invalid.first().copied().unwrap_or_default()
                ),
            )
        })
}

fn decode_utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, SyntaxError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len());
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match character {
            Ok(character) => text.push(character),
            Err(_) => return Err(not_utf16(&text)),
        }
    }
    if rest.is_empty() {
        Ok(Cow::Owned(text))
    } else {
        Err(not_utf16(&text))
    }
}

fn not_utf16(text: &str) -> SyntaxError {
    SyntaxError::new(
        place_at(text, text.len()),
        "this is not UTF-16, as which the file is marked; save the file in UTF-8",
    )
}

/// Whether YAML allows a character to stand unescaped.
fn is_allowed(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fffd}' | '\u{10000}'..
    )
}

/// The place of an offset in a text.
pub(super) fn place_at(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count();
    let column = before.get(line_start..).unwrap_or_default().chars().count();
    Place {
        line: count_from_1(line),
        column: count_from_1(column),
    }
}

/// Appends bytes, of which those that are not UTF-8 are replaced one by one, as Go does it.
pub(super) fn push_lossy(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Turns an offset that counts from 0 into a line or column that counts from 1.
pub(super) fn count_from_1(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> (u32, u32, String) {
        let SyntaxError { place, message } = decode(bytes).unwrap_err();
        (place.line, place.column, message)
    }

    #[test]
    fn byte_order_marks_choose_the_encoding_and_vanish() {
        for bytes in [
            b"a: \xc3\xa9".as_slice(),
            b"\xef\xbb\xbfa: \xc3\xa9",
            b"\xff\xfea\0:\0 \0\xe9\0",
            b"\xfe\xff\0a\0:\0 \0\xe9",
        ] {
            assert_eq!(decode(bytes).unwrap(), "a: é");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_at_their_place() {
        let (line, column, message) = error(b"a: 1\nb: \xc3\xa9\xff");
        assert_eq!((line, column), (2, 5));
        assert!(message.contains("0xff"), "{message}");
        assert_eq!(error(b"\xff\xfea\0\x00\xd8").1, 2);
        assert_eq!(error(b"\xff\xfea\0b").1, 2);
    }

    #[test]
    fn control_characters_are_refused_at_their_place() {
        for (bytes, column) in [
            (b"\0".as_slice(), 1),
            (b"a\x7f", 2),
            (b"a: \xc2\x80", 4),
            (b"a: \xef\xbf\xbf", 4),
        ] {
            let (line, found, message) = error(bytes);
            assert_eq!((line, found), (1, column), "{message}");
        }
        assert!(decode("tab\t, nel\u{85}, mark\u{feff}, 😀\r\n".as_bytes()).is_ok());
    }
}
