//! Rules for documents.

use std::path::Path;

use cargo_metadata::Metadata;

use super::figures;

/// The READMEs say the same in two languages: same headings, commands, figures, pictures and
/// links.
pub(super) fn in_step(english: &str, chinese: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let levels = |text: &str| -> Vec<usize> {
        outside_code(text)
            .filter(|line| line.starts_with('#'))
            .map(|line| line.chars().take_while(|&letter| letter == '#').count())
            .collect()
    };
    if levels(english) != levels(chinese) {
        findings.push("README.md and README.zh-CN.md have other headings".to_owned());
    }
    let rows = |text: &str| {
        outside_code(text)
            .filter(|line| line.starts_with('|'))
            .count()
    };
    if rows(english) != rows(chinese) {
        findings.push("README.md and README.zh-CN.md have tables of other lengths".to_owned());
    }
    if commands(english) != commands(chinese) {
        findings.push("README.md and README.zh-CN.md show other commands".to_owned());
    }
    let numbers = |text| -> Vec<_> {
        let named = figures::named(text).into_iter();
        named.map(|it| (it.values, it.file, it.command)).collect()
    };
    if numbers(english) != numbers(chinese) {
        findings.push("README.md and README.zh-CN.md name other figures".to_owned());
    }
    if links(english) != links(chinese) {
        findings.push("README.md and README.zh-CN.md link to other files".to_owned());
    }
    findings
}

/// What a README refers to, pictures included. A file may be there for each language; the other
/// README, and headings, are not meant.
fn links(text: &str) -> Vec<String> {
    let mut links: Vec<String> = outside_code(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.starts_with('#'))
        .map(|target| target.replace(".zh-CN", ""))
        .filter(|target| target != "README.md")
        .collect();
    // Languages have an order of their own.
    links.sort();
    links
}

/// A link to a file of ours that is not there.
pub(super) fn dead_links(file: &str, text: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    outside_code(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .filter(|target| !exists(&folder.join(target)))
        .map(|target| format!("{file} links to {target}, which is not there"))
        .collect()
}

/// The code map leaves no crate out.
pub(super) fn names_every_crate(metadata: &Metadata, architecture: &str) -> Vec<String> {
    metadata
        .workspace_packages()
        .iter()
        .filter(|package| !architecture.contains(&format!("`{}`", package.name)))
        .map(|package| format!("ARCHITECTURE.md does not name crate {}", package.name))
        .collect()
}

fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// The lines of all code blocks, less their comments.
fn commands(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.lines()
        .filter(|line| {
            let fence = line.starts_with("```");
            inside ^= fence;
            inside && !fence
        })
        .map(|line| line.split(" #").next().unwrap_or(line).trim_end())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readmes_differ_in_words_only() {
        let english = "# A\n\n## B\n\n```\nrun it  # now\n```\n";
        let chinese = "# 甲\n\n## 乙\n\n```\nrun it  # 现在\n```\n";
        assert_eq!(in_step(english, chinese), Vec::<String>::new());
        assert_eq!(in_step(english, "# 甲\n\n```\nrun it\n```\n").len(), 1);
        assert_eq!(
            in_step(english, "# 甲\n\n## 乙\n\n```\nrun that\n```\n").len(),
            1
        );
        assert_eq!(in_step("| a |\n", "").len(), 1);
    }

    #[test]
    fn readmes_show_the_same_pictures_and_figures() {
        let row = "| a | 1 | 2 | [x](bench/x.md) | `y` |\n";
        let other = row.replace("| 2 |", "| 3 |");
        assert_eq!(in_step(row, row), Vec::<String>::new());
        assert_eq!(in_step(row, &other).len(), 1);
        let (english, chinese) = ("[中](README.zh-CN.md)\n![a](d.svg)\n", "[e](README.md)\n");
        assert_eq!(in_step(english, chinese).len(), 1);
        let chinese = format!("{chinese}![甲](d.zh-CN.svg)\n");
        assert_eq!(in_step(english, &chinese), Vec::<String>::new());
    }

    #[test]
    fn a_hash_inside_code_is_no_heading() {
        let english = "# A\n\n```\n# comment\n```\n";
        assert_eq!(
            in_step(english, "# 甲\n\n```\n# comment\n```\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn dead_links_are_found() {
        let text = "[a](there.md) [b](gone.md#part) [c](https://example.org) [d](#here)";
        let exists = |path: &Path| path == Path::new("docs/there.md");
        let found = dead_links("docs/x.md", text, &exists);
        assert_eq!(found, ["docs/x.md links to gone.md, which is not there"]);
    }
}
