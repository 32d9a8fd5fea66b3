//! A profile as pprof's tools read it: the messages of its `profile.proto`, packed.
//!
//! Functions have names as far as the files still have them (`strip = "debuginfo"` leaves
//! them), mangled: pprof's tools read Rust's. What has none has its address in its file, with
//! the file's build id.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::elf::{Function as ElfFunction, name_of};
use super::{Mapped, PERIOD, open};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    pub(super) mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
}

/// What a number is of, and in which unit: words of the table.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    /// The callee first.
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) memory_start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) memory_limit: u64,
    #[prost(uint64, tag = "4")]
    pub(super) file_offset: u64,
    #[prost(int64, tag = "5")]
    pub(super) filename: i64,
    #[prost(int64, tag = "6")]
    pub(super) build_id: i64,
    #[prost(bool, tag = "7")]
    pub(super) has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) mapping_id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
}

/// Words that are written once, and are numbers elsewhere. The first is empty.
struct Words {
    list: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Words {
    fn new() -> Self {
        let mut words = Self {
            list: Vec::new(),
            numbers: HashMap::new(),
        };
        words.number("");
        words
    }

    fn number(&mut self, word: &str) -> i64 {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        let number = count(self.list.len());
        self.list.push(word.to_owned());
        self.numbers.insert(word.to_owned(), number);
        number
    }
}

/// A file whose code is in memory, and what is known of its functions.
struct Names {
    functions: Vec<ElfFunction>,
    /// What is to be taken from an address in memory to have the file's.
    base: u64,
    build_id: String,
}

impl Names {
    fn of(mapped: &Mapped) -> Option<Self> {
        let elf = open(&mapped.path).ok()?;
        Some(Self {
            functions: elf.functions(),
            base: mapped.start.wrapping_sub(elf.address_of(mapped.offset)?),
            build_id: elf.build_id().unwrap_or_default(),
        })
    }
}

fn count(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub(super) fn packed(
    stacks: &BTreeMap<Vec<u64>, u64>,
    mapped: &[Mapped],
    time: (SystemTime, Duration),
) -> io::Result<Vec<u8>> {
    let mut packing = GzEncoder::new(Vec::new(), Compression::fast());
    packing.write_all(&profile(stacks, mapped, time).encode_to_vec())?;
    packing.finish()
}

pub(super) fn profile(
    stacks: &BTreeMap<Vec<u64>, u64>,
    mapped: &[Mapped],
    (begun, took): (SystemTime, Duration),
) -> Profile {
    let mut words = Words::new();
    let mut value_type = |kind: &str, unit: &str| ValueType {
        kind: words.number(kind),
        unit: words.number(unit),
    };
    let sample_type = vec![
        value_type("samples", "count"),
        value_type("cpu", "nanoseconds"),
    ];
    let period_type = Some(value_type("cpu", "nanoseconds"));
    let period = count(PERIOD.as_nanos());
    let mut places = Places {
        words,
        mapped,
        names: HashMap::new(),
        mapping: Vec::new(),
        location: Vec::new(),
        locations: HashMap::new(),
        function: Vec::new(),
        functions: HashMap::new(),
    };
    let sample = stacks.iter().map(|(stack, seen)| Sample {
        location_id: stack
            .iter()
            .map(|address| places.location(*address))
            .collect(),
        value: vec![count(*seen), count(*seen).saturating_mul(period)],
    });
    let sample = sample.collect();
    let since = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
    Profile {
        sample_type,
        sample,
        mapping: places.mapping,
        location: places.location,
        function: places.function,
        string_table: places.words.list,
        time_nanos: count(since.as_nanos()),
        duration_nanos: count(took.as_nanos()),
        period_type,
        period,
    }
}

/// What samples refer to, as far as they do.
struct Places<'a> {
    words: Words,
    mapped: &'a [Mapped],
    /// By the number among those that are mapped, with the mapping's id.
    names: HashMap<usize, (u64, Option<Names>)>,
    mapping: Vec<Mapping>,
    location: Vec<Location>,
    locations: HashMap<u64, u64>,
    function: Vec<Function>,
    functions: HashMap<i64, u64>,
}

impl Places<'_> {
    fn location(&mut self, address: u64) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        let id = id(self.location.len());
        let (mapping_id, name) = self.mapping(address);
        let line = name.map(|name| Line {
            function_id: self.function(&name),
        });
        self.location.push(Location {
            id,
            mapping_id,
            address,
            line: line.into_iter().collect(),
        });
        self.locations.insert(address, id);
        id
    }

    /// The file that an address is in, and the name of its function there.
    fn mapping(&mut self, address: u64) -> (u64, Option<String>) {
        let is_in = |mapped: &Mapped| (mapped.start..mapped.end).contains(&address);
        let Some(number) = self.mapped.iter().position(is_in) else {
            return (0, None);
        };
        let (words, mapping) = (&mut self.words, &mut self.mapping);
        let mapped = &self.mapped[number];
        let (id, names) = self.names.entry(number).or_insert_with(|| {
            let id = id(mapping.len());
            let names = Names::of(mapped);
            mapping.push(Mapping {
                id,
                memory_start: mapped.start,
                memory_limit: mapped.end,
                file_offset: mapped.offset,
                filename: words.number(&mapped.path.to_string_lossy()),
                build_id: words.number(names.as_ref().map_or("", |names| &names.build_id)),
                has_functions: names
                    .as_ref()
                    .is_some_and(|names| !names.functions.is_empty()),
            });
            (id, names)
        });
        let name = names.as_ref().and_then(|names| {
            let address = address.wrapping_sub(names.base);
            name_of(&names.functions, address).map(str::to_owned)
        });
        (*id, name)
    }

    fn function(&mut self, name: &str) -> u64 {
        let name = self.words.number(name);
        if let Some(id) = self.functions.get(&name) {
            return *id;
        }
        let id = id(self.function.len());
        self.function.push(Function {
            id,
            name,
            system_name: name,
        });
        self.functions.insert(name, id);
        id
    }
}

/// Ids begin with one.
fn id(before: usize) -> u64 {
    u64::try_from(before).map_or(u64::MAX, |before| before + 1)
}
