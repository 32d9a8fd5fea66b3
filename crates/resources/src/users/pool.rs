//! What may be given to pods, in portions of equal length.

use seams::host::SubordinateIds;
use thiserror::Error;

use super::IdRange;

/// Portions are made of these.
const UNIT: u32 = 65_536;

/// So many ids has a machine.
const ALL: u64 = 1 << 32;

/// Ids that are given to pods, a portion to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    pub(super) portion: u32,
    /// The number of the first portion: portion 0 has the machine's own root.
    pub(super) first: u32,
    pub(super) portions: u32,
    /// So many of them are given, from the first on.
    pub(super) mappable: u32,
}

/// Why ids cannot be parted among pods.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BadPool {
    #[error(
        "kubelet mappings: mismatched subuids and subgids for user \"kubelet\": give it the same range in /etc/subuid and /etc/subgid"
    )]
    Mismatch,
    #[error("kubelet mappings: error parsing line {0:?}: it must contain only one line")]
    Lines(String),
    #[error("kubelet mappings: invalid line {0:?}")]
    Words(String),
    #[error("kubelet mappings: error parsing line {line:?}: {word:?} is no number of ids")]
    Number { line: String, word: String },
    #[error("kubelet user namespace length {0} is not a multiple of {UNIT}")]
    Length(u32),
    #[error("kubelet user assigned ID {first} is not a multiple of {portion}")]
    Start { first: u32, portion: u32 },
    #[error("kubelet user assigned ID {first} must be greater or equal to {portion}")]
    Root { first: u32, portion: u32 },
    #[error("kubelet user assigned IDs length {length} is not a multiple of {portion}")]
    Rest { length: u32, portion: u32 },
    #[error(
        "kubelet user assigned IDs from {first} on, {length} of them, reach beyond the {ALL} of a machine: give user \"kubelet\" fewer in /etc/subuid and /etc/subgid"
    )]
    Beyond { first: u32, length: u32 },
    #[error("kubelet user assigned IDs are not enough to support {0} pods")]
    Few(u32),
}

impl Pool {
    /// `told` are the ids that the kubelet's account may hand on; without, all but
    /// the first portion. The last portion of all ids is never given.
    pub fn new(told: Option<&SubordinateIds>, portion: u32, pods: u32) -> Result<Self, BadPool> {
        if portion == 0 || !portion.is_multiple_of(UNIT) {
            return Err(BadPool::Length(portion));
        }
        let IdRange { first, length } = match told {
            Some(told) if told.users != told.groups => return Err(BadPool::Mismatch),
            Some(told) => parse(&told.users)?,
            None => IdRange {
                first: portion,
                length: u32::try_from(ALL - u64::from(portion)).unwrap_or_default(),
            },
        };
        if !first.is_multiple_of(portion) {
            return Err(BadPool::Start { first, portion });
        }
        if first < portion {
            // To map 0 is to give the machine away.
            return Err(BadPool::Root { first, portion });
        }
        if !length.is_multiple_of(portion) {
            return Err(BadPool::Rest { length, portion });
        }
        let end = u64::from(first) + u64::from(length);
        if end > ALL {
            // Counted on from there, the first of them would be the machine's own root.
            return Err(BadPool::Beyond { first, length });
        }
        let portions = length / portion;
        // The kernel maps no range up to the last id: where it ends is no number of 32 bits.
        let unmappable = u32::from(end == ALL);
        let mappable = portions.saturating_sub(unmappable);
        if mappable < pods {
            return Err(BadPool::Few(pods));
        }
        Ok(Self {
            portion,
            first: first / portion,
            portions,
            mappable,
        })
    }
}

/// Of an answer such as `0: kubelet 65536 2147483648`.
fn parse(answer: &str) -> Result<IdRange, BadPool> {
    let line = answer.trim_matches('\n');
    if line.contains('\n') {
        return Err(BadPool::Lines(answer.to_owned()));
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, first, length] = words[..] else {
        return Err(BadPool::Words(answer.to_owned()));
    };
    let number = |word: &str| {
        word.parse().map_err(|_| BadPool::Number {
            line: answer.to_owned(),
            word: word.to_owned(),
        })
    };
    Ok(IdRange {
        first: number(first)?,
        length: number(length)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> SubordinateIds {
        SubordinateIds {
            users: line.to_owned(),
            groups: line.to_owned(),
        }
    }

    #[test]
    fn without_an_account_all_ids_but_the_first_and_the_last_portion_are_given() {
        let found = Pool::new(None, UNIT, 110).unwrap();
        assert_eq!((found.first, found.mappable), (1, 65_534));
        let found = Pool::new(None, 4 * UNIT, 110).unwrap();
        assert_eq!((found.first, found.mappable), (1, 16_382));
    }

    #[test]
    fn an_account_gives_what_it_was_given() {
        let found = Pool::new(Some(&told("0: kubelet 65536 7208960\n")), UNIT, 110).unwrap();
        assert_eq!((found.first, found.portions), (1, 110));
        let found = Pool::new(Some(&told("0: kubelet 131072 7208960\n")), UNIT, 5).unwrap();
        assert_eq!((found.first, found.portions), (2, 110));
        // Up to the last id, and one portion short of it.
        for (line, mappable) in [
            ("0: kubelet 4294836224 131072", 1),
            ("0: kubelet 4294770688 131072", 2),
        ] {
            let found = Pool::new(Some(&told(line)), UNIT, 1).unwrap();
            assert_eq!(found.mappable, mappable, "{line}");
        }
    }

    #[test]
    fn ids_that_cannot_be_parted_are_refused_in_upstreams_words() {
        for (line, portion, pods, text) in [
            (
                "0: kubelet 65537 65536",
                UNIT,
                1,
                "kubelet user assigned ID 65537 is not a multiple of 65536",
            ),
            (
                "0: kubelet 0 65536",
                UNIT,
                1,
                "kubelet user assigned ID 0 must be greater or equal to 65536",
            ),
            (
                "0: kubelet 65536 65537",
                UNIT,
                1,
                "kubelet user assigned IDs length 65537 is not a multiple of 65536",
            ),
            (
                "0: kubelet 65536 65536",
                UNIT,
                2,
                "kubelet user assigned IDs are not enough to support 2 pods",
            ),
            (
                "0: kubelet 4294901760 131072",
                UNIT,
                1,
                "kubelet user assigned IDs from 4294901760 on, 131072 of them, reach beyond the 4294967296 of a machine: give user \"kubelet\" fewer in /etc/subuid and /etc/subgid",
            ),
            (
                "0: kubelet 4294901760 65536",
                UNIT,
                1,
                "kubelet user assigned IDs are not enough to support 1 pods",
            ),
            (
                "0: kubelet 65536 65536",
                1000,
                1,
                "kubelet user namespace length 1000 is not a multiple of 65536",
            ),
            (
                "0: kubelet 65536 65536",
                0,
                1,
                "kubelet user namespace length 0 is not a multiple of 65536",
            ),
            (
                "0: kubelet 1 2\n1: kubelet 3 4\n",
                UNIT,
                1,
                "kubelet mappings: error parsing line \"0: kubelet 1 2\\n1: kubelet 3 4\\n\": it must contain only one line",
            ),
            ("", UNIT, 1, "kubelet mappings: invalid line \"\""),
            (
                "0: kubelet x 5",
                UNIT,
                1,
                "kubelet mappings: error parsing line \"0: kubelet x 5\": \"x\" is no number of ids",
            ),
            (
                "0: kubelet 65536 4294967296",
                UNIT,
                1,
                "kubelet mappings: error parsing line \"0: kubelet 65536 4294967296\": \"4294967296\" is no number of ids",
            ),
        ] {
            let error = Pool::new(Some(&told(line)), portion, pods).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        let differing = SubordinateIds {
            groups: "0: kubelet 131072 65536".to_owned(),
            ..told("0: kubelet 65536 65536")
        };
        let error = Pool::new(Some(&differing), UNIT, 1).unwrap_err();
        assert_eq!(error, BadPool::Mismatch);
        // Not every length parts all ids evenly.
        let error = Pool::new(None, 3 * UNIT, 1).unwrap_err();
        assert!(matches!(error, BadPool::Rest { .. }), "{error}");
    }
}
