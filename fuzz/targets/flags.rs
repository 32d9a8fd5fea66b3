//! Any words as a command line. A file that they name is not there.
#![no_main]

use std::path::Path;

use config::flags::CommandLine;
use config::load::load;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let words: Vec<String> = text.split('\n').map(str::to_owned).collect();
    if let Ok(line) = CommandLine::parse(&words) {
        let _ = load(&line, Path::new("/nonexistent"), None);
    }
});
