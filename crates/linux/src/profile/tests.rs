use std::hint::black_box;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::UNIX_EPOCH;

use flate2::read::GzDecoder;
use prost::Message as _;

use super::encode::Profile as Message;
use super::*;

/// Names that nobody else has; each of them a frame of its own.
#[inline(never)]
fn busy_with_the_profile(until: &AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !until.load(Ordering::Relaxed) {
        sum = calculated_in_the_profile(sum);
    }
    black_box(sum)
}

#[inline(never)]
fn calculated_in_the_profile(from: u64) -> u64 {
    let numbers = 0..black_box(100_000_u64);
    black_box(numbers.fold(from, |sum, number| black_box(sum ^ number)))
}

fn unpacked(packed: &[u8]) -> Message {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    Message::decode(&*bytes).unwrap()
}

/// The names of a sample's frames, the callee's first.
fn names(profile: &Message, sample: &super::encode::Sample) -> Vec<String> {
    let location = |id: &u64| profile.location.iter().find(|one| one.id == *id).unwrap();
    let name = |id: u64| {
        let function = profile.function.iter().find(|one| one.id == id).unwrap();
        profile.string_table[usize::try_from(function.name).unwrap()].clone()
    };
    let locations = sample.location_id.iter().map(location);
    locations
        .map(|one| {
            one.line
                .first()
                .map_or(String::new(), |line| name(line.function_id))
        })
        .collect()
}

#[test]
fn a_thread_that_is_busy_is_seen_with_those_who_called_it() {
    let until = AtomicBool::new(false);
    let begun = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut profile = Profile::start().unwrap();
    // Begun after the profile: it is met on the way.
    let seen = |profile: &Profile| profile.stacks.values().sum::<u64>();
    thread::scope(|threads| {
        threads.spawn(|| busy_with_the_profile(&until));
        // Half a second of CPU, whenever the machine gives it.
        for _ in 0..6000 {
            if seen(&profile) >= 50 {
                break;
            }
            thread::park_timeout(Duration::from_millis(10));
            profile.look();
        }
        until.store(true, Ordering::Relaxed);
    });
    let packed = profile.finish(begun, Duration::from_secs(2)).unwrap();
    let profile = unpacked(&packed);
    assert_eq!(profile.time_nanos, 1_000_000_000_000_000_000);
    assert_eq!(profile.duration_nanos, 2_000_000_000);
    assert_eq!(profile.string_table[0], "");
    let all: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
    assert!(all >= 50, "{all} samples");
    let nanos: i64 = profile.sample.iter().map(|sample| sample.value[1]).sum();
    assert_eq!(nanos, all * profile.period);
    // Other tests may run beside it.
    let ours = profile.sample.iter().filter(|sample| {
        let names = names(&profile, sample);
        let called = names
            .iter()
            .position(|name| name.contains("calculated_in_the_profile"));
        let busy = names
            .iter()
            .position(|name| name.contains("busy_with_the_profile"));
        // From there on to where threads begin.
        called < busy && called.is_some() && names.len() > busy.unwrap_or_default() + 3
    });
    let ours: i64 = ours.map(|sample| sample.value[0]).sum();
    assert!(ours >= 20, "{ours} of {all} samples are of the busy thread");
    let own = std::env::current_exe().unwrap();
    let name = |number: i64| &profile.string_table[usize::try_from(number).unwrap()];
    let mapping = profile
        .mapping
        .iter()
        .find(|one| *name(one.filename) == own.to_string_lossy())
        .unwrap();
    assert!(mapping.has_functions);
    for location in &profile.location {
        let inside = mapping.memory_start..mapping.memory_limit;
        let here = inside.contains(&location.address);
        assert_eq!(location.mapping_id == mapping.id, here, "{location:?}");
    }
}

#[test]
fn code_is_what_can_be_run_and_is_of_a_file() {
    let maps = "\
5597c0000000-5597c0010000 r--p 00000000 fe:00 42                         /usr/bin/ferrolet
5597c0010000-5597c0080000 r-xp 00010000 fe:00 42                         /usr/bin/ferrolet
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7ffd5a5f0000-7ffd5a5f2000 r-xp 00000000 00:00 0                          [vdso]
";
    let program = Mapped {
        start: 0x5597_c001_0000,
        end: 0x5597_c008_0000,
        offset: 0x10000,
        path: "/usr/bin/ferrolet".into(),
    };
    assert_eq!(code(maps), [program]);
    assert!(code("").is_empty());
}

#[test]
fn what_is_no_program_is_refused_and_not_read_into() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut large = b"\x7fELF\x02\x01".to_vec();
    large.resize(64, 0xff);
    for content in [
        &b""[..],
        b"#!/bin/sh\n",
        b"\x7fELF\x02\x01",
        &[0; 64],
        &large,
    ] {
        fs::write(&path, content).unwrap();
        assert!(Elf::open(&path).is_err(), "{content:?}");
    }
    let own = Elf::open(Path::new(PROGRAM)).unwrap();
    let functions = own.functions();
    assert!(functions.len() > 100);
    assert_eq!(elf::name_of(&functions, 1), None);
    assert_eq!(own.address_of(u64::MAX), None);
}
