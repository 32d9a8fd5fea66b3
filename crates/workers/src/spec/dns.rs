//! How a pod resolves names: its `resolv.conf`, by its policy.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};
use seams::cri::DnsConfig;
use thiserror::Error;

use super::{About, Notice, pod_ref, spec_of, uses_host_network};

#[cfg(test)]
mod tests;

/// What resolvers take.
const SERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_LENGTH: usize = 253;
const SEARCH_LINE_LENGTH: usize = 2048;
/// What a cluster adds to a node's.
const CLUSTER_SEARCHES: usize = 3;

const FORMING: &str = "DNSConfigForming";
const CHECK: &str = "CheckLimitsForResolvConf";
const NO_CLUSTER_DNS: &str = "MissingClusterDNS";

const CLUSTER_OPTIONS: &str = "ndots:5";

/// What a node knows of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsSettings {
    /// `clusterDNS`.
    pub servers: Vec<IpAddr>,
    /// `clusterDomain`.
    pub domain: String,
    pub node_ips: Vec<IpAddr>,
    /// The gate `HostnameOverride`.
    pub hostname_override: bool,
}

/// What a `resolv.conf` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// Why a node's `resolv.conf` cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("nameserver list is empty ")]
pub struct NoNameserver;

/// A pod's configuration, and what users should know about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodDns {
    pub config: DnsConfig,
    pub notices: Vec<Notice>,
}

impl ResolvConf {
    /// Servers add up, the last list of domains wins, options by their names.
    pub fn parse(text: &str) -> Result<Self, NoNameserver> {
        let mut file = Self::default();
        let mut options = Options::default();
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    file.servers
                        .push(words.next().ok_or(NoNameserver)?.to_owned());
                }
                Some("search") => {
                    let domains = words.filter(|domain| *domain != ".");
                    let bare = |domain: &str| domain.strip_suffix('.').unwrap_or(domain).to_owned();
                    file.searches = domains.map(bare).collect();
                }
                Some("options") => words.for_each(|word| options.set(word)),
                _ => {}
            }
        }
        file.options = options.texts();
        Ok(file)
    }

    /// What is wrong with the node's own file, as an event about the node: to be
    /// looked at once, at the start.
    pub fn check(&self, path: &str, settings: &DnsSettings) -> Option<Notice> {
        let reserved = if settings.domain.is_empty() {
            0
        } else {
            CLUSTER_SEARCHES
        };
        let most = SEARCHES - reserved;
        let message = if self.searches.len() > most {
            format!(
                "Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
            )
        } else if self
            .searches
            .iter()
            .any(|search| search.len() > SEARCH_LENGTH)
        {
            format!(
                "Resolv.conf file {path:?} contains a search path which length is more than allowed {SEARCH_LENGTH} chars!"
            )
        } else if self.searches.join(" ").len() > SEARCH_LINE_LENGTH {
            format!(
                "Resolv.conf file '{path}' contains search line which length is more than allowed {SEARCH_LINE_LENGTH} chars!"
            )
        } else {
            return None;
        };
        Some(check_failed(message))
    }
}

/// What is wrong with the node's own file, given what was found there.
pub fn check_file(
    path: &Path,
    found: io::Result<Option<Vec<u8>>>,
    settings: &DnsSettings,
) -> Option<Notice> {
    let shown = path.display();
    let content = match found {
        Ok(Some(content)) => content,
        Ok(None) => {
            return Some(check_failed(format!(
                "open {shown}: no such file or directory"
            )));
        }
        Err(cause) => return Some(check_failed(format!("open {shown}: {cause}"))),
    };
    match ResolvConf::parse(&String::from_utf8_lossy(&content)) {
        Ok(file) => file.check(&shown.to_string(), settings),
        Err(error) => Some(check_failed(error.to_string())),
    }
}

fn check_failed(message: String) -> Notice {
    Notice {
        about: About::Node,
        reason: CHECK,
        message,
    }
}

/// Options by name, in the order in which they first came.
#[derive(Default)]
struct Options(IndexMap<String, String>);

impl Options {
    /// `name:value`, or a name alone.
    fn set(&mut self, text: &str) {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        self.0.insert(name.to_owned(), value.to_owned());
    }

    fn texts(self) -> Vec<String> {
        let text = |(name, value): (String, String)| {
            if value.is_empty() {
                name
            } else {
                format!("{name}:{value}")
            }
        };
        self.0.into_iter().map(text).collect()
    }
}

/// Whose names a pod sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Nobodys,
    Clusters,
    Nodes,
}

impl PodDns {
    /// `node` is the node's file; `None` if the setting `resolvConf` is empty.
    pub fn of(pod: &Pod, settings: &DnsSettings, node: Option<&ResolvConf>) -> Self {
        let mut notices = Vec::new();
        let mut base = base(pod);
        if base == Base::Clusters && settings.servers.is_empty() {
            notices.extend(missing_cluster_dns(pod));
            base = Base::Nodes;
        }
        let mut config = match base {
            Base::Nobodys => DnsConfig::default(),
            Base::Clusters => of_cluster(pod, settings, node),
            Base::Nodes => node.map_or_else(|| of_nobody(settings), of_node),
        };
        if let Some(own) = &spec_of(pod).dns_config {
            add(&mut config, own);
        }
        notices.extend(limit_servers(&mut config.servers));
        notices.extend(limit_searches(&mut config.searches));
        Self { config, notices }
    }
}

/// A policy that the API does not know is taken for its default.
fn base(pod: &Pod) -> Base {
    let spec = spec_of(pod);
    match spec.dns_policy.as_deref() {
        Some("None") => Base::Nobodys,
        Some("Default") => Base::Nodes,
        Some("ClusterFirst") if uses_host_network(&spec) => Base::Nodes,
        _ => Base::Clusters,
    }
}

fn missing_cluster_dns(pod: &Pod) -> [Notice; 2] {
    let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
    let of_pod = format!("pod: \"{}\". {message}", pod_ref(pod));
    let notice = |about, message| Notice {
        about,
        reason: NO_CLUSTER_DNS,
        message,
    };
    [
        notice(About::Node, message.to_owned()),
        notice(About::Pod, of_pod),
    ]
}

fn of_cluster(pod: &Pod, settings: &DnsSettings, node: Option<&ResolvConf>) -> DnsConfig {
    let domain = &settings.domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        searches.push(format!("{namespace}.svc.{domain}"));
        searches.push(format!("svc.{domain}"));
        searches.push(domain.clone());
    }
    searches.extend(
        node.into_iter()
            .flat_map(|node| node.searches.iter().cloned()),
    );
    if !domain.is_empty() {
        searches = unique(searches);
    }
    DnsConfig {
        servers: settings.servers.iter().map(IpAddr::to_string).collect(),
        searches,
        options: vec![CLUSTER_OPTIONS.to_owned()],
    }
}

fn of_node(node: &ResolvConf) -> DnsConfig {
    DnsConfig {
        servers: node.servers.clone(),
        searches: node.searches.clone(),
        options: node.options.clone(),
    }
}

/// An empty configuration would make runtimes take the node's: this one finds
/// nothing but what is local.
fn of_nobody(settings: &DnsSettings) -> DnsConfig {
    let local = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<&str> = settings.node_ips.iter().map(local).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1");
    }
    DnsConfig {
        servers: servers.into_iter().map(str::to_owned).collect(),
        searches: vec![".".to_owned()],
        options: Vec::new(),
    }
}

/// The pod's own comes after the rest; of its options, each replaces its like.
fn add(config: &mut DnsConfig, own: &PodDNSConfig) {
    let join = |list: &mut Vec<String>, more: Option<&Vec<String>>| {
        list.extend(more.into_iter().flatten().cloned());
        *list = unique(std::mem::take(list));
    };
    join(&mut config.servers, own.nameservers.as_ref());
    join(&mut config.searches, own.searches.as_ref());
    let mut options = Options::default();
    for option in &config.options {
        options.set(option);
    }
    for option in own.options.iter().flatten() {
        let name = option.name.clone().unwrap_or_default();
        options
            .0
            .insert(name, option.value.clone().unwrap_or_default());
    }
    config.options = options.texts();
}

fn unique(list: Vec<String>) -> Vec<String> {
    let set: indexmap::IndexSet<String> = list.into_iter().collect();
    set.into_iter().collect()
}

fn limit_servers(servers: &mut Vec<String>) -> Option<Notice> {
    if servers.len() <= SERVERS {
        return None;
    }
    servers.truncate(SERVERS);
    let line = servers.join(" ");
    Some(forming(format!(
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {line}"
    )))
}

/// Some resolvers abort on a domain that is too long.
fn limit_searches(searches: &mut Vec<String>) -> Option<Notice> {
    let before = searches.len();
    searches.truncate(SEARCHES);
    searches.retain(|search| search.len() <= SEARCH_LENGTH);
    while searches.join(" ").len() > SEARCH_LINE_LENGTH {
        searches.pop();
    }
    if searches.len() == before {
        return None;
    }
    let line = searches.join(" ");
    Some(forming(format!(
        "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {line}"
    )))
}

fn forming(message: String) -> Notice {
    Notice {
        about: About::Pod,
        reason: FORMING,
        message,
    }
}
