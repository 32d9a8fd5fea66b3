//! What a request for a log may not ask: the node would refuse it in words that say less.

use crate::failure::Failure;
use crate::front::query::Query;
use crate::validate::Errors;

/// As upstream, which looks before it asks anybody.
pub(super) fn check(query: &Query, pod: &str) -> Result<(), Failure> {
    let mut errors = Errors::default();
    let tail: Option<i64> = query.number("tailLines")?;
    if let Some(lines) = tail.filter(|lines| *lines < 0) {
        errors.invalid("tailLines", lines, "must be greater than or equal to 0");
    }
    let mut positive = |field: &str| -> Result<bool, Failure> {
        let number: Option<i64> = query.number(field)?;
        if let Some(number) = number.filter(|number| *number < 1) {
            errors.invalid(field, number, "must be greater than 0");
        }
        Ok(number.is_some())
    };
    positive("limitBytes")?;
    if query.text("sinceTime").is_empty() {
        positive("sinceSeconds")?;
    } else if query.number::<i64>("sinceSeconds")?.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.forbidden("", detail);
    }
    errors.into_result_on("PodLogOptions", "", pod)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn what_no_log_has_is_refused_before_the_node_is_asked() {
        let both = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        for (query, words) in [
            ("", None),
            ("tailLines=0&limitBytes=1&sinceSeconds=1&follow=true", None),
            (
                "tailLines=-1",
                Some("tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ),
            (
                "limitBytes=0",
                Some("limitBytes: Invalid value: 0: must be greater than 0"),
            ),
            (
                "sinceSeconds=0",
                Some("sinceSeconds: Invalid value: 0: must be greater than 0"),
            ),
            (
                "sinceSeconds=5&sinceTime=2026-01-02T03%3A04%3A05Z",
                Some(&*format!("Forbidden: {both}")),
            ),
        ] {
            let found = check(&Query::parse(query), "p").err();
            let found = found.map(|failure| (failure.code, failure.reason, failure.message));
            let expected = words.map(|words| {
                let message = format!("PodLogOptions \"p\" is invalid: {words}");
                (StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            });
            assert_eq!(found, expected, "{query}");
        }
    }
}
