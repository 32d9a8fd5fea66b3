//! Who may import whom: the table in ARCHITECTURE.md is the rule.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, Metadata};

/// In the table: every crate.
const ANYTHING: &str = "anything";
/// Tests of any crate may use it; other code may not, unless its row says so.
const FOR_TESTS: &str = "testkit";

type Table = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(metadata: &Metadata, architecture: &str) -> Result<Vec<String>> {
    let table = table(architecture)?;
    let packages = metadata.workspace_packages();
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for package in &packages {
        let name = package.name.as_str();
        for dependency in &package.dependencies {
            if ours.contains(dependency.name.as_str()) {
                let for_tests = dependency.kind == DependencyKind::Development;
                findings.extend(check_import(&table, name, &dependency.name, for_tests));
            }
        }
        if !table.contains_key(name) {
            findings.push(format!(
                "{name} has no row in the import table of ARCHITECTURE.md"
            ));
        }
    }
    Ok(findings)
}

fn check_import(table: &Table, from: &str, to: &str, for_tests: bool) -> Option<String> {
    let allowed = table.get(from)?;
    let fits = allowed.contains(to)
        || (for_tests && to == FOR_TESTS)
        || (allowed.contains(ANYTHING) && to != FOR_TESTS);
    (!fits).then(|| {
        format!("{from} must not import {to}: see \"Who may import whom\" in ARCHITECTURE.md")
    })
}

/// Reads the rows `| crates | imports |` below the heading of the table. A row
/// may stand for several crates.
fn table(architecture: &str) -> Result<Table> {
    let mut rows = architecture
        .lines()
        .skip_while(|line| !line.contains("Who may import whom"))
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .peekable();
    if rows.peek().is_none() {
        bail!("ARCHITECTURE.md has no table \"Who may import whom\"");
    }
    let mut table = Table::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split('|').map(names);
        let crates = cells
            .next()
            .with_context(|| format!("an empty row: {row}"))?;
        let imports = cells
            .next()
            .with_context(|| format!("a row without imports: {row}"))?;
        for name in crates {
            table
                .entry(name)
                .or_default()
                .extend(imports.iter().cloned());
        }
    }
    Ok(table)
}

/// The comma-separated names of a cell; a dash stands for none.
fn names(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.is_empty() && name != "–")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "## Who may import whom\n\n| crate | imports |\n|---|---|\n\
        | `types` | – |\n| `api`, `node` | `types`, `config` |\n| `bin` | anything |\n\
        | `tool` | `testkit` |\n\nafter | the | table\n";

    #[test]
    fn the_table_of_the_document_is_read() {
        let table = table(DOCUMENT).unwrap();
        let names: Vec<&str> = table.keys().map(String::as_str).collect();
        assert_eq!(names, ["api", "bin", "node", "tool", "types"]);
        assert!(table["types"].is_empty());
        assert!(table["node"].contains("config"));
        assert!(super::table("no table").is_err());
    }

    #[test]
    fn an_import_is_judged_by_its_row() {
        let table = table(DOCUMENT).unwrap();
        for (from, to, for_tests, fits) in [
            ("api", "types", false, true),
            ("api", "node", false, false),
            ("types", "api", false, false),
            ("bin", "api", false, true),
            ("bin", "testkit", false, false),
            ("bin", "testkit", true, true),
            ("types", "testkit", true, true),
            ("types", "api", true, false),
            ("tool", "testkit", false, true),
        ] {
            let finding = check_import(&table, from, to, for_tests);
            assert_eq!(
                finding.is_none(),
                fits,
                "{from} imports {to} (for tests: {for_tests})"
            );
        }
    }
}
