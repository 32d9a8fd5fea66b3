//! The columns of each kind's table: as upstream has them, described in our words.

use serde_json::{Value, json};

use crate::kinds::Kind;

/// Name, type, whether only wide output shows it, and what it says.
type Column = (&'static str, &'static str, bool, &'static str);

const NAME: Column = ("Name", "string", false, "What the object is called.");
const AGE: Column = ("Age", "string", false, "How long ago it was created.");

const PODS: &[Column] = &[
    NAME,
    (
        "Ready",
        "string",
        false,
        "How many of the containers are ready.",
    ),
    (
        "Status",
        "string",
        false,
        "What the containers together are doing.",
    ),
    (
        "Restarts",
        "string",
        false,
        "How often containers were restarted, and when last.",
    ),
    AGE,
    ("IP", "string", true, "The first address of the pod."),
    ("Node", "string", true, "Where the pod runs."),
    (
        "Nominated Node",
        "string",
        true,
        "Where room is being made for the pod.",
    ),
    (
        "Readiness Gates",
        "string",
        true,
        "How many of the conditions that others set are true.",
    ),
];
const NODES: &[Column] = &[
    NAME,
    (
        "Status",
        "string",
        false,
        "Whether the node is ready and takes pods.",
    ),
    (
        "Roles",
        "string",
        false,
        "What the node is for, by its labels.",
    ),
    AGE,
    (
        "Version",
        "string",
        false,
        "The version that its kubelet tells.",
    ),
    (
        "Internal-IP",
        "string",
        true,
        "Its address inside the cluster.",
    ),
    ("External-IP", "string", true, "Its address for others."),
    (
        "OS-Image",
        "string",
        true,
        "The operating system that it tells.",
    ),
    (
        "Kernel-Version",
        "string",
        true,
        "The kernel that it tells.",
    ),
    (
        "Container-Runtime",
        "string",
        true,
        "What runs its containers.",
    ),
];
const NAMESPACES: &[Column] = &[
    NAME,
    (
        "Status",
        "string",
        false,
        "Whether it is in use or being emptied.",
    ),
    AGE,
];
const CONFIG_MAPS: &[Column] = &[
    NAME,
    ("Data", "string", false, "How many keys it has."),
    AGE,
];
const SECRETS: &[Column] = &[
    NAME,
    ("Type", "string", false, "What kind of secret it is."),
    ("Data", "string", false, "How many keys it has."),
    AGE,
];
const NAME_AND_AGE: &[Column] = &[NAME, AGE];
const SERVICES: &[Column] = &[
    NAME,
    ("Type", "string", false, "How it is reached."),
    (
        "Cluster-IP",
        "string",
        false,
        "Its address inside the cluster.",
    ),
    ("External-IP", "string", false, "Its addresses outside."),
    ("Port(s)", "string", false, "Where it listens."),
    AGE,
    ("Selector", "string", true, "Which pods stand behind it."),
];
const EVENTS: &[Column] = &[
    ("Last Seen", "string", false, "When it happened last."),
    ("Type", "string", false, "Normal, or a warning."),
    ("Reason", "string", false, "What happened, in a word."),
    ("Object", "string", false, "To what it happened."),
    ("Subobject", "string", true, "To which part of it."),
    ("Source", "string", true, "Who tells of it."),
    ("Message", "string", false, "What happened."),
    ("First Seen", "string", true, "When it happened first."),
    ("Count", "string", true, "How often it happened."),
    ("Name", "string", true, "What the object is called."),
];
const LEASES: &[Column] = &[NAME, ("Holder", "string", false, "Who holds it."), AGE];
const SIGNING_REQUESTS: &[Column] = &[
    NAME,
    AGE,
    ("SignerName", "string", false, "Who is asked to sign."),
    ("Requestor", "string", false, "Who asks."),
    ("RequestedDuration", "string", false, "For how long."),
    ("Condition", "string", false, "What has become of it."),
];
const CSI_NODES: &[Column] = &[
    NAME,
    (
        "Drivers",
        "integer",
        false,
        "How many drivers the node has.",
    ),
    AGE,
];
const CSI_DRIVERS: &[Column] = &[
    NAME,
    (
        "AttachRequired",
        "boolean",
        false,
        "Whether volumes are attached before they are mounted.",
    ),
    (
        "PodInfoOnMount",
        "boolean",
        false,
        "Whether it is told of the pod.",
    ),
    (
        "StorageCapacity",
        "boolean",
        false,
        "Whether it tells how much room it has.",
    ),
    (
        "TokenRequests",
        "string",
        false,
        "For which audiences it gets tokens.",
    ),
    (
        "RequiresRepublish",
        "boolean",
        false,
        "Whether it is called again and again.",
    ),
    ("Modes", "string", false, "For what volumes it can be used."),
    AGE,
];
const RUNTIME_CLASSES: &[Column] = &[
    NAME,
    ("Handler", "string", false, "What the runtime calls it."),
    AGE,
];
const VOLUMES: &[Column] = &[
    NAME,
    ("Capacity", "string", false, "How large it is."),
    ("Access Modes", "string", false, "How it can be mounted."),
    (
        "Reclaim Policy",
        "string",
        false,
        "What becomes of it when its claim goes.",
    ),
    ("Status", "string", false, "Whether it is bound."),
    ("Claim", "string", false, "Who has it."),
    ("StorageClass", "string", false, "Of which class it is."),
    (
        "VolumeAttributesClass",
        "string",
        false,
        "Which attributes it has.",
    ),
    ("Reason", "string", false, "Why it is in its state."),
    AGE,
    (
        "VolumeMode",
        "string",
        true,
        "A filesystem or a block device.",
    ),
];
const CLAIMS: &[Column] = &[
    NAME,
    ("Status", "string", false, "Whether it is bound."),
    ("Volume", "string", false, "What it is bound to."),
    ("Capacity", "string", false, "How large that is."),
    ("Access Modes", "string", false, "How it can be mounted."),
    (
        "StorageClass",
        "string",
        false,
        "Of which class it is to be.",
    ),
    (
        "VolumeAttributesClass",
        "string",
        false,
        "Which attributes it is to have.",
    ),
    AGE,
    (
        "VolumeMode",
        "string",
        true,
        "A filesystem or a block device.",
    ),
];

fn of(kind: &Kind) -> &'static [Column] {
    match kind.kind {
        "Pod" => PODS,
        "Node" => NODES,
        "Namespace" => NAMESPACES,
        "ConfigMap" => CONFIG_MAPS,
        "Secret" => SECRETS,
        "Service" => SERVICES,
        "Event" => EVENTS,
        "Lease" => LEASES,
        "CertificateSigningRequest" => SIGNING_REQUESTS,
        "CSINode" => CSI_NODES,
        "CSIDriver" => CSI_DRIVERS,
        "RuntimeClass" => RUNTIME_CLASSES,
        "PersistentVolume" => VOLUMES,
        "PersistentVolumeClaim" => CLAIMS,
        _ => NAME_AND_AGE,
    }
}

pub(super) fn definitions(kind: &Kind) -> Value {
    let columns = of(kind).iter().map(|(name, shape, wide, says)| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": shape, "format": format, "description": says, "priority": i32::from(*wide)})
    });
    columns.collect()
}
