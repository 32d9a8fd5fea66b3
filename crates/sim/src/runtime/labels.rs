//! Labels and annotations, kept small: there are ten thousand nodes of them.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub(super) fn to_map(&self) -> BTreeMap<String, String> {
        let pairs = self.0.iter();
        pairs
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    /// Whether it has all that is asked for.
    pub(super) fn have(&self, selector: &BTreeMap<String, String>) -> bool {
        selector
            .iter()
            .all(|(key, value)| self.get(key) == Some(value))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        // They were sorted when they came.
        let place = self.0.binary_search_by(|(known, _)| (**known).cmp(key));
        place.ok().map(|place| &*self.0[place].1)
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(map: BTreeMap<String, String>) -> Self {
        let pairs = map.into_iter();
        Self(
            pairs
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn they_come_back_as_they_were_and_answer_selectors() {
        let given = map(&[("app", "web"), ("io.kubernetes.pod.uid", "1"), ("tier", "")]);
        let labels = Labels::from(given.clone());
        assert_eq!(labels.to_map(), given);
        for (selector, matches) in [
            (map(&[]), true),
            (map(&[("app", "web")]), true),
            (map(&[("app", "web"), ("tier", "")]), true),
            (map(&[("app", "db")]), false),
            (map(&[("app", "web"), ("zone", "a")]), false),
        ] {
            assert_eq!(labels.have(&selector), matches, "{selector:?}");
        }
    }
}
