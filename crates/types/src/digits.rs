//! Reading digits, for the parsers beside this file.

/// Splits `text` after its leading decimal digits.
pub(crate) fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(end).unwrap_or((text, ""))
}
