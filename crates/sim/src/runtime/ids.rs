//! Names that nothing else has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Of a sandbox or a container: 64 hexadecimal digits.
pub(super) type Id = Arc<str>;

/// Where ids come from. Two runtimes with other seeds make other ids.
#[derive(Debug)]
pub(super) struct Ids {
    seed: u64,
    made: u64,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, made: 0 }
    }

    pub(super) fn next(&mut self) -> Id {
        self.made += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(self.made.to_le_bytes());
        hex(&hash.finalize()).into()
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Whose id it is; or, as with containerd, whose id begins like that if there is
/// only one.
pub(super) fn find<'a, T>(all: &'a BTreeMap<Id, T>, wanted: &str) -> Option<(&'a Id, &'a T)> {
    if wanted.is_empty() {
        return None;
    }
    let from = (Bound::Included(wanted), Bound::Unbounded);
    let mut alike = all
        .range::<str, _>(from)
        .take_while(|(id, _)| id.starts_with(wanted));
    let first = alike.next()?;
    let alone = first.0.len() == wanted.len() || alike.next().is_none();
    alone.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_within_a_runtime_and_between_runtimes() {
        let (mut one, mut other) = (Ids::new(1), Ids::new(2));
        let ids = [one.next(), one.next(), other.next(), other.next()];
        assert_eq!(ids[0].len(), 64);
        let different: std::collections::BTreeSet<_> = ids.into_iter().collect();
        assert_eq!(different.len(), 4);
    }

    #[test]
    fn the_beginning_of_an_id_finds_it_when_it_is_the_only_one() {
        let all: BTreeMap<Id, u8> = [("aa1", 1), ("aa2", 2), ("b", 3), ("bc", 4)]
            .map(|(id, value)| (id.into(), value))
            .into();
        for (wanted, found) in [
            ("aa1", Some(1)),
            ("aa", None),
            ("b", Some(3)),
            ("bc", Some(4)),
            ("c", None),
            ("", None),
        ] {
            assert_eq!(
                find(&all, wanted).map(|(_, &value)| value),
                found,
                "{wanted}"
            );
        }
    }
}
