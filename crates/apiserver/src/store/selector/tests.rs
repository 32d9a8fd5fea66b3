#![expect(
    clippy::needless_pass_by_value,
    reason = "what is written in place is read better without a reference"
)]

use serde_json::json;

use super::*;
use crate::kinds::PODS;
use crate::store::Key;

fn pod(labels: serde_json::Value, node: &str) -> Stored {
    let object = json!({
        "metadata": {"name": "a", "namespace": "x", "labels": labels},
        "spec": {"nodeName": node},
    });
    Stored::new(&Key::new(&PODS, "x", "a"), 1, object)
}

#[test]
fn labels_are_selected_as_upstream_does() {
    let object = pod(json!({"app": "web", "tier": "front", "weight": "5"}), "n");
    for (selector, selected) in [
        ("", true),
        ("app=web", true),
        ("app==web", true),
        ("app!=web", false),
        ("other!=web", true),
        ("app in (web, db),tier", true),
        ("app notin (web,db)", false),
        ("other notin (web)", true),
        ("!app", false),
        ("!other", true),
        ("weight>4", true),
        ("weight<5", false),
        ("app>1", false),
        ("app=", false),
        (" app = web , tier = front ", true),
    ] {
        let parsed = Selector::parse(&PODS, None, selector, "").unwrap();
        assert_eq!(parsed.matches(&object), selected, "{selector}");
    }
}

#[test]
fn fields_are_equal_or_not_and_may_be_escaped() {
    let object = pod(json!({}), "n,1");
    for (fields, selected) in [
        ("spec.nodeName=n\\,1", true),
        ("spec.nodeName!=n\\,1", false),
        ("spec.nodeName=n", false),
        ("metadata.name=a,metadata.namespace=x", true),
        ("spec.nodeName!=", true),
        ("status.phase=", true),
    ] {
        let parsed = Selector::parse(&PODS, None, "", fields).unwrap();
        assert_eq!(parsed.matches(&object), selected, "{fields}");
    }
    let parsed = Selector::parse(&PODS, None, "", "spec.nodeName=m").unwrap();
    assert_eq!(parsed.pivot(), Some(("spec.nodeName", "m".into())));
    assert_eq!(Selector::in_namespace(None).pivot(), None);
}

#[test]
fn another_namespace_is_not_meant() {
    let object = pod(json!({}), "n");
    assert!(Selector::in_namespace(Some("x")).matches(&object));
    assert!(!Selector::in_namespace(Some("y")).matches(&object));
}
