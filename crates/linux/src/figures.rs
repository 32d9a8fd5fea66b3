//! What the kernel counts: of groups of processes under both versions of cgroups, of
//! networks, and of the machine.
//!
//! Each file is read once, into a buffer that is used again for the next one.

mod group;
mod machine;
mod parse;
mod processes;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::path::Arg;

pub(crate) use group::{cpu_time, first_process, of_group};
pub(crate) use machine::{Fixed, of_machine};
pub(crate) use processes::network_of;

/// The first piece that is read of a file; most have no more.
const PIECE: usize = 8 * 1024;

/// How the kernel gives out a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// All that there is with the first read that has room for it: nothing is learnt from
    /// another.
    Record,
    /// A page at a time.
    List,
}

/// Reads small files of the kernel's, one after the other.
#[derive(Debug, Default)]
struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// `None` if there is no such file, or what it tells of is gone.
    fn text(&mut self, directory: impl AsFd, file: impl Arg) -> io::Result<Option<&str>> {
        self.read(directory, file, Form::List)
    }

    /// The same of a file that the kernel writes at once.
    fn record(&mut self, directory: impl AsFd, file: impl Arg) -> io::Result<Option<&str>> {
        self.read(directory, file, Form::Record)
    }

    fn read(
        &mut self,
        directory: impl AsFd,
        file: impl Arg,
        form: Form,
    ) -> io::Result<Option<&str>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let found = openat(directory, file, flags, Mode::empty());
        let read = found.and_then(|file| self.fill(&file, form));
        match read {
            Ok(length) => Ok(std::str::from_utf8(&self.buffer[..length]).ok()),
            Err(error) if is_absent(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn fill(&mut self, file: &OwnedFd, form: Form) -> rustix::io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer.resize(PIECE, 0);
        }
        let mut length = 0;
        loop {
            let more = rustix::io::read(file, &mut self.buffer[length..])?;
            if more == 0 {
                return Ok(length);
            }
            length += more;
            if length == self.buffer.len() {
                self.buffer.resize(2 * length, 0);
            } else if form == Form::Record {
                return Ok(length);
            }
        }
    }

    fn number(&mut self, directory: impl AsFd, file: &str) -> io::Result<Option<u64>> {
        Ok(self.record(directory, file)?.and_then(parse::number))
    }
}

/// Not there, gone meanwhile, or not supported by this kernel.
fn is_absent(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NODEV
            | Errno::OPNOTSUPP
            | Errno::SRCH
            | Errno::NOTDIR
            | Errno::ACCESS
    )
}

/// A directory to read files of; `None` if it is not there.
pub(crate) fn directory(from: impl AsFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(from, path, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if is_absent(error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
