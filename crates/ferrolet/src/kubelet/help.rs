//! `--help` of the kubelet: every flag, from the tables.

use std::fmt::Write;

use config::schema::{self, FLAGS, Flag, FlagKind};

const HEAD: &str = "\
The node agent of Kubernetes, in Rust: registers this machine as a node, runs the pods that are
given to it, and reports what became of them. (So far it only checks its configuration.)

Most settings belong in the file that --config names: `ferrolet config explain` tells of each, and
`ferrolet config convert` makes a file of old flags.

Usage:
  kubelet [flags]

Flags:
";

pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    for flag in FLAGS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", head(flag));
        for line in wrapped(&about(flag), 90) {
            let _ = writeln!(text, "        {line}");
        }
    }
    text
}

fn head(flag: &Flag) -> String {
    let short = flag
        .shorthand
        .map_or("    ".to_owned(), |letter| format!("-{letter}, "));
    let default = match (flag.default, flag.kind) {
        ("" | "[]" | "false", _) => String::new(),
        (default, _) => format!(" (default {default})"),
    };
    format!("{short}--{}{}{default}", flag.name, shape(flag.kind))
}

fn about(flag: &Flag) -> String {
    let Some(field) = flag.field.and_then(schema::field) else {
        return flag.about.to_owned();
    };
    let place = if flag.deprecated { "Better" } else { "Also" };
    format!("{} ({place} in the file: {}.)", field.about, field.path)
}

fn shape(kind: FlagKind) -> &'static str {
    match kind {
        FlagKind::Bool => "",
        FlagKind::Int | FlagKind::Int32 | FlagKind::Int64 | FlagKind::Level => " N",
        FlagKind::String => " TEXT",
        FlagKind::Duration => " DURATION",
        FlagKind::Ip => " IP",
        FlagKind::Strings => " A,B,…",
        FlagKind::MapStringString | FlagKind::Labels => " NAME=VALUE,…",
        FlagKind::MapLessThan => " SIGNAL<VALUE,…",
        FlagKind::MapStringBool => " NAME=true|false,…",
        FlagKind::MapOnePair => " NAME=VALUE",
        FlagKind::Headers => " NAME:VALUE,…",
        FlagKind::ReservedMemory => " NODE:TYPE=QUANTITY,…;…",
        FlagKind::Taints => " KEY=VALUE:EFFECT,…",
        FlagKind::Vmodule => " PATTERN=N,…",
        FlagKind::Quantity => " QUANTITY",
        FlagKind::Version => "[=true|false|raw]",
    }
}

/// Lines of whole words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_told_with_a_meaning() {
        let text = text();
        for flag in FLAGS {
            assert!(text.contains(&format!("--{}", flag.name)), "{}", flag.name);
            assert!(!about(flag).is_empty(), "{} has no meaning", flag.name);
        }
    }

    #[test]
    fn lines_hold_whole_words() {
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("", 5), Vec::<String>::new());
        assert_eq!(wrapped("longword x", 4), ["longword", "x"]);
    }
}
