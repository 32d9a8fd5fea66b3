//! What is allowed to whom, as tables: the parts of upstream's default roles, and of
//! those that kubeadm adds, which a cluster without stored roles needs.

use super::user::{
    ANONYMOUS, AUTHENTICATED, BOOTSTRAPPERS, KUBELET_CLIENT, NODES, SERVICE_ACCOUNTS,
    UNAUTHENTICATED, User,
};
use crate::front::Attributes;

/// Verbs on resources, or on other paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: &'static [&'static str],
    pub(crate) groups: &'static [&'static str],
    /// With their subresources: `pods/status`.
    pub(crate) resources: &'static [&'static str],
    /// Empty for all.
    pub(crate) names: &'static [&'static str],
    /// A star at the end stands for anything.
    pub(crate) paths: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Group(&'static str),
    User(&'static str),
}

/// Rules that hold for somebody, in one namespace or everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) to: Subject,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) rules: &'static [Rule],
}

const READ: &[&str] = &["get", "list", "watch"];
const CERTIFICATES: &[&str] = &["certificates.k8s.io"];
const AUTHENTICATION: &[&str] = &["authentication.k8s.io"];
const AUTHORIZATION: &[&str] = &["authorization.k8s.io"];
const STORAGE: &[&str] = &["storage.k8s.io"];
const CORE: &[&str] = &[""];

const fn resources(
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
) -> Rule {
    Rule {
        verbs,
        groups,
        resources,
        names: &[],
        paths: &[],
    }
}

const fn paths(paths: &'static [&'static str]) -> Rule {
    Rule {
        verbs: &["get"],
        groups: &[],
        resources: &[],
        names: &[],
        paths,
    }
}

const fn everywhere(to: Subject, rules: &'static [Rule]) -> Grant {
    Grant {
        to,
        namespace: None,
        rules,
    }
}

/// `system:public-info-viewer`.
const PUBLIC: &[Rule] = &[paths(&[
    "/healthz",
    "/livez",
    "/readyz",
    "/version",
    "/version/",
])];

/// `system:discovery`.
const DISCOVERY: &[Rule] = &[paths(&[
    "/healthz",
    "/livez",
    "/readyz",
    "/version",
    "/version/",
    "/openapi",
    "/openapi/*",
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
])];

/// `system:basic-user`.
const BASIC: &[Rule] = &[
    resources(
        &["create"],
        AUTHORIZATION,
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    ),
    resources(&["create"], AUTHENTICATION, &["selfsubjectreviews"]),
];

/// `system:service-account-issuer-discovery`.
const ISSUER: &[Rule] = &[paths(&[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
])];

/// `system:monitoring`.
const MONITORING: &[Rule] = &[paths(&[
    "/metrics",
    "/metrics/slis",
    "/livez",
    "/readyz",
    "/healthz",
    "/livez/*",
    "/readyz/*",
    "/healthz/*",
])];

/// `system:node-bootstrapper`, the approval of a first certificate, and `kubeadm:get-nodes`.
const BOOTSTRAP: &[Rule] = &[
    resources(
        &["create", "get", "list", "watch"],
        CERTIFICATES,
        &["certificatesigningrequests"],
    ),
    resources(
        &["create"],
        CERTIFICATES,
        &["certificatesigningrequests/nodeclient"],
    ),
    resources(&["get"], CORE, &["nodes"]),
];

/// The approval of a node's next certificate.
const RENEWAL: &[Rule] = &[resources(
    &["create"],
    CERTIFICATES,
    &["certificatesigningrequests/selfnodeclient"],
)];

/// `system:kubelet-api-admin`.
const KUBELET_API: &[Rule] = &[
    resources(READ, CORE, &["nodes"]),
    resources(&["proxy"], CORE, &["nodes"]),
    resources(
        &["*"],
        CORE,
        &[
            "nodes/proxy",
            "nodes/metrics",
            "nodes/stats",
            "nodes/log",
            "nodes/pods",
            "nodes/healthz",
            "nodes/configz",
        ],
    ),
];

/// `kubeadm:bootstrap-signer-clusterinfo`.
const CLUSTER_INFO: &[Rule] = &[Rule {
    names: &["cluster-info"],
    ..resources(&["get"], CORE, &["configmaps"])
}];

/// Who has what, beside the admins, who have everything, and nodes, who have rules of
/// their own.
pub(crate) const GRANTS: &[Grant] = &[
    everywhere(Subject::Group(UNAUTHENTICATED), PUBLIC),
    everywhere(Subject::Group(AUTHENTICATED), PUBLIC),
    everywhere(Subject::Group(AUTHENTICATED), DISCOVERY),
    everywhere(Subject::Group(AUTHENTICATED), BASIC),
    everywhere(Subject::Group(SERVICE_ACCOUNTS), ISSUER),
    everywhere(Subject::Group("system:monitoring"), MONITORING),
    everywhere(Subject::Group(BOOTSTRAPPERS), BOOTSTRAP),
    everywhere(Subject::Group(NODES), RENEWAL),
    everywhere(Subject::User(KUBELET_CLIENT), KUBELET_API),
    Grant {
        to: Subject::User(ANONYMOUS),
        namespace: Some("kube-public"),
        rules: CLUSTER_INFO,
    },
];

/// What every node may do, of the resources that are not divided among nodes.
pub(crate) const NODE: &[Rule] = &[
    resources(&["create"], AUTHENTICATION, &["tokenreviews"]),
    resources(
        &["create"],
        AUTHORIZATION,
        &["subjectaccessreviews", "localsubjectaccessreviews"],
    ),
    resources(READ, CORE, &["services"]),
    resources(
        &["create", "update", "patch"],
        &["", "events.k8s.io"],
        &["events"],
    ),
    resources(&["get"], CORE, &["endpoints"]),
    resources(
        &["create", "get", "list", "watch"],
        CERTIFICATES,
        &["certificatesigningrequests"],
    ),
    resources(READ, STORAGE, &["csidrivers"]),
    resources(READ, &["node.k8s.io"], &["runtimeclasses"]),
    resources(READ, CERTIFICATES, &["clustertrustbundles"]),
];

impl Grant {
    pub(crate) fn is_for(&self, user: &User) -> bool {
        match self.to {
            Subject::Group(group) => user.is_in(group),
            Subject::User(name) => user.name == name,
        }
    }

    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        let in_place = self
            .namespace
            .is_none_or(|namespace| asked.namespace == namespace);
        in_place && self.rules.iter().any(|rule| rule.allows(asked))
    }
}

impl Rule {
    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        let has = |list: &[&str], text: &str| list.iter().any(|one| *one == "*" || *one == text);
        if !has(self.verbs, &asked.verb) {
            return false;
        }
        if asked.resource.is_empty() {
            return self.paths.iter().any(|path| covers(path, &asked.path));
        }
        let resource = match asked.subresource.as_str() {
            "" => asked.resource.clone(),
            subresource => format!("{}/{subresource}", asked.resource),
        };
        has(self.groups, &asked.group)
            && has(self.resources, &resource)
            && (self.names.is_empty() || self.names.contains(&asked.name.as_str()))
    }
}

fn covers(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}
