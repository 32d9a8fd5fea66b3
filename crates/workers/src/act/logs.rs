//! What the logs of containers are called: the number of the next one, and the link to it.

use std::path::Path;

use seams::storage::perform;

/// A name in a directory is not longer.
const LONGEST_NAME: usize = 255;
const SUFFIX: &str = ".log";

/// Behind the logs of containers that the runtime no longer has.
pub(super) async fn next_log(storage: &seams::SharedStorage, directory: &Path) -> u32 {
    let directory = directory.to_owned();
    let entries = perform(storage, move |storage| storage.entries(&directory)).await;
    let entries = entries.and_then(|entries| entries).ok().flatten();
    let names = entries.iter().flatten().map(|entry| entry.name.as_str());
    next_number(names)
}

/// Logs that were put aside count, too: they begin like the one that they were.
fn next_number<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    let numbers = names.filter_map(|name| {
        let end = name.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, rest) = name.split_at(end);
        let number = number.parse::<u32>().ok()?;
        rest.starts_with(SUFFIX).then_some(number)
    });
    numbers.max().map_or(0, |last| last.saturating_add(1))
}

/// `<pod>_<namespace>_<container>-<id>.log`, cut before its end so that it is a name.
/// Housekeeping looks for it under the same.
pub(super) fn link_name(pod: &str, namespace: &str, container: &str, id: &str) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    name.truncate(name.floor_char_boundary(LONGEST_NAME - SUFFIX.len()));
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_log_comes_after_all_that_there_were() {
        let cases: [(&[&str], u32); 8] = [
            (&[], 0),
            (&["0.log"], 1),
            (&["2.log", "10.log", "9.log"], 11),
            (&["3.log.20260102-030405"], 4),
            (&["4.log.20260102-030405.gz", "1.log"], 5),
            (&["notes", "7.txt", "x8.log", ".log"], 0),
            (&["99999999999.log", "1.log"], 2),
            (&["5.logs"], 6),
        ];
        for (names, expected) in cases {
            assert_eq!(next_number(names.iter().copied()), expected, "{names:?}");
        }
    }

    #[test]
    fn a_link_is_cut_at_its_end_as_upstream_cuts_it() {
        let id = "0123456789abcdef".repeat(4);
        let plain = link_name("web", "shop", "main", &id);
        assert_eq!(plain, format!("web_shop_main-{id}.log"));
        let pod = "p".repeat(200);
        let long = link_name(&pod, "shop", "main", &id);
        assert_eq!(long, format!("{pod}_shop_main-{}.log", &id[..40]));
        assert_eq!(long.len(), LONGEST_NAME);
    }
}
