use serde_json::{Value, json};

use super::*;

fn pod(spec: &Value) -> Pod {
    serde_json::from_value(json!({ "spec": spec })).unwrap()
}

fn with(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu } })
}

/// An init container, a sidecar and a container that ask for so much.
fn three(init: &str, sidecar: &str, main: &str) -> Pod {
    pod(&json!({
        "initContainers": [
            { "name": "init", "resources": with(init) },
            { "name": "sidecar", "restartPolicy": "Always", "resources": with(sidecar) },
        ],
        "containers": [{ "name": "main", "resources": with(main) }],
    }))
}

fn cpus(pod: &Pod) -> [String; 3] {
    let spec = pod.spec.as_ref().unwrap();
    let init = spec.init_containers.as_ref().unwrap();
    [&init[0], &init[1], &spec.containers[0]].map(|container| {
        let requests = container.resources.as_ref().unwrap().requests.clone();
        requests.unwrap()["cpu"].0.clone()
    })
}

#[test]
fn a_pod_is_carried_out_with_what_it_was_allowed() {
    let all = Scope::default();
    let allowed = of_pod(&three("1", "2", "3"), all);
    let wanted = three("4", "5", "6");
    let carried_out = apply(&wanted, &allowed, all).unwrap();
    assert_eq!(cpus(&carried_out), ["1", "2", "3"]);
    assert!(apply(&three("1000m", "2", "3000m"), &allowed, all).is_none());
    let less = Scope {
        init_containers: false,
        ..all
    };
    let allowed = of_pod(&three("1", "2", "3"), less);
    assert_eq!(
        cpus(&apply(&wanted, &allowed, less).unwrap()),
        ["4", "2", "3"]
    );
}

#[test]
fn what_a_pod_says_as_a_whole_counts_where_it_can_be_resized() {
    let whole = |cpu: &str| pod(&json!({ "containers": [], "resources": with(cpu) }));
    for (pod_level, differs) in [(true, true), (false, false)] {
        let scope = Scope {
            pod_level,
            ..Scope::default()
        };
        let allowed = of_pod(&whole("1"), scope);
        assert_eq!(allowed.pod.is_some(), pod_level);
        assert_eq!(apply(&whole("2"), &allowed, scope).is_some(), differs);
        assert_eq!(asks_otherwise(&whole("1"), &whole("2"), scope), differs);
    }
    let scope = Scope::default();
    let none = pod(&json!({ "containers": [] }));
    let carried_out = apply(&whole("1"), &of_pod(&none, scope), scope).unwrap();
    assert_eq!(carried_out.spec.as_ref().unwrap().resources, None);
}

#[test]
fn somebody_asks_for_other_resources_when_an_amount_changes() {
    let of =
        |resources: Value| pod(&json!({ "containers": [{ "name": "c", "resources": resources }] }));
    let before = of(json!({ "requests": { "cpu": "1" }, "limits": { "memory": "1Mi" } }));
    for (now, asks) in [
        (
            json!({ "requests": { "cpu": "1000m" }, "limits": { "memory": "1024Ki" } }),
            false,
        ),
        (
            json!({ "requests": { "cpu": "2" }, "limits": { "memory": "1Mi" } }),
            true,
        ),
        (
            json!({ "requests": { "cpu": "1" }, "limits": { "memory": "2Mi" } }),
            true,
        ),
        (json!({ "requests": { "cpu": "1" } }), true),
        (
            json!({ "requests": { "cpu": "1", "x/y": "1" }, "limits": { "memory": "1Mi" } }),
            false,
        ),
    ] {
        let text = now.to_string();
        assert_eq!(
            asks_otherwise(&before, &of(now), Scope::default()),
            asks,
            "{text}"
        );
    }
}

#[test]
fn a_resize_increases_if_the_pod_as_a_whole_asks_for_more() {
    let of = |cpu: &str, memory: &str| {
        let requests = json!({ "requests": { "cpu": cpu, "memory": memory } });
        pod(&json!({ "containers": [{ "name": "c", "resources": requests }] }))
    };
    let allowed = of("1", "1Gi");
    for (cpu, memory, more) in [
        ("1", "1Gi", false),
        ("500m", "1Gi", false),
        ("500m", "2Gi", true),
        ("2", "1Mi", true),
    ] {
        assert_eq!(
            increases(&allowed, &of(cpu, memory)),
            more,
            "{cpu} {memory}"
        );
    }
}
