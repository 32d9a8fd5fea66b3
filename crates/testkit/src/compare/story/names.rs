//! What the pods of a record are called: names that were generated get numbers
//! in the order in which they appeared.

use std::collections::BTreeMap;

use super::{Place, Sighting, text};

#[derive(Debug, Default)]
pub(super) struct Names {
    /// Uids as they appeared.
    uids: Vec<String>,
    /// By uid.
    by_uid: BTreeMap<String, String>,
    /// What a controller made up, and the word for it.
    made_up: Vec<(String, String)>,
}

impl Names {
    pub(super) fn of(pods: &[Sighting]) -> Self {
        let mut names = Self::default();
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        for sighting in pods {
            let metadata = &sighting.object["metadata"];
            let uid = text(&metadata["uid"]);
            if names.by_uid.contains_key(&uid) {
                continue;
            }
            names.note_hash(&text(&metadata["labels"]["pod-template-hash"]));
            names.note_hash(&text(&metadata["labels"]["controller-revision-hash"]));
            let name = text(&metadata["name"]);
            let stem = text(&metadata["generateName"]);
            let numbered = if stem.is_empty() || !name.starts_with(&stem) {
                // The same name again is another pod.
                let count = used.entry(name.clone()).or_default();
                *count += 1;
                let number = *count;
                if number == 1 {
                    name
                } else {
                    format!("{name}@{number}")
                }
            } else {
                let count = used.entry(stem.clone()).or_default();
                *count += 1;
                let numbered = format!("{stem}#{count}");
                names.made_up.push((name, numbered.clone()));
                numbered
            };
            names.uids.push(uid.clone());
            names.by_uid.insert(uid, numbered);
        }
        names
    }

    fn note_hash(&mut self, hash: &str) {
        if hash.is_empty() || self.made_up.iter().any(|(known, _)| known == hash) {
            return;
        }
        let count = self
            .made_up
            .iter()
            .filter(|(_, word)| word.starts_with("HASH"))
            .count();
        self.made_up
            .push((hash.to_owned(), format!("HASH{}", count + 1)));
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &str> {
        self.uids.iter().map(String::as_str)
    }

    pub(super) fn name(&self, uid: &str) -> &str {
        self.known(uid).unwrap_or_default()
    }

    pub(super) fn known(&self, uid: &str) -> Option<&str> {
        self.by_uid.get(uid).map(String::as_str)
    }

    /// Everything that has a word.
    pub(super) fn words(&self, place: &Place, pods: &[Sighting]) -> Vec<(String, String)> {
        let word = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let mut words = self.made_up.clone();
        words.push(word(&place.namespace, "NAMESPACE"));
        words.push(word(&place.node, "NODE"));
        words.push(word(&place.address, "ADDRESS"));
        words.extend(self.uids.iter().map(|uid| word(uid, "UID")));
        for sighting in pods {
            let address = text(&sighting.object["status"]["podIP"]);
            if address != place.address {
                words.push(word(&address, "IP"));
            }
        }
        words
    }
}
