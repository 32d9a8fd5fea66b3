//! Programs that a node runs for an answer: started, fed, heard to their end.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use futures_util::Stream;

/// What a program prints, as it comes, until it has ended.
pub type Heard = Pin<Box<dyn Stream<Item = io::Result<Vec<u8>>> + Send>>;

/// What to run, and with what. It has the environment of the agent, too.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// Added to what the agent has, or in place of it.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads.
    pub input: Vec<u8>,
    /// So many bytes of what it prints are kept.
    pub most_output: usize,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Executed {
    /// `Err`: it failed, and how.
    pub outcome: Result<(), String>,
    pub output: Vec<u8>,
    /// It printed more than is kept.
    pub is_cut: bool,
    /// The beginning of what it complained of.
    pub complaint: String,
}

/// What it reads and what its environment is may be secrets.
impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Program")
            .field("path", &self.path)
            .field("arguments", &self.arguments.len())
            .finish_non_exhaustive()
    }
}

/// And so may be what it prints.
impl fmt::Debug for Executed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Executed")
            .field("outcome", &self.outcome)
            .field("bytes", &self.output.len())
            .finish_non_exhaustive()
    }
}
