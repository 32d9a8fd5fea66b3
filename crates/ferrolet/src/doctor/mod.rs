//! `ferrolet doctor`: looks at a machine, and at the node that it is, and says what is
//! wrong and what mends it. Nothing is changed.
//!
//! [`gather`] looks, [`checks`] judge, each in a file of its own and without looking
//! anywhere, [`report`] tells.

mod checks;
mod finding;
mod gather;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::report::Report;
use crate::given;
use crate::local_node::{self, NodeArguments, WHERE_FROM};
use crate::output::{self, Failure, ended, print, rendered};

const ENDING: &str = "\
Exit codes: 0 nothing found, or warnings only; 1 errors, or with --strict anything
found; 2 wrong usage. What this user may not see is told, and is no error.

Examples:
  sudo ferrolet doctor
  ferrolet doctor -o json | jq '.checks[].findings[]'";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

/// What the command line says.
#[derive(Args)]
#[command(after_help = format!("{WHERE_FROM}\n\n{ENDING}"))]
pub(crate) struct Arguments {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Fail on warnings, too
    #[arg(long)]
    strict: bool,
    /// How long one look may take
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = given::span)]
    timeout: Duration,
    #[command(flatten)]
    node: NodeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    ended(local_node::block_on(examine(arguments)))
}

async fn examine(arguments: &Arguments) -> Result<(), Failure> {
    let facts = Box::pin(gather::gather(&arguments.node, arguments.timeout)).await?;
    let report = Report::new(&facts, checks::judge(&facts));
    print(&match arguments.output {
        Format::Text => report.text(),
        Format::Json => rendered(output::Format::Json, &report)?,
    })?;
    if report.errors > 0 || (arguments.strict && report.warnings > 0) {
        return Err(Failure::Told);
    }
    Ok(())
}
