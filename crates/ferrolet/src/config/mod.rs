//! `ferrolet config`: the kubelet's configuration, for people.

mod explain;
mod output;

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use config::flags::CommandLine;
use config::load::{Loaded, built_in_defaults, load, resolve};
use config::{check_file, convert};

use crate::kubelet::{say, working_directory};

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Yaml,
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Print the defaults of a kubelet with a configuration file
    PrintDefaults {
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        /// Those of a kubelet that has flags only
        #[arg(long)]
        flags_only: bool,
    },
    /// Print the configuration that a kubelet with these flags would run with
    Print {
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        /// The kubelet's flags, after --
        #[arg(last = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
    /// Check configuration files: every problem, with its place
    Validate {
        /// Files, or - for standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Tell of a field or flag: type, default, meaning, and where its value comes from
    Explain {
        /// A field such as evictionHard or logging.format, or a flag; left out: all of them
        #[arg(allow_hyphen_values = true)]
        path: Option<String>,
        /// List what is accepted and has no effect
        #[arg(long, conflicts_with = "path")]
        not_effective: bool,
        /// The kubelet's flags, after --
        #[arg(last = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
    /// Make a configuration file of a kubelet's flags
    Convert {
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
        /// The kubelet's flags, after --
        #[arg(last = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
}

/// What a command prints; errors hold what is said on standard error, and the
/// exit code.
type Outcome = Result<String, Failure>;

struct Failure {
    exit_code: u8,
    said: String,
    /// What is printed all the same.
    printed: String,
}

impl Failure {
    fn new(exit_code: u8, said: String) -> Self {
        Self {
            exit_code,
            said,
            printed: String::new(),
        }
    }
}

pub(crate) fn run(verb: Verb) -> ExitCode {
    let outcome = match verb {
        Verb::PrintDefaults { output, flags_only } => {
            Ok(output::rendered(output, &built_in_defaults(flags_only)))
        }
        Verb::Print { output, flags } => print(output, &flags),
        Verb::Validate { files } => validate(&files),
        Verb::Explain {
            path,
            not_effective,
            flags,
        } => {
            if not_effective {
                Ok(explain::not_effective_list())
            } else {
                explain(path.as_deref(), &flags)
            }
        }
        Verb::Convert { output, flags } => convert_flags(output, &flags),
    };
    match outcome {
        Ok(text) => output::to_stdout(&text),
        Err(failure) => {
            let _ = output::to_stdout(&failure.printed);
            say(failure.said.trim_end());
            ExitCode::from(failure.exit_code)
        }
    }
}

fn print(format: Format, flags: &[String]) -> Outcome {
    let line = parsed(flags)?;
    let loaded = load(&line, &working_directory(), None)
        .map_err(|refused| Failure::new(refused.exit_code, format!("error: {refused}")))?;
    say_notices(&loaded);
    Ok(output::rendered(format, &loaded.settings))
}

fn validate(files: &[PathBuf]) -> Outcome {
    let mut said = String::new();
    let mut faults = 0;
    for file in files {
        let name = file.display().to_string();
        let bytes = if name == "-" {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(file)
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => {
                output::line(
                    &mut said,
                    &format!("error: {name}: cannot read it: {error}"),
                );
                faults += 1;
                continue;
            }
        };
        let findings = check_file(&name, &bytes);
        let errors = findings.iter().filter(|finding| finding.is_error()).count();
        for finding in &findings {
            let word = if finding.is_error() {
                "error"
            } else {
                "warning"
            };
            output::line(&mut said, &format!("{word}: {finding}"));
        }
        if errors == 0 {
            output::line(&mut said, &format!("{name}: fine"));
        }
        faults += errors;
    }
    if faults == 0 {
        return Ok(said);
    }
    Err(Failure {
        exit_code: 1,
        said: format!(
            "{faults} {}",
            if faults == 1 { "problem" } else { "problems" }
        ),
        printed: said,
    })
}

fn explain(path: Option<&str>, flags: &[String]) -> Outcome {
    let line = parsed(flags)?;
    // The present values only matter where someone gave flags to resolve.
    let loaded = if flags.is_empty() {
        None
    } else {
        let resolved = resolve(&line, &working_directory());
        Some(
            resolved
                .map_err(|refused| Failure::new(refused.exit_code, format!("error: {refused}")))?,
        )
    };
    let settings = loaded.as_ref().map(|loaded| &loaded.settings);
    match path {
        None => Ok(explain::all(settings)),
        Some(path) => explain::one(path, settings).map_err(|said| Failure::new(1, said)),
    }
}

fn convert_flags(format: Format, flags: &[String]) -> Outcome {
    let line = parsed(flags)?;
    let loaded = resolve(&line, &working_directory())
        .map_err(|refused| Failure::new(refused.exit_code, format!("error: {refused}")))?;
    say_notices(&loaded);
    let converted = convert(&line, &loaded, &working_directory())
        .map_err(|refused| Failure::new(refused.exit_code, format!("error: {refused}")))?;
    if !converted.kept.is_empty() {
        say(&format!(
            "note: a kubelet with this file has other defaults than this one; to change nothing, these are written out: {}",
            converted.kept.join(", ")
        ));
    }
    if !converted.stay.is_empty() {
        say(&format!(
            "note: no file can hold these, keep them: {}",
            converted.stay.join(" ")
        ));
    }
    Ok(output::rendered(format, &converted.settings.given()))
}

fn parsed(flags: &[String]) -> Result<CommandLine, Failure> {
    CommandLine::parse(flags).map_err(|error| Failure::new(1, format!("error: {error}")))
}

fn say_notices(loaded: &Loaded) {
    for notice in &loaded.notices {
        say(&format!("warning: {notice}"));
    }
}
