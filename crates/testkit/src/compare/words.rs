//! Texts in which everything that another run, or another node, would have
//! otherwise is replaced by a word: names, ids, addresses, times, durations.
//! Pure.

/// What is known of a run, and the word for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// The longest first: one name may hold another.
    known: Vec<(String, String)>,
}

impl Words {
    /// Empty texts stand for nothing, and are left out.
    pub(super) fn new(known: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<_> = known
            .into_iter()
            .filter(|(text, _)| !text.is_empty())
            .collect();
        known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        known.dedup();
        Self { known }
    }

    pub(super) fn normal(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.known {
            text = replace_word(&text, from, to);
        }
        measured_figures(&pull_times(&by_shape(&text)))
    }
}

/// Replaces `from` where it is not part of a longer word or number.
pub(crate) fn replace_word(text: &str, from: &str, to: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, found) = rest.split_at(at);
        let after = &found[from.len()..];
        let joined = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        // What was before is in `done` when the last match touches this one.
        let previous = before.chars().last().or(done.chars().last());
        done.push_str(before);
        if joined(previous) || joined(after.chars().next()) {
            done.push_str(from);
        } else {
            done.push_str(to);
        }
        rest = after;
    }
    done + rest
}

/// Replaces what shows by its shape: ids, times, durations, generated names.
fn by_shape(text: &str) -> String {
    let part = |letter: char| letter.is_alphanumeric() || "-.:+_".contains(letter);
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter| !part(letter)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let bare = token.trim_end_matches(['.', ':']);
        done.push_str(&token_by_shape(bare));
        done.push_str(&token[bare.len()..]);
        let next = after.find(part).unwrap_or(after.len());
        done.push_str(&after[..next]);
        rest = &after[next..];
    }
    done
}

fn token_by_shape(token: &str) -> String {
    if is_time(token) {
        return "TIME".to_owned();
    }
    if is_fine_duration(token) {
        return "DURATION".to_owned();
    }
    if let Some(suffix) = token.strip_prefix("kube-api-access-")
        && suffix.len() == 5
    {
        return "kube-api-access-X".to_owned();
    }
    // An image's digest follows from its content: it must be equal.
    if token.starts_with("sha256:") {
        return token.to_owned();
    }
    let ids = |part: &str| {
        let hex = part.len() >= 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if hex {
            "ID".to_owned()
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<String> = token.split(['-', '_', '.', ':']).map(ids).collect();
    if parts.iter().any(|part| part == "ID") {
        return parts.join("-");
    }
    token.to_owned()
}

/// `2026-01-02T03:04:05Z`, with or without a fraction.
fn is_time(token: &str) -> bool {
    let bytes = token.as_bytes();
    bytes.len() >= 20
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
}

/// A duration that was measured, not configured: it has a fraction or is
/// counted in less than seconds. `10s` and `2m0s` are somebody's choice.
fn is_fine_duration(token: &str) -> bool {
    let small = ["ms", "µs", "ns"];
    let Some(number) = small
        .iter()
        .find_map(|unit| token.strip_suffix(unit))
        .or_else(|| {
            token
                .strip_suffix('s')
                .filter(|number| number.contains('.'))
        })
    else {
        return false;
    };
    let digits = number.rsplit(['h', 'm']).next().unwrap_or(number);
    !digits.is_empty()
        && number.starts_with(|letter: char| letter.is_ascii_digit())
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A pull may take a round number of seconds.
fn pull_times(text: &str) -> String {
    let (Some(start), Some(end)) = (text.rfind(" in "), text.find(" including waiting)")) else {
        return text.to_owned();
    };
    if start > end {
        return text.to_owned();
    }
    format!("{} in DURATION (DURATION{}", &text[..start], &text[end..])
}

/// What other pods on the node asked for when one was refused, and how much memory was
/// used when it was looked at.
fn measured_figures(text: &str) -> String {
    const BEFORE: [&str; 2] = [", used: ", "below current usage ("];
    BEFORE.iter().fold(text.to_owned(), |text, before| {
        let mut parts = text.split(before);
        let start = parts.next().unwrap_or_default().to_owned();
        parts.fold(start, |done, part| {
            let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{done}{before}N{rest}")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let known = [
            ("10.245.1.5", "IP"),
            ("compare-u", "NODE"),
            ("c1u-plain", "NAMESPACE"),
            ("0a1b2c3d-0000-4000-8000-123456789abc", "UID"),
            ("", "NOTHING"),
        ];
        Words::new(known.map(|(from, to)| (from.to_owned(), to.to_owned())))
    }

    #[test]
    fn what_another_run_would_have_otherwise_becomes_a_word() {
        let id = "ab".repeat(32);
        let cases = [
            ("plain text, nothing to do", "plain text, nothing to do"),
            ("at 10.245.1.5.", "at IP."),
            ("at 10.245.1.55", "at 10.245.1.55"),
            (
                "pod=p_c1u-plain(0a1b2c3d-0000-4000-8000-123456789abc)",
                "pod=p_NAMESPACE(UID)",
            ),
            ("web-compare-u web-compare-us", "web-NODE web-compare-us"),
            ("since 2026-01-02T03:04:05Z, it", "since TIME, it"),
            ("since 2026-01-02T03:04:05.678Z", "since TIME"),
            ("took 54.3ms and 1.25s", "took DURATION and DURATION"),
            ("cpu, used: 10, capacity: 2", "cpu, used: N, capacity: 2"),
            (
                "limit (5) below current usage (12), limit (4) below current usage (7)",
                "limit (5) below current usage (N), limit (4) below current usage (N)",
            ),
            ("back-off 10s restarting", "back-off 10s restarting"),
            ("back-off 2m40s restarting", "back-off 2m40s restarting"),
            ("volume kube-api-access-x7k2p", "volume kube-api-access-X"),
            (
                "Pulled x in 2s (3s including waiting). Image size: 5 bytes.",
                "Pulled x in DURATION (DURATION including waiting). Image size: 5 bytes.",
            ),
        ];
        for (from, to) in cases {
            assert_eq!(words().normal(from), to, "{from}");
        }
        let container = format!("containerd://{id}");
        assert_eq!(words().normal(&container), "containerd://ID");
        let image = format!("busybox@sha256:{id}");
        assert_eq!(words().normal(&image), image, "a digest stays");
    }

    #[test]
    fn of_two_names_the_longer_is_replaced_first() {
        let known = [("a", "SHORT"), ("a-b", "LONG")];
        let words = Words::new(known.map(|(from, to)| (from.to_owned(), to.to_owned())));
        assert_eq!(words.normal("a-b a"), "LONG SHORT");
    }

    #[test]
    fn matches_that_touch_are_both_looked_at() {
        assert_eq!(replace_word("a/a", "a", "X"), "X/X");
        assert_eq!(replace_word("aa", "a", "X"), "aa");
    }
}
