//! The query of a request, as forms write it.

use percent_encoding::percent_decode_str;

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn read(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(
            pairs
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// The first value of a name.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().find(|(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }
}

fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_come_again_and_without_a_value() {
        let query = Query::read("a=1&b&a=2+3%26&&=x");
        assert_eq!(query.first("a"), Some("1"));
        assert_eq!(query.first("b"), Some(""));
        assert_eq!(query.first("c"), None);
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2 3&"]);
    }
}
