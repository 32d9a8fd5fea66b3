//! How the cluster's tools speak: results on standard output, in tables that read
//! like kubectl's or in a form for programs; everything else on standard error;
//! and an exit code.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::kubelet::say;

/// kubectl's word for a cell with nothing in it.
pub(crate) const NONE: &str = "<none>";

const GAP: usize = 3;
const FAILED: u8 = 1;
const USAGE: u8 = 2;

/// The forms for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The forms for programs, of commands that tell of several objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    Json,
    Yaml,
    // TYPE/NAME, a line each.
    Name,
}

/// Why a command ends without having done what it was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line cannot be meant.
    Usage(String),
    Failed(String),
    /// A signal, by its name.
    Interrupted(&'static str),
    /// It has been said already, or there is nobody left to tell.
    Told,
}

/// Every error of the crates below says what happened and what to do.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Failure {
    pub(crate) fn usage(cause: impl fmt::Display) -> Self {
        Self::Usage(cause.to_string())
    }
}

/// Says why a command failed, and turns it into the exit code.
pub(crate) fn ended(outcome: Result<(), Failure>) -> ExitCode {
    let code = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(cause)) => {
            say(&format!("error: {}", printable(&cause)));
            USAGE
        }
        Err(Failure::Failed(cause)) => {
            say(&format!("error: {}", printable(&cause)));
            FAILED
        }
        Err(Failure::Interrupted(signal)) => {
            say(&format!("ended by {signal}"));
            FAILED
        }
        Err(Failure::Told) => FAILED,
    };
    ExitCode::from(code)
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    // Whoever read it went away.
    written.map_err(|_| Failure::Told)
}

/// An object in a form for programs.
pub(crate) fn rendered(format: Format, value: &impl Serialize) -> Result<String, Failure> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(value)? + "\n"),
        // Long strings on one line, as upstream writes them.
        Format::Yaml => {
            let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
            Ok(serde_saphyr::to_string_with_options(value, options)?)
        }
    }
}

/// Several objects, as kubectl puts them together.
pub(crate) fn rendered_list<T: Serialize>(format: Format, items: &[T]) -> Result<String, Failure> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a, T> {
        api_version: &'a str,
        items: &'a [T],
        kind: &'a str,
    }
    let list = List {
        api_version: "v1",
        items,
        kind: "List",
    };
    rendered(format, &list)
}

/// A line for each.
pub(crate) fn lines(texts: impl IntoIterator<Item = String>) -> String {
    let mut lines = String::new();
    for text in texts {
        lines.push_str(&printable(&text));
        lines.push('\n');
    }
    lines
}

/// Text of unknown origin without what would move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    let plain = |character: char| {
        if character.is_control() && character != '\n' {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        }
    };
    text.chars().map(plain).collect()
}

/// Columns under headings in upper case.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(headings: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![headings.map(str::to_owned)],
        }
    }

    /// Empty cells are told to be so.
    pub(crate) fn add(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| match cell.as_str() {
            "" => NONE.to_owned(),
            // A row stays a line.
            _ => printable(&cell).replace('\n', " "),
        }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or_default() + GAP
        };
        let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:<width$}")?;
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// How long something has been there, as kubectl rounds it: two units while the
/// smaller one matters.
pub(crate) fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let pair = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => pair(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2_920 => pair(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// How long something has left, in one unit, as kubeadm tells it of tokens.
pub(crate) fn rest(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_rounded_as_kubectl_rounds_it() {
        for (seconds, told) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (301, "5m1s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), told, "{seconds}");
        }
    }

    #[test]
    fn what_is_left_is_told_in_one_unit() {
        for (seconds, told) in [
            (59, "59s"),
            (60, "1m"),
            (86_399, "23h"),
            (86_400, "1d"),
            (31_536_000, "1y"),
        ] {
            assert_eq!(rest(Duration::from_secs(seconds)), told, "{seconds}");
        }
    }

    #[test]
    fn a_table_has_three_spaces_between_columns_and_none_at_the_end() {
        let mut table = Table::new(["NAME", "GROUPS"]);
        assert!(table.is_empty());
        table.add(["jane".to_owned(), "dev".to_owned()]);
        table.add(["é".to_owned(), String::new()]);
        assert_eq!(
            table.to_string(),
            "NAME   GROUPS\njane   dev\né      <none>\n"
        );
    }

    #[test]
    fn what_others_wrote_neither_moves_the_cursor_nor_breaks_a_row() {
        let mut table = Table::new(["NAME"]);
        table.add(["a\u{1b}[2J\nb\r".to_owned()]);
        assert_eq!(table.to_string(), "NAME\na\u{fffd}[2J b\u{fffd}\n");
    }
}
