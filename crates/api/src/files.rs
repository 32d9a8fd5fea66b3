//! Reading what an operator points at.

use std::path::Path;
use std::{fs, io};

/// The content of a regular file. Anything else is refused: a pipe that nobody
/// writes to would hold a node's thread for ever.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}
