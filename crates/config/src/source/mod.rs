//! Kubelet configuration files, read into trees whose keys and values know their line and column.
//!
//! In: the bytes of a file, YAML or JSON. Out: a [`Document`] that holds what the upstream kubelet
//! sees after it has turned the same bytes into JSON, or a [`SyntaxError`] that says where and what
//! to change. This module knows nothing of the configuration's fields.
//!
//! A text that starts with `{` is JSON and is never tried as YAML. Everything else is YAML 1.1, of
//! which only the first document counts; [`Document::ignored`] points at what follows it.
//!
//! The YAML parser underneath follows YAML 1.2, upstream's follows 1.1. Over a hundred thousand
//! mutated configurations were read by both; the corners in which they part are pinned in
//! `yaml/tests.rs`:
//!
//! * U+0085, U+2028 and U+2029 are ordinary characters here and line breaks upstream.
//! * In brackets, `b:` before a bracket or comma is a key here and text upstream; `?x` the reverse.
//! * Refused here, accepted upstream: a lone `-` in brackets, `#` right behind a quote or bracket,
//!   `\'` in double quotes, quoted text that goes on in column 1 or behind a tab, odd tags.
//! * Accepted here, refused upstream: tabs on lines without content, `?` inside of words in
//!   brackets, `\/` and surrogate pairs in double quotes, signs in anchor names, unknown `%`
//!   directives, a leading `...`, any `!!timestamp` that begins like a date.
//! * A file with more than 1,000,000 values is refused: it would take seconds to read.
//! * A key written both as text and as a number (`"1"` and `1`) is a duplicate here; upstream keeps
//!   one of the two at random. A JSON number beyond the range of a float is refused even in a
//!   field that nobody reads.

mod builder;
mod convert;
mod document;
mod json;
mod number;
mod scalar;
mod text;
mod tree;
mod walk;
mod yaml;

pub use convert::TooDeep;
pub use document::{Document, Duplicate, MAX_DEPTH, SyntaxError, parse};
pub use number::Number;
pub use tree::{Entry, List, Map, Node, Place, Value};
