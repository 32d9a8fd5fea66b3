//! Rules for source files.

const LONGEST_FILE: usize = 800;

/// Size, and tests that do not run.
pub(super) fn check(file: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        findings.push(format!(
            "{file} has {lines} lines, more than {LONGEST_FILE}: something in it wants a file of its own"
        ));
    }
    // Written apart, so that this file does not find itself.
    let ignored = concat!("#[ign", "ore");
    if let Some(at) = text
        .lines()
        .position(|line| line.trim_start().starts_with(ignored))
    {
        findings.push(format!(
            "{file}:{}: a test that is ignored proves nothing",
            at + 1
        ));
    }
    findings
}

/// A crate's first lines say what it is for, what flows in and out, and what
/// it must not know: that takes more than a line.
pub(super) fn check_head(file: &str, text: &str) -> Vec<String> {
    const SHORTEST_HEAD: usize = 3;
    let head = text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .count();
    if head < SHORTEST_HEAD {
        return vec![format!(
            "{file} starts with {head} lines of `//!`: say what the crate is for, what flows in \
             and out, and what it must not know"
        )];
    }
    Vec::new()
}

pub(super) fn check_manifest(file: &str, text: &str) -> Vec<String> {
    [
        "[lints]\nworkspace = true",
        "license.workspace = true",
        "edition.workspace = true",
    ]
    .iter()
    .filter(|wanted| !text.contains(**wanted))
    .map(|wanted| format!("{file} lacks {wanted:?}"))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_and_an_ignored_test_are_found() {
        assert_eq!(check("a.rs", "fn a() {}\n"), Vec::<String>::new());
        let long = "\n".repeat(LONGEST_FILE + 1);
        assert!(check("a.rs", &long)[0].contains("801 lines"));
        let ignored = concat!("#[test]\n  #[ign", "ore]\nfn a() {}\n");
        assert!(check("a.rs", ignored)[0].contains("a.rs:2"));
    }

    #[test]
    fn a_head_needs_three_lines() {
        assert_eq!(
            check_head("a.rs", "//! a\n//! b\n//! c\n"),
            Vec::<String>::new()
        );
        assert!(check_head("a.rs", "//! a\nfn b() {}\n")[0].contains("1 lines"));
        assert!(check_head("a.rs", "// a\n// b\n// c\n")[0].contains("0 lines"));
    }

    #[test]
    fn a_manifest_takes_lints_licence_and_edition_from_the_workspace() {
        let whole =
            "edition.workspace = true\nlicense.workspace = true\n\n[lints]\nworkspace = true\n";
        assert_eq!(check_manifest("Cargo.toml", whole), Vec::<String>::new());
        assert_eq!(check_manifest("Cargo.toml", "").len(), 3);
    }
}
