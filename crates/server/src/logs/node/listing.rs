//! A directory as a page, as Go's file server writes it.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seams::storage::Entry;

/// What Go leaves alone in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

pub(super) fn page(entries: &[Entry]) -> String {
    let mut page = String::from(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n",
    );
    let names = entries.iter().map(|entry| {
        let slash = if entry.is_directory { "/" } else { "" };
        format!("{}{slash}", entry.name)
    });
    for name in names {
        // A colon would make it look like a scheme.
        let here = if name.contains(':') { "./" } else { "" };
        let link = utf8_percent_encode(&name, PATH);
        // Writing to a text does not fail.
        let _ = writeln!(page, "<a href=\"{here}{link}\">{}</a>", escaped(&name));
    }
    page + "</pre>\n"
}

fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&#34;"),
            '\'' => text.push_str("&#39;"),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_links_and_nothing_else_whatever_they_are() {
        let entries = [("a b?.log", false), ("<i>'&\"", false), ("x:y", true)];
        let entries = entries.map(|(name, is_directory)| Entry {
            name: name.to_owned(),
            is_directory,
        });
        let wanted = "<!doctype html>
<meta name=\"viewport\" content=\"width=device-width\">
<pre>
<a href=\"a%20b%3F.log\">a b?.log</a>
<a href=\"%3Ci%3E%27&%22\">&lt;i&gt;&#39;&amp;&#34;</a>
<a href=\"./x:y/\">x:y/</a>
</pre>
";
        assert_eq!(page(&entries), wanted);
    }
}
