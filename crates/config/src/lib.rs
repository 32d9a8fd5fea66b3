//! Everything a kubelet can be told: fields, flags, drop-ins, feature gates,
//! their defaults and what is allowed.
//!
//! In: a command line, and the files that it names. Out: settings, each with
//! its value and where that came from, and findings, each with its place and
//! what to do. What was written (`source`) is kept apart from what it means
//! (`settings`); the tables in `schema` say what there is.
//!
//! Pure but for reading the files that it is told to read. It must not know
//! what a setting does, nor the machine: what is checked against the machine
//! is passed in.

mod convert;
pub mod decode;
mod defaults;
pub mod effect;
pub mod finding;
pub mod flags;
pub mod gates;
mod labels;
pub mod load;
mod merge;
pub mod schema;
pub mod settings;
pub mod source;
mod strict;
pub mod validate;

pub use convert::{Converted, convert};
pub use strict::check_file;
