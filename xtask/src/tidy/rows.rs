//! Rules for `docs/rows`: the rows of the fact sheets, each with what shows that it is done,
//! or the words by which ARCHITECTURE.md says that it is not.

/// The repository, as far as rows refer to it.
pub(super) struct Ground<'a> {
    /// The text of a file of ours.
    pub(super) file: &'a dyn Fn(&str) -> Option<String>,
    /// Sources of the scenarios of `compare`.
    pub(super) scenarios: String,
    /// Sources of the pods of `compare cri`.
    pub(super) wires: String,
    /// Where what is missing is named.
    pub(super) missing: String,
}

/// What is not shown, or by something that is not there.
pub(super) fn check(file: &str, text: &str, ground: &Ground<'_>) -> Vec<String> {
    let cells = text.lines().enumerate().filter_map(|(number, line)| {
        let (_, shown) = line.strip_suffix(" |")?.rsplit_once(" | ")?;
        Some((number + 1, shown))
    });
    let shown = cells.filter(|(_, shown)| *shown != "shown by");
    let faults = shown.filter_map(|(number, shown)| Some((number, fault(shown, ground)?)));
    faults
        .map(|(number, fault)| format!("{file}:{number}: {fault}"))
        .collect()
}

/// Why a row's second cell does not do.
fn fault(shown: &str, ground: &Ground<'_>) -> Option<String> {
    let is_explained = shown.starts_with("– ");
    if let Some(words) = shown.strip_prefix("not yet (") {
        let words = words.strip_suffix(')').unwrap_or(words);
        let mut phrases = words.split([':', ';', ',']).map(bare);
        let named = phrases.any(|phrase| !phrase.is_empty() && ground.missing.contains(phrase));
        return (!named).then(|| format!("nobody says that it is missing: {words}"));
    }
    let quoted = shown.split('`').skip(1).step_by(2);
    let references: Vec<&str> = quoted.filter(|words| is_reference(words)).collect();
    if references.is_empty() && !is_explained {
        return Some(format!("nothing shows it: {shown}"));
    }
    let dead = references
        .iter()
        .find(|reference| !is_there(reference, ground));
    dead.map(|reference| format!("`{reference}` is not there"))
}

/// `featureGates.EventedPLEG` is named by its last word.
fn bare(phrase: &str) -> &str {
    let phrase = phrase.trim_matches([' ', '"']);
    phrase.trim_start_matches("featureGates.")
}

/// Other words may stand between backquotes, too.
fn is_reference(words: &str) -> bool {
    words.contains('#') || words.starts_with("compare:") || words.starts_with("wire:")
}

fn is_there(reference: &str, ground: &Ground<'_>) -> bool {
    if let Some(name) = reference.strip_prefix("compare:") {
        return ground.scenarios.contains(&format!("\"{name}\""));
    }
    if let Some(name) = reference.strip_prefix("wire:") {
        return ground.wires.contains(&format!("\"{name}\""));
    }
    let Some((path, function)) = reference.split_once('#') else {
        return false;
    };
    let text = (ground.file)(path);
    text.is_some_and(|text| text.contains(&format!("fn {function}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_shown_by_what_is_there_or_named_as_missing() {
        let file =
            |path: &str| (path == "crates/a/src/b.rs").then(|| "fn it_is_so() {}".to_owned());
        let ground = Ground {
            file: &file,
            scenarios: "name: \"crash-loop\"".to_owned(),
            wires: "spec(\"plain\")".to_owned(),
            missing: "- Eviction; devices\nEventedPLEG".to_owned(),
        };
        let found = |cell: &str| {
            let text = format!("| row | shown by |\n|---|---|\n| it | {cell} |\n");
            let found = check("docs/rows/x.md", &text, &ground);
            found.into_iter().next().unwrap_or_default()
        };
        for (cell, wanted) in [
            ("`crates/a/src/b.rs#it_is_so`", ""),
            ("`compare:crash-loop`; `wire:plain`", ""),
            ("not yet (Eviction, shutdown)", ""),
            ("not yet (featureGates.EventedPLEG: never)", ""),
            ("– an internal channel", ""),
            (
                "– on purpose; `compare:gone`",
                "docs/rows/x.md:3: `compare:gone` is not there",
            ),
            (
                "`crates/a/src/b.rs#it_is`",
                "docs/rows/x.md:3: `crates/a/src/b.rs#it_is` is not there",
            ),
            (
                "`wire:crash-loop`",
                "docs/rows/x.md:3: `wire:crash-loop` is not there",
            ),
            (
                "not yet (swap)",
                "docs/rows/x.md:3: nobody says that it is missing: swap",
            ),
            (
                "GAP (done: `kill.rs`)",
                "docs/rows/x.md:3: nothing shows it: GAP (done: `kill.rs`)",
            ),
            (
                "GAP (not done)",
                "docs/rows/x.md:3: nothing shows it: GAP (not done)",
            ),
        ] {
            assert_eq!(found(cell), wanted, "{cell}");
        }
    }
}
