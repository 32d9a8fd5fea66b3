//! One constant for each resource.

use super::{Kind, Subresource};

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const STATUS: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// A subresource of the same kind as the object.
const fn own(
    name: &'static str,
    group: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource {
        name,
        group,
        version: "v1",
        kind,
        verbs,
    }
}

const fn stored(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        group,
        version: "v1",
        plural,
        singular,
        kind,
        namespaced,
        short_names: &[],
        categories: &[],
        verbs: ALL,
        subresources: &[],
        stored: true,
    }
}

const fn answered(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        verbs: CREATE,
        stored: false,
        ..stored(group, plural, singular, kind, namespaced)
    }
}

pub static CONFIG_MAPS: Kind = Kind {
    short_names: &["cm"],
    ..stored("", "configmaps", "configmap", "ConfigMap", true)
};

pub static EVENTS: Kind = Kind {
    short_names: &["ev"],
    ..stored("", "events", "event", "Event", true)
};

pub static NAMESPACES: Kind = Kind {
    short_names: &["ns"],
    // Upstream has no collection to delete here.
    verbs: &[
        "create", "delete", "get", "list", "patch", "update", "watch",
    ],
    subresources: &[
        own("finalize", "", "Namespace", &["update"]),
        own("status", "", "Namespace", STATUS),
    ],
    ..stored("", "namespaces", "namespace", "Namespace", false)
};

pub static NODES: Kind = Kind {
    short_names: &["no"],
    subresources: &[
        own("proxy", "", "NodeProxyOptions", PROXY),
        own("status", "", "Node", STATUS),
    ],
    ..stored("", "nodes", "node", "Node", false)
};

pub static PERSISTENT_VOLUME_CLAIMS: Kind = Kind {
    short_names: &["pvc"],
    subresources: &[own("status", "", "PersistentVolumeClaim", STATUS)],
    ..stored(
        "",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        true,
    )
};

pub static PERSISTENT_VOLUMES: Kind = Kind {
    short_names: &["pv"],
    subresources: &[own("status", "", "PersistentVolume", STATUS)],
    ..stored(
        "",
        "persistentvolumes",
        "persistentvolume",
        "PersistentVolume",
        false,
    )
};

pub static PODS: Kind = Kind {
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        own("attach", "", "PodAttachOptions", CONNECT),
        own("binding", "", "Binding", CREATE),
        own("ephemeralcontainers", "", "Pod", STATUS),
        own("eviction", "policy", "Eviction", CREATE),
        own("exec", "", "PodExecOptions", CONNECT),
        own("log", "", "Pod", &["get"]),
        own("portforward", "", "PodPortForwardOptions", CONNECT),
        own("resize", "", "Pod", STATUS),
        own("status", "", "Pod", STATUS),
    ],
    ..stored("", "pods", "pod", "Pod", true)
};

pub static SECRETS: Kind = stored("", "secrets", "secret", "Secret", true);

pub static SERVICE_ACCOUNTS: Kind = Kind {
    short_names: &["sa"],
    subresources: &[own(
        "token",
        "authentication.k8s.io",
        "TokenRequest",
        CREATE,
    )],
    ..stored(
        "",
        "serviceaccounts",
        "serviceaccount",
        "ServiceAccount",
        true,
    )
};

pub static SERVICES: Kind = Kind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[own("status", "", "Service", STATUS)],
    ..stored("", "services", "service", "Service", true)
};

pub static SELF_SUBJECT_REVIEWS: Kind = answered(
    "authentication.k8s.io",
    "selfsubjectreviews",
    "selfsubjectreview",
    "SelfSubjectReview",
    false,
);

pub static TOKEN_REVIEWS: Kind = answered(
    "authentication.k8s.io",
    "tokenreviews",
    "tokenreview",
    "TokenReview",
    false,
);

pub static LOCAL_SUBJECT_ACCESS_REVIEWS: Kind = answered(
    "authorization.k8s.io",
    "localsubjectaccessreviews",
    "localsubjectaccessreview",
    "LocalSubjectAccessReview",
    true,
);

pub static SELF_SUBJECT_ACCESS_REVIEWS: Kind = answered(
    "authorization.k8s.io",
    "selfsubjectaccessreviews",
    "selfsubjectaccessreview",
    "SelfSubjectAccessReview",
    false,
);

pub static SELF_SUBJECT_RULES_REVIEWS: Kind = answered(
    "authorization.k8s.io",
    "selfsubjectrulesreviews",
    "selfsubjectrulesreview",
    "SelfSubjectRulesReview",
    false,
);

pub static SUBJECT_ACCESS_REVIEWS: Kind = answered(
    "authorization.k8s.io",
    "subjectaccessreviews",
    "subjectaccessreview",
    "SubjectAccessReview",
    false,
);

pub static CERTIFICATE_SIGNING_REQUESTS: Kind = Kind {
    short_names: &["csr"],
    subresources: &[
        own(
            "approval",
            "certificates.k8s.io",
            "CertificateSigningRequest",
            STATUS,
        ),
        own(
            "status",
            "certificates.k8s.io",
            "CertificateSigningRequest",
            STATUS,
        ),
    ],
    ..stored(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "certificatesigningrequest",
        "CertificateSigningRequest",
        false,
    )
};

pub static LEASES: Kind = stored("coordination.k8s.io", "leases", "lease", "Lease", true);

pub static RUNTIME_CLASSES: Kind = stored(
    "node.k8s.io",
    "runtimeclasses",
    "runtimeclass",
    "RuntimeClass",
    false,
);

pub static CSI_DRIVERS: Kind = stored(
    "storage.k8s.io",
    "csidrivers",
    "csidriver",
    "CSIDriver",
    false,
);

pub static CSI_NODES: Kind = stored("storage.k8s.io", "csinodes", "csinode", "CSINode", false);

/// All of them: by group, then by name, as discovery lists them.
pub static KINDS: &[&Kind] = &[
    &CONFIG_MAPS,
    &EVENTS,
    &NAMESPACES,
    &NODES,
    &PERSISTENT_VOLUME_CLAIMS,
    &PERSISTENT_VOLUMES,
    &PODS,
    &SECRETS,
    &SERVICE_ACCOUNTS,
    &SERVICES,
    &SELF_SUBJECT_REVIEWS,
    &TOKEN_REVIEWS,
    &LOCAL_SUBJECT_ACCESS_REVIEWS,
    &SELF_SUBJECT_ACCESS_REVIEWS,
    &SELF_SUBJECT_RULES_REVIEWS,
    &SUBJECT_ACCESS_REVIEWS,
    &CERTIFICATE_SIGNING_REQUESTS,
    &LEASES,
    &RUNTIME_CLASSES,
    &CSI_DRIVERS,
    &CSI_NODES,
];
