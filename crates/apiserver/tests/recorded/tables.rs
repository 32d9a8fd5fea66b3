//! Tables of objects in many states.

use apiserver::kinds::KINDS;
use apiserver::tables::{IncludeObject, Options, render};
use serde_json::Value;

use super::{Differences, cases};

#[test]
fn tables_have_upstreams_columns_and_cells() {
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/tables.json")) {
        let kind = KINDS.iter().find(|kind| kind.kind == case["kind"]).unwrap();
        let now = case["now"].as_str().unwrap().parse().unwrap();
        let options = Options {
            include: IncludeObject::None,
            headers: true,
            metadata: Value::Null,
        };
        let mut table = render(kind, case["objects"].as_array().unwrap(), &options, now);
        for column in table["columnDefinitions"].as_array_mut().unwrap() {
            column.as_object_mut().unwrap().remove("description");
        }
        for row in table["rows"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("object");
        }
        differences.compare(&case["kind"], &table["columnDefinitions"], &case["columns"]);
        differences.compare(&case["kind"], &table["rows"], &case["rows"]);
    }
    differences.finish();
}
