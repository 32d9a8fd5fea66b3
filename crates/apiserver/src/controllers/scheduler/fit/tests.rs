use serde_json::{Value, json};

use super::*;

fn pod(spec: Value) -> PodFacts {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    merge(&mut pod["spec"], spec);
    serde_json::from_value(pod).unwrap()
}

fn node(name: &str, more: Value) -> NodeFacts {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "2", "ephemeral-storage": "10Gi"}},
    });
    merge(&mut node, more);
    serde_json::from_value(node).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match from {
        Value::Object(fields) => {
            for (key, value) in fields {
                merge(&mut into[key], value);
            }
        }
        other => *into = other,
    }
}

fn place(pod: &PodFacts, nodes: &[(NodeFacts, Usage)]) -> Result<String, String> {
    let nodes = nodes.iter().map(|(node, usage)| (node, usage));
    choose(pod, &Volumes::Bound(Vec::new()), nodes).map(str::to_owned)
}

fn alone(pod: &PodFacts, more: Value) -> String {
    match place(pod, &[(node("a", more), Usage::default())]) {
        Ok(_) => String::new(),
        Err(message) => message
            .trim_start_matches("0/1 nodes are available: ")
            .to_owned(),
    }
}

fn usage(pods: &[PodFacts]) -> Usage {
    let mut usage = Usage::default();
    for pod in pods {
        usage.add(pod);
    }
    usage
}

#[test]
fn each_check_has_its_words() {
    let tainted =
        |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let tolerant = pod(json!({"tolerations": [{"key": "k", "operator": "Exists"}]}));
    let plain = pod(json!({}));
    let taint = "1 node(s) had untolerated taint(s).";
    let affinity = "1 node(s) didn't match Pod's node affinity/selector.";
    let wants = |key: &str, value: &str| {
        pod(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}}}}),
        )
    };
    for (pod, more, words) in [
        (&plain, json!({}), ""),
        (
            &plain,
            json!({"spec": {"unschedulable": true}}),
            "1 node(s) were unschedulable.",
        ),
        (
            &pod(json!({"tolerations": [{"key": UNSCHEDULABLE, "operator": "Exists"}]})),
            json!({"spec": {"unschedulable": true}}),
            "",
        ),
        (&plain, tainted("NoSchedule"), taint),
        (&plain, tainted("NoExecute"), taint),
        (&plain, tainted("PreferNoSchedule"), ""),
        (&tolerant, tainted("NoSchedule"), ""),
        (
            &pod(json!({"nodeSelector": {"disk": "fast"}})),
            json!({}),
            affinity,
        ),
        (
            &pod(json!({"nodeSelector": {"disk": "fast"}})),
            json!({"metadata": {"labels": {"disk": "fast"}}}),
            "",
        ),
        (&wants("kubernetes.io/hostname", "a"), json!({}), ""),
        (&wants("kubernetes.io/hostname", "b"), json!({}), affinity),
        (
            &plain,
            json!({"status": {"allocatable": {"cpu": "500m"}}}),
            "1 Insufficient cpu.",
        ),
        (
            &plain,
            json!({"status": {"allocatable": {"cpu": "500m", "memory": "1Mi"}}}),
            "1 Insufficient cpu, 1 Insufficient memory.",
        ),
        (
            &plain,
            json!({"status": {"allocatable": {"pods": "0"}}}),
            "1 Too many pods.",
        ),
        (
            &pod(
                json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}),
            ),
            json!({}),
            "1 Insufficient example.com/gpu.",
        ),
        (
            &pod(
                json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}]}}}),
            ),
            json!({}),
            "1 node(s) cannot be judged: this scheduler does not know required pod anti-affinity yet.",
        ),
    ] {
        assert_eq!(alone(pod, more.clone()), words, "{more}");
    }
}

#[test]
fn ports_of_the_node_are_given_once() {
    let port = |address: &str, protocol: &str| {
        pod(
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": protocol}]}]}),
        )
    };
    let taken = usage(&[port("", "TCP")]);
    let clash =
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    let on = |pod: &PodFacts, taken: &Usage| place(pod, &[(node("a", json!({})), taken.clone())]);
    assert_eq!(on(&port("", "TCP"), &taken), Err(clash.to_owned()));
    assert_eq!(on(&port("192.0.2.1", "TCP"), &taken), Err(clash.to_owned()));
    assert!(on(&port("", "UDP"), &taken).is_ok());
    let one_address = usage(&[port("192.0.2.1", "TCP")]);
    assert!(on(&port("192.0.2.2", "TCP"), &one_address).is_ok());
    assert!(on(&port("", "TCP"), &one_address).is_err());
}

#[test]
fn what_others_take_is_not_free() {
    let big =
        pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "3500m"}}}]}));
    let mut taken = usage(std::slice::from_ref(&big));
    let small = pod(json!({}));
    let on = |taken: &Usage| place(&small, &[(node("a", json!({})), taken.clone())]);
    assert_eq!(
        on(&taken),
        Err("0/1 nodes are available: 1 Insufficient cpu.".to_owned())
    );
    taken.remove(&big);
    assert_eq!(taken, Usage::default());
    assert!(on(&taken).is_ok());
    let two = usage(&[small.clone(), small.clone()]);
    assert_eq!(
        on(&two),
        Err("0/1 nodes are available: 1 Too many pods.".to_owned())
    );
}

#[test]
fn reasons_are_counted_over_nodes() {
    let nodes = [
        (
            node("a", json!({"spec": {"unschedulable": true}})),
            Usage::default(),
        ),
        (
            node("b", json!({"status": {"allocatable": {"cpu": "1m"}}})),
            Usage::default(),
        ),
        (
            node("c", json!({"status": {"allocatable": {"cpu": "1m"}}})),
            Usage::default(),
        ),
    ];
    assert_eq!(
        place(&pod(json!({})), &nodes),
        Err(
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.".to_owned()
        )
    );
    assert_eq!(
        place(&pod(json!({})), &[]),
        Err("no nodes available to schedule pods".to_owned())
    );
}

#[test]
fn the_emptiest_node_is_chosen_unless_something_weighs_more() {
    let load = pod(json!({}));
    let (idle, busy) = (Usage::default(), usage(std::slice::from_ref(&load)));
    let small = pod(json!({"containers": [{"name": "c"}]}));
    let nodes = [
        (node("a", json!({})), busy.clone()),
        (node("b", json!({})), idle.clone()),
    ];
    assert_eq!(place(&small, &nodes), Ok("b".to_owned()));
    let disliked = node(
        "b",
        json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
    );
    let nodes = [
        (node("a", json!({})), busy.clone()),
        (disliked, idle.clone()),
    ];
    assert_eq!(place(&small, &nodes), Ok("a".to_owned()));
    let drawn = pod(
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}}]}}}),
    );
    let nodes = [
        (node("a", json!({})), busy),
        (node("b", json!({})), idle.clone()),
    ];
    assert_eq!(place(&drawn, &nodes), Ok("a".to_owned()));
    let nodes = [
        (node("b", json!({})), idle.clone()),
        (node("a", json!({})), idle),
    ];
    assert_eq!(place(&small, &nodes), Ok("a".to_owned()), "equals by name");
}

#[test]
fn volumes_have_their_places() {
    let near = |host: &str| -> NodeSelector {
        serde_json::from_value(json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]})).unwrap()
    };
    let (node, usage) = (node("a", json!({})), Usage::default());
    let with = |volumes: &Volumes| {
        choose(&pod(json!({})), volumes, [(&node, &usage)].into_iter()).map(str::to_owned)
    };
    assert!(with(&Volumes::Bound(vec![near("a")])).is_ok());
    assert_eq!(
        with(&Volumes::Bound(vec![near("b")])),
        Err(
            "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity."
                .to_owned()
        )
    );
    let missing = Volumes::Missing("persistentvolumeclaim \"c\" not found".to_owned());
    assert_eq!(
        with(&missing),
        Err("0/1 nodes are available: persistentvolumeclaim \"c\" not found.".to_owned())
    );
}
