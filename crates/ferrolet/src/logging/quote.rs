//! Quoting as Go's `%q` does it.

use std::fmt::Write as _;

use super::printable::is_printable;

/// Appends `text` in double quotes; what does not print is escaped.
pub(super) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        push_escaped(out, c, is_printable(c));
    }
    out.push('"');
}

/// Appends `bytes` in double quotes and in ASCII only, as Go's `%+q` does.
pub(super) fn push_quoted_ascii(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(out, c, matches!(c, ' '..='~'));
        }
        for byte in chunk.invalid() {
            push_formatted(out, format_args!("\\x{byte:02x}"));
        }
    }
    out.push('"');
}

fn push_escaped(out: &mut String, c: char, printable: bool) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        c if printable => out.push(c),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if c.is_ascii() => push_formatted(out, format_args!("\\x{:02x}", u32::from(c))),
        '\u{80}'..='\u{ffff}' => push_formatted(out, format_args!("\\u{:04x}", u32::from(c))),
        c => push_formatted(out, format_args!("\\U{:08x}", u32::from(c))),
    }
}

/// Writing to a string cannot fail, so there is no error to pass on.
pub(super) fn push_formatted(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = String::new();
        push_quoted(&mut out, text);
        out
    }

    fn quoted_ascii(bytes: &[u8]) -> String {
        let mut out = String::new();
        push_quoted_ascii(&mut out, bytes);
        out
    }

    #[test]
    fn text_is_quoted_as_go_does() {
        for (text, expected) in [
            ("", r#""""#),
            ("a", r#""a""#),
            ("\"", r#""\"""#),
            ("\\", r#""\\""#),
            ("'`$ <&>/", r#""'`$ <&>/""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\0\u{1}\u{1f}\u{7f}", r#""\x00\x01\x1f\x7f""#),
            ("\u{80}\u{9f}\u{a0}\u{ad}", r#""\u0080\u009f\u00a0\u00ad""#),
            ("\u{e9} \u{f1} \u{df}", "\"\u{e9} \u{f1} \u{df}\""),
            ("\u{65e5}\u{672c}\u{8a9e}", "\"\u{65e5}\u{672c}\u{8a9e}\""),
            ("e\u{301}", "\"e\u{301}\""),
            (
                "\u{200b}\u{200d}\u{2028}\u{2029}\u{feff}",
                r#""\u200b\u200d\u2028\u2029\ufeff""#,
            ),
            (
                "\u{378}\u{e000}\u{3000}\u{2003}\u{ffff}",
                r#""\u0378\ue000\u3000\u2003\uffff""#,
            ),
            ("\u{fffd}", "\"\u{fffd}\""),
            ("\u{1f600}\u{1fae8}", "\"\u{1f600}\u{1fae8}\""),
            // Not yet assigned in the Unicode version that Go goes by.
            ("\u{1fae9}", r#""\U0001fae9""#),
            ("\u{e0001}\u{10ffff}", r#""\U000e0001\U0010ffff""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn bytes_are_quoted_in_ascii() {
        for (bytes, expected) in [
            (
                "a\u{e9}\n\"\\\u{1f600}".as_bytes(),
                r#""a\u00e9\n\"\\\U0001f600""#,
            ),
            (b"a\xff\xc3\xc3\xa9\x7f", r#""a\xff\xc3\u00e9\x7f""#),
            (b"\xe6\x97", r#""\xe6\x97""#),
        ] {
            assert_eq!(quoted_ascii(bytes), expected);
        }
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_one_line_and_no_control_character(text in any::<String>()) {
            prop_assert!(!quoted(&text).contains(char::is_control));
            prop_assert!(quoted_ascii(text.as_bytes()).is_ascii());
        }
    }
}
