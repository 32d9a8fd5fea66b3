//! What a pod's machine is called from inside.

use k8s_openapi::api::core::v1::Pod;
use thiserror::Error;
use types::names::{validate_dns_label, validate_dns_subdomain};

use super::dns::DnsSettings;
use super::spec_of;

/// The kernel has 64 bytes for a name, and names a zero byte less.
const NAME_LENGTH: usize = 63;
/// Of this name the kernel has all 64.
const FULL_NAME_LENGTH: usize = 64;

/// A pod's name in its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostname {
    pub host: String,
    /// Empty for pods without a subdomain.
    pub domain: String,
}

/// Why a pod has no name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HostnameError {
    #[error("pod {field} {name:?} is not a valid DNS {kind}: {reason}")]
    Invalid {
        field: &'static str,
        name: String,
        kind: &'static str,
        reason: String,
    },
    #[error("hostname for pod {pod:?} was invalid: {name:?}")]
    NothingLeft { pod: String, name: String },
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {name} is too long ({FULL_NAME_LENGTH} characters is the max, {length} characters requested)"
    )]
    TooLong { name: String, length: usize },
}

impl Hostname {
    pub fn of(pod: &Pod, settings: &DnsSettings) -> Result<Self, HostnameError> {
        let spec = spec_of(pod);
        let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
        let overriding = spec.hostname_override.as_ref();
        if let Some(name) = overriding.filter(|_| settings.hostname_override) {
            check("HostnameOverride", name, "subdomain", |name| {
                validate_dns_subdomain(name).map_err(|error| error.to_string())
            })?;
            let host = truncated(pod_name, name)?;
            return Ok(Self {
                host,
                domain: String::new(),
            });
        }
        let label = |name: &str| validate_dns_label(name).map_err(|error| error.to_string());
        let given = spec.hostname.as_deref().filter(|name| !name.is_empty());
        if let Some(name) = given {
            check("Hostname", name, "label", label)?;
        }
        let host = truncated(pod_name, given.unwrap_or(pod_name))?;
        let subdomain = spec.subdomain.as_deref().filter(|name| !name.is_empty());
        let domain = match subdomain {
            None => String::new(),
            Some(subdomain) => {
                check("Subdomain", subdomain, "label", label)?;
                let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                format!("{subdomain}.{namespace}.svc.{}", settings.domain)
            }
        };
        Ok(Self { host, domain })
    }

    /// The name that the kernel is given.
    pub fn for_kernel(&self, pod: &Pod) -> Result<String, HostnameError> {
        let as_fqdn = spec_of(pod).set_hostname_as_fqdn == Some(true);
        if !as_fqdn || self.domain.is_empty() {
            return Ok(self.host.clone());
        }
        let name = format!("{}.{}", self.host, self.domain);
        if name.len() > FULL_NAME_LENGTH {
            let length = name.len();
            return Err(HostnameError::TooLong { name, length });
        }
        Ok(name)
    }
}

fn check(
    field: &'static str,
    name: &str,
    kind: &'static str,
    judge: impl Fn(&str) -> Result<(), String>,
) -> Result<(), HostnameError> {
    judge(name).map_err(|reason| HostnameError::Invalid {
        field,
        name: name.to_owned(),
        kind,
        reason,
    })
}

fn truncated(pod: &str, name: &str) -> Result<String, HostnameError> {
    if name.len() <= NAME_LENGTH {
        return Ok(name.to_owned());
    }
    let mut end = NAME_LENGTH;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let short = name[..end].trim_end_matches(['-', '.']);
    if short.is_empty() {
        return Err(HostnameError::NothingLeft {
            pod: pod.to_owned(),
            name: name.to_owned(),
        });
    }
    Ok(short.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::spec::testing;

    fn settings() -> DnsSettings {
        DnsSettings {
            domain: "cluster.local".to_owned(),
            hostname_override: true,
            ..DnsSettings::default()
        }
    }

    fn of(name: &str, spec: &Value) -> Result<(String, String), String> {
        let mut pod = testing::pod(spec);
        pod.metadata.name = Some(name.to_owned());
        let hostname = Hostname::of(&pod, &settings()).map_err(|error| error.to_string())?;
        Ok((hostname.host, hostname.domain))
    }

    #[test]
    fn a_pod_is_called_by_its_name_unless_it_says_otherwise() {
        let long = "a".repeat(70);
        let dashed = format!("{}-.b", "a".repeat(61));
        for (name, spec, host, domain) in [
            ("web", json!({}), "web", ""),
            ("web", json!({ "hostname": "db" }), "db", ""),
            ("web", json!({ "hostname": "" }), "web", ""),
            (
                "web",
                json!({ "subdomain": "sub" }),
                "web",
                "sub.shop.svc.cluster.local",
            ),
            (
                "web",
                json!({ "hostname": "db", "subdomain": "sub" }),
                "db",
                "sub.shop.svc.cluster.local",
            ),
            (
                "web",
                json!({ "hostnameOverride": "db.example.com", "subdomain": "sub" }),
                "db.example.com",
                "",
            ),
            (
                "web",
                json!({ "hostnameOverride": "x", "hostname": "db" }),
                "x",
                "",
            ),
            (&long, json!({}), &long[..63], ""),
            (&dashed, json!({}), &dashed[..61], ""),
            (&long, json!({ "hostnameOverride": long }), &long[..63], ""),
        ] {
            let expected = Ok((host.to_owned(), domain.to_owned()));
            assert_eq!(of(name, &spec), expected, "{name} {spec}");
        }
    }

    #[test]
    fn without_its_gate_a_name_is_not_overridden() {
        let pod = testing::pod(&json!({ "hostnameOverride": "NO NAME", "hostname": "db" }));
        let settings = DnsSettings {
            hostname_override: false,
            ..settings()
        };
        assert_eq!(Hostname::of(&pod, &settings).unwrap().host, "db");
    }

    #[test]
    fn names_that_dns_does_not_take_are_refused() {
        for (spec, text) in [
            (
                json!({ "hostname": "A_b" }),
                "pod Hostname \"A_b\" is not a valid DNS label: ",
            ),
            (
                json!({ "subdomain": "a.b" }),
                "pod Subdomain \"a.b\" is not a valid DNS label: ",
            ),
            (
                json!({ "hostnameOverride": "A" }),
                "pod HostnameOverride \"A\" is not a valid DNS subdomain: ",
            ),
        ] {
            let error = of("web", &spec).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
        let dashes = "-".repeat(64);
        let error = of(&dashes, &json!({})).unwrap_err();
        assert!(error.starts_with("hostname for pod "), "{error}");
    }

    #[test]
    fn the_kernel_gets_the_full_name_if_asked_and_if_it_fits() {
        let kernel = |spec: &Value| {
            let pod = testing::pod(spec);
            Hostname::of(&pod, &settings()).unwrap().for_kernel(&pod)
        };
        let name = |spec: &Value| kernel(spec).unwrap();
        assert_eq!(name(&json!({ "subdomain": "s" })), "web");
        assert_eq!(name(&json!({ "setHostnameAsFQDN": true })), "web");
        let full = json!({ "setHostnameAsFQDN": true, "subdomain": "s" });
        assert_eq!(name(&full), "web.s.shop.svc.cluster.local");
        let rest = ".shop.svc.cluster.local".len();
        for (length, fits) in [(64, true), (65, false)] {
            let subdomain = "s".repeat(length - rest - "web.".len());
            let spec = json!({ "setHostnameAsFQDN": true, "subdomain": subdomain });
            assert_eq!(kernel(&spec).is_ok(), fits);
            if !fits {
                let error = kernel(&spec).unwrap_err().to_string();
                let end = "is too long (64 characters is the max, 65 characters requested)";
                assert!(error.ends_with(end), "{error}");
            }
        }
    }
}
