//! The figures that a README names, and the files that they are from: a benchmark writes
//! its file, and nobody should have to remember who repeats it.

/// Who is compared with, by the head of the column.
const OTHERS: [&str; 2] = ["kubelet ", "kubemark "];

/// Nobody is.
const NONE: &str = "–";

/// What a README's row takes from a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Figure<'a> {
    /// The row itself.
    line: &'a str,
    label: &'a str,
    /// Ours and theirs, as they are written; a dash where there is nothing to compare with.
    pub(super) values: [&'a str; 2],
    /// The file, and the command that writes it, where the row names it.
    pub(super) file: &'a str,
    pub(super) command: Option<&'a str>,
}

/// All of them, in their order.
pub(super) fn named(readme: &str) -> Vec<Figure<'_>> {
    readme.lines().filter_map(figure).collect()
}

fn figure(line: &str) -> Option<Figure<'_>> {
    let cells: [&str; 5] = cells(line)?.try_into().ok()?;
    let [label, ours, theirs, source, command] = cells;
    let file = source.split_once("](")?.1.strip_suffix(')')?;
    let command = command.strip_prefix('`');
    file.starts_with("bench/").then_some(Figure {
        line,
        label: label.split_once(": ").map_or(label, |(_, figure)| figure),
        values: [ours, theirs],
        file,
        command: command.and_then(|command| command.strip_suffix('`')),
    })
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// What a file says of a figure, of us and of others.
fn measured<'a>(text: &'a str, label: &str) -> Option<[&'a str; 2]> {
    let mut rows = text.lines().filter_map(cells);
    let head = rows.next()?;
    let is_other = |name: &&str| OTHERS.iter().any(|other| name.starts_with(other));
    let other = head.iter().position(is_other);
    let row = rows.find(|row| row.first() == Some(&label))?;
    let theirs = other.map_or(Some(NONE), |column| row.get(column).copied());
    Some([*row.get(1)?, theirs?])
}

/// Figures that are not those of their files, and commands that did not write them.
pub(super) fn check(readme: &str, file: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let figures = named(readme);
    let mut findings = Vec::new();
    for figure in &figures {
        let Some(text) = file(figure.file) else {
            findings.push(format!("README.md: {} cannot be read", figure.file));
            continue;
        };
        findings.extend(not_as_written(figure, &text));
        let same_file = figures.iter().filter(|other| other.file == figure.file);
        if same_file.filter_map(|other| other.command).count() != 1 {
            findings.push(format!(
                "README.md does not name the command that writes {} once",
                figure.file
            ));
        }
    }
    findings.dedup();
    findings
}

fn not_as_written(figure: &Figure<'_>, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let (label, said, file) = (figure.label, figure.values.join(", "), figure.file);
    match measured(text, label) {
        Some(values) if values == figure.values => {}
        Some(values) => findings.push(format!(
            "README.md says {said} of {label:?}, {file} says {}; `cargo xtask tidy --figures` takes them over",
            values.join(", ")
        )),
        None => findings.push(format!("README.md names {label:?}, which {file} does not")),
    }
    let written = text.split_once("Written by `");
    let written = written.and_then(|(_, rest)| Some(rest.split_once('`')?.0));
    if let Some(command) = figure.command
        && Some(command) != written
    {
        findings.push(format!(
            "README.md says that {file} is written by `{command}`; it says `{}`",
            written.unwrap_or_default()
        ));
    }
    findings
}

/// Both READMEs with the figures of their files: the rows of one are those of the other.
pub(super) fn taken_over(
    english: &str,
    chinese: &str,
    file: &dyn Fn(&str) -> Option<String>,
) -> (String, String) {
    let (mut mended, mut mended_chinese) = (english.to_owned(), chinese.to_owned());
    for (figure, chinese) in named(english).iter().zip(named(chinese)) {
        let text = file(figure.file).unwrap_or_default();
        let Some(values) = measured(&text, figure.label) else {
            continue;
        };
        mended = mended.replace(figure.line, &with(figure, values));
        mended_chinese = mended_chinese.replace(chinese.line, &with(&chinese, values));
    }
    (mended, mended_chinese)
}

/// The row with other values.
fn with(figure: &Figure<'_>, values: [&str; 2]) -> String {
    let row = |values: [&str; 2]| format!("| {} |", values.join(" | "));
    figure.line.replacen(&row(figure.values), &row(values), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# A\n\nWritten by `cargo xtask bench a` on a day.\n\n\
        | figure | ferrolet | other | kubelet v1 |\n|---|---:|---:|---:|\n| memory, MiB | 1.5 | 7 | 30 |\n";
    const ALONE: &str =
        "Written by `cargo xtask bench b`\n\n| figure | |\n|---|---:|\n| pods | 12 |\n";

    fn file(name: &str) -> Option<String> {
        match name {
            "bench/a.md" => Some(FILE.to_owned()),
            "bench/b.md" => Some(ALONE.to_owned()),
            _ => None,
        }
    }

    fn row(values: &str, command: &str) -> String {
        format!("| idle: memory, MiB | {values} | [a](bench/a.md) | {command} |\n")
    }

    #[test]
    fn a_readme_names_the_figures_of_the_file_and_the_command_that_wrote_it() {
        let found = |readme: &str| check(readme, &file);
        let command = "`cargo xtask bench a`";
        assert_eq!(found(&row("1.5 | 30", command)), Vec::<String>::new());
        let both = row("1.5 | 30", command) + &row("1.5 | 30", "the same");
        assert_eq!(found(&both), Vec::<String>::new());
        let alone = "| x: pods | 12 | – | [b](bench/b.md) | `cargo xtask bench b` |\n";
        assert_eq!(found(alone), Vec::<String>::new());
        let wrong = found(&row("1.4 | 30", command));
        let said = "README.md says 1.4, 30 of \"memory, MiB\", bench/a.md says 1.5, 30;";
        assert!(wrong[0].starts_with(said), "{wrong:?}");
        assert_eq!(found(&row("1.5 | 7", command)).len(), 1, "of the other");
        assert_eq!(found(&row("1.5 | –", command)).len(), 1);
        let other = found(&row("1.5 | 30", "`cargo xtask bench c`"));
        assert!(other[0].contains("`cargo xtask bench a`"), "{other:?}");
        assert_eq!(found(&row("1.5 | 30", "the same")).len(), 1, "no command");
        let unknown = row("1.5 | 30", command).replace("memory", "threads");
        assert!(found(&unknown)[0].ends_with("which bench/a.md does not"));
        let lost = row("1.5 | 30", command).replace("bench/a", "bench/c");
        assert!(found(&lost)[0].contains("bench/c.md cannot be read"));
    }

    #[test]
    fn figures_are_taken_over_in_both_languages() {
        let english = row("1 | 2", "`cargo xtask bench a`");
        let chinese = english.replace("idle: memory, MiB", "空闲：内存，MiB");
        let (mended, mended_chinese) = taken_over(&english, &chinese, &file);
        assert_eq!(check(&mended, &file), Vec::<String>::new());
        let values = |text| {
            named(text)
                .iter()
                .map(|it| it.values.join(","))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&mended_chinese), ["1.5,30"]);
        assert!(mended_chinese.starts_with("| 空闲：内存，MiB | 1.5 | 30 |"));
    }
}
