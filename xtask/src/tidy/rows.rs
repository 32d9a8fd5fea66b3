//! Rules for `docs/rows`: the rows of the fact sheets, each with what shows that it is done,
//! or the words by which ARCHITECTURE.md, or the list of what is not effective, says that it
//! is not. Each word counts: what is named there is to be found there as it is written.

/// The repository, as far as rows refer to it.
pub(super) struct Ground<'a> {
    /// The text of a file of ours.
    pub(super) file: &'a dyn Fn(&str) -> Option<String>,
    /// Sources of the scenarios of `compare`.
    pub(super) scenarios: String,
    /// Sources of the pods of `compare cri`.
    pub(super) wires: String,
    /// ARCHITECTURE.md, and of it what it says to be missing: [`plain`].
    pub(super) architecture: String,
    pub(super) missing: String,
    /// What is accepted and does nothing, and why: `featureGates.X`.
    pub(super) not_effective: Vec<(String, String)>,
}

/// A text as rows quote it: on one line, and without marks around words.
pub(super) fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('`', "")
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
    let (shown, missing) = match shown.split_once("not yet (") {
        Some((shown, missing)) => (shown, missing.strip_suffix(')')),
        None => (shown, Some("")),
    };
    let Some(missing) = missing else {
        return Some("what is not yet there is not the last that is said".to_owned());
    };
    if let Some(phrase) = phrases(missing)
        .iter()
        .find(|phrase| !is_missing(phrase, ground))
    {
        return Some(format!("nobody says that it is missing: {phrase}"));
    }
    if let Some((_, quote)) = shown.split_once("(on purpose: \"") {
        let quote = plain(quote.split('"').next().unwrap_or_default());
        if !has_words(&ground.architecture, &quote) {
            return Some(format!("nobody says that it is on purpose: {quote}"));
        }
    }
    let quoted = shown.split('`').skip(1).step_by(2);
    let references: Vec<&str> = quoted.filter(|words| is_reference(words)).collect();
    if references.is_empty() && missing.is_empty() && !shown.starts_with("– ") {
        return Some(format!("nothing shows it: {shown}"));
    }
    let dead = references
        .iter()
        .find(|reference| !is_there(reference, ground));
    dead.map(|reference| format!("`{reference}` is not there"))
}

/// What a list names. Commas and semicolons are between things, and inside of quotes part
/// of them.
fn phrases(list: &str) -> Vec<String> {
    let mut phrases = vec![String::new()];
    let mut is_quoted = false;
    for letter in list.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' | ';' if !is_quoted => phrases.push(String::new()),
            _ => phrases
                .last_mut()
                .into_iter()
                .for_each(|phrase| phrase.push(letter)),
        }
    }
    let phrases = phrases.iter().map(|phrase| plain(phrase));
    phrases.filter(|phrase| !phrase.is_empty()).collect()
}

fn is_missing(phrase: &str, ground: &Ground<'_>) -> bool {
    let mut settings = ground.not_effective.iter();
    has_words(&ground.missing, phrase)
        || settings.any(|(name, why)| name == phrase || has_words(why, phrase))
}

/// Whether a text has these words, and not only as parts of longer ones.
fn has_words(text: &str, words: &str) -> bool {
    let goes_on = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(words).any(|(at, _)| {
        let after = &text[at + words.len()..];
        !goes_on(text[..at].chars().next_back()) && !goes_on(after.chars().next())
    })
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
        let setting = |name: &str, why: &str| (name.to_owned(), why.to_owned());
        let ground = Ground {
            file: &file,
            scenarios: "name: \"crash-loop\"".to_owned(),
            wires: "spec(\"plain\")".to_owned(),
            architecture: plain("a socket is\nwaited for, in vain"),
            missing: plain("- Node-pressure eviction; CPU,\n  memory and `topology`; devices"),
            not_effective: vec![
                setting("featureGates.EventedPLEG", "heard, as hints"),
                setting("hairpinMode", "not yet"),
            ],
        };
        let found = |cell: &str| {
            let text = format!("| row | shown by |\n|---|---|\n| it | {cell} |\n");
            let found = check("docs/rows/x.md", &text, &ground);
            let first = found.into_iter().next().unwrap_or_default();
            first.trim_start_matches("docs/rows/x.md:3: ").to_owned()
        };
        for (cell, wanted) in [
            ("`crates/a/src/b.rs#it_is_so`", ""),
            ("`compare:crash-loop`; `wire:plain`", ""),
            ("not yet (Node-pressure eviction, devices)", ""),
            ("not yet (\"CPU, memory and topology\"; hairpinMode)", ""),
            (
                "not yet (`featureGates.EventedPLEG`: never)",
                "nobody says that it is missing: featureGates.EventedPLEG: never",
            ),
            (
                "not yet (featureGates.EventedPLEG, \"heard, as hints\")",
                "",
            ),
            ("`compare:crash-loop`; not yet (devices)", ""),
            ("– an internal channel", ""),
            ("– (on purpose: \"is waited for, in vain\")", ""),
            (
                "– (on purpose: \"is not waited for\")",
                "nobody says that it is on purpose: is not waited for",
            ),
            (
                "– on purpose; `compare:gone`",
                "`compare:gone` is not there",
            ),
            (
                "`compare:gone`; not yet (devices)",
                "`compare:gone` is not there",
            ),
            (
                "`crates/a/src/b.rs#it_is`",
                "`crates/a/src/b.rs#it_is` is not there",
            ),
            ("`wire:crash-loop`", "`wire:crash-loop` is not there"),
            (
                "not yet (devices, shutdown)",
                "nobody says that it is missing: shutdown",
            ),
            ("not yet (evict)", "nobody says that it is missing: evict"),
            (
                "`compare:crash-loop`; not yet (swap)",
                "nobody says that it is missing: swap",
            ),
            (
                "not yet (devices); and more",
                "what is not yet there is not the last that is said",
            ),
            // Its name alone is not enough: it may be effective.
            (
                "not yet (EventedPLEG)",
                "nobody says that it is missing: EventedPLEG",
            ),
            (
                "GAP (done: `kill.rs`)",
                "nothing shows it: GAP (done: `kill.rs`)",
            ),
            ("not yet ()", "nothing shows it: "),
        ] {
            assert_eq!(found(cell), wanted, "{cell}");
        }
    }
}
