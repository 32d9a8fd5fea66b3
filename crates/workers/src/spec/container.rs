//! A container, as the runtime is asked for it.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};
use resources::Enforcement;
use seams::cri::{self, NamespaceMode};
use thiserror::Error;
use types::expand::{NoText, expand_text};

use super::env::Environment;
use super::labels;
use super::mounts::{self, MountError, MountSources};
use super::security::{self, ImageUser, PodSecurity, SecurityError, SecuritySettings};

/// What of a container is not in the pod. Devices are to come with their plugins.
#[derive(Clone, Copy, Debug)]
pub struct ContainerSources<'a> {
    /// How often it was started before: also the number of its log.
    pub restart_count: u32,
    /// The image's id.
    pub image: &'a str,
    pub image_user: &'a ImageUser,
    pub environment: &'a Environment,
    pub mounts: MountSources<'a>,
    pub enforcement: &'a Enforcement,
    pub security: &'a PodSecurity,
    pub settings: &'a SecuritySettings,
    /// `ContainerStopSignals`.
    pub stop_signals: bool,
    /// For an ephemeral container: the id of the one whose processes it looks at.
    pub target: Option<&'a str>,
}

/// Why a container cannot be made: users see these texts in its status.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ContainerError {
    #[error(transparent)]
    Mount(#[from] MountError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Command(#[from] NoText),
}

pub fn config(
    pod: &Pod,
    container: &Container,
    sources: &ContainerSources<'_>,
) -> Result<cri::ContainerConfig, ContainerError> {
    security::verify_non_root(pod, container, sources.image_user)?;
    let security_context = security_context(pod, container, sources)?;
    let namespaces = security_context.namespace_options.as_ref();
    let users = namespaces.and_then(|namespaces| namespaces.userns_options.as_ref());
    let env = sources.environment;
    let mounts = mounts::mounts(pod, container, env, &sources.mounts, users)?;
    Ok(cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: container.name.clone(),
            attempt: sources.restart_count,
        }),
        image: Some(cri::ImageSpec {
            image: sources.image.to_owned(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command: expanded(container.command.as_ref(), env)?,
        args: expanded(container.args.as_ref(), env)?,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: env.variables(),
        mounts,
        labels: labels::of_container(pod, container),
        annotations: labels::annotations(pod, container, sources.restart_count),
        log_path: log_path(&container.name, sources.restart_count),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(sources.enforcement.container(pod, container)),
            security_context: Some(security_context),
        }),
        stop_signal: stop_signal(container, sources.stop_signals).into(),
        ..Default::default()
    })
}

/// The image's, where the container does not choose one.
fn stop_signal(container: &Container, may_choose: bool) -> cri::Signal {
    let lifecycle = container.lifecycle.as_ref();
    let chosen = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    let chosen = chosen.filter(|_| may_choose);
    let signal = chosen.and_then(cri::signal_of);
    signal.unwrap_or(cri::Signal::RuntimeDefault)
}

/// Where a container's log is in its pod's directory.
pub fn log_path(container: &str, restart_count: u32) -> String {
    format!("{container}/{restart_count}.log")
}

/// An ephemeral container as an ordinary one, which it is to the runtime.
pub fn of_ephemeral(ephemeral: &EphemeralContainer) -> Container {
    let ephemeral = ephemeral.clone();
    Container {
        args: ephemeral.args,
        command: ephemeral.command,
        env: ephemeral.env,
        env_from: ephemeral.env_from,
        image: ephemeral.image,
        image_pull_policy: ephemeral.image_pull_policy,
        lifecycle: ephemeral.lifecycle,
        liveness_probe: ephemeral.liveness_probe,
        name: ephemeral.name,
        ports: ephemeral.ports,
        readiness_probe: ephemeral.readiness_probe,
        resize_policy: ephemeral.resize_policy,
        resources: ephemeral.resources,
        restart_policy: ephemeral.restart_policy,
        restart_policy_rules: ephemeral.restart_policy_rules,
        security_context: ephemeral.security_context,
        startup_probe: ephemeral.startup_probe,
        stdin: ephemeral.stdin,
        stdin_once: ephemeral.stdin_once,
        termination_message_path: ephemeral.termination_message_path,
        termination_message_policy: ephemeral.termination_message_policy,
        tty: ephemeral.tty,
        volume_devices: ephemeral.volume_devices,
        volume_mounts: ephemeral.volume_mounts,
        working_dir: ephemeral.working_dir,
    }
}

fn security_context(
    pod: &Pod,
    container: &Container,
    sources: &ContainerSources<'_>,
) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
    let mut context = security::of_container(
        pod,
        container,
        sources.image_user,
        sources.security,
        sources.settings,
    )?;
    if let (Some(target), Some(namespaces)) = (sources.target, &mut context.namespace_options)
        && namespaces.pid() == NamespaceMode::Container
    {
        namespaces.set_pid(NamespaceMode::Target);
        target.clone_into(&mut namespaces.target_id);
    }
    Ok(context)
}

fn expanded(words: Option<&Vec<String>>, env: &Environment) -> Result<Vec<String>, NoText> {
    let words = words.into_iter().flatten();
    words
        .map(|word| expand_text(word, |name| env.get(name)))
        .collect()
}

#[cfg(test)]
mod tests;
