//! Environment files, as systemd reads them for the kubelet's unit: what the
//! drop-in would give our agent, for machines without systemd.

/// The last value of a variable. Lines without one, and comments, are passed over.
pub(super) fn variable(text: &str, name: &str) -> Option<String> {
    let assignments = text.lines().map(str::trim_start);
    let value = assignments
        .filter(|line| !line.starts_with(['#', ';']))
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
        .next_back()?;
    // One pair of quotes around the whole, or none.
    Some(
        match value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
        {
            Some(quoted) => unescaped(quoted),
            None => match value
                .strip_prefix('\'')
                .and_then(|rest| rest.strip_suffix('\''))
            {
                Some(quoted) => quoted.to_owned(),
                None => value.to_owned(),
            },
        },
    )
}

fn unescaped(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => found.extend(characters.next()),
            other => found.push(other),
        }
    }
    found
}

/// The words of a value: split at blanks, but not inside quotes, which go.
pub(super) fn words(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in value.chars() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_join_writes_is_read_back() {
        let text = "KUBELET_KUBEADM_ARGS=\"--node-labels=a=\\\"b c\\\" --v=4\"\n";
        let value = variable(text, "KUBELET_KUBEADM_ARGS").unwrap();
        assert_eq!(words(&value), ["--node-labels=a=b c", "--v=4"]);
        assert_eq!(variable(text, "KUBELET_EXTRA_ARGS"), None);
        let empty = variable("KUBELET_KUBEADM_ARGS=\"\"\n", "KUBELET_KUBEADM_ARGS").unwrap();
        assert!(words(&empty).is_empty());
    }

    #[test]
    fn what_people_write_is_read_as_systemd_does() {
        let text = "# X=0\n; X=1\nX=--a --b\n X = '--c=\"d e\"'\nY=2\n";
        assert_eq!(words(&variable(text, "X").unwrap()), ["--c=d e"]);
        assert_eq!(words(" a  '' b"), ["a", "", "b"]);
    }
}
