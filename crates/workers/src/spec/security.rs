//! As whom containers run, and what they may do.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, Pod, PodSecurityContext, SELinuxOptions,
    SeccompProfile, SecurityContext,
};
pub use resources::users::IdRange;
use seams::cri::{self, NamespaceMode, SupplementalGroupsPolicy, security_profile::ProfileType};
use thiserror::Error;

use super::{pod_ref, spec_of, uses_host_network};

#[cfg(test)]
mod tests;

const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// What the kernel takes for a user.
const USER_IDS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;

/// Where profiles were asked for before there were fields.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What a node does for all its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecuritySettings {
    /// Where seccomp profiles are: `seccomp` below the root directory.
    pub seccomp_root: PathBuf,
    /// `seccompDefault`.
    pub seccomp_default: bool,
    /// The files of the machine that tell of throttled CPUs, and so of neighbours:
    /// those that exist of `/sys/devices/system/cpu/cpuN/thermal_throttle`.
    pub throttle_files: Vec<String>,
    /// Whether the machine has `SELinux`.
    pub selinux: bool,
}

/// Where the kernel tells of the CPUs that there may be.
pub const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// The files of [`SecuritySettings::throttle_files`]: `possible` is what is in
/// [`POSSIBLE_CPUS`] (`0-3,6`), `cpus` the number of those that run, for a kernel that
/// does not tell.
pub fn throttle_files(possible: &str, cpus: u32, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let numbers = possible_cpus(possible).unwrap_or_else(|| (0..cpus).collect());
    let path = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    let paths = numbers.into_iter().map(path);
    paths.filter(|path| exists(path)).collect()
}

fn possible_cpus(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// What is decided for one pod outside of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSecurity {
    /// For pods with `hostUsers: false`: the ids that it was given.
    pub user_namespace: Option<IdRange>,
    /// Groups that its volumes ask for.
    pub volume_groups: Vec<i64>,
}

/// As whom an image wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    Id(i64),
    Name(String),
}

/// Why a container must not run like this.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SecurityError {
    #[error("{refusal} (pod: \"{pod}\", container: {container})")]
    Root {
        refusal: NotNonRoot,
        pod: String,
        container: String,
    },
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoSeccompProfile,
    #[error("missing localhost apparmor profile name")]
    NoAppArmorProfile,
    #[error("unknown apparmor profile type: {0:?}")]
    UnknownAppArmor(String),
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    UnknownGroupsPolicy(String),
    #[error("can't set `spec.hostUsers: false`, {0}")]
    NoUserNamespaces(HandlerLack),
    #[error(
        "the pod has hostUsers: false and no ids of the machine were given to it: give the kubelet ids to hand out (userNamespaces.idsPerPod), or set hostUsers to true"
    )]
    NoUserNamespace,
}

/// Why a runtime handler cannot give a pod users of its own. The default one has no name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HandlerLack {
    #[error("{}", lack(.0))]
    Unable(String),
    #[error("{}: the handler {handler:?} is not known", lack(handler))]
    Unknown { handler: String },
}

fn lack(handler: &str) -> String {
    match handler {
        "" => "runtime does not support user namespaces".to_owned(),
        named => {
            format!("RuntimeClass handler {named:?} does not support user namespaces")
        }
    }
}

/// Whether a runtime handler can give a pod users of its own. `handlers` are those that
/// the runtime tells of; old ones tell of none.
pub fn verify_user_namespaces(
    handlers: &BTreeMap<String, bool>,
    handler: &str,
) -> Result<(), SecurityError> {
    let lack = match handlers.get(handler) {
        Some(true) => return Ok(()),
        None if !handlers.is_empty() => HandlerLack::Unknown {
            handler: handler.to_owned(),
        },
        Some(false) | None => HandlerLack::Unable(handler.to_owned()),
    };
    Err(SecurityError::NoUserNamespaces(lack))
}

/// Why a container may be root that must not.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NotNonRoot {
    #[error("container's runAsUser breaks non-root policy")]
    User,
    #[error("container has runAsNonRoot and image will run as root")]
    Image,
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    Name(String),
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({0}). (Must be 1-({max})): must be between 0 and {max}, inclusive",
        max = i32::MAX
    )]
    Id(i64),
}

impl ImageUser {
    /// As the runtime tells it: an image that says nothing runs as root.
    pub fn of(image: Option<&cri::Image>) -> Self {
        let id = image
            .and_then(|image| image.uid.as_ref())
            .map(|uid| uid.value);
        let name = image
            .map(|image| image.username.as_str())
            .unwrap_or_default();
        match id {
            Some(id) => Self::Id(id),
            None if !name.is_empty() => Self::Name(name.to_owned()),
            None => Self::Id(0),
        }
    }
}

/// A pod's settings, overridden by those of a container.
struct Effective<'a> {
    pod: Option<&'a PodSecurityContext>,
    container: Option<&'a SecurityContext>,
}

impl<'a> Effective<'a> {
    fn of(pod: &'a Pod, container: &'a Container) -> Self {
        Self {
            pod: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.security_context.as_ref()),
            container: container.security_context.as_ref(),
        }
    }

    fn pick<T>(
        &self,
        of_container: impl Fn(&'a SecurityContext) -> Option<T>,
        of_pod: impl Fn(&'a PodSecurityContext) -> Option<T>,
    ) -> Option<T> {
        self.container
            .and_then(of_container)
            .or_else(|| self.pod.and_then(of_pod))
    }

    fn own<T>(&self, pick: impl Fn(&'a SecurityContext) -> Option<T>) -> Option<T> {
        self.container.and_then(pick)
    }

    fn user(&self) -> Option<i64> {
        self.pick(|own| own.run_as_user, |pod| pod.run_as_user)
    }
}

/// Whether a container that must not be root is not.
pub fn verify_non_root(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
) -> Result<(), SecurityError> {
    let effective = Effective::of(pod, container);
    if effective.pick(|own| own.run_as_non_root, |pod| pod.run_as_non_root) != Some(true) {
        return Ok(());
    }
    let refusal = match (effective.user(), image_user) {
        (Some(0), _) => NotNonRoot::User,
        (None, ImageUser::Name(user)) => NotNonRoot::Name(user.clone()),
        (None, ImageUser::Id(0)) => NotNonRoot::Image,
        (None, ImageUser::Id(user)) if !USER_IDS.contains(user) => NotNonRoot::Id(*user),
        (Some(_), _) | (None, ImageUser::Id(_)) => return Ok(()),
    };
    Err(SecurityError::Root {
        refusal,
        pod: pod_ref(pod).to_string(),
        container: container.name.clone(),
    })
}

/// The namespaces of a pod's containers.
pub fn namespaces(
    pod: &Pod,
    security: &PodSecurity,
) -> Result<cri::NamespaceOption, SecurityError> {
    let spec = spec_of(pod);
    let node_if = |shared: bool| {
        if shared {
            NamespaceMode::Node
        } else {
            NamespaceMode::Pod
        }
    };
    let pid = if spec.host_pid == Some(true) {
        NamespaceMode::Node
    } else if spec.share_process_namespace == Some(true) {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    };
    let users = match (spec.host_users, security.user_namespace) {
        (Some(false), Some(range)) => user_namespace(range),
        (Some(false), None) => return Err(SecurityError::NoUserNamespace),
        _ => cri::UserNamespace {
            mode: NamespaceMode::Node.into(),
            ..Default::default()
        },
    };
    Ok(cri::NamespaceOption {
        network: node_if(uses_host_network(&spec)).into(),
        pid: pid.into(),
        ipc: node_if(spec.host_ipc == Some(true)).into(),
        target_id: String::new(),
        userns_options: Some(users),
    })
}

fn user_namespace(range: IdRange) -> cri::UserNamespace {
    let mapping = cri::IdMapping {
        host_id: range.first,
        container_id: 0,
        length: range.length,
    };
    cri::UserNamespace {
        mode: NamespaceMode::Pod.into(),
        uids: vec![mapping],
        gids: vec![mapping],
    }
}

/// For a pod's sandbox.
pub fn of_sandbox(
    pod: &Pod,
    security: &PodSecurity,
) -> Result<cri::LinuxSandboxSecurityContext, SecurityError> {
    let mut context = cri::LinuxSandboxSecurityContext {
        privileged: has_privileged_container(pod),
        // Whatever the containers have: the sandbox runs nothing of theirs.
        seccomp: Some(profile(ProfileType::RuntimeDefault, "")),
        ..Default::default()
    };
    let spec = spec_of(pod);
    let Some(own) = &spec.security_context else {
        return Ok(context);
    };
    context.run_as_user = own.run_as_user.map(number);
    context.run_as_group = own.run_as_group.map(number);
    context.namespace_options = Some(namespaces(pod, security)?);
    context.supplemental_groups.extend(own.fs_group);
    context.supplemental_groups.extend(&security.volume_groups);
    context
        .supplemental_groups
        .extend(own.supplemental_groups.iter().flatten());
    context.supplemental_groups_policy = groups_policy(own)?.into();
    context.selinux_options = own.se_linux_options.as_ref().map(selinux);
    Ok(context)
}

/// For a container.
pub fn of_container(
    pod: &Pod,
    container: &Container,
    image_user: &ImageUser,
    security: &PodSecurity,
    settings: &SecuritySettings,
) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
    let effective = Effective::of(pod, container);
    let (user, user_name) = match (effective.user(), image_user) {
        (Some(user), _) => (Some(user), String::new()),
        (None, ImageUser::Id(user)) => (Some(*user), String::new()),
        (None, ImageUser::Name(name)) => (None, name.clone()),
    };
    let group = effective.pick(|own| own.run_as_group, |pod| pod.run_as_group);
    let options = effective.pick(
        |own| own.se_linux_options.as_ref(),
        |pod| pod.se_linux_options.as_ref(),
    );
    let unmasked = effective.own(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let (masked_paths, readonly_paths) = if unmasked {
        (Vec::new(), Vec::new())
    } else {
        let masked = MASKED.iter().map(|path| (*path).to_owned());
        let masked = masked.chain(settings.throttle_files.iter().cloned());
        (masked.collect(), READ_ONLY.map(str::to_owned).to_vec())
    };
    let app_armor = app_armor(pod, container, &effective)?;
    let mut context = cri::LinuxContainerSecurityContext {
        capabilities: effective
            .own(|own| own.capabilities.as_ref())
            .map(capabilities),
        privileged: effective.own(|own| own.privileged) == Some(true),
        namespace_options: Some(namespaces(pod, security)?),
        selinux_options: options.map(selinux),
        run_as_user: user.map(number),
        run_as_username: user_name,
        readonly_rootfs: effective.own(|own| own.read_only_root_filesystem) == Some(true),
        no_new_privs: effective.own(|own| own.allow_privilege_escalation) == Some(false),
        run_as_group: group.map(number),
        masked_paths,
        readonly_paths,
        seccomp: Some(seccomp(&effective, settings)?),
        apparmor_profile: app_armor.as_ref().map(old_app_armor).unwrap_or_default(),
        apparmor: app_armor,
        ..Default::default()
    };
    if let Some(own) = effective.pod {
        context.supplemental_groups.extend(own.fs_group);
        context
            .supplemental_groups
            .extend(own.supplemental_groups.iter().flatten());
        context.supplemental_groups_policy = groups_policy(own)?.into();
    }
    context.supplemental_groups.extend(&security.volume_groups);
    Ok(context)
}

fn has_privileged_container(pod: &Pod) -> bool {
    let spec = spec_of(pod);
    let init_containers = spec.init_containers.iter().flatten();
    let containers = spec.containers.iter().chain(init_containers);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let contexts = containers.map(|container| container.security_context.as_ref());
    let mut contexts =
        contexts.chain(ephemeral.map(|container| container.security_context.as_ref()));
    contexts.any(|context| context.is_some_and(|context| context.privileged == Some(true)))
}

fn number(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}

fn groups_policy(own: &PodSecurityContext) -> Result<SupplementalGroupsPolicy, SecurityError> {
    match own.supplemental_groups_policy.as_deref() {
        None | Some("Merge") => Ok(SupplementalGroupsPolicy::Merge),
        Some("Strict") => Ok(SupplementalGroupsPolicy::Strict),
        Some(unknown) => Err(SecurityError::UnknownGroupsPolicy(unknown.to_owned())),
    }
}

fn selinux(options: &SELinuxOptions) -> cri::SeLinuxOption {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    cri::SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        r#type: text(&options.type_),
        level: text(&options.level),
    }
}

fn capabilities(capabilities: &Capabilities) -> cri::Capability {
    cri::Capability {
        add_capabilities: capabilities.add.clone().unwrap_or_default(),
        drop_capabilities: capabilities.drop.clone().unwrap_or_default(),
        add_ambient_capabilities: Vec::new(),
    }
}

fn profile(kind: ProfileType, reference: impl Into<String>) -> cri::SecurityProfile {
    cri::SecurityProfile {
        profile_type: kind.into(),
        localhost_ref: reference.into(),
    }
}

fn seccomp(
    effective: &Effective<'_>,
    settings: &SecuritySettings,
) -> Result<cri::SecurityProfile, SecurityError> {
    let asked = effective.pick(
        |own| own.seccomp_profile.as_ref(),
        |pod| pod.seccomp_profile.as_ref(),
    );
    match asked {
        Some(asked) => asked_seccomp(asked, &settings.seccomp_root),
        None if settings.seccomp_default => Ok(profile(ProfileType::RuntimeDefault, "")),
        None => Ok(profile(ProfileType::Unconfined, "")),
    }
}

fn asked_seccomp(
    asked: &SeccompProfile,
    root: &Path,
) -> Result<cri::SecurityProfile, SecurityError> {
    match asked.type_.as_str() {
        "RuntimeDefault" => Ok(profile(ProfileType::RuntimeDefault, "")),
        "Localhost" => {
            let name = asked
                .localhost_profile
                .as_deref()
                .filter(|name| !name.is_empty());
            let name = name.ok_or(SecurityError::NoSeccompProfile)?;
            let path = below(root, name);
            Ok(profile(ProfileType::Localhost, path.display().to_string()))
        }
        _ => Ok(profile(ProfileType::Unconfined, "")),
    }
}

/// A path below another, without detours. The API lets no name out of it; the machine's
/// own files may say what they like.
fn below(root: &Path, name: &str) -> PathBuf {
    let mut path = root.to_owned();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// The same for runtimes that read only one word.
fn old_app_armor(asked: &cri::SecurityProfile) -> String {
    match asked.profile_type() {
        ProfileType::RuntimeDefault => "runtime/default".to_owned(),
        ProfileType::Unconfined => "unconfined".to_owned(),
        ProfileType::Localhost => format!("localhost/{}", asked.localhost_ref),
    }
}

/// Annotations of static pods have not become fields: they come before the pod's.
fn app_armor(
    pod: &Pod,
    container: &Container,
    effective: &Effective<'_>,
) -> Result<Option<cri::SecurityProfile>, SecurityError> {
    if let Some(own) = effective.own(|own| own.app_armor_profile.as_ref()) {
        return asked_app_armor(own).map(Some);
    }
    let annotations = pod.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(&format!("{APP_ARMOR}{}", container.name)));
    if let Some(found) = annotation.and_then(|text| annotated_app_armor(text)) {
        return Ok(Some(found));
    }
    let of_pod = effective.pod.and_then(|pod| pod.app_armor_profile.as_ref());
    of_pod.map(asked_app_armor).transpose()
}

fn asked_app_armor(asked: &AppArmorProfile) -> Result<cri::SecurityProfile, SecurityError> {
    match asked.type_.as_str() {
        "RuntimeDefault" => Ok(profile(ProfileType::RuntimeDefault, "")),
        "Unconfined" => Ok(profile(ProfileType::Unconfined, "")),
        "Localhost" => {
            let name = asked.localhost_profile.as_deref();
            let name = name.ok_or(SecurityError::NoAppArmorProfile)?;
            Ok(profile(ProfileType::Localhost, name))
        }
        unknown => Err(SecurityError::UnknownAppArmor(unknown.to_owned())),
    }
}

/// One that nobody understands is none.
fn annotated_app_armor(text: &str) -> Option<cri::SecurityProfile> {
    match text {
        "runtime/default" => Some(profile(ProfileType::RuntimeDefault, "")),
        "unconfined" => Some(profile(ProfileType::Unconfined, "")),
        other => {
            let name = other.strip_prefix("localhost/")?;
            Some(profile(ProfileType::Localhost, name))
        }
    }
}
