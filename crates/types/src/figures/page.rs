//! Figures in Prometheus's text form.

use std::ops::Range;

use super::vector::Value;
use super::{Counter, Family, Figure, Gauge, Histogram, Vector, number};

/// What somebody is shown who asks for figures.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    /// Each family's part of the text.
    families: Vec<(String, Range<usize>)>,
    /// Every family that it was to have, those without numbers included.
    described: Vec<Family>,
}

/// A family that is being written.
#[derive(Debug)]
pub struct Writing<'a> {
    text: &'a mut String,
    name: &'a str,
    labels: &'a [&'a str],
    bounds: &'a [f64],
}

impl Page {
    /// A family whose numbers are known now. Nothing of it is shown if it has none.
    pub fn family(&mut self, family: &Family, write: impl FnOnce(&mut Writing<'_>)) {
        self.described.push(*family);
        let bounds = family.bounds();
        let (name, labels) = (family.name, family.labels);
        self.foreign(name, family.help, family.kind.word(), |text| {
            let mut writing = Writing {
                text,
                name,
                labels,
                bounds,
            };
            write(&mut writing);
        });
    }

    /// A family that is kept by others, who write its samples.
    pub fn foreign(&mut self, name: &str, help: &str, kind: &str, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        let text = &mut self.text;
        text.push_str("# HELP ");
        text.push_str(name);
        text.push(' ');
        escape(text, help, false);
        text.push_str("\n# TYPE ");
        text.push_str(name);
        text.push(' ');
        text.push_str(kind);
        text.push('\n');
        let bare = text.len();
        write(text);
        if text.len() == bare {
            text.truncate(start);
        } else {
            self.families.push((name.to_owned(), start..text.len()));
        }
    }

    /// What the node's own families on it are, whether they have numbers or not.
    pub fn described(&self) -> &[Family] {
        &self.described
    }

    /// By name, as upstream has them.
    pub fn finish(mut self) -> String {
        self.families.sort_by(|one, other| one.0.cmp(&other.0));
        let mut sorted = String::with_capacity(self.text.len());
        for (_, range) in self.families {
            sorted.push_str(&self.text[range]);
        }
        sorted
    }
}

impl Figure for Counter {
    fn show(&self, page: &mut Page) {
        page.family(self.family, |family| family.count(&[], self.get()));
    }
}

impl Figure for Gauge {
    fn show(&self, page: &mut Page) {
        page.family(self.family, |family| family.level(&[], self.get()));
    }
}

impl Figure for Histogram {
    fn show(&self, page: &mut Page) {
        page.family(self.family, |family| family.spread(&[], &self.numbers()));
    }
}

impl Figure for Vector {
    fn show(&self, page: &mut Page) {
        let cells = self.cells();
        page.family(self.family, |family| {
            let mut labels: Vec<&str> = Vec::with_capacity(4);
            for cell in cells.iter() {
                labels.clear();
                labels.extend(cell.labels.iter().map(|label| &**label));
                match &cell.value {
                    Value::Count(count) => family.count(&labels, *count),
                    Value::Level(level) => family.level(&labels, *level),
                    Value::Spread(numbers) => family.spread(&labels, numbers),
                }
            }
        });
    }
}

impl Writing<'_> {
    /// `labels` are the values of the family's.
    pub fn level(&mut self, labels: &[&str], level: f64) {
        self.sample("", labels, None);
        number::write(self.text, level);
        self.text.push('\n');
    }

    pub fn count(&mut self, labels: &[&str], count: u64) {
        self.sample("", labels, None);
        number::write_whole(self.text, count);
        self.text.push('\n');
    }

    /// One number for each bucket, the infinite one, and the bits of the sum.
    pub fn spread(&mut self, labels: &[&str], numbers: &[u64]) {
        let Some((sum, counts)) = numbers.split_last() else {
            return;
        };
        let infinite = std::iter::once(f64::INFINITY);
        let bounds = self.bounds.iter().copied().chain(infinite);
        let mut so_far = 0;
        for (bound, count) in bounds.zip(counts) {
            so_far += count;
            self.sample("_bucket", labels, Some(bound));
            number::write_whole(self.text, so_far);
            self.text.push('\n');
        }
        self.sample("_sum", labels, None);
        number::write(self.text, f64::from_bits(*sum));
        self.text.push('\n');
        self.sample("_count", labels, None);
        number::write_whole(self.text, so_far);
        self.text.push('\n');
    }

    fn sample(&mut self, suffix: &str, values: &[&str], bound: Option<f64>) {
        let text = &mut *self.text;
        text.push_str(self.name);
        text.push_str(suffix);
        let pairs = self.labels.iter().copied().zip(values.iter().copied());
        write_labels(text, pairs, bound);
        text.push(' ');
    }
}

/// In braces, if there are any. For those who write families of their own.
pub fn write_labels<'a>(
    text: &mut String,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    bound: Option<f64>,
) {
    let mut before = '{';
    for (name, value) in pairs {
        text.push(before);
        text.push_str(name);
        text.push_str("=\"");
        escape(text, value, true);
        text.push('"');
        before = ',';
    }
    if let Some(bound) = bound {
        text.push(before);
        text.push_str("le=\"");
        number::write(text, bound);
        text.push('"');
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
}

/// A number as samples have it.
pub fn write_number(text: &mut String, value: f64) {
    number::write(text, value);
}

fn escape(text: &mut String, words: &str, quotes: bool) {
    if !words.contains(['\\', '\n', '"']) {
        return text.push_str(words);
    }
    for letter in words.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}
