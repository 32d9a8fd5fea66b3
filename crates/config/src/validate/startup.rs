//! Rules that upstream checks only when the part that needs the setting
//! starts. We check them with the others: the operator sees them at once.

use std::borrow::Cow;
use std::collections::BTreeSet;

use types::duration::GoDuration;
use types::quantity::Quantity;

use super::Check;
use crate::finding::did_you_mean;
use crate::flags;
use crate::schema;

/// How many faults say what was perhaps meant, which takes a while to find.
const MOST_GUESSES: usize = 50;
/// How many characters of a value are quoted.
const MOST_QUOTED: usize = 100;
const TLS_VERSIONS: [&str; 5] = [
    "",
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
];
const CPU_OPTIONS: [&str; 6] = [
    "align-by-socket",
    "distribute-cpus-across-cores",
    "distribute-cpus-across-numa",
    "full-pcpus-only",
    "prefer-align-cpus-by-uncorecache",
    "strict-cpu-reservation",
];
const RESERVED: [&str; 4] = ["cpu", "ephemeral-storage", "memory", "pid"];
/// What may be set in a pod without harm to others: names, and beginnings.
const SYSCTL_NAMES: [&str; 1] = ["kernel.sem"];
const SYSCTL_GROUPS: [&str; 4] = ["kernel.shm", "kernel.msg", "fs.mqueue.", "net."];

pub(super) fn run(check: &mut Check<'_>) {
    let sync = check.duration("syncFrequency");
    check.require("syncFrequency", sync > GoDuration::ZERO);
    check.one_of("authorization.mode", &["AlwaysAllow", "Webhook"]);
    check.one_of("cpuManagerPolicy", &["none", "static"]);
    check.one_of("memoryManagerPolicy", &["None", "Static"]);
    let strategies = ["Get", "Cache", "Watch"];
    check.one_of("configMapAndSecretChangeDetectionStrategy", &strategies);
    tls(check);
    options(check);
    amounts(check);
    sysctls(check);
    standalone(check);
}

fn tls(check: &mut Check<'_>) {
    check.one_of("tlsMinVersion", &TLS_VERSIONS);
    let names = check.settings.list("tlsCipherSuites");
    for (index, name) in names.iter().enumerate() {
        if check.is_full() {
            return;
        }
        let name = name.as_str().unwrap_or_default();
        if !cipher_suites().any(|known| known == name) {
            let meant = meant(check, name, cipher_suites());
            check.fault(
                &format!("tlsCipherSuites[{index}]"),
                format!("there is no cipher suite {:?}{meant}", cut(name)),
            );
        }
    }
    let mut seen = BTreeSet::new();
    for (index, curve) in check
        .settings
        .list("tlsCurvePreferences")
        .iter()
        .enumerate()
    {
        if check.is_full() {
            return;
        }
        let at = format!("tlsCurvePreferences[{index}]");
        match curve.as_i64().filter(|curve| CURVES.contains(curve)) {
            None => check.fault(
                &at,
                format!("{curve} is not a known curve; known are {CURVES:?}"),
            ),
            Some(known) if !seen.insert(known) => {
                check.fault(&at, format!("{curve} stands twice"));
            }
            Some(_) => {}
        }
    }
}

/// Numbers of key exchanges: P-256, P-384, P-521, X25519 and the hybrids of
/// ML-KEM with P-256, X25519 and P-384.
const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

fn cipher_suites() -> impl Iterator<Item = &'static str> {
    [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    ]
    .into_iter()
}

fn options(check: &mut Check<'_>) {
    // The values of a policy that is off are not looked at, its names are.
    let on = check.settings.text("cpuManagerPolicy") == "static";
    entries(check, "cpuManagerPolicyOptions", |key, value| {
        known(key, &CPU_OPTIONS)?;
        if on { boolean(value) } else { Ok(()) }
    });
    if check.settings.text("topologyManagerPolicy") != "none" {
        entries(
            check,
            "topologyManagerPolicyOptions",
            |key, value| match key {
                "prefer-closest-numa-nodes" => boolean(value),
                "max-allowable-numa-nodes" => value
                    .parse::<i64>()
                    .map(drop)
                    .map_err(|_| format!("found {:?}, and it must be a whole number", cut(value))),
                _ => known(
                    key,
                    &["prefer-closest-numa-nodes", "max-allowable-numa-nodes"],
                ),
            },
        );
    }
    entries(check, "qosReserved", |key, value| {
        known(key, &["memory"])?;
        let share = value
            .strip_suffix('%')
            .and_then(|share| share.parse::<i64>().ok());
        match share {
            Some(0..=100) => Ok(()),
            _ => Err(format!(
                "found {:?}, and it must be from 0% to 100%",
                cut(value)
            )),
        }
    });
}

fn amounts(check: &mut Check<'_>) {
    for path in ["systemReserved", "kubeReserved"] {
        entries(check, path, |key, value| {
            known(key, &RESERVED)?;
            let amount: Quantity = value.parse().map_err(|error| format!("{error}"))?;
            if amount.sign() < 0 {
                return Err(format!(
                    "found {}, and an amount cannot be negative",
                    cut(value)
                ));
            }
            Ok(())
        });
    }
    let size = check
        .settings
        .text("containerLogMaxSize")
        .parse::<Quantity>();
    let fits = size.is_ok_and(|size| size.fits_i64());
    check.require("containerLogMaxSize", fits);
}

fn sysctls(check: &mut Check<'_>) {
    for (index, name) in check
        .settings
        .list("allowedUnsafeSysctls")
        .iter()
        .enumerate()
    {
        if check.is_full() {
            return;
        }
        let name = name.as_str().unwrap_or_default();
        if !is_namespaced_sysctl(name) {
            check.fault(
                &format!("allowedUnsafeSysctls[{index}]"),
                format!("found {:?}, and only kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.* belong to a pod alone", cut(name)),
            );
        }
    }
}

fn is_namespaced_sysctl(pattern: &str) -> bool {
    // Slashes are another way to write dots.
    let pattern = pattern.replace('/', ".");
    let stem = pattern.strip_suffix('*').unwrap_or(&pattern);
    let words = stem.trim_end_matches('.');
    let plain = !words.is_empty()
        && words.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte)
                })
        });
    plain
        && (SYSCTL_NAMES.contains(&pattern.as_str())
            || SYSCTL_GROUPS.iter().any(|group| stem.starts_with(group)))
}

/// Webhooks ask the API server: without one they cannot work.
fn standalone(check: &mut Check<'_>) {
    if check.machine.is_none_or(|machine| machine.has_api) {
        return;
    }
    if check.settings.bool("authentication.webhook.enabled") {
        check.fault(
            "authentication.webhook.enabled",
            "true needs an API server: give --kubeconfig, or turn it off for a node without one",
        );
    }
    if check.settings.text("authorization.mode") == "Webhook" {
        check.fault(
            "authorization.mode",
            "Webhook needs an API server: give --kubeconfig, or set AlwaysAllow for a node without one",
        );
    }
}

fn entries(check: &mut Check<'_>, path: &str, judge: impl Fn(&str, &str) -> Result<(), String>) {
    for (key, value) in check.settings.entries(path) {
        if check.is_full() {
            return;
        }
        if let Err(reason) = judge(key, value.as_str().unwrap_or_default()) {
            check.fault(&format!("{path}.{key}"), reason);
        }
    }
}

fn known(key: &str, names: &[&str]) -> Result<(), String> {
    if names.contains(&key) {
        return Ok(());
    }
    Err(format!(
        "there is no such option; there are {}",
        names.join(", ")
    ))
}

fn boolean(text: &str) -> Result<(), String> {
    flags::boolean(text).map(drop).map_err(|_| {
        let found = cut(text);
        format!("found {found:?}, and it must be true or false, in quotes")
    })
}

/// "; did you mean …?", if there is something to propose and not too many
/// faults have been found to look for it.
pub(super) fn meant(
    check: &Check<'_>,
    name: &str,
    names: impl Iterator<Item = &'static str>,
) -> String {
    let nearest = || did_you_mean(schema::nearest(name, names));
    let few = check.findings.len() < MOST_GUESSES;
    few.then(nearest)
        .flatten()
        .map_or(String::new(), |question| format!("; {question}"))
}

/// The beginning of a value that is too long to be quoted.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::faults;
    use super::*;

    #[test]
    fn what_upstream_finds_later_is_found_at_once() {
        for (path, value, found) in [
            ("syncFrequency", json!("-1s"), "syncFrequency"),
            ("authorization.mode", json!("RBAC"), "authorization.mode"),
            ("cpuManagerPolicy", json!("dynamic"), "cpuManagerPolicy"),
            (
                "memoryManagerPolicy",
                json!("static"),
                "memoryManagerPolicy",
            ),
            ("tlsMinVersion", json!("1.2"), "tlsMinVersion"),
            ("tlsCipherSuites", json!(["TLS_X"]), "tlsCipherSuites[0]"),
            ("tlsCurvePreferences", json!([1]), "tlsCurvePreferences[0]"),
            (
                "tlsCurvePreferences",
                json!([23, 23]),
                "tlsCurvePreferences[1]",
            ),
            ("qosReserved", json!({"memory": "50"}), "qosReserved.memory"),
            (
                "systemReserved",
                json!({"cpus": "1"}),
                "systemReserved.cpus",
            ),
            (
                "kubeReserved",
                json!({"memory": "lots"}),
                "kubeReserved.memory",
            ),
            ("containerLogMaxSize", json!("big"), "containerLogMaxSize"),
            (
                "allowedUnsafeSysctls",
                json!(["vm.swappiness"]),
                "allowedUnsafeSysctls[0]",
            ),
        ] {
            assert_eq!(faults(&[(path, value.clone())]), [found], "{value}");
        }
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(cut("é"), "é");
        assert_eq!(cut(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(cut(&"é".repeat(101)), format!("{}…", "é".repeat(100)));
    }

    #[test]
    fn sysctls_of_a_pod_are_told_from_the_nodes() {
        for good in [
            "net.*",
            "kernel.shm*",
            "kernel.shmmax",
            "kernel.sem",
            "net/core/somaxconn",
            "fs.mqueue.x",
        ] {
            assert!(is_namespaced_sysctl(good), "{good}");
        }
        for bad in [
            "",
            "*",
            "vm.*",
            "kernel.*",
            "kernel.semx",
            "net",
            "net..x",
            "net.*.x",
        ] {
            assert!(!is_namespaced_sysctl(bad), "{bad}");
        }
    }
}
