//! What a node's process asks of the machine for itself. None of it is needed to
//! be a node: what is refused is the caller's to warn of.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

const OWN_OOM_SCORE: &str = "/proc/self/oom_score_adj";
const OWN_STATUS: &str = "/proc/self/status";
const OWN_PROGRAM: &str = "/proc/self/exe";
const OWN_MAPS: &str = "/proc/self/maps";
const OWN_PAGES: &str = "/proc/self/pagemap";

/// What the kernel's list of pages says of one: eight bytes, with these bits.
const PAGE_ENTRY: usize = 8;
const PAGE_IS_THERE: u64 = 0b11 << 62;
const PAGE_IS_OF_A_FILE: u64 = 1 << 61;

/// SIGHUP, by its number.
const HANGUP: u32 = 1;

/// What the machine refused.
#[derive(Debug, Error)]
pub enum ProcessError {
    #[error(
        "cannot set the node's own OOM score to {score}: {cause}; only root may lower it \
         (oomScoreAdj)"
    )]
    OomScore { score: i32, cause: io::Error },
    #[error("an OOM score of {0} is not between -1000 and 1000: change oomScoreAdj")]
    OomScoreRange(i32),
    #[error(
        "cannot raise the limit of open files to {limit}: {cause}; root may, up to what \
         /proc/sys/fs/nr_open says (maxOpenFiles)"
    )]
    OpenFiles { limit: u64, cause: io::Error },
    #[error("cannot see what memory this process holds: {0}; is /proc mounted?")]
    Memory(io::Error),
    #[error(
        "cannot tell the service manager {message:?} at {address:?}: {cause}; it may take the \
         node for one that hangs"
    )]
    Notify {
        message: &'static str,
        address: String,
        cause: io::Error,
    },
    #[error(
        "the service manager's address {0:?} (NOTIFY_SOCKET) is neither an absolute path nor an \
         abstract socket"
    )]
    NotifyAddress(String),
}

/// How early the kernel ends this process when memory runs out: -1000 never,
/// 1000 first.
pub fn set_oom_score(score: i32) -> Result<(), ProcessError> {
    write_oom_score(Path::new(OWN_OOM_SCORE), score)
}

fn write_oom_score(path: &Path, score: i32) -> Result<(), ProcessError> {
    if !(-1000..=1000).contains(&score) {
        return Err(ProcessError::OomScoreRange(score));
    }
    fs::write(path, score.to_string()).map_err(|cause| ProcessError::OomScore { score, cause })
}

/// How many files this process, and those that it starts, may have open.
pub fn set_open_files(limit: u64) -> Result<(), ProcessError> {
    let both = Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    setrlimit(Resource::Nofile, both).map_err(|cause| ProcessError::OpenFiles {
        limit,
        cause: cause.into(),
    })
}

/// Lets this process have as many files open as the machine allows it: how many those are.
pub fn raise_open_files() -> Result<u64, ProcessError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let most = limit.maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::Nofile, raised).map_err(|cause| ProcessError::OpenFiles {
        limit: most,
        cause: cause.into(),
    })?;
    Ok(most)
}

/// Gives memory back to the machine that was freed and that the allocator keeps for the
/// next time: glibc does so by itself only for what is freed last.
#[cfg(target_env = "gnu")]
#[allow(
    unsafe_code,
    reason = "a call into the C library that has no safe form"
)]
pub fn give_back_memory() {
    // Safety: it takes no pointer, and may be called by any thread at any time: it holds
    // the allocator's own locks, and touches only pages in which nothing is allocated.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators of Linux's C libraries keep nothing for long.
#[cfg(not(target_env = "gnu"))]
pub fn give_back_memory() {}

/// Lets go of the program's own code: what is used is there again at once, from the
/// machine's cache of files, and what only a start or a rare request needs is no longer
/// held for this process. Code that somebody else has written to, like a debugger, stays as
/// it is. How many bytes of code were let go of.
pub fn let_go_of_code() -> Result<usize, ProcessError> {
    let own = fs::read_link(OWN_PROGRAM).map_err(ProcessError::Memory)?;
    let_go_of_code_in(own.as_os_str())
}

#[allow(
    unsafe_code,
    reason = "advice that may change memory has no safe form; here it cannot"
)]
fn let_go_of_code_in(program: &OsStr) -> Result<usize, ProcessError> {
    let maps = fs::read(OWN_MAPS).map_err(ProcessError::Memory)?;
    let pages = File::open(OWN_PAGES).map_err(ProcessError::Memory)?;
    let mut bytes = 0;
    for code in code_of(&maps, program) {
        if is_changed(&pages, &code).map_err(ProcessError::Memory)? {
            continue;
        }
        let Range { start, end } = code;
        let at = std::ptr::with_exposed_provenance_mut(start);
        // Safety: the pages are a private copy of a file, and nobody in this process can
        // write to them: the kernel reads the same bytes from the file again. Nothing wrote
        // to them earlier either: the loader changes data that is closed afterwards, but no
        // code, which our linker makes to run wherever it is; and what breakpoints a
        // debugger or a uprobe has set was looked for just now. One that is set this moment
        // is lost, and what is run then is the program's own code.
        unsafe { madvise(at, end - start, Advice::LinuxDontNeed) }
            .map_err(|cause| ProcessError::Memory(cause.into()))?;
        bytes += end - start;
    }
    Ok(bytes)
}

/// Whether some page of this code is no longer the file's: whoever writes to one makes it
/// this process's own. To be told so takes a tenth of a millisecond; `smaps` takes ten times
/// as long, and longer the more memory there is.
fn is_changed(pages: &File, code: &Range<usize>) -> io::Result<bool> {
    let size = page_size();
    let mut entries = vec![0; code.len() / size * PAGE_ENTRY];
    let place = u64::try_from(code.start / size * PAGE_ENTRY).map_err(io::Error::other)?;
    pages.read_exact_at(&mut entries, place)?;
    let (entries, _) = entries.as_chunks::<PAGE_ENTRY>();
    Ok(entries.iter().any(|entry| {
        let entry = u64::from_ne_bytes(*entry);
        entry & PAGE_IS_THERE != 0 && entry & PAGE_IS_OF_A_FILE == 0
    }))
}

/// Where the code of a program is, in the kernel's list of what a process has mapped:
/// what may be run, not written, and is of that file.
fn code_of<'a>(maps: &'a [u8], program: &'a OsStr) -> impl Iterator<Item = Range<usize>> + 'a {
    maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let path = line.iter().position(|byte| *byte == b'/')?;
        let (head, path) = line.split_at_checked(path)?;
        let mut fields = str::from_utf8(head).ok()?.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_code = fields.next()? == "r-xp" && path == program.as_bytes();
        let address = |text| usize::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        (is_code && !range.is_empty()).then_some(range)
    })
}

/// What this process holds of the machine's memory, in bytes.
pub fn resident_memory() -> Result<u64, ProcessError> {
    let status = fs::read_to_string(OWN_STATUS).map_err(ProcessError::Memory)?;
    resident(&status).ok_or_else(|| ProcessError::Memory(io::ErrorKind::InvalidData.into()))
}

fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Whether this process was started to outlive its terminal, as nohup does it.
pub fn ignores_hangup() -> bool {
    fs::read_to_string(OWN_STATUS).is_ok_and(|status| ignores(&status, HANGUP))
}

fn ignores(status: &str, signal: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored & (1 << (signal - 1)) != 0)
}

/// What started this process and watches it: systemd, by its notification
/// protocol.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    name: String,
}

impl ServiceManager {
    /// At the value of `NOTIFY_SOCKET`.
    pub fn at(notify_socket: &OsStr) -> Result<Self, ProcessError> {
        let name = notify_socket.to_string_lossy().into_owned();
        let address = match notify_socket.as_bytes() {
            [b'/', ..] => SocketAddr::from_pathname(notify_socket).ok(),
            [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name).ok(),
            _ => None,
        };
        let address = address.ok_or_else(|| ProcessError::NotifyAddress(name.clone()))?;
        let socket = UnixDatagram::unbound()
            // A service manager that does not read must not hold us up.
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|cause| ProcessError::Notify {
                message: "",
                address: name.clone(),
                cause,
            })?;
        Ok(Self {
            socket,
            address,
            name,
        })
    }

    /// The node has started.
    pub fn ready(&self) -> Result<(), ProcessError> {
        self.tell("READY=1")
    }

    /// The node is ending, as it was told.
    pub fn stopping(&self) -> Result<(), ProcessError> {
        self.tell("STOPPING=1")
    }

    /// The node is well, for another while.
    pub fn alive(&self) -> Result<(), ProcessError> {
        self.tell("WATCHDOG=1")
    }

    fn tell(&self, message: &'static str) -> Result<(), ProcessError> {
        let sent = self
            .socket
            .send_to_addr(message.as_bytes(), &self.address)
            .map_err(|cause| ProcessError::Notify {
                message,
                address: self.name.clone(),
                cause,
            });
        sent.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_signal_that_is_ignored_is_a_bit_of_the_status() {
        for (status, ignored) in [
            (
                "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n",
                true,
            ),
            (
                "SigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n",
                false,
            ),
            ("", false),
        ] {
            assert_eq!(ignores(status, HANGUP), ignored, "{status}");
        }
    }

    #[test]
    fn the_memory_of_this_process_is_what_the_kernel_says() {
        let status = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  812 kB\nRssAnon:\t 1 kB\n";
        assert_eq!(resident(status), Some(812 * 1024));
        assert_eq!(resident("Name:\tx\n"), None);
        assert!(resident_memory().unwrap() > 100 * 1024);
    }

    #[test]
    fn memory_that_was_freed_is_given_back_though_what_came_last_is_still_used() {
        const PIECES: usize = 8 << 10;
        // Below the size at which the allocator maps each piece by itself.
        let mut pieces: Vec<_> = (0..PIECES).map(|_| vec![1_u8; 8 << 10]).collect();
        let last = pieces.split_off(PIECES - 1);
        let used = resident_memory().unwrap();
        drop(pieces);
        give_back_memory();
        let left = resident_memory().unwrap();
        // Half of it: other tests allocate at the same time.
        assert!(left + (32 << 20) < used, "{used} bytes, then {left}");
        drop(last);
    }

    #[test]
    fn code_is_what_may_be_run_and_is_of_the_program() {
        let maps = b"\
55e0-55f0 r--p 00000000 fe:00 7                    /opt/my agent
5600-5700 r-xp 00010000 fe:00 7                    /opt/my agent
5700-5710 r--p 00110000 fe:00 7                    /opt/my agent
5710-5720 rw-p 00120000 fe:00 7                    /opt/my agent
5720-5730 rwxp 00120000 fe:00 7                    /opt/my agent
5800-5900 rw-p 00000000 00:00 0                    [heap]
7000-7100 r-xp 00000000 fe:00 8                    /opt/my agent.so
7200-7300 r-xp 00000000 00:00 0
ffff-zzzz r-xp 00000000 00:00 0                    /opt/my agent
";
        let found: Vec<_> = code_of(maps, OsStr::new("/opt/my agent")).collect();
        assert_eq!((found.len(), found[0].clone()), (1, 0x5600..0x5700));
    }

    #[test]
    fn code_that_nobody_uses_is_let_go_of_and_runs_again() {
        let held = || {
            let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
            let own = fs::read_link(OWN_PROGRAM).unwrap();
            let own = own.to_str().unwrap();
            let mut lines = smaps.lines();
            lines.find(|line| line.contains("r-xp") && line.ends_with(own));
            let line = lines.find(|line| line.starts_with("Rss:")).unwrap();
            let kibibytes = line.split_whitespace().nth(1).unwrap();
            kibibytes.parse::<u64>().unwrap()
        };
        let before = held();
        let code = let_go_of_code().unwrap();
        // Other tests run some of it at the same time.
        let after = held();
        assert!(
            code > 100 << 10 && after < before,
            "{code}: {before}, {after}"
        );
    }

    #[test]
    fn code_that_somebody_has_written_to_is_not_let_go_of() {
        // Other tests let go of the program's own.
        let maps = fs::read_to_string(OWN_MAPS).unwrap();
        let mut code = maps.lines().filter(|line| line.contains(" r-xp "));
        let library = code.find(|line| line.contains("/libgcc_s")).unwrap();
        let library = OsStr::new(&library[library.find('/').unwrap()..]);
        assert!(let_go_of_code_in(library).unwrap() > 0);

        let code = code_of(maps.as_bytes(), library).next().unwrap();
        let mut options = fs::OpenOptions::new();
        let memory = options.read(true).write(true).open("/proc/self/mem");
        // As a debugger does it, but with what is there already.
        let (memory, place) = (memory.unwrap(), code.start as u64);
        let mut byte = [0];
        memory.read_exact_at(&mut byte, place).unwrap();
        memory.write_all_at(&byte, place).unwrap();
        assert_eq!(let_go_of_code_in(library).unwrap(), 0);
        let pages = File::open(OWN_PAGES).unwrap();
        assert!(is_changed(&pages, &code).unwrap(), "it is still there");
    }

    #[test]
    fn the_own_oom_score_is_set_and_one_out_of_range_refused() {
        // What it is may always be set again.
        let before = fs::read_to_string(OWN_OOM_SCORE).unwrap();
        set_oom_score(before.trim().parse().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(OWN_OOM_SCORE).unwrap(), before);

        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("oom_score_adj");
        write_oom_score(&file, -999).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "-999");
        for score in [-1001, 1001] {
            let error = write_oom_score(&file, score).unwrap_err();
            assert!(matches!(error, ProcessError::OomScoreRange(_)), "{error}");
        }
        let error = write_oom_score(directory.path(), 5).unwrap_err();
        assert!(error.to_string().contains("to 5"), "{error}");
    }

    #[test]
    fn the_limit_of_open_files_is_set_or_refused_with_the_number() {
        let before = getrlimit(Resource::Nofile);
        // Its upper limit may always be set again.
        let most = before.maximum.unwrap();
        set_open_files(most).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
        // More than the kernel allows anybody.
        let error = set_open_files(1 << 60).unwrap_err();
        assert!(error.to_string().contains("1152921504606846976"), "{error}");
        assert_eq!(getrlimit(Resource::Nofile).current, Some(most));
    }

    fn told(listener: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        listener
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let length = listener.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn the_service_manager_is_told_at_a_path_or_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("ferrolet-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, notify_socket) in [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (
                UnixDatagram::bind_addr(&address).unwrap(),
                format!("@{name}").into(),
            ),
        ] {
            let manager = ServiceManager::at(&notify_socket).unwrap();
            manager.ready().unwrap();
            manager.alive().unwrap();
            manager.stopping().unwrap();
            for message in ["READY=1", "WATCHDOG=1", "STOPPING=1"] {
                assert_eq!(told(&listener), message);
            }
        }
    }

    #[test]
    fn a_service_manager_that_is_not_there_or_does_not_read_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let manager = ServiceManager::at(path.as_os_str()).unwrap();
        let error = manager.ready().unwrap_err().to_string();
        assert!(error.contains("READY=1"), "{error}");

        let flags = rustix::fs::fcntl_getfl(&manager.socket).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let mut outcomes = (0..100_000).map(|_| manager.alive());
        let error = outcomes.find_map(Result::err).unwrap();
        let ProcessError::Notify { cause, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(cause.kind(), io::ErrorKind::WouldBlock);

        for bad in ["", "relative", "vsock:2:1234"] {
            assert!(ServiceManager::at(OsStr::new(bad)).is_err(), "{bad:?}");
        }
    }
}
