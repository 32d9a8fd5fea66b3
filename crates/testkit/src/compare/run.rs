//! A run: scenarios, several at a time, on one pair of nodes.

use std::collections::VecDeque;
use std::fs;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::api::Api;
use super::differences::{EXPLAINED, explanation, paths};
use super::pair::Pair;
use super::rules::{self, Difference};
use super::scenario::{Lane, Scenario};
use super::stage::Stage;
use super::story::Record;
use super::tape::Tape;
use crate::lab::{Node, workspace};

/// What came of one scenario.
#[derive(Debug)]
pub struct Outcome {
    pub scenario: Scenario,
    pub took: Duration,
    /// What differs, and which path of the list explains it.
    pub differences: Vec<(Difference, Option<usize>)>,
    /// Why it could not be compared.
    pub error: Option<anyhow::Error>,
}

impl Outcome {
    pub fn unexplained(&self) -> impl Iterator<Item = &Difference> {
        let unexplained = self.differences.iter().filter(|(_, line)| line.is_none());
        unexplained.map(|(difference, _)| difference)
    }

    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.unexplained().next().is_none()
    }

    /// For people: one line, and one more for each thing that is wrong.
    pub fn report(&self) -> String {
        let explained = self.differences.iter().filter(|(_, line)| line.is_some());
        let mut lines = vec![format!(
            "{:4} {:32} {:5.1} s{}",
            if self.is_good() { "ok" } else { "FAIL" },
            self.scenario.name,
            self.took.as_secs_f64(),
            match explained.count() {
                0 => String::new(),
                count => format!(", {count} explained"),
            }
        )];
        for difference in self.unexplained() {
            let (first, second) = (&difference.first, &difference.second);
            lines.push(format!("     {}", difference.path));
            lines.push(format!("       upstream: {}", lines_of(first, second)));
            lines.push(format!("       second:   {}", lines_of(second, first)));
        }
        if let Some(error) = &self.error {
            lines.push(format!("     {error:#}"));
        }
        lines.join("\n")
    }
}

/// Of a text with many lines only those that the other has not.
fn lines_of(text: &str, other: &str) -> String {
    if !text.contains('\n') {
        return text.to_owned();
    }
    let other: Vec<&str> = other.lines().collect();
    let lines = text.lines().filter(|line| !other.contains(line));
    let lines: Vec<&str> = lines.collect();
    lines.join(" | ")
}

/// What came of all of them.
#[derive(Debug)]
pub struct Verdict {
    pub outcomes: Vec<Outcome>,
    pub took: Duration,
    /// What was played a second time, as the first was not good.
    pub again: Vec<&'static str>,
}

impl Verdict {
    pub fn failed(&self) -> usize {
        let failed = self.outcomes.iter().filter(|outcome| !outcome.is_good());
        failed.count()
    }

    /// Takes out those that were not good, and says which those are.
    fn take_failed(&mut self) -> Vec<Scenario> {
        let failed = self.outcomes.extract_if(.., |outcome| !outcome.is_good());
        failed.map(|outcome| outcome.scenario).collect()
    }

    /// Paths of the list that explained nothing: meaningful after all scenarios.
    pub fn stale(&self) -> Vec<&'static str> {
        let used: Vec<usize> = self
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.differences)
            .filter_map(|(_, line)| *line)
            .collect();
        let paths = paths(EXPLAINED).enumerate();
        paths
            .filter(|(index, (line, _))| !line.sometimes && !used.contains(index))
            .map(|(_, (_, path))| path)
            .collect()
    }
}

/// How many scenarios at once, on which nodes.
#[derive(Debug)]
pub struct Run<'a> {
    pub pair: &'a Pair,
    pub parallel: usize,
}

impl Run<'_> {
    /// Plays them, and those that were not good once more, one at a time: on a machine that is
    /// too busy one side is cut short and the other is not, and that does not come again when
    /// a scenario is alone. What differs in the second take, too, is a difference. `tell` hears
    /// of each as it ends, in both takes: what differs now and then may still be a fault.
    pub fn play(&self, scenarios: &[Scenario], tell: impl Fn(&Outcome) + Sync) -> Result<Verdict> {
        let mut verdict = self.take(1, scenarios, &tell)?;
        let doubtful = verdict.take_failed();
        if !doubtful.is_empty() {
            let alone = Run {
                pair: self.pair,
                parallel: 1,
            };
            let second = alone.take(2, &doubtful, &tell)?;
            verdict.again = doubtful.iter().map(|scenario| scenario.name).collect();
            verdict.outcomes.extend(second.outcomes);
            verdict.took += second.took;
        }
        Ok(verdict)
    }

    fn take(
        &self,
        number: u8,
        scenarios: &[Scenario],
        tell: impl Fn(&Outcome) + Sync,
    ) -> Result<Verdict> {
        let start = Instant::now();
        let api = Api::open(&self.pair.lab, "compare")?;
        // The namespaces of an earlier take may not be gone yet.
        let prefix = format!("c{}-{number}", std::process::id());
        let tape = Tape::start(&api, &prefix)?;
        let house = House {
            pair: self.pair,
            api: &api,
            tape: &tape,
            prefix: &prefix,
        };
        let queue = Queue::new(scenarios);
        let outcomes = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..self.parallel.max(1) {
                scope.spawn(|| {
                    while let Some(scenario) = queue.next() {
                        let outcome = house.play(scenario);
                        queue.done(scenario);
                        tell(&outcome);
                        lock(&outcomes).push(outcome);
                    }
                });
            }
        });
        Ok(Verdict {
            outcomes: outcomes
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
            took: start.elapsed(),
            again: Vec::new(),
        })
    }
}

/// What all plays of a run share.
struct House<'a> {
    pair: &'a Pair,
    api: &'a Api,
    tape: &'a Tape,
    prefix: &'a str,
}

impl House<'_> {
    fn play(&self, scenario: Scenario) -> Outcome {
        let start = Instant::now();
        let compared = self.records(scenario).and_then(|[first, second]| {
            save(scenario, &first, &second)?;
            // Both sides fail alike where the play is wrong, not the agents.
            match (&first.failure, &second.failure) {
                (Some(first), Some(second)) if first == second => Err(anyhow!("both {first}")),
                _ => Ok(rules::compare(&first, &second)),
            }
        });
        let (differences, error) = match compared {
            Ok(differences) => (differences, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let differences = differences
            .into_iter()
            .map(|difference| {
                let line = explanation(scenario.name, &difference);
                (difference, line)
            })
            .collect();
        Outcome {
            scenario,
            took: start.elapsed(),
            differences,
            error,
        }
    }

    fn records(&self, scenario: Scenario) -> Result<[Record; 2]> {
        let [first, second] = &self.pair.nodes;
        let perform = |node: &Node, letter: &str| {
            let name = format!("{}{letter}-{}", self.prefix, scenario.name);
            let stage = Stage::set(self.api, self.tape, node, &name)?;
            stage
                .perform(scenario.play)
                .with_context(|| format!("on {}", node.name()))
        };
        thread::scope(|scope| {
            let second = scope.spawn(|| perform(second, "b"));
            let first = perform(first, "a");
            let second = second.join().map_err(|_| anyhow!("a play has panicked"))?;
            Ok([first?, second?])
        })
    }
}

/// Both records, for a look after the run.
fn save(scenario: Scenario, first: &Record, second: &Record) -> Result<()> {
    let dir = workspace().join("target/compare");
    fs::create_dir_all(&dir)?;
    for (record, side) in [(first, "first"), (second, "second")] {
        let file = dir.join(format!("{}.{side}.json", scenario.name));
        fs::write(&file, serde_json::to_vec_pretty(record)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Scenarios that wait for their turn. Those of one lane take turns.
struct Queue {
    waiting: Mutex<Waiting>,
    freed: Condvar,
}

struct Waiting {
    scenarios: VecDeque<Scenario>,
    busy: Vec<Lane>,
}

impl Queue {
    fn new(scenarios: &[Scenario]) -> Self {
        let mut scenarios: Vec<Scenario> = scenarios.to_vec();
        // A lane takes its time: it begins first.
        scenarios.sort_by_key(|scenario| scenario.lane.is_none());
        Self {
            waiting: Mutex::new(Waiting {
                scenarios: scenarios.into(),
                busy: Vec::new(),
            }),
            freed: Condvar::new(),
        }
    }

    /// The next whose lane is free; waits for one; nothing when all are given out.
    fn next(&self) -> Option<Scenario> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.scenarios.is_empty() {
                return None;
            }
            let free = |scenario: &Scenario| {
                scenario
                    .lane
                    .is_none_or(|lane| !waiting.busy.contains(&lane))
            };
            if let Some(at) = waiting.scenarios.iter().position(free) {
                let scenario = waiting.scenarios.remove(at)?;
                waiting.busy.extend(scenario.lane);
                return Some(scenario);
            }
            let woken = self.freed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, scenario: Scenario) {
        let mut waiting = lock(&self.waiting);
        waiting.busy.retain(|lane| Some(*lane) != scenario.lane);
        self.freed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_texts_only_the_lines_that_differ_are_told() {
        assert_eq!(lines_of("a\nb\nc", "a\nc"), "b");
        assert_eq!(lines_of("a", "a\nb"), "a");
    }

    #[test]
    fn those_that_were_not_good_are_taken_out_to_be_played_again() {
        let outcome = |name, error| Outcome {
            scenario: Scenario::new(name, "", |_| Ok(())),
            took: Duration::ZERO,
            differences: Vec::new(),
            error,
        };
        let mut verdict = Verdict {
            outcomes: vec![
                outcome("good", None),
                outcome("bad", Some(anyhow!("both fail"))),
            ],
            took: Duration::ZERO,
            again: Vec::new(),
        };
        let again: Vec<&str> = verdict.take_failed().iter().map(|it| it.name).collect();
        assert_eq!(again, ["bad"]);
        assert_eq!((verdict.outcomes.len(), verdict.failed()), (1, 0));
    }

    #[test]
    fn scenarios_of_one_lane_take_turns() {
        let plain = Scenario::new("plain", "", |_| Ok(()));
        let one = Scenario::new("one", "", |_| Ok(())).lane(Lane::Taints);
        let two = Scenario::new("two", "", |_| Ok(())).lane(Lane::Taints);
        let queue = Queue::new(&[plain, one, two]);
        let name = |next: Option<Scenario>| next.map(|scenario| scenario.name);
        assert_eq!(name(queue.next()), Some("one"));
        assert_eq!(name(queue.next()), Some("plain"), "the lane is taken");
        queue.done(one);
        assert_eq!(name(queue.next()), Some("two"));
        assert_eq!(name(queue.next()), None);
    }
}
