//! Any bytes as a configuration file: an answer, never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    config::check_file("fuzz", bytes);
});
