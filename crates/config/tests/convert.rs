//! A command line that was converted to a file means the same as before,
//! whatever flags it has.
//!
//! In: good values of every flag, and some files. Out: a verdict. It knows the
//! public way from words to settings, and nothing behind it.

use std::path::Path;

use config::convert;
use config::flags::CommandLine;
use config::load::{Loaded, resolve};
use proptest::prelude::*;

const VALUES: &str = include_str!("../testdata/flag-values.tsv");
const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Every flag with a good value, as a word; those that name other files or end
/// the program are left out.
fn good_words() -> Vec<String> {
    VALUES
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut cells = line.split('\t');
            Some((cells.next()?, cells.next()?))
        })
        .filter(|(name, _)| !["config", "config-dir", "help", "version"].contains(name))
        .map(|(name, good)| format!("--{name}={good}"))
        .collect()
}

fn resolved(words: &[String]) -> Option<(CommandLine, Loaded)> {
    let line = CommandLine::parse(words).ok()?;
    let loaded = resolve(&line, Path::new("/")).ok()?;
    Some((line, loaded))
}

/// Without the quotes that a shell takes away.
fn unquoted(word: &str) -> String {
    match word
        .strip_prefix('\'')
        .and_then(|word| word.strip_suffix('\''))
    {
        Some(inner) => inner.replace("'\\''", "'"),
        None => word.to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_converted_command_line_means_the_same(
        words in prop::sample::subsequence(good_words(), 0..12),
        zero in any::<bool>(),
        file in prop::sample::select(vec![
            "",
            "maxPods: 50\n",
            "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n",
            "nodeStatusUpdateFrequency: 7s\nsystemReserved: {cpu: \"1\"}\n",
        ]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut words = words;
        if zero {
            words.push("--max-pods=0".to_owned());
        }
        if !file.is_empty() {
            let path = dir.path().join("before.yaml");
            std::fs::write(&path, format!("{HEAD}{file}")).unwrap();
            words.push(format!("--config={}", path.display()));
        }
        if let Some((line, before)) = resolved(&words) {
            let converted = convert(&line, &before, Path::new("/")).unwrap();
            let path = dir.path().join("after.json");
            let text = serde_json::to_string(&converted.settings.given()).unwrap();
            std::fs::write(&path, text).unwrap();
            let mut rest = vec![format!("--config={}", path.display())];
            rest.extend(converted.stay.iter().map(|word| unquoted(word)));
            let after = resolved(&rest).map(|(_, loaded)| loaded.settings.to_json());
            prop_assert_eq!(after, Some(before.settings.to_json()), "{:?}", words);
        }
    }
}
