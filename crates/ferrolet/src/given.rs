//! Words of a command line that more than one command takes.

use std::io;
use std::time::Duration;

use cluster::Token;
use types::GoDuration;

use crate::output::Failure;

/// A span of time as Go writes it, and not a negative one.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let span: GoDuration = text.parse().map_err(|cause| format!("{cause}"))?;
    span.to_std()
        .ok_or_else(|| "a span of time cannot be negative".to_owned())
}

/// A bootstrap token, or `-` for the first line of standard input. It is not for
/// the parser of the command line to read, which would repeat a malformed one.
pub(crate) fn token(text: &str) -> Result<Token, Failure> {
    if text != "-" {
        return text.parse().map_err(Failure::usage);
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    line.trim().parse().map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_go_writes_it() {
        assert_eq!(span("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(span("0"), Ok(Duration::ZERO));
        assert!(span("24").unwrap_err().contains("unit is missing"));
        assert!(span("-1h").unwrap_err().contains("negative"));
    }

    #[test]
    fn a_malformed_token_is_not_repeated() {
        let Err(Failure::Usage(said)) = token("abcdef.0123456789ABCDEF") else {
            panic!("not refused as usage");
        };
        assert!(!said.contains("0123456789ABCDEF"), "{said}");
    }
}
