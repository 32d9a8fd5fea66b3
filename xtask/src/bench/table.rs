//! Our figures beside upstream's, with the bars of the design.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use testkit::lab::KUBERNETES;

pub(super) const FERROLET: &str = "ferrolet";

/// One line of the table.
pub(super) struct Row {
    pub(super) figure: &'static str,
    pub(super) ours: f64,
    pub(super) upstreams: f64,
    pub(super) decimals: usize,
    /// The largest part of upstream's that is allowed.
    pub(super) bar: Option<f64>,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.upstreams
    }

    pub(super) fn missed(&self) -> bool {
        // A figure that is none meets no bar.
        let meets = |bar: f64| self.ratio() <= bar;
        self.bar.is_some_and(|bar| !meets(bar))
    }
}

/// `ours` is the title of our column.
pub(super) fn table(ours: &str, rows: &[Row]) -> String {
    let mut table = format!(
        "| figure | {ours} | kubelet {KUBERNETES} | ratio | bar |\n|---|---:|---:|---:|---:|\n"
    );
    for row in rows {
        let bar = row.bar.map(|bar| format!("≤ {bar:.2}")).unwrap_or_default();
        let _ = writeln!(
            table,
            "| {} | {:.*} | {:.*} | {} | {bar} |",
            row.figure,
            row.decimals,
            row.ours,
            row.decimals,
            row.upstreams,
            shown(row.ratio()),
        );
    }
    table
}

pub(super) fn expect_no_missed_bar(rows: &[Row]) -> Result<()> {
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.missed())
        .map(|row| row.figure)
        .collect();
    ensure!(missed.is_empty(), "over the bar: {}", missed.join(", "));
    Ok(())
}

/// Of nothing and nothing there is none.
fn shown(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{ratio:.3}")
    } else {
        "–".to_owned()
    }
}

/// The middle one; of two, what is between them; nothing of none.
pub(super) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let middle = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
    let upper = figures.len() / 2;
    if figures.len() % 2 == 1 {
        middle(upper)
    } else {
        f64::midpoint(middle(upper.saturating_sub(1)), middle(upper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, bar: Option<f64>) -> Row {
        Row {
            figure: "resident memory, MiB",
            ours,
            upstreams: 100.0,
            decimals: 1,
            bar,
        }
    }

    #[test]
    fn the_table_shows_each_figure_with_its_ratio() {
        let shown = table(FERROLET, &[row(10.0, Some(0.2))]);
        assert!(
            shown.contains("| resident memory, MiB | 10.0 | 100.0 | 0.100 | ≤ 0.20 |"),
            "{shown}"
        );
        let none = table(FERROLET, &[row(f64::NAN, None)]);
        assert!(none.contains("| 100.0 | – |"), "{none}");
    }

    #[test]
    fn a_figure_over_its_bar_fails_by_name_and_one_at_it_or_without_does_not() {
        let judged = |ours, bar| expect_no_missed_bar(&[row(ours, bar)]);
        assert!(judged(20.0, Some(0.2)).is_ok());
        assert!(judged(1000.0, None).is_ok());
        assert!(judged(f64::NAN, Some(0.2)).is_err());
        let error = judged(20.1, Some(0.2)).unwrap_err().to_string();
        assert!(error.contains("resident memory"), "{error}");
    }

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        let cases: [(&[f64], f64); 4] = [
            (&[5.0], 5.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0], 2.5),
            (&[8.0, 2.0, 4.0, 1.0], 3.0),
        ];
        for (figures, expected) in cases {
            let found = median(figures.iter().copied());
            assert!((found - expected).abs() < 1e-9, "{figures:?}: {found}");
        }
        assert!(median(std::iter::empty()).is_nan());
    }
}
