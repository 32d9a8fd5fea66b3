//! What the container runtime says, over its socket. Only questions are asked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cri::{Client, Config, Endpoint};
use seams::cri::{
    CgroupDriver, ImageFsInfoRequest, ListPodSandboxRequest, RuntimeConfigRequest, StatusRequest,
    StatusResponse,
};
use seams::{Clock, Runtime as _, SharedClock, start, timeout};
use serde_json::Value;
use tokio::net::UnixStream;

use super::network::NetworkSettings;
use crate::doctor::checks::cgroups::RuntimeDriver;
use crate::doctor::checks::runtime::{Answers, Facts, State};
use crate::join::machine::SOCKETS;
use crate::local_node::LocalNode;

/// Everything that the runtime tells.
#[derive(Debug)]
pub(super) struct RuntimeSeen {
    pub(super) facts: Facts,
    pub(super) driver: RuntimeDriver,
    pub(super) network: NetworkSettings,
    /// Where images are.
    pub(super) image_directory: Option<PathBuf>,
}

pub(super) async fn look(node: &LocalNode, clock: &SharedClock, limit: Duration) -> RuntimeSeen {
    let text = node.settings.text("containerRuntimeEndpoint");
    let mut seen = RuntimeSeen {
        facts: Facts {
            socket: PathBuf::from(text),
            state: State::Missing,
            remedies: node.remedies.clone(),
            elsewhere: None,
        },
        driver: RuntimeDriver::Unknown,
        network: NetworkSettings::default(),
        image_directory: None,
    };
    let endpoint = match Endpoint::parse(text) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            seen.facts.state = State::NoEndpoint(error.to_string());
            return seen;
        }
    };
    endpoint.path().clone_into(&mut seen.facts.socket);
    if let Some(state) = silent(endpoint.path(), &**clock, limit).await {
        seen.facts.elsewhere = elsewhere(node, endpoint.path());
        seen.facts.state = state;
        return seen;
    }
    let config = Config {
        runtime_endpoint: endpoint.to_string(),
        request_timeout: limit,
        ..Config::default()
    };
    match Client::new(&config, clock.clone()) {
        Err(error) => seen.facts.state = State::NoEndpoint(error.to_string()),
        Ok(client) => {
            ask(&client, &**clock, &mut seen).await;
            client.close().await;
        }
    }
    seen
}

/// Why nobody can be asked; `None` if somebody takes calls.
async fn silent(socket: &Path, clock: &dyn Clock, limit: Duration) -> Option<State> {
    match timeout(clock, limit, UnixStream::connect(socket)).await {
        Ok(Ok(_)) => None,
        Err(_) => Some(State::Refuses),
        Ok(Err(error)) => Some(match error.kind() {
            io::ErrorKind::NotFound => State::Missing,
            io::ErrorKind::PermissionDenied => State::Forbidden,
            _ => State::Refuses,
        }),
    }
}

/// Another runtime that is there, and what makes the node use it.
fn elsewhere(node: &LocalNode, socket: &Path) -> Option<(PathBuf, Option<String>)> {
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    let other = SOCKETS.iter().map(Path::new);
    let other = other.filter(|path| path.exists() && !same(path, socket));
    let other = other.map(Path::to_owned).next()?;
    let value = format!("unix://{}", other.display());
    let mend = node.remedies.set(
        &node.settings,
        node.config_file.as_deref(),
        "containerRuntimeEndpoint",
        &value,
    );
    Some((other, mend))
}

async fn ask(client: &Client, clock: &dyn Clock, seen: &mut RuntimeSeen) {
    let version = match start::check(client).await {
        Ok(version) => version,
        Err(error) => {
            seen.facts.state = State::Unfit(error.to_string());
            return;
        }
    };
    let status = client.status(StatusRequest { verbose: true });
    let config = client.runtime_config(RuntimeConfigRequest {});
    let images = client.image_fs_info(ImageFsInfoRequest {});
    let listed = async {
        let began = clock.uptime();
        let listed = client
            .list_pod_sandbox(ListPodSandboxRequest::default())
            .await;
        (listed, clock.uptime().saturating_sub(began))
    };
    let (status, config, images, (listed, took)) = tokio::join!(status, config, images, listed);
    let told =
        config.ok().and_then(|config| config.linux).map(|linux| {
            match CgroupDriver::try_from(linux.cgroup_driver) {
                Ok(CgroupDriver::Cgroupfs) => "cgroupfs",
                _ => "systemd",
            }
        });
    let ready = match &status {
        Ok(status) => condition(status, "RuntimeReady"),
        Err(error) => Err(error.to_string()),
    };
    if let Ok(status) = &status {
        let own: Value = status
            .info
            .get("config")
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        seen.network = network(&own, condition(status, "NetworkReady"));
        seen.driver = match (told, configured_driver(&own)) {
            (Some(told), _) => RuntimeDriver::Told(told),
            (None, Some(configured)) => RuntimeDriver::Configured(configured),
            (None, None) => RuntimeDriver::Unknown,
        };
    }
    let mut images = images
        .ok()
        .into_iter()
        .flat_map(|info| info.image_filesystems);
    let place = images.next().and_then(|one| one.fs_id);
    seen.image_directory = place.map(|place| PathBuf::from(place.mountpoint));
    seen.facts.state = State::Answers(Answers {
        name: version.runtime_name,
        version: version.runtime_version,
        ready,
        listed: match listed {
            Ok(listed) => Ok((took, listed.items.len())),
            Err(error) => Err(error.to_string()),
        },
    });
}

/// One that is not told of counts as false.
fn condition(status: &StatusResponse, kind: &str) -> Result<(), String> {
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.filter(|condition| condition.r#type == kind);
    match found.next() {
        Some(condition) if condition.status => Ok(()),
        Some(condition) => Err(format!("{}: {}", condition.reason, condition.message)),
        None => Err(format!("it does not tell {kind}")),
    }
}

/// From the configuration that containerd tells of itself.
fn configured_driver(own: &Value) -> Option<&'static str> {
    let containerd = &own["containerd"];
    let name = containerd["defaultRuntimeName"].as_str().unwrap_or("runc");
    let options = &containerd["runtimes"][name]["options"];
    // Left out, it is off.
    let known = containerd["runtimes"][name].is_object();
    known.then(|| match options["SystemdCgroup"].as_bool() {
        Some(true) => "systemd",
        _ => "cgroupfs",
    })
}

fn network(own: &Value, ready: Result<(), String>) -> NetworkSettings {
    let usual = NetworkSettings::default();
    let cni = &own["cni"];
    let path = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(PathBuf::from)
    };
    let listed = cni["binDirs"].as_array().into_iter().flatten();
    let mut programs: Vec<PathBuf> = listed.filter_map(path).collect();
    programs.extend(path(&cni["binDir"]));
    NetworkSettings {
        ready: Some(ready),
        directory: path(&cni["confDir"]).unwrap_or(usual.directory),
        programs: if programs.is_empty() {
            usual.programs
        } else {
            programs
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containerd_tells_its_driver_and_its_places() {
        let own = |systemd: bool| {
            json!({
                "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": systemd}}}},
                "cni": {"binDir": "/opt/cni/bin", "confDir": "/etc/cni/other"},
            })
        };
        assert_eq!(configured_driver(&own(true)), Some("systemd"));
        assert_eq!(configured_driver(&own(false)), Some("cgroupfs"));
        assert_eq!(configured_driver(&Value::Null), None);
        let seen = network(&own(true), Ok(()));
        assert_eq!(seen.directory, Path::new("/etc/cni/other"));
        let seen = network(&json!({"cni": {"binDirs": ["/a", "/b"]}}), Ok(()));
        assert_eq!(seen.programs, [Path::new("/a"), Path::new("/b")]);
        assert_eq!(seen.directory, Path::new("/etc/cni/net.d"));
    }
}
