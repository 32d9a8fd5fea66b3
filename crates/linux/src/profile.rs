//! A CPU profile of this process, as pprof reads it: every ten milliseconds of CPU that one of
//! its threads takes the kernel writes down where that thread is, with the end of its stack, and
//! here the stack is unwound and counted.
//!
//! Nobody is interrupted for it: there are no signals and no code that runs in them. What it
//! needs (a buffer for each thread, the tables for unwinding) is there while it lasts, and
//! nothing of it before.

mod elf;
mod encode;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use perf_event::data::{Record, Sample};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use thiserror::Error;

use elf::Elf;

/// CPU time between two looks at a thread.
const PERIOD: Duration = Duration::from_millis(10);

/// Of a stack, from its end: deeper is not seen. The most that a sample may hold is 64 KiB.
const STACK: u32 = 32 * 1024;

/// For the samples of a thread between two calls of [`Profile::look`].
const BUFFER: usize = 512 * 1024;

/// Frames of one stack.
const DEEPEST: usize = 256;

/// Different stacks that are told apart.
const MOST_STACKS: usize = 20_000;

const THREADS: &str = "/proc/self/task";
const MAPS: &str = "/proc/self/maps";
const PROGRAM: &str = "/proc/self/exe";

/// Why there is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    #[error(
        "the kernel shows nobody where this process is: {0}; root may see it, others where \
         /proc/sys/kernel/perf_event_paranoid is 2 or less"
    )]
    Refused(io::Error),
    #[error("cannot see what this process is made of: {path}: {cause}; is /proc mounted?")]
    Unseen {
        path: &'static str,
        cause: io::Error,
    },
}

/// A profile that is being taken.
pub struct Profile {
    /// By thread.
    samplers: HashMap<i32, Sampler>,
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    mapped: Vec<Mapped>,
    /// How often a thread was found at this place, called from those.
    stacks: BTreeMap<Vec<u64>, u64>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Profile")
            .field("threads", &self.samplers.len())
            .field("stacks", &self.stacks.len())
            .finish_non_exhaustive()
    }
}

/// Code of a file, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    start: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
    path: PathBuf,
}

impl Profile {
    /// From now on all threads of this process are looked at.
    pub fn start() -> Result<Self, ProfileError> {
        let unseen = |path| move |cause| ProfileError::Unseen { path, cause };
        let maps = fs::read_to_string(MAPS).map_err(unseen(MAPS))?;
        let mapped = code(&maps);
        let mut unwinder = UnwinderNative::new();
        for one in &mapped {
            // What cannot be read is not unwound: its callers are not seen.
            if let Ok(module) = module(one) {
                unwinder.add_module(module);
            }
        }
        let mut profile = Self {
            samplers: HashMap::new(),
            unwinder,
            cache: CacheNative::new(),
            mapped,
            stacks: BTreeMap::new(),
        };
        profile.meet_threads()?;
        Ok(profile)
    }

    /// Takes what has been seen. To be called often: buffers are small.
    pub fn look(&mut self) {
        let mut seen = Vec::new();
        for sampler in self.samplers.values_mut() {
            while let Some(record) = sampler.next_record() {
                if let Ok(Record::Sample(sample)) = record.parse_record() {
                    seen.extend(stack(&sample, &self.unwinder, &mut self.cache));
                }
            }
        }
        for stack in seen {
            if self.stacks.len() < MOST_STACKS || self.stacks.contains_key(&stack) {
                *self.stacks.entry(stack).or_insert(0) += 1;
            }
        }
        // New threads are looked at as well. One that has ended in between is no loss.
        let _ = self.meet_threads();
    }

    /// The profile in pprof's format, packed as its readers expect it.
    pub fn finish(mut self, begun: SystemTime, took: Duration) -> io::Result<Vec<u8>> {
        self.look();
        self.samplers.clear();
        encode::packed(&self.stacks, &self.mapped, (begun, took))
    }

    fn meet_threads(&mut self) -> Result<(), ProfileError> {
        let path = THREADS;
        let unseen = move |cause| ProfileError::Unseen { path, cause };
        let threads = fs::read_dir(path).map_err(unseen)?;
        let threads: Vec<i32> = threads
            .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        self.samplers.retain(|thread, _| threads.contains(thread));
        let mut refused = None;
        for thread in threads {
            if self.samplers.contains_key(&thread) {
                continue;
            }
            match sampler(thread) {
                Ok(sampler) => drop(self.samplers.insert(thread, sampler)),
                Err(cause) => refused = Some(cause),
            }
        }
        match refused {
            Some(cause) if self.samplers.is_empty() => Err(ProfileError::Refused(cause)),
            _ => Ok(()),
        }
    }
}

/// What time a thread takes in the kernel is its callers', where we may see it.
fn sampler(thread: i32) -> io::Result<Sampler> {
    let open = |kernel: bool| {
        let mut builder = Builder::new(Software::TASK_CLOCK);
        builder
            .observe_pid(thread)
            .any_cpu()
            .exclude_kernel(!kernel)
            .sample_period(u64::try_from(PERIOD.as_nanos()).unwrap_or(u64::MAX))
            .sample(SampleFlag::IP | SampleFlag::REGS_USER | SampleFlag::STACK_USER)
            .sample_regs_user(registers::MASK)
            .sample_stack_user(STACK)
            .enabled(true);
        builder.build()?.sampled(BUFFER)
    };
    open(true).or_else(|_| open(false))
}

/// Those that a stack is unwound with, by the kernel's numbers, in the order of those.
#[cfg(target_arch = "x86_64")]
mod registers {
    use super::UnwindRegsNative;

    /// `bp`, `sp`, `ip`.
    pub(super) const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;

    /// Where it is, the end of its stack, and all of them.
    pub(super) fn read(values: &[u64]) -> Option<(u64, u64, UnwindRegsNative)> {
        let &[frame, stack, place] = values else {
            return None;
        };
        Some((place, stack, UnwindRegsNative::new(place, stack, frame)))
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use super::UnwindRegsNative;

    /// `x29`, `lr`, `sp`, `pc`.
    pub(super) const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

    /// Where it is, the end of its stack, and all of them.
    pub(super) fn read(values: &[u64]) -> Option<(u64, u64, UnwindRegsNative)> {
        let &[frame, link, stack, place] = values else {
            return None;
        };
        Some((place, stack, UnwindRegsNative::new(link, stack, frame)))
    }
}

/// Where a thread is, and from where that was called, and so on.
fn stack(
    sample: &Sample<'_>,
    unwinder: &UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: &mut CacheNative<MayAllocateDuringUnwind>,
) -> Option<Vec<u64>> {
    let (place, end, registers) = registers::read(&sample.regs_user()?.regs)?;
    let bytes = sample.stack_user()?;
    let mut read = |address: u64| {
        let at = address.checked_sub(end).ok_or(())?;
        let at = usize::try_from(at).map_err(drop)?;
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map(|word| u64::from_le_bytes(*word)).ok_or(())
    };
    let mut frames = unwinder.iter_frames(place, registers, cache, &mut read);
    let mut stack = Vec::new();
    while let Ok(Some(frame)) = frames.next()
        && stack.len() < DEEPEST
    {
        // Of a caller, the call and not what is behind it.
        stack.push(frame.address_for_lookup());
    }
    (!stack.is_empty()).then_some(stack)
}

/// What of `/proc/PID/maps` is code of files.
fn code(maps: &str) -> Vec<Mapped> {
    maps.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let may = words.next()?;
            let offset = words.next()?;
            let path = words.nth(2)?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            (may.contains('x') && path.starts_with('/')).then_some(())?;
            Some(Mapped {
                start: number(start)?,
                end: number(end)?,
                offset: number(offset)?,
                path: path.into(),
            })
        })
        .collect()
}

/// The file itself, also if another lies at its place now.
fn open(path: &Path) -> io::Result<Elf> {
    let is_program = fs::read_link(PROGRAM).is_ok_and(|program| {
        let program = program.to_string_lossy().into_owned();
        Path::new(program.trim_end_matches(" (deleted)")) == path
    });
    Elf::open(if is_program { Path::new(PROGRAM) } else { path })
}

fn module(mapped: &Mapped) -> io::Result<Module<Vec<u8>>> {
    let elf = open(&mapped.path)?;
    let base = mapped.start.wrapping_sub(
        elf.address_of(mapped.offset)
            .ok_or(io::ErrorKind::InvalidData)?,
    );
    let range = |name| elf.section(name).map(elf::Section::range);
    let data = |name| elf.section(name).and_then(|section| elf.read(section).ok());
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        got_svma: range(".got"),
        ..ExplicitModuleSectionInfo::default()
    };
    let name = mapped.path.to_string_lossy().into_owned();
    Ok(Module::new(name, mapped.start..mapped.end, base, sections))
}

#[cfg(test)]
mod tests;
