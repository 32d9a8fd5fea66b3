//! Who a pod and its containers run as, and with what rights.

use serde_json::Value;

use super::volumes::descending_path;
use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::names;

pub(super) fn pod(spec: &Value, errors: &mut Errors) {
    let context = &spec["securityContext"];
    ids(
        context,
        &["fsGroup", "runAsUser", "runAsGroup"],
        "spec.securityContext",
        errors,
    );
    for (index, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        let field = format!("spec.securityContext.supplementalGroups[{index}]");
        errors.invalid_all(
            field,
            number(group),
            names::in_range(number(group), 0, i32::MAX.into()),
        );
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid("spec.securityContext.shareProcessNamespace", true, detail);
    }
    sysctls(&context["sysctls"], errors);
    let choices: [(&str, &[&str]); 3] = [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ];
    for (field, allowed) in choices {
        if let Some(value) = context[field].as_str() {
            errors.choice(format!("spec.securityContext.{field}"), value, allowed);
        }
    }
    profiles(context, "spec.securityContext", errors);
    if spec["hostUsers"] == false {
        for (field, written) in [
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        ] {
            if spec[field] == true {
                errors.forbidden(format!("spec.{written}"), "when `hostUsers` is false");
            }
        }
    }
}

pub(super) fn container(context: &Value, field: &str, host_users: bool, errors: &mut Errors) {
    ids(context, &["runAsUser", "runAsGroup"], field, errors);
    if let Some(mount) = context["procMount"].as_str() {
        let own = format!("{field}.procMount");
        errors.choice(&own, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(own, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    profiles(context, field, errors);
    if context["allowPrivilegeEscalation"] == false {
        if context["privileged"] == true {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(field, context.clone(), detail);
        }
        if items(&context["capabilities"]["add"])
            .iter()
            .any(|name| name == "CAP_SYS_ADMIN")
        {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(field, context.clone(), detail);
        }
    }
}

fn ids(context: &Value, fields: &[&str], field: &str, errors: &mut Errors) {
    for name in fields {
        if let Some(id) = context[*name].as_i64() {
            errors.invalid_all(
                format!("{field}.{name}"),
                id,
                names::in_range(id, 0, i32::MAX.into()),
            );
        }
    }
}

fn profiles(context: &Value, field: &str, errors: &mut Errors) {
    for (kind, word) in [
        ("seccompProfile", "seccomp"),
        ("appArmorProfile", "AppArmor"),
    ] {
        let profile = &context[kind];
        if !profile.is_object() {
            continue;
        }
        let field = format!("{field}.{kind}");
        let name = text(&profile["type"]);
        if name.is_empty() {
            let detail = if word == "seccomp" {
                "type is required when seccompProfile is set"
            } else {
                "type is required when appArmorProfile is set"
            };
            errors.required(format!("{field}.type"), detail);
        } else {
            errors.choice(
                format!("{field}.type"),
                name,
                &["Localhost", "RuntimeDefault", "Unconfined"],
            );
        }
        let local = profile["localhostProfile"].as_str();
        match (name, local) {
            ("Localhost", None) => {
                let detail = format!("must be set when {word} type is Localhost");
                errors.required(format!("{field}.localhostProfile"), &detail);
            }
            ("Localhost", Some(path)) if word == "seccomp" => {
                descending_path(path, &format!("{field}.localhostProfile"), errors);
            }
            (_, Some(_)) if name != "Localhost" => {
                let detail = format!("can only be set when {word} type is Localhost");
                errors.invalid(
                    format!("{field}.localhostProfile"),
                    profile.clone(),
                    &detail,
                );
            }
            _ => {}
        }
    }
}

fn sysctls(list: &Value, errors: &mut Errors) {
    const FORM: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let mut seen = Vec::new();
    for (index, sysctl) in items(list).iter().enumerate() {
        let field = format!("spec.securityContext.sysctls[{index}].name");
        let name = text(&sysctl["name"]);
        if name.is_empty() {
            errors.required(field, "");
        } else if name.len() > 253 || !is_sysctl(name) {
            errors.invalid(
                field,
                name,
                &format!("must have at most 253 characters and match regex {FORM}"),
            );
        } else if seen.contains(&name) {
            errors.duplicate(field, name);
        }
        seen.push(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.split(['.', '/']).all(|part| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(outer)
            && bytes.last().is_some_and(outer)
            && bytes.iter().all(|byte| outer(byte) || b"-_".contains(byte))
    })
}
