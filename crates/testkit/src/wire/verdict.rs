//! What came of a run, for people and for files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::differences::{EXPLAINED, explanation};
use super::rules::{self, Asked, Difference};

/// What was asked for one spec on the two nodes.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) spec: &'static str,
    pub(super) asked: [Vec<Asked>; 2],
    /// Steps after which the pod was not where it should be.
    pub(super) missed: [String; 2],
}

/// What came of one spec.
#[derive(Debug)]
pub struct Outcome {
    pub spec: &'static str,
    /// How many calls were compared.
    pub calls: usize,
    /// What differs, and the line of the list that explains it.
    pub differences: Vec<(Difference, Option<usize>)>,
    /// Why it could not be compared.
    pub error: Option<String>,
}

impl Outcome {
    fn of(pages: &Pages) -> Self {
        let [first, second] = &pages.asked;
        let [missed, also] = &pages.missed;
        let mut differences = rules::compare(first, second);
        let mut error = None;
        if missed != also {
            let told = |steps: &String| match steps.as_str() {
                "" => "came as far as it should".to_owned(),
                steps => format!("was waited for in vain: {steps}"),
            };
            differences.push(Difference {
                path: "progress".to_owned(),
                first: told(missed),
                second: told(also),
            });
        } else if !missed.is_empty() {
            // Both nodes fail alike where the spec is wrong, not the agents.
            error = Some(format!("both were waited for in vain: {missed}"));
        } else if first.is_empty() && second.is_empty() {
            error = Some("nothing was asked of the runtimes".to_owned());
        }
        let explained = |difference: Difference| {
            let line = explanation(pages.spec, &difference);
            (difference, line)
        };
        Self {
            spec: pages.spec,
            calls: first.len(),
            differences: differences.into_iter().map(explained).collect(),
            error,
        }
    }

    pub fn unexplained(&self) -> impl Iterator<Item = &Difference> {
        let unexplained = self.differences.iter().filter(|(_, line)| line.is_none());
        unexplained.map(|(difference, _)| difference)
    }

    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.unexplained().next().is_none()
    }

    fn line(&self) -> String {
        let explained = self.differences.iter().filter(|(_, line)| line.is_some());
        let explained = match explained.count() {
            0 => String::new(),
            count => format!(", {count} explained"),
        };
        let verdict = if self.is_good() { "ok" } else { "FAIL" };
        format!(
            "{verdict:4} {:32} {:2} calls{explained}",
            self.spec, self.calls
        )
    }
}

/// What came of all of them.
#[derive(Debug)]
pub struct Verdict {
    pub outcomes: Vec<Outcome>,
    pub took: Duration,
    /// What was played a second time, and in what it differed in the first.
    pub again: Vec<String>,
    pages: Vec<Pages>,
}

impl Verdict {
    pub(super) fn new(pages: Vec<Pages>, took: Duration) -> Self {
        Self {
            outcomes: pages.iter().map(Outcome::of).collect(),
            took,
            again: Vec::new(),
            pages,
        }
    }

    /// Takes out what is not good, by name, and remembers in what it differed.
    pub(super) fn take_failed(&mut self) -> Vec<&'static str> {
        let failed = self.outcomes.extract_if(.., |outcome| !outcome.is_good());
        let failed: Vec<Outcome> = failed.collect();
        let names: Vec<&'static str> = failed.iter().map(|outcome| outcome.spec).collect();
        self.pages.retain(|page| !names.contains(&page.spec));
        for outcome in failed {
            let differences = outcome.unexplained();
            let told = differences
                .map(|it| format!("{} ({}, {})", it.path, it.first, it.second))
                .chain(outcome.error.clone());
            let told: Vec<String> = told.collect();
            let line = format!("{}: {}", outcome.spec, told.join("; "));
            self.again.push(line);
        }
        names
    }

    /// What came of a second take.
    pub(super) fn add(&mut self, second: Self) {
        self.outcomes.extend(second.outcomes);
        self.pages.extend(second.pages);
        self.took += second.took;
    }

    pub fn failed(&self) -> usize {
        let failed = self.outcomes.iter().filter(|outcome| !outcome.is_good());
        failed.count()
    }

    /// Lines of the list that explained nothing: meaningful after all specs.
    pub fn stale(&self) -> Vec<String> {
        let used: Vec<usize> = self
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.differences)
            .filter_map(|(_, line)| *line)
            .collect();
        let lines = EXPLAINED.iter().enumerate();
        lines
            .filter(|(index, line)| !line.sometimes && !used.contains(index))
            .map(|(_, line)| format!("{}: {}", line.spec, line.path))
            .collect()
    }

    /// A line for each spec, and each difference that nothing explains once, with
    /// all specs that show it.
    pub fn report(&self) -> String {
        let lines = self.outcomes.iter().map(Outcome::line);
        let mut lines: Vec<String> = lines.collect();
        for outcome in &self.outcomes {
            if let Some(error) = &outcome.error {
                lines.push(format!("{}: {error}", outcome.spec));
            }
        }
        for (difference, specs) in self.grouped() {
            lines.push(difference.path.clone());
            lines.push(format!("  upstream: {}", difference.first));
            lines.push(format!("  second:   {}", difference.second));
            lines.push(format!("  in:       {}", specs.join(", ")));
        }
        for line in &self.again {
            lines.push(format!("played twice: {line}"));
        }
        let calls: usize = self.outcomes.iter().map(|outcome| outcome.calls).sum();
        lines.push(format!(
            "{} specs with {calls} calls in {:.0} s, {} with unexplained differences",
            self.outcomes.len(),
            self.took.as_secs_f64(),
            self.failed(),
        ));
        lines.join("\n")
    }

    fn grouped(&self) -> Vec<(&Difference, Vec<&'static str>)> {
        let mut groups: BTreeMap<(&str, &str, &str), (&Difference, Vec<&'static str>)> =
            BTreeMap::new();
        for outcome in &self.outcomes {
            for difference in outcome.unexplained() {
                let key = (
                    difference.path.as_str(),
                    difference.first.as_str(),
                    difference.second.as_str(),
                );
                let group = groups.entry(key);
                let (_, specs) = group.or_insert_with(|| (difference, Vec::new()));
                specs.push(outcome.spec);
            }
        }
        groups.into_values().collect()
    }

    /// The report, and all that was asked, in words, for a look after the run.
    pub fn save(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("report.txt"), self.report())?;
        for page in &self.pages {
            for (asked, side) in page.asked.iter().zip(["first", "second"]) {
                let file = directory.join(format!("{}.{side}.json", page.spec));
                let text = serde_json::to_vec_pretty(&rules::to_json(asked))?;
                fs::write(&file, text)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pages(spec: &'static str, tty: [bool; 2], missed: [&str; 2]) -> Pages {
        let asked = |tty: bool| {
            vec![Asked {
                label: "CreateContainer main#0".to_owned(),
                request: json!({"tty": tty}),
            }]
        };
        Pages {
            spec,
            asked: tty.map(asked),
            missed: missed.map(str::to_owned),
        }
    }

    #[test]
    fn a_spec_is_good_if_both_nodes_asked_the_same_and_came_as_far() {
        let cases = [
            (pages("a", [true, true], ["", ""]), true),
            (pages("a", [true, false], ["", ""]), false),
            (pages("a", [true, true], ["", "deleted"]), false),
            (pages("a", [true, true], ["made", "made"]), false),
        ];
        for (pages, expected) in cases {
            let outcome = Outcome::of(&pages);
            assert_eq!(outcome.is_good(), expected, "{pages:?}");
        }
        let silent = Pages {
            spec: "a",
            asked: [Vec::new(), Vec::new()],
            missed: [String::new(), String::new()],
        };
        assert!(!Outcome::of(&silent).is_good(), "it shows nothing");
    }

    #[test]
    fn a_difference_of_many_specs_is_told_once_with_all_of_them() {
        let pages = vec![
            pages("a", [true, false], ["", ""]),
            pages("b", [true, true], ["", ""]),
            pages("c", [true, false], ["", ""]),
        ];
        let verdict = Verdict::new(pages, Duration::from_secs(3));
        assert_eq!(verdict.failed(), 2);
        let report = verdict.report();
        assert_eq!(
            report.matches("CreateContainer main#0.tty").count(),
            1,
            "{report}"
        );
        assert!(report.contains("in:       a, c"), "{report}");
        assert!(report.contains("ok   b"), "{report}");
    }

    #[test]
    fn what_differs_again_in_a_second_take_differs() {
        let played = |pages| Verdict::new(pages, Duration::from_secs(3));
        let first = || {
            let different = pages("a", [true, false], ["", ""]);
            played(vec![different, pages("b", [true, true], ["", ""])])
        };
        for (second, failed) in [([true, true], 0), ([true, false], 1)] {
            let mut verdict = first();
            assert_eq!(verdict.take_failed(), ["a"]);
            verdict.add(played(vec![pages("a", second, ["", ""])]));
            assert_eq!((verdict.outcomes.len(), verdict.failed()), (2, failed));
            let report = verdict.report();
            let twice = "played twice: a: CreateContainer main#0.tty (true, false)";
            assert!(report.contains(twice), "{report}");
        }
    }
}
