//! How much is shown: a number that may change at run time, and exceptions for
//! single source files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::Level;
use tracing::level_filters::LevelFilter;

const DEBUG: u32 = 4;
const TRACE: u32 = 6;

/// The handle on what is shown. Clones share one number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verbosity(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    level: AtomicU32,
    modules: Vec<ModuleVerbosity>,
}

/// One `pattern=N` of `--vmodule`: a higher verbosity for the source files whose
/// base name, less its extension, matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleVerbosity {
    pub file_pattern: String,
    pub level: u32,
}

impl Verbosity {
    pub(crate) fn new(level: u32, modules: Vec<ModuleVerbosity>) -> Self {
        Self(Arc::new(Shared {
            level: AtomicU32::new(level),
            modules,
        }))
    }

    pub(crate) fn level(&self) -> u32 {
        self.0.level.load(Ordering::Relaxed)
    }

    /// Changes the verbosity, from the next event on.
    pub(crate) fn set(&self, level: u32) {
        self.0.level.store(level, Ordering::Relaxed);
        // tracing remembers for each call site whether anyone listens.
        tracing::callsite::rebuild_interest_cache();
    }

    /// The verbosity for events of one source file. The first pattern that
    /// matches counts, and only if it asks for more.
    pub(super) fn of_file(&self, path: &str) -> u32 {
        let level = self.level();
        if self.0.modules.is_empty() {
            return level;
        }
        let name = base_name(path);
        let name = name.strip_suffix(".rs").unwrap_or(name);
        let module = self
            .0
            .modules
            .iter()
            .find(|module| glob(&module.file_pattern, name));
        module.map_or(level, |module| module.level.max(level))
    }

    /// The highest verbosity that any source file has.
    pub(super) fn of_any_file(&self) -> u32 {
        self.0
            .modules
            .iter()
            .map(|module| module.level)
            .fold(self.level(), u32::max)
    }
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The verbosity that a `tracing` level stands for.
pub(super) fn verbosity_of_level(level: Level) -> u32 {
    match level {
        Level::TRACE => TRACE,
        Level::DEBUG => DEBUG,
        _ => 0,
    }
}

/// The `tracing` levels that can matter at a verbosity.
pub(super) fn level_filter(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..DEBUG => LevelFilter::INFO,
        DEBUG..TRACE => LevelFilter::DEBUG,
        TRACE.. => LevelFilter::TRACE,
    }
}

/// Matches with `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a character that
/// stands for itself. A malformed pattern matches nothing.
fn glob(pattern: &str, name: &str) -> bool {
    let mut pattern = pattern.chars();
    let mut rest = name.chars();
    match pattern.next() {
        None => name.is_empty(),
        Some('*') => loop {
            if glob(pattern.as_str(), rest.as_str()) {
                return true;
            }
            if rest.next().is_none() {
                return false;
            }
        },
        Some('?') => rest.next().is_some() && glob(pattern.as_str(), rest.as_str()),
        Some('[') => match (rest.next(), class(pattern.as_str())) {
            (Some(c), Some((class, after))) => class.contains(c) && glob(after, rest.as_str()),
            _ => false,
        },
        Some(c) => {
            let wanted = if c == '\\' { pattern.next() } else { Some(c) };
            wanted.is_some() && wanted == rest.next() && glob(pattern.as_str(), rest.as_str())
        }
    }
}

struct Class {
    negated: bool,
    ranges: Vec<(char, char)>,
}

impl Class {
    fn contains(&self, c: char) -> bool {
        self.ranges
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&c))
            != self.negated
    }
}

/// Reads a class after its `[`, and gives what follows its `]`.
fn class(pattern: &str) -> Option<(Class, &str)> {
    let (negated, mut pattern) = match pattern.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let mut ranges = Vec::new();
    loop {
        if let Some(after) = pattern.strip_prefix(']')
            && !ranges.is_empty()
        {
            return Some((Class { negated, ranges }, after));
        }
        let (low, after) = class_member(pattern)?;
        let (high, after) = match after.strip_prefix('-') {
            Some(after) => class_member(after)?,
            None => (low, after),
        };
        ranges.push((low, high));
        pattern = after;
    }
}

fn class_member(pattern: &str) -> Option<(char, &str)> {
    let mut chars = pattern.chars();
    let member = match chars.next()? {
        '\\' => chars.next()?,
        '-' | ']' => return None,
        c => c,
    };
    Some((member, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_whole_name_as_gos_filepath_match_does() {
        for (pattern, name, matches) in [
            ("plan", "plan", true),
            ("plan", "plans", false),
            ("pl*", "plan", true),
            ("*", "", true),
            ("*an", "plan", true),
            ("p*l*n", "pllln", true),
            ("p?an", "plan", true),
            ("p?an", "pan", false),
            ("[a-p]lan", "plan", true),
            ("[^a-p]lan", "plan", false),
            ("[xyzp]lan", "plan", true),
            ("[]lan", "plan", false),
            ("[p", "p", false),
            ("[-]", "-", false),
            ("[\\-]", "-", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a\\", "a\\", false),
            ("", "", true),
            ("\u{e9}?", "\u{e9}\u{f1}", true),
        ] {
            assert_eq!(glob(pattern, name), matches, "{pattern:?} on {name:?}");
        }
    }

    #[test]
    fn the_first_pattern_that_matches_a_files_name_raises_its_verbosity() {
        let module = |pattern: &str, level| ModuleVerbosity {
            file_pattern: pattern.into(),
            level,
        };
        let verbosity = Verbosity::new(
            2,
            vec![module("plan", 1), module("pl*", 9), module("act", 5)],
        );
        for (path, level) in [
            ("crates/workers/src/plan.rs", 2),
            ("crates/workers/src/pleg.rs", 9),
            ("act.rs", 5),
            ("crates/plan/src/lib.rs", 2),
        ] {
            assert_eq!(verbosity.of_file(path), level, "{path}");
        }
        assert_eq!(verbosity.of_any_file(), 9);
        verbosity.clone().set(10);
        assert_eq!(
            (verbosity.of_file("act.rs"), verbosity.of_any_file()),
            (10, 10)
        );
    }

    #[test]
    fn a_verbosity_lets_tracing_switch_off_the_levels_above_it() {
        for (verbosity, filter) in [
            (0, LevelFilter::INFO),
            (3, LevelFilter::INFO),
            (4, LevelFilter::DEBUG),
            (5, LevelFilter::DEBUG),
            (6, LevelFilter::TRACE),
            (u32::MAX, LevelFilter::TRACE),
        ] {
            assert_eq!(level_filter(verbosity), filter, "{verbosity}");
        }
    }
}
