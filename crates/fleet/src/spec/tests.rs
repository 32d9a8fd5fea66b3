use std::time::Duration;

use sim::RuntimeFault;

use super::*;

fn read(groups: &str) -> Result<Fleet, SpecError> {
    let head = "apiVersion: ferrolet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\n";
    FleetFile::read(&format!("{head}groups:\n{groups}"))?.fleet()
}

#[test]
fn a_file_becomes_nodes_with_names_zones_and_what_they_are_made_of() {
    let fleet = read(
        "
- name: big
  count: 3
  namePattern: b{:02}
  capacity: {cpu: 64, memory: 1Ti, ephemeral-storage: 2T, pods: 250}
  nodeInfo: {kernel: 6.1.0, osImage: Debian, runtime: containerd://2.1.9, kubelet: v1.35.0}
  zones: [x, y]
  labels: {tier: gold}
  taints: ['dedicated=big:NoSchedule']
- {name: small, count: 1}
",
    )
    .unwrap();
    let nodes: Vec<NodeSpec> = fleet.nodes().collect();
    let named: Vec<_> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node.zone.as_deref()))
        .collect();
    assert_eq!(
        named,
        [
            ("b00", Some("x")),
            ("b01", Some("y")),
            ("b02", Some("x")),
            ("small-00000", None)
        ]
    );
    let kind = &nodes[0].kind;
    assert_eq!((kind.machine.cpus, kind.machine.memory), (64, 1 << 40));
    assert_eq!(
        (kind.machine.storage, kind.pods),
        (2_000_000_000_000, Some(250))
    );
    assert_eq!(kind.machine.kernel_release, "6.1.0");
    assert_eq!(
        (&*kind.runtime.name, &*kind.runtime.version),
        ("containerd", "2.1.9")
    );
    assert_eq!(kind.kubelet_version.as_deref(), Some("v1.35.0"));
    assert_eq!(kind.taints[0].effect, "NoSchedule");
    let labels: Vec<_> = kind
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(
        labels,
        [
            "ferrolet.dev/fleet=demo",
            "ferrolet.dev/group=big",
            "tier=gold"
        ]
    );
    assert_eq!(*nodes[3].kind.machine, MachineShape::default());
}

#[test]
fn a_fault_is_for_its_zones_and_the_first_that_fits_counts() {
    let fleet = read(
        "
- name: g
  count: 3
  zones: [x, y, z]
  faults:
  - {zones: [y], runtime: slow, delay: 2s}
  - {zones: [y, z], stopped: true}
",
    )
    .unwrap();
    let ailments: Vec<Ailment> = fleet.nodes().map(|node| node.ailment).collect();
    let slow = RuntimeFault::Slow(Duration::from_secs(2));
    assert_eq!(ailments[0], Ailment::default());
    assert_eq!(
        (ailments[1].stopped, ailments[1].machine.runtime),
        (false, slow)
    );
    assert_eq!(
        (ailments[2].stopped, ailments[2].machine.runtime),
        (true, RuntimeFault::None)
    );
}

#[test]
fn marks_are_what_an_object_is_made_with() {
    let group = |more: &str| {
        let fleet = read(&format!("\n- {{name: g, count: 1{more}}}\n")).unwrap();
        fleet.nodes().next().unwrap()
    };
    let node = group("");
    assert!(node.has_same_marks(&group(", faults: [{stopped: true}]")));
    assert!(node.has_same_marks(&group(", capacity: {cpu: 1}")));
    assert!(!node.has_same_marks(&group(", zones: [a]")));
    assert!(!node.has_same_marks(&group(", labels: {a: b}")));
    assert!(!node.has_same_marks(&group(", taints: ['a:NoSchedule']")));
}

#[test]
fn everything_that_is_wrong_is_named_with_its_place() {
    let error = read(
        "
- {name: g, count: 2, namePattern: g, capacity: {cpu: many, memory: 0}}
- {name: G_, count: 1, labels: {ferrolet.dev/fleet: x, 'b d': y}, taints: [a]}
- {name: h, count: 1, nodeInfo: {runtime: containerd}, faults: [{zones: [q]}, {runtime: slow}, {runtime: down, delay: 1s}]}
",
    )
    .unwrap_err();
    for words in [
        "group \"g\", namePattern: \"g\" has no place for a number",
        "group \"g\", capacity.cpu: ",
        "group \"g\", capacity.memory: ",
        "group \"G_\", name: ",
        "group \"G_\", labels: ferrolet.dev/fleet is the fleet's own",
        "group \"G_\", taints: ",
        "write NAME://VERSION",
        "the group has no zone \"q\"",
        "needs a delay",
        "a delay belongs to",
    ] {
        let found = error.0.iter().any(|line| line.contains(words));
        assert!(found, "{words:?} is not in:\n{error}");
    }
}

#[test]
fn groups_do_not_share_names() {
    for (groups, words) in [
        (
            "\n- {name: g, count: 1}\n- {name: g, count: 0}\n",
            "two groups are called \"g\"",
        ),
        (
            "\n- {name: a, count: 3, namePattern: 'n{}'}\n- {name: b, count: 1, namePattern: 'n{}'}\n",
            "groups \"a\" and \"b\" both have a node n0",
        ),
        ("\n- {name: g, count: 9999999}\n", "too many"),
        (
            "\n- {name: g, count: 18446744073709551615}\n- {name: h, count: 2}\n",
            "too many",
        ),
        (
            "\n- {name: g, count: 1, namePattern: 'a-name-of-which-a-label-is-made-and-that-is-longer-than-one-{}'}\n",
            "63",
        ),
    ] {
        let error = read(groups).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn another_kind_of_file_is_told_apart() {
    for (text, words) in [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\ngroups: []\n",
            "a Pod of v1",
        ),
        (
            "apiVersion: ferrolet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: a}\ngroup: []\n",
            "group",
        ),
        ("- a\n- b\n", ""),
    ] {
        let error = FleetFile::read(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
