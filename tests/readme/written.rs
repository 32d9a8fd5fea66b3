//! The commands that a README shows: the lines of its code blocks, and what stands between
//! backquotes in its text and tables, if it is more than the name of a command.

/// Programs whose names begin a command.
const PROGRAMS: [&str; 4] = ["cargo", "ferrolet", "kubectl", "systemctl"];

/// In their order.
pub(crate) fn commands(readme: &str) -> Vec<String> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            commands.extend(without_comment(line));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            commands.extend(spans.filter(|span| is_command(span)).map(str::to_owned));
        }
    }
    commands
}

fn without_comment(line: &str) -> Option<String> {
    let line = line.split(" #").next().unwrap_or(line).trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// `ferrolet join` is a name; with something behind it, it is to be typed.
fn is_command(span: &str) -> bool {
    let mut words = span.split_whitespace();
    let first = words.next().unwrap_or_default();
    PROGRAMS.contains(&first) && words.count() > 1
}

/// Where two lists part: what each has there.
pub(crate) fn first_difference<'a>(
    one: &'a [String],
    other: &[&'a str],
) -> (Option<&'a str>, Option<&'a str>) {
    let longer = one.len().max(other.len());
    let pairs = (0..longer).map(|at| (one.get(at).map(String::as_str), other.get(at).copied()));
    let mut differing = pairs.filter(|(one, other)| one != other);
    differing.next().unwrap_or_default()
}

#[test]
fn commands_are_found_in_blocks_and_between_backquotes() {
    let readme = "# A\n\n`cargo x` and `ferrolet up --now`, `-v`\n\n```\nrun it  # now\n\ncargo y\n```\n| a | `cargo xtask z` |\n";
    let found = commands(readme);
    assert_eq!(
        found,
        ["ferrolet up --now", "run it", "cargo y", "cargo xtask z"]
    );
    let known = ["ferrolet up --now", "run it", "cargo xtask z"];
    let differing = first_difference(&found, &known);
    assert_eq!(differing, (Some("cargo y"), Some("cargo xtask z")));
    assert_eq!(
        first_difference(
            &found,
            &found.iter().map(String::as_str).collect::<Vec<_>>()
        ),
        (None, None)
    );
}
