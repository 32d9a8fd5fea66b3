//! The parameters of a request.

use percent_encoding::percent_decode_str;

use crate::failure::Failure;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(pairs.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Empty when it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = self.0.iter().filter(move |(own, _)| own == name);
        same.map(|(_, value)| value.as_str())
    }

    /// Whether something is wanted: said without a value, or with one that is not no.
    pub(super) fn flag(&self, name: &str) -> bool {
        let no = |value: &str| matches!(value, "0" | "false" | "False" | "f" | "F" | "FALSE");
        self.get(name).is_some_and(|value| !no(value))
    }

    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Failure> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let unreadable = |_| {
            Failure::bad_request(format!(
                "invalid value {text:?} for the parameter {name}: it must be a number"
            ))
        };
        text.parse().map(Some).map_err(unreadable)
    }

    /// `dryRun=All`; nothing else can be meant.
    pub(super) fn dry_run(&self) -> Result<bool, Failure> {
        let mut dry = false;
        for value in self.all("dryRun").filter(|value| !value.is_empty()) {
            if value != "All" {
                return Err(Failure::bad_request(format!(
                    "dryRun: Unsupported value: {value:?}: supported values: \"All\""
                )));
            }
            dry = true;
        }
        Ok(dry)
    }
}
