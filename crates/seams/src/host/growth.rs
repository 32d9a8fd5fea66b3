//! Files that are written to, told of as it happens.

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// Ends when there is one; may be dropped at any point, and nothing is lost.
pub type Grown<'a> = Pin<Box<dyn Future<Output = Vec<PathBuf>> + Send + 'a>>;

/// Tells which files were written to. Each is told of once, and then has to be watched
/// anew: however much is written, whoever listens decides how often to hear of it, and
/// a file that nobody writes to costs nothing.
pub trait Growth: fmt::Debug + Send + 'static {
    /// From now on. A file that cannot be watched is not told of.
    fn watch(&mut self, file: &Path);

    /// Nobody wants to hear of it any more.
    fn forget(&mut self, file: &Path) {
        let _ = file;
    }

    /// All that were written to since they were watched, as soon as there is one.
    fn grown(&mut self) -> Grown<'_>;
}

/// Of a machine that does not tell.
#[derive(Clone, Copy, Debug)]
pub struct Untold;

impl Growth for Untold {
    fn watch(&mut self, _file: &Path) {}

    fn grown(&mut self) -> Grown<'_> {
        Box::pin(std::future::pending())
    }
}
