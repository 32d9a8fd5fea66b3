//! What a static pod may be: nobody else checks it. A pod from the API has been
//! checked by the API server.
//!
//! Checked: names, namespace, labels and annotations; that there are containers, with
//! images, known policies and names of their own; ports and their conflicts;
//! variables; mounts and their volumes; volumes with one source each; probes and
//! hooks; quantities, and requests within limits; policies and periods of the pod; and
//! that it refers to nothing at the API server ([`references`]).
//!
//! Not checked, of what upstream checks: affinity, topology spread, node selectors,
//! keys and effects of tolerations, host aliases and the contents of `dnsConfig`,
//! security contexts (sysctls, seccomp, `AppArmor`, `SELinux`, Windows options),
//! readiness and scheduling gates, the fields inside of each volume source but
//! hostPath's and emptyDir's, volume devices, resize policies, restart rules, image
//! references beyond being there, resource names, huge pages without CPU or memory,
//! pod-level resources against those of containers, overhead, user namespaces, OS
//! specific rules. What of these cannot work is found by admission or by the runtime,
//! which say what it is, or not at all: then it is passed over, or works otherwise
//! than was meant.

mod containers;
mod probes;
mod references;
mod volumes;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use types::names::{
    validate_dns_label, validate_dns_subdomain, validate_label_key, validate_label_value,
};

pub use references::{Reference, references};

/// All annotations of an object together, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `spec.containers[0].image`.
    pub field: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message)
    }
}

/// What is wrong with a pod that has its defaults; nothing if it can be run.
pub fn validate(pod: &Pod) -> Vec<Problem> {
    let mut problems = Problems::default();
    metadata(pod, &mut problems);
    if let Some(spec) = &pod.spec {
        pod_spec(spec, &mut problems);
        volumes::check(spec, &mut problems);
        containers::check(spec, &mut problems);
    } else {
        problems.add("spec", "it is missing");
    }
    problems.0
}

/// What was found so far.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            field: field.into(),
            message: message.into(),
        });
    }

    fn check(&mut self, field: impl Into<String>, outcome: Result<(), impl fmt::Display>) {
        if let Err(error) = outcome {
            self.add(field, error.to_string());
        }
    }

    /// `value` must be one of `allowed`.
    fn choice(&mut self, field: impl Into<String>, value: Option<&str>, allowed: &[&str]) {
        let value = value.unwrap_or_default();
        if !allowed.contains(&value) {
            let allowed = allowed.join(", ");
            self.add(field, format!("{value:?} is unknown: use one of {allowed}"));
        }
    }
}

fn metadata(pod: &Pod, problems: &mut Problems) {
    let metadata = &pod.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    problems.check("metadata.name", validate_dns_subdomain(name));
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    problems.check("metadata.namespace", validate_dns_label(namespace));
    for (key, value) in metadata.labels.iter().flatten() {
        let field = format!("metadata.labels[{key}]");
        problems.check(&field, validate_label_key(key));
        problems.check(&field, validate_label_value(value));
    }
    annotations(metadata.annotations.as_ref(), problems);
}

fn annotations(annotations: Option<&BTreeMap<String, String>>, problems: &mut Problems) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        size += key.len() + value.len();
        // Capitals are forgiven here, and only here.
        let field = format!("metadata.annotations[{key}]");
        problems.check(field, validate_label_key(&key.to_lowercase()));
    }
    if size > MAX_ANNOTATIONS {
        problems.add(
            "metadata.annotations",
            "they must not be larger than 256 KiB together",
        );
    }
}

fn pod_spec(spec: &PodSpec, problems: &mut Problems) {
    let policies = ["Always", "OnFailure", "Never"];
    problems.choice(
        "spec.restartPolicy",
        spec.restart_policy.as_deref(),
        &policies,
    );
    let dns = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    problems.choice("spec.dnsPolicy", spec.dns_policy.as_deref(), &dns);
    let servers = spec
        .dns_config
        .as_ref()
        .and_then(|dns| dns.nameservers.as_ref());
    if spec.dns_policy.as_deref() == Some("None") && servers.is_none_or(Vec::is_empty) {
        problems.add(
            "spec.dnsConfig.nameservers",
            "name at least one when dnsPolicy is None",
        );
    }
    if spec
        .termination_grace_period_seconds
        .is_some_and(|seconds| seconds < 0)
    {
        problems.add(
            "spec.terminationGracePeriodSeconds",
            "it must not be negative",
        );
    }
    if spec
        .active_deadline_seconds
        .is_some_and(|seconds| seconds < 1)
    {
        problems.add("spec.activeDeadlineSeconds", "it must be 1 or more");
    }
    for (field, name) in [
        ("spec.hostname", &spec.hostname),
        ("spec.subdomain", &spec.subdomain),
    ] {
        if let Some(name) = name.as_ref().filter(|name| !name.is_empty()) {
            problems.check(field, validate_dns_label(name));
        }
    }
    if spec
        .ephemeral_containers
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        problems.add(
            "spec.ephemeralContainers",
            "they cannot be part of a manifest: remove them",
        );
    }
    let shares = spec.share_process_namespace == Some(true);
    if shares && spec.host_pid == Some(true) {
        problems.add(
            "spec.shareProcessNamespace",
            "it excludes hostPID: choose one",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::{Origin, complete};
    use crate::testing::pod;

    pub(super) fn problems(manifest: &str) -> Vec<String> {
        let pod = complete(pod(manifest), Origin::Url("http://x"), "n");
        validate(&pod).iter().map(Problem::to_string).collect()
    }

    /// Each manifest has exactly one problem, which begins as the table says.
    pub(super) fn check(cases: &[(String, &str)]) {
        for (manifest, expected) in cases {
            let found = problems(manifest);
            assert_eq!(found.len(), 1, "{manifest}: {found:?}");
            assert!(found[0].starts_with(expected), "{manifest}: {found:?}");
        }
    }

    /// A pod of which only part of the spec matters.
    pub(super) fn with_spec(fields: &str) -> String {
        format!("metadata: {{name: a}}\nspec: {{containers: [{{name: a, image: a}}], {fields}}}")
    }

    /// A pod of which only part of its container matters.
    pub(super) fn with_container(fields: &str) -> String {
        format!(
            "metadata: {{name: a}}\nspec: {{containers: [{{name: a, image: a, {fields}}}], volumes: [{{name: v}}]}}"
        )
    }

    #[test]
    fn a_pod_as_kubeadm_writes_it_is_fine() {
        let manifest = r"
metadata:
  annotations: {kubeadm.kubernetes.io/etcd.advertise-client-urls: 'https://10.0.0.1:2379'}
  labels: {component: etcd, tier: control-plane}
  name: etcd
  namespace: kube-system
spec:
  containers:
  - command: [etcd]
    image: registry.k8s.io/etcd:3.6.5-0
    name: etcd
    ports: [{containerPort: 2381, name: probe-port, protocol: TCP}]
    livenessProbe: {failureThreshold: 8, httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTP}, initialDelaySeconds: 10, periodSeconds: 10, timeoutSeconds: 15}
    resources: {requests: {cpu: 100m, memory: 100Mi}}
    volumeMounts: [{mountPath: /var/lib/etcd, name: etcd-data}]
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  volumes: [{hostPath: {path: /var/lib/etcd, type: DirectoryOrCreate}, name: etcd-data}]
";
        assert_eq!(problems(manifest), Vec::<String>::new());
    }

    #[test]
    fn what_is_said_of_the_whole_pod_is_checked() {
        let named = |metadata: &str| {
            format!("metadata: {{{metadata}}}\nspec: {{containers: [{{name: a, image: a}}]}}")
        };
        check(&[
            (
                named("name: A_B"),
                "metadata.name: \"A_B-n\" is not a valid DNS subdomain",
            ),
            (named("name: a, namespace: a.b"), "metadata.namespace: "),
            (
                named("name: a, labels: {'a b': c}"),
                "metadata.labels[a b]: ",
            ),
            (named("name: a, labels: {a: 'b c'}"), "metadata.labels[a]: "),
            (
                named("name: a, annotations: {'a b': c}"),
                "metadata.annotations[a b]: ",
            ),
            (
                named(&format!(
                    "name: a, annotations: {{a: {}}}",
                    "x".repeat(MAX_ANNOTATIONS)
                )),
                "metadata.annotations: they must not be larger",
            ),
            (
                with_spec("restartPolicy: Sometimes"),
                "spec.restartPolicy: \"Sometimes\" is unknown: use one of Always, OnFailure, Never",
            ),
            (with_spec("dnsPolicy: Cluster"), "spec.dnsPolicy: "),
            (with_spec("dnsPolicy: None"), "spec.dnsConfig.nameservers: "),
            (
                with_spec("terminationGracePeriodSeconds: -1"),
                "spec.terminationGracePeriodSeconds: ",
            ),
            (
                with_spec("activeDeadlineSeconds: 0"),
                "spec.activeDeadlineSeconds: ",
            ),
            (with_spec("hostname: A"), "spec.hostname: "),
            (with_spec("subdomain: a.b"), "spec.subdomain: "),
            (
                with_spec("ephemeralContainers: [{name: e}]"),
                "spec.ephemeralContainers: ",
            ),
            (
                with_spec("hostPID: true, shareProcessNamespace: true"),
                "spec.shareProcessNamespace: ",
            ),
            (
                "metadata: {name: a}\nspec: {containers: []}".to_owned(),
                "spec.containers: ",
            ),
        ]);
        assert!(problems(&named("name: a, annotations: {Example.COM/A: b}")).is_empty());
    }
}
