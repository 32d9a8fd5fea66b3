//! Printing: YAML or JSON, and lines.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::Format;

pub(super) fn rendered(format: Format, value: &impl Serialize) -> String {
    match format {
        Format::Json => serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .unwrap_or_default(),
        // Long strings on one line, as upstream writes them.
        Format::Yaml => {
            let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
            serde_saphyr::to_string_with_options(value, options).unwrap_or_default()
        }
    }
}

pub(super) fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

pub(super) fn to_stdout(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it went away: not our failure, and nothing more to do.
        Err(_) => ExitCode::FAILURE,
    }
}
