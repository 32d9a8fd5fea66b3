//! `ferrolet completions`: what a shell needs to complete our command lines.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Arguments;
use crate::output::{ended, print};

pub(crate) fn run(shell: Shell) -> ExitCode {
    // First into memory: the generator panics where a write fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ferrolet", &mut script);
    ended(print(&String::from_utf8_lossy(&script)))
}
