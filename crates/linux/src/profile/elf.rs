//! As much of a program's file as a profile needs: where its code is meant to lie, the tables
//! for unwinding, its build id, and the names of its functions, if it has been left some.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// No file of ours or of a system has more.
const MOST_SECTIONS: u16 = 4096;
const LARGEST_SECTION: u64 = 256 << 20;

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

const LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;
const FUNCTION: u8 = 2;

/// A file of 64 bits whose numbers are written as this machine's are: no other runs in this
/// process.
#[derive(Debug)]
pub(super) struct Elf {
    file: File,
    segments: Vec<Segment>,
    sections: Vec<Section>,
}

/// A part of the file that is loaded as it is, and can be run.
#[derive(Debug)]
struct Segment {
    offset: u64,
    address: u64,
    length: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Section {
    name: String,
    address: u64,
    offset: u64,
    length: u64,
    /// Of a table of names: the section that these are in.
    link: usize,
}

impl Section {
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.length)
    }
}

/// A function, by the addresses that the file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    start: u64,
    length: u64,
    name: String,
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk
        .map(|chunk| u16::from_le_bytes(*chunk))
        .ok_or_else(broken)
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk
        .map(|chunk| u32::from_le_bytes(*chunk))
        .ok_or_else(broken)
}

fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk
        .map(|chunk| u64::from_le_bytes(*chunk))
        .ok_or_else(broken)
}

/// A name in a table of them, which ends with a zero.
fn name_at(names: &[u8], at: u32) -> String {
    let rest = usize::try_from(at).ok().and_then(|at| names.get(at..));
    let rest = rest.unwrap_or_default();
    let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl Elf {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        // 64 bits, the least byte of a number first.
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Err(broken());
        }
        let count = u16_at(&header, 56)?;
        let table = read_table(&file, u64_at(&header, 32)?, count, SEGMENT)?;
        let mut segments = Vec::new();
        for segment in table.chunks_exact(SEGMENT) {
            let (kind, flags) = (u32_at(segment, 0)?, u32_at(segment, 4)?);
            if kind == LOAD && flags & EXECUTABLE != 0 {
                segments.push(Segment {
                    offset: u64_at(segment, 8)?,
                    address: u64_at(segment, 16)?,
                    length: u64_at(segment, 32)?,
                });
            }
        }
        let count = u16_at(&header, 60)?;
        let table = read_table(&file, u64_at(&header, 40)?, count, SECTION)?;
        let mut unnamed = Vec::new();
        for section in table.chunks_exact(SECTION) {
            let link = usize::try_from(u32_at(section, 40)?).map_err(|_| broken())?;
            let section = Section {
                name: String::new(),
                address: u64_at(section, 16)?,
                offset: u64_at(section, 24)?,
                length: u64_at(section, 32)?,
                link,
            };
            unnamed.push(section);
        }
        let mut elf = Self {
            file,
            segments,
            sections: unnamed,
        };
        let names = usize::from(u16_at(&header, 62)?);
        if let Some(names) = elf.sections.get(names) {
            let names = elf.read(names)?;
            for (section, bytes) in elf.sections.iter_mut().zip(table.chunks_exact(SECTION)) {
                section.name = name_at(&names, u32_at(bytes, 0)?);
            }
        }
        Ok(elf)
    }

    /// Where the code at this place of the file is meant to lie.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        // Segments are loaded by whole pages: the first may begin before the segment does.
        let segment = self.segments.iter().find(|segment| {
            let end = segment.offset.saturating_add(segment.length);
            let page = segment.offset & !0xffff;
            (segment.offset..end).contains(&offset) || (page..segment.offset).contains(&offset)
        })?;
        Some(
            segment
                .address
                .wrapping_sub(segment.offset)
                .wrapping_add(offset),
        )
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    pub(super) fn read(&self, section: &Section) -> io::Result<Vec<u8>> {
        if section.length > LARGEST_SECTION {
            return Err(broken());
        }
        let length = usize::try_from(section.length).map_err(|_| broken())?;
        let mut content = vec![0; length];
        self.file.read_exact_at(&mut content, section.offset)?;
        Ok(content)
    }

    /// By which one recognises the same program elsewhere.
    pub(super) fn build_id(&self) -> Option<String> {
        let note = self.read(self.section(".note.gnu.build-id")?).ok()?;
        let (name, id) = (u32_at(&note, 0).ok()?, u32_at(&note, 4).ok()?);
        let begin = 12 + usize::try_from(name).ok()?.next_multiple_of(4);
        let end = begin.checked_add(usize::try_from(id).ok()?)?;
        let bytes = note.get(begin..end)?;
        let hex = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16));
        bytes.iter().flat_map(hex).collect()
    }

    /// In the order of their addresses; none if the names were stripped.
    pub(super) fn functions(&self) -> Vec<Function> {
        let read = |table: &str| -> Option<Vec<Function>> {
            let section = self.section(table)?;
            let names = self.read(self.sections.get(section.link)?).ok()?;
            let symbols = self.read(section).ok()?;
            let mut functions = Vec::new();
            for symbol in symbols.chunks_exact(SYMBOL) {
                let is_function = symbol.get(4).is_some_and(|kind| kind & 0xf == FUNCTION);
                let start = u64_at(symbol, 8).ok()?;
                if is_function && start != 0 {
                    functions.push(Function {
                        start,
                        length: u64_at(symbol, 16).ok()?,
                        name: name_at(&names, u32_at(symbol, 0).ok()?),
                    });
                }
            }
            functions.sort();
            Some(functions)
        };
        let found = read(".symtab").filter(|functions| !functions.is_empty());
        found.or_else(|| read(".dynsym")).unwrap_or_default()
    }
}

fn read_table(file: &File, offset: u64, count: u16, each: usize) -> io::Result<Vec<u8>> {
    if count > MOST_SECTIONS {
        return Err(broken());
    }
    let mut table = vec![0; usize::from(count) * each];
    file.read_exact_at(&mut table, offset)?;
    Ok(table)
}

/// The name of the function that an address is in.
pub(super) fn name_of(functions: &[Function], address: u64) -> Option<&str> {
    let after = functions.partition_point(|function| function.start <= address);
    let function = functions.get(after.checked_sub(1)?)?;
    // What is written by hand has no length.
    let inside = function.length == 0 || address - function.start < function.length;
    inside.then_some(function.name.as_str())
}
