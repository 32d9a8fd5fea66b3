//! Sets of CPUs in the kernel's list form: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The highest CPU number taken, well above what kernels are built for, so that
/// a slip of the pen such as `0-4000000000` does not fill the memory.
const MAX_CPU: u32 = 65_535;

/// CPUs by number, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<u32>);

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CpuSetError {
    #[error("{text:?} is not a CPU number: write a list of numbers and ranges, such as 0-3,8")]
    NotANumber { text: String },
    #[error("the CPU range {text:?} runs backwards: write the lower number first")]
    Backwards { text: String },
    #[error("the CPU number {number} is too high: the highest is {MAX_CPU}")]
    TooHigh { number: u32 },
}

impl CpuSet {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        // For each CPU that a range starts at, the end of the longest one, so
        // that ranges which repeat or overlap cost no more than their text.
        let mut ends: Vec<u32> = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (cpu_number(first)?, cpu_number(last)?);
            if first > last {
                return Err(CpuSetError::Backwards {
                    text: range.to_owned(),
                });
            }
            let start = first as usize;
            if ends.len() <= start {
                ends.resize(start + 1, 0);
            }
            ends[start] = ends[start].max(last + 1);
        }
        let mut cpus = BTreeSet::new();
        let mut next = 0;
        for (first, &end) in (0..).zip(&ends) {
            cpus.extend(next.max(first)..end);
            next = next.max(end);
        }
        Ok(Self(cpus))
    }
}

fn cpu_number(text: &str) -> Result<u32, CpuSetError> {
    let number = text.parse().map_err(|_| CpuSetError::NotANumber {
        text: text.to_owned(),
    })?;
    if number > MAX_CPU {
        return Err(CpuSetError::TooHigh { number });
    }
    Ok(number)
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if cpu - *last == 1 => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let ranges: Vec<String> = ranges
            .into_iter()
            .map(|(first, last)| {
                if first == last {
                    first.to_string()
                } else {
                    format!("{first}-{last}")
                }
            })
            .collect();
        f.pad(&ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_of_numbers_and_ranges_is_put_in_order_and_joined() {
        for (text, expected) in [
            ("", ""),
            ("0", "0"),
            ("0-3,8", "0-3,8"),
            ("8,0-3", "0-3,8"),
            ("1-1", "1"),
            ("0,1", "0-1"),
            ("3,1,2,2", "1-3"),
            ("0-5,34,46-48", "0-5,34,46-48"),
            ("0-4,3-7", "0-7"),
            ("3-7,0-9,5,12-13,12", "0-9,12-13"),
            ("+1,007", "1,7"),
            ("1-+3", "1-3"),
        ] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!(set.to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_list_is_refused() {
        for text in [
            ",", "1,", "a", "1-", "-1", "3-1", "1--1", "1-2-3", " 1", "1, 2", "0-70000",
        ] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_set_gives_its_cpus_lowest_first() {
        let set: CpuSet = "8,0-2".parse().unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 8]);
        assert_eq!((set.len(), set.is_empty()), (4, false));
        assert!(set.contains(8) && !set.contains(3));
    }

    proptest! {
        #[test]
        fn any_text_is_a_set_or_an_error(text in "[0-9,+ -]{0,12}|.{0,12}") {
            let _ = text.parse::<CpuSet>();
        }

        #[test]
        fn a_printed_set_reads_back_the_same(cpus in proptest::collection::btree_set(0..200_u32, 0..60)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }
    }
}
