//! A line of a log that docker wrote: `{"log":"text\n","stream":"stdout","time":"…"}`.

use std::borrow::Cow;

use serde::Deserialize;

use super::record::Stamp;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    pub(super) log: String,
    pub(super) stream: String,
    pub(super) time: Option<String>,
}

/// `None` if it is none.
pub(super) fn read(line: &[u8]) -> Option<Entry> {
    // As Go reads it: what is no text is replaced.
    let text: Cow<'_, str> = String::from_utf8_lossy(line);
    let entry: Entry = serde_json::from_str(&text).ok()?;
    let time = entry.time.as_deref();
    time.is_none_or(|time| Stamp::read(time.as_bytes()).is_some())
        .then_some(entry)
}
