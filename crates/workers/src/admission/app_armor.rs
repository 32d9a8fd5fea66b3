//! Whether the `AppArmor` profiles that a pod names can be meant.

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod, PodSpec, SecurityContext};

use super::{Rejection, Settings};

/// Where profiles were asked for before there were fields.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A pod that runs already has its profile.
pub(super) fn check(pod: &Pod, spec: &PodSpec, settings: &Settings) -> Result<(), Rejection> {
    let status = pod.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) != Some("Pending") {
        return Ok(());
    }
    if !is_needed(pod, spec) {
        return Ok(());
    }
    if !settings.app_armor {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        return Err(Rejection::new("AppArmor", message));
    }
    let mut profiles =
        containers(spec).filter_map(|(name, context)| profile(pod, spec, name, context));
    match profiles.find(is_nameless) {
        Some(nameless) => Err(Rejection::new(
            "AppArmor",
            format!(
                "Cannot enforce AppArmor: invalid empty AppArmor profile name: {:?}",
                go_text(&nameless)
            ),
        )),
        None => Ok(()),
    }
}

/// Whether anything but no profile is asked for, by whoever.
fn is_needed(pod: &Pod, spec: &PodSpec) -> bool {
    let confines = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let of_pod = spec.security_context.as_ref();
    let of_pod = of_pod.and_then(|context| context.app_armor_profile.as_ref());
    let own = containers(spec).filter_map(|(_, context)| context?.app_armor_profile.as_ref());
    let mut fields = of_pod.into_iter().chain(own);
    let annotations = pod.metadata.annotations.iter().flatten();
    let mut annotated = annotations.filter(|(key, _)| key.starts_with(ANNOTATION));
    fields.any(confines) || annotated.any(|(_, text)| text != "unconfined")
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = (&str, Option<&SecurityContext>)> {
    let inits = spec.init_containers.iter().flatten();
    let usual = inits
        .chain(&spec.containers)
        .map(|container| (container.name.as_str(), container.security_context.as_ref()));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    usual.chain(
        ephemeral.map(|container| (container.name.as_str(), container.security_context.as_ref())),
    )
}

/// The container's own, or what an annotation says of it, or the pod's.
fn profile(
    pod: &Pod,
    spec: &PodSpec,
    container: &str,
    context: Option<&SecurityContext>,
) -> Option<AppArmorProfile> {
    let own = context.and_then(|context| context.app_armor_profile.clone());
    let of_pod = spec.security_context.as_ref();
    own.or_else(|| annotated(pod, container))
        .or_else(|| of_pod.and_then(|context| context.app_armor_profile.clone()))
}

fn annotated(pod: &Pod, container: &str) -> Option<AppArmorProfile> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let text = annotations.get(&format!("{ANNOTATION}{container}"))?;
    let of = |kind: &str, name: Option<&str>| AppArmorProfile {
        type_: kind.to_owned(),
        localhost_profile: name.map(str::to_owned),
    };
    match text.as_str() {
        "runtime/default" => Some(of("RuntimeDefault", None)),
        "unconfined" => Some(of("Unconfined", None)),
        other => other
            .strip_prefix("localhost/")
            .map(|name| of("Localhost", Some(name))),
    }
}

fn is_nameless(profile: &AppArmorProfile) -> bool {
    let name = profile.localhost_profile.as_deref().unwrap_or_default();
    profile.type_ == "Localhost" && name.trim().is_empty()
}

/// As upstream's message shows the object.
fn go_text(profile: &AppArmorProfile) -> String {
    let name = profile.localhost_profile.as_ref();
    let name = name.map_or_else(|| "nil".to_owned(), |name| format!("*{name}"));
    let kind = &profile.type_;
    format!("&AppArmorProfile{{Type:{kind},LocalhostProfile:{name},}}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::testing::{settings, whole_pod};

    fn judge(parts: &Value) -> Option<(String, String)> {
        judge_on(parts, true)
    }

    /// `app_armor`: whether the machine has it.
    fn judge_on(parts: &Value, app_armor: bool) -> Option<(String, String)> {
        let pod = whole_pod(parts);
        let settings = Settings {
            app_armor,
            ..settings()
        };
        let refused = check(&pod, pod.spec.as_ref().unwrap(), &settings).err();
        refused.map(|Rejection { reason, message }| (reason, message))
    }

    /// A pending pod with one container, and what the pod, the container and an
    /// annotation say.
    fn pending(of_pod: &Value, own: &Value, annotation: Option<&str>) -> Value {
        let annotations = annotation.map_or_else(
            || json!({}),
            |text| json!({ "container.apparmor.security.beta.kubernetes.io/c": text }),
        );
        json!({
            "metadata": { "annotations": annotations },
            "spec": {
                "securityContext": { "appArmorProfile": of_pod },
                "containers": [{ "name": "c", "securityContext": { "appArmorProfile": own } }],
            },
            "status": { "phase": "Pending" },
        })
    }

    fn nameless(name: &str) -> (String, String) {
        let profile = format!("&AppArmorProfile{{Type:Localhost,LocalhostProfile:{name},}}");
        let message =
            format!("Cannot enforce AppArmor: invalid empty AppArmor profile name: \"{profile}\"");
        ("AppArmor".to_owned(), message)
    }

    #[test]
    fn a_profile_of_the_machine_needs_a_name() {
        let none = &Value::Null;
        let kind = |kind: &str| json!({ "type": kind });
        let local = |name: &str| json!({ "type": "Localhost", "localhostProfile": name });
        for (of_pod, own, annotation, refused) in [
            (none, none, None, None),
            (&local("p"), none, None, None),
            (none, &local("p"), None, None),
            (&kind("RuntimeDefault"), none, None, None),
            (&kind("Localhost"), none, None, Some(nameless("nil"))),
            (&local(""), none, None, Some(nameless("*"))),
            (none, &local("  "), None, Some(nameless("*  "))),
            (none, none, Some("localhost/"), Some(nameless("*"))),
            (none, none, Some("localhost/p"), None),
            (none, none, Some("runtime/default"), None),
            (none, none, Some("nonsense"), None),
            // The nearest counts.
            (&local(""), &local("p"), None, None),
            (&local(""), &kind("Unconfined"), None, None),
            (&local(""), none, Some("localhost/p"), None),
            (&local(""), none, Some("unconfined"), None),
            (&local(""), none, Some("nonsense"), Some(nameless("*"))),
            (none, &local("p"), Some("localhost/"), None),
        ] {
            let parts = pending(of_pod, own, annotation);
            assert_eq!(judge(&parts), refused, "{parts}");
        }
    }

    #[test]
    fn a_machine_without_it_takes_only_pods_that_do_not_need_it() {
        let none = &Value::Null;
        let kind = |kind: &str| json!({ "type": kind });
        for (of_pod, own, annotation, needed) in [
            (none, none, None, false),
            (&kind("Unconfined"), &kind("Unconfined"), None, false),
            (none, none, Some("unconfined"), false),
            (&kind("RuntimeDefault"), none, None, true),
            // The pod's is looked at even where no container has it.
            (&kind("RuntimeDefault"), &kind("Unconfined"), None, true),
            (none, &kind("RuntimeDefault"), None, true),
            (none, none, Some("runtime/default"), true),
            (none, none, Some("nonsense"), true),
        ] {
            let parts = pending(of_pod, own, annotation);
            let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
            let refused = needed.then(|| ("AppArmor".to_owned(), message.to_owned()));
            assert_eq!(judge_on(&parts, false), refused, "{parts}");
        }
    }

    #[test]
    fn each_kind_of_container_is_looked_at() {
        let bad = json!([{ "name": "c", "securityContext": {
            "appArmorProfile": { "type": "Localhost" },
        } }]);
        for kind in ["initContainers", "containers", "ephemeralContainers"] {
            let parts = json!({ "spec": { kind: bad }, "status": { "phase": "Pending" } });
            assert_eq!(judge(&parts), Some(nameless("nil")), "{kind}");
        }
    }

    #[test]
    fn a_pod_that_runs_is_not_asked_again() {
        let mut parts = pending(&json!({ "type": "Localhost" }), &Value::Null, None);
        assert!(judge(&parts).is_some());
        for phase in [json!("Running"), json!("Unknown"), json!(null)] {
            parts["status"]["phase"] = phase;
            assert_eq!(judge(&parts), None, "{parts}");
        }
    }
}
