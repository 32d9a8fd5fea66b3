//! Selectors: the words for those that cannot be read.

use apiserver::kinds;
use apiserver::selectors::{FieldSelector, LabelSelector};
use serde_json::json;

use super::{Differences, cases};

#[test]
fn selectors_are_refused_in_upstreams_words() {
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/selectors.json")) {
        let text = case["selector"].as_str().unwrap();
        let kind = kinds::find("", "v1", case["resource"].as_str().unwrap()).unwrap();
        let outcome = match case["parameter"].as_str().unwrap() {
            "labelSelector" => LabelSelector::parse(text).map(drop),
            _ => FieldSelector::parse(kind, text).map(drop),
        };
        let ours = match outcome {
            Ok(()) => json!([200, ""]),
            Err(failure) => json!([failure.code.as_u16(), failure.message]),
        };
        differences.compare(
            &case["selector"],
            &ours,
            &json!([case["code"], case["message"]]),
        );
    }
    differences.finish();
}
