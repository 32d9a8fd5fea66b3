//! `$(NAME)` in texts of a pod: environment, command, arguments, paths in volumes.

use std::str;

use thiserror::Error;

/// A command with a variable that is no text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} refers to a variable that is no text: CRI's commands are UTF-8, pass the value in a file"
)]
pub struct NoText {
    text: String,
}

/// Replaces `$(NAME)` by what `lookup` gives for it, and `$$` by `$`. A name that
/// is not known stays as it is written.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a [u8]>) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.extend_from_slice(before.as_bytes());
        if let Some(after) = after.strip_prefix('$') {
            expanded.push(b'$');
            rest = after;
        } else if let Some((name, after)) = reference(after) {
            match lookup(name) {
                Some(value) => expanded.extend_from_slice(value),
                None => expanded.extend_from_slice(format!("$({name})").as_bytes()),
            }
            rest = after;
        } else {
            expanded.push(b'$');
            rest = after;
        }
    }
    expanded.extend_from_slice(rest.as_bytes());
    expanded
}

/// The same where the outcome has to be text.
pub fn expand_text<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<String, NoText> {
    String::from_utf8(expand(text, lookup)).map_err(|_| NoText {
        text: text.to_owned(),
    })
}

/// The name in `(NAME)` at the start of a text, and what comes after.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<&'static [u8]> {
        match name {
            "A" => Some(b"a"),
            "EMPTY" => Some(b""),
            "REF" => Some(b"$(A)"),
            "" => Some(b"nameless"),
            "BYTES" => Some(b"\xff"),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_escapes_undone_and_the_rest_is_kept() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)", "xaya"),
            ("$(EMPTY)", ""),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            // What is put in is not looked at again.
            ("$(REF)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$$", "$"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("${A}", "${A}"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$()", "nameless"),
            ("$(A))", "a)"),
            ("ä$(A)ö$ü", "äaö$ü"),
        ] {
            let expanded = expand_text(text, lookup).unwrap();
            assert_eq!(expanded, expected, "{text}");
        }
    }

    #[test]
    fn bytes_are_kept_in_values_and_refused_in_texts() {
        assert_eq!(expand("x$(BYTES)", lookup), b"x\xff");
        let error = expand_text("x$(BYTES)", lookup).unwrap_err().to_string();
        assert!(error.contains("x$(BYTES)"), "{error}");
    }
}
