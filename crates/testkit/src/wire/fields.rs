//! Which field of the pod API reaches the runtime, and which spec uses it.
//!
//! A field that is not here does not reach the runtime (probes but for their grace and
//! their commands, affinities, readiness gates), is another way to what is here (claims by
//! `ephemeral`), or cannot be had in the lab: devices and claims of resources (no plugin),
//! `volumeDevices` and volumes of drivers (no block device, no CSI driver), huge pages,
//! `AppArmor` profiles other than `Unconfined` (the kernel has none), fields for Windows.
//! Commands of probes are asked as often as time allows, which nobody can compare.

/// A field and a spec. In a path `[]` stands for any item of a list; a key that has
/// dots in it is not named.
pub const FIELDS: &[(&str, &str)] = &[
    ("metadata.name", "plain"),
    ("metadata.labels", "labels"),
    ("metadata.annotations", "annotations"),
    ("spec.activeDeadlineSeconds", "deadline"),
    ("spec.automountServiceAccountToken", "own-token"),
    ("spec.containers[].args", "args"),
    ("spec.containers[].command", "command"),
    ("spec.containers[].env[].value", "env"),
    (
        "spec.containers[].env[].valueFrom.configMapKeyRef",
        "env-config-map-key",
    ),
    (
        "spec.containers[].env[].valueFrom.fieldRef",
        "env-of-the-pod",
    ),
    (
        "spec.containers[].env[].valueFrom.fileKeyRef",
        "env-of-a-file",
    ),
    (
        "spec.containers[].env[].valueFrom.resourceFieldRef",
        "env-of-resources",
    ),
    (
        "spec.containers[].env[].valueFrom.resourceFieldRef.containerName",
        "env-of-another-containers-resources",
    ),
    (
        "spec.containers[].env[].valueFrom.resourceFieldRef.divisor",
        "env-of-resources-divided",
    ),
    (
        "spec.containers[].env[].valueFrom.secretKeyRef",
        "env-secret-key",
    ),
    (
        "spec.containers[].env[].valueFrom.secretKeyRef.optional",
        "env-optional-keys",
    ),
    (
        "spec.containers[].envFrom[].configMapRef",
        "env-from-config-map",
    ),
    (
        "spec.containers[].envFrom[].configMapRef.optional",
        "env-from-nobody",
    ),
    ("spec.containers[].envFrom[].prefix", "env-from-with-prefix"),
    ("spec.containers[].envFrom[].secretRef", "env-from-secret"),
    ("spec.containers[].image", "image-by-digest"),
    ("spec.containers[].imagePullPolicy", "pull-always"),
    (
        "spec.containers[].lifecycle.postStart.exec",
        "post-start-command",
    ),
    (
        "spec.containers[].lifecycle.postStart.sleep",
        "post-start-sleep",
    ),
    (
        "spec.containers[].lifecycle.preStop.exec",
        "pre-stop-command",
    ),
    (
        "spec.containers[].lifecycle.preStop.httpGet",
        "pre-stop-request",
    ),
    (
        "spec.containers[].lifecycle.preStop.sleep",
        "pre-stop-sleep",
    ),
    ("spec.containers[].lifecycle.stopSignal", "stop-signal"),
    (
        "spec.containers[].livenessProbe.terminationGracePeriodSeconds",
        "grace-of-liveness",
    ),
    ("spec.containers[].name", "two-containers"),
    ("spec.containers[].ports[].containerPort", "ports"),
    ("spec.containers[].ports[].hostIP", "host-ports"),
    ("spec.containers[].ports[].hostPort", "host-ports"),
    ("spec.containers[].ports[].name", "ports"),
    ("spec.containers[].ports[].protocol", "ports"),
    ("spec.containers[].resizePolicy", "resize-with-restart"),
    ("spec.containers[].resources.limits.cpu", "limits"),
    (
        "spec.containers[].resources.limits.ephemeral-storage",
        "ephemeral-storage",
    ),
    ("spec.containers[].resources.limits.memory", "limits"),
    ("spec.containers[].resources.requests.cpu", "requests"),
    ("spec.containers[].resources.requests.memory", "requests"),
    ("spec.containers[].restartPolicy", "policy-of-a-container"),
    (
        "spec.containers[].restartPolicyRules",
        "rule-of-a-container",
    ),
    (
        "spec.containers[].securityContext.allowPrivilegeEscalation",
        "no-escalation",
    ),
    (
        "spec.containers[].securityContext.appArmorProfile",
        "app-armor-off",
    ),
    (
        "spec.containers[].securityContext.capabilities.add",
        "capabilities",
    ),
    (
        "spec.containers[].securityContext.capabilities.drop",
        "capabilities",
    ),
    ("spec.containers[].securityContext.privileged", "privileged"),
    (
        "spec.containers[].securityContext.procMount",
        "proc-unmasked",
    ),
    (
        "spec.containers[].securityContext.readOnlyRootFilesystem",
        "read-only-root",
    ),
    (
        "spec.containers[].securityContext.runAsGroup",
        "user-of-both",
    ),
    (
        "spec.containers[].securityContext.runAsNonRoot",
        "not-root-but-is",
    ),
    (
        "spec.containers[].securityContext.runAsUser",
        "user-of-the-container",
    ),
    (
        "spec.containers[].securityContext.seLinuxOptions",
        "selinux-of-the-container",
    ),
    (
        "spec.containers[].securityContext.seccompProfile",
        "seccomp-of-the-container",
    ),
    (
        "spec.containers[].startupProbe.terminationGracePeriodSeconds",
        "grace-of-startup",
    ),
    ("spec.containers[].stdin", "stdin"),
    ("spec.containers[].stdinOnce", "stdin-once"),
    (
        "spec.containers[].terminationMessagePath",
        "termination-path",
    ),
    (
        "spec.containers[].terminationMessagePolicy",
        "termination-policy",
    ),
    ("spec.containers[].tty", "tty"),
    (
        "spec.containers[].volumeMounts[].mountPath",
        "mount-relative",
    ),
    (
        "spec.containers[].volumeMounts[].mountPropagation",
        "mount-both-ways",
    ),
    (
        "spec.containers[].volumeMounts[].readOnly",
        "mount-read-only",
    ),
    (
        "spec.containers[].volumeMounts[].recursiveReadOnly",
        "mount-recursive",
    ),
    ("spec.containers[].volumeMounts[].subPath", "mount-sub-path"),
    (
        "spec.containers[].volumeMounts[].subPathExpr",
        "mount-sub-path-expands",
    ),
    ("spec.containers[].workingDir", "working-dir"),
    ("spec.dnsConfig.nameservers", "dns-none"),
    ("spec.dnsConfig.options", "dns-none"),
    ("spec.dnsConfig.searches", "dns-none"),
    ("spec.dnsPolicy", "dns-default"),
    ("spec.enableServiceLinks", "service-links"),
    ("spec.hostAliases", "host-aliases"),
    ("spec.hostIPC", "host-ipc"),
    ("spec.hostNetwork", "host-network"),
    ("spec.hostPID", "host-pid"),
    ("spec.hostUsers", "own-users"),
    ("spec.hostname", "hostname"),
    ("spec.hostnameOverride", "hostname-override"),
    ("spec.imagePullSecrets", "pull-secret"),
    ("spec.initContainers[].image", "init"),
    (
        "spec.initContainers[].resources",
        "resources-of-init-containers",
    ),
    ("spec.initContainers[].restartPolicy", "sidecar"),
    (
        "spec.initContainers[].volumeMounts",
        "mount-of-an-init-container",
    ),
    ("spec.nodeName", "env-of-the-pod"),
    ("spec.priorityClassName", "node-critical"),
    ("spec.resources.limits", "pod-level-limits"),
    ("spec.resources.requests", "pod-level-requests"),
    ("spec.restartPolicy", "ends-well"),
    ("spec.runtimeClassName", "runtime-class"),
    (
        "spec.securityContext.appArmorProfile",
        "app-armor-off-for-the-pod",
    ),
    ("spec.securityContext.fsGroup", "fs-group"),
    ("spec.securityContext.fsGroupChangePolicy", "all-groups"),
    ("spec.securityContext.runAsGroup", "group"),
    ("spec.securityContext.runAsNonRoot", "not-root"),
    ("spec.securityContext.runAsUser", "user-of-the-pod"),
    ("spec.securityContext.seLinuxOptions", "selinux-of-the-pod"),
    ("spec.securityContext.seccompProfile", "seccomp-of-the-pod"),
    (
        "spec.securityContext.seccompProfile.localhostProfile",
        "seccomp-local",
    ),
    (
        "spec.securityContext.supplementalGroups",
        "supplemental-groups",
    ),
    (
        "spec.securityContext.supplementalGroupsPolicy",
        "groups-strict",
    ),
    ("spec.securityContext.sysctls", "sysctls"),
    ("spec.serviceAccountName", "service-account"),
    ("spec.setHostnameAsFQDN", "hostname-in-full"),
    ("spec.shareProcessNamespace", "shared-processes"),
    ("spec.subdomain", "subdomain"),
    ("spec.terminationGracePeriodSeconds", "grace-of-the-pod"),
    ("spec.volumes[].configMap", "config-map"),
    ("spec.volumes[].configMap.items", "config-map-items"),
    ("spec.volumes[].configMap.optional", "config-map-of-nobody"),
    ("spec.volumes[].downwardAPI", "downward-api"),
    ("spec.volumes[].emptyDir", "empty-dir"),
    ("spec.volumes[].emptyDir.medium", "empty-dir-in-memory"),
    ("spec.volumes[].emptyDir.sizeLimit", "empty-dir-with-limit"),
    ("spec.volumes[].hostPath", "host-path"),
    ("spec.volumes[].hostPath.type", "host-path-file"),
    ("spec.volumes[].image", "image-volume"),
    ("spec.volumes[].image.pullPolicy", "image-volume-part"),
    ("spec.volumes[].persistentVolumeClaim", "claim"),
    (
        "spec.volumes[].persistentVolumeClaim.readOnly",
        "claim-read-only",
    ),
    ("spec.volumes[].projected.sources[].configMap", "projected"),
    (
        "spec.volumes[].projected.sources[].downwardAPI",
        "projected",
    ),
    ("spec.volumes[].projected.sources[].secret", "projected"),
    (
        "spec.volumes[].projected.sources[].serviceAccountToken",
        "projected-token",
    ),
    ("spec.volumes[].secret", "secret"),
];

/// Fields of what is done to a pod that runs.
pub const CHANGES: &[(&str, &str)] = &[
    ("spec.containers[].image", "image-changes"),
    ("spec.containers[].resources", "resize-both"),
    ("spec.ephemeralContainers[].command", "visitor-with-words"),
    ("spec.ephemeralContainers[].image", "visitor"),
    (
        "spec.ephemeralContainers[].securityContext",
        "visitor-with-powers",
    ),
    (
        "spec.ephemeralContainers[].targetContainerName",
        "visitor-beside-processes",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::wire::all;
    use crate::wire::progress::items;
    use crate::wire::spec::{Change, Spec};

    fn has(value: &Value, path: &str) -> bool {
        let (step, rest) = path.split_once('.').unwrap_or((path, ""));
        let goes_on = |value: &Value| rest.is_empty() || has(value, rest);
        match step.strip_suffix("[]") {
            Some(list) => items(&value[list]).iter().any(goes_on),
            None => value.get(step).is_some_and(goes_on),
        }
    }

    fn named(name: &str) -> Spec {
        let found = all().into_iter().find(|spec| spec.name == name);
        found.unwrap_or_else(|| panic!("there is no spec {name}"))
    }

    #[test]
    fn every_field_is_in_the_spec_that_is_named_for_it() {
        for (field, name) in FIELDS {
            let pod = named(name).manifest("n", "space");
            assert!(has(&pod, field), "{name} has no {field}");
        }
        for (field, name) in CHANGES {
            let Some((Change::Patch { change, .. }, _)) = named(name).change else {
                panic!("{name} changes nothing");
            };
            assert!(has(&change, field), "{name} does not change {field}");
        }
    }

    #[test]
    fn every_field_is_there_once_and_in_order() {
        for list in [FIELDS, CHANGES] {
            let fields: Vec<&str> = list.iter().map(|(field, _)| *field).collect();
            let sorted: BTreeSet<&str> = fields.iter().copied().collect();
            assert_eq!(fields.len(), sorted.len());
        }
    }
}
