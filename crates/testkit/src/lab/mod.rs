//! The lab: a real control plane and real nodes on this machine.
//!
//! [`Lab::shared`] is what tests call. All that is known of a lab lies in the
//! files of its [`Layout`], so any process on the host can take part: the one
//! that started it may be long gone.

mod cgroup;
mod control_plane;
mod daemon;
mod debian;
mod hollow;
mod images;
mod kubectl;
mod layout;
mod machine;
mod metrics_server;
mod node;
mod pause;
mod programs;
mod raw;

pub mod census;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::cgroup::Cgroup;
pub use self::control_plane::Component;
pub use self::daemon::{Daemon, Spec};
pub use self::debian::install_packages;
pub use self::images::{BUSYBOX_IMAGE, PAUSE as PAUSE_IMAGE};
pub use self::kubectl::Kubectl;
use self::layout::short_hash;
pub use self::layout::{InstanceId, Layout, workspace};
pub use self::machine::Machine;
pub use self::node::{Agent, FERROLET, HEALTH_PORT, HEALTH_STATES, Node, Runtime};
use crate::cargo;

/// The release that the lab is pinned to, and that we are measured against.
pub const KUBERNETES: &str = "v1.36.4";

/// What can be chosen for a new lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// How long certificates from CSRs are valid (`--cluster-signing-duration`).
    pub signing_duration: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            signing_duration: "8760h".to_owned(),
        }
    }
}

/// What later processes must know of a lab that stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    /// Of all that the lab was made from: another key, another lab.
    key: String,
    options: Options,
    programs: PathBuf,
    image_archive: PathBuf,
    host_port: u16,
    token: String,
}

#[derive(Clone, Debug)]
pub struct Lab {
    layout: Layout,
    state: State,
    control_plane: Machine,
}

impl Lab {
    /// The lab of this checkout (or of `FERROLET_LAB`): the one that runs, or
    /// a new one. Tests share it, and it is still there after them.
    pub fn shared() -> Result<Self> {
        Self::up(Layout::new(InstanceId::from_env()?)?, &Options::default())
    }

    /// Starts a lab, or answers the one that runs if it was made from the same
    /// pins; what has ended of it is started again. Cleans first what a crash
    /// may have left.
    pub fn up(layout: Layout, options: &Options) -> Result<Self> {
        require_root()?;
        let start = Instant::now();
        let parts = Parts::build(&layout)?;
        let _lock = lock(&layout.lock_file())?;
        if let Some(lab) = Self::open(&layout)? {
            if lab.state.key == parts.key && lab.state.options != *options {
                bail!(
                    "lab {} runs with other options ({:?}): take it down first",
                    layout.id,
                    lab.state.options
                );
            }
            if lab.state.key == parts.key {
                lab.start_what_ended()?;
                return Ok(lab);
            }
            println!(
                "lab: {} was made from other parts, and is made anew",
                layout.id
            );
        }
        clean(&layout)?;
        let lab = Self::create(layout, options, parts)?;
        println!(
            "lab: {} is up after {:.1} s",
            lab.layout.id,
            start.elapsed().as_secs_f64()
        );
        Ok(lab)
    }

    fn create(layout: Layout, options: &Options, parts: Parts) -> Result<Self> {
        let state = State {
            key: parts.key,
            options: options.clone(),
            programs: parts.programs,
            image_archive: parts.images.archive,
            host_port: free_port()?,
            token: random_token()?,
        };
        fs::create_dir_all(&layout.dir)?;
        let machine = control_plane::start(&layout, &state, &parts.images.registry, &parts.tools)?;
        let lab = Self {
            layout,
            state,
            control_plane: machine,
        };
        for name in ["admin", "super-admin"] {
            let file = lab
                .control_plane
                .root(&format!("/etc/kubernetes/{name}.conf"));
            let outer = fs::read_to_string(file)?.replace(&lab.inner_url(), &lab.url());
            write_secret(&lab.kubeconfig_file(name), &outer)?;
        }
        let super_admin = lab
            .kubectl()
            .with_kubeconfig(&lab.kubeconfig_file("super-admin"));
        control_plane::set_up_cluster(&lab.control_plane, &lab.kubectl(), &super_admin)?;
        lab.wait_serving()?;
        // Last: without it the next `up` starts over.
        write_secret(
            &state_file(&lab.layout),
            &serde_json::to_string_pretty(&lab.state)?,
        )?;
        Ok(lab)
    }

    /// The lab of that layout, if it was made to the end and its machine
    /// lives. Parts of its control plane may have ended.
    pub fn open(layout: &Layout) -> Result<Option<Self>> {
        let Ok(text) = fs::read(state_file(layout)) else {
            return Ok(None);
        };
        let Ok(state) = serde_json::from_slice::<State>(&text) else {
            return Ok(None);
        };
        let machine = Machine::open(layout, control_plane::MACHINE)?;
        Ok(machine.map(|control_plane| Self {
            layout: layout.clone(),
            state,
            control_plane,
        }))
    }

    fn start_what_ended(&self) -> Result<()> {
        for component in Component::ALL {
            let daemon = self.component(component);
            if !daemon.is_running() {
                println!("lab: {} had ended, and is started again", daemon.name());
                daemon.start_again()?;
            }
        }
        self.wait_serving()
    }

    /// Waits until every part of the control plane answers.
    pub fn wait_serving(&self) -> Result<()> {
        self.wait_ready()?;
        Component::ALL
            .into_iter()
            .try_for_each(|component| control_plane::wait_serving(&self.control_plane, component))
    }

    /// Ends a lab, or what is left of one: afterwards nothing of it runs, is
    /// mounted, or lies on disk.
    pub fn down(layout: &Layout) -> Result<()> {
        require_root()?;
        let _lock = lock(&layout.lock_file())?;
        clean(layout)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The API server as the host reaches it.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.state.host_port)
    }

    /// The API server as the lab's machines reach it.
    pub fn inner_url(&self) -> String {
        format!("https://{}:6443", control_plane::ADDRESS)
    }

    /// The image registry as the lab's machines reach it: it answers `/v2/` to anybody.
    pub fn registry(&self) -> String {
        let port = control_plane::REGISTRY_PORT;
        format!("{}:{port}", control_plane::ADDRESS)
    }

    /// The administrator's kubeconfig, for use on the host.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig_file("admin")
    }

    /// The kubeconfig of a machine that has nothing but a bootstrap token.
    pub fn bootstrap_kubeconfig(&self) -> Result<String> {
        Ok(kubeconfig(
            &self.authority()?,
            &self.inner_url(),
            &self.state.token,
        ))
    }

    /// The cluster's certificate authority, PEM.
    pub fn authority(&self) -> Result<String> {
        Ok(fs::read_to_string(
            self.control_plane.root("/etc/kubernetes/pki/ca.crt"),
        )?)
    }

    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(self.state.programs.join("kubectl"), self.admin_kubeconfig())
    }

    /// The machine that the control plane runs in.
    pub fn control_plane(&self) -> &Machine {
        &self.control_plane
    }

    /// A part of the control plane, to be stopped, frozen, cut off, restarted.
    pub fn component(&self, component: Component) -> Daemon {
        component.daemon(&self.control_plane)
    }

    /// Waits until the API server answers again, after one of those.
    pub fn wait_ready(&self) -> Result<()> {
        control_plane::wait_ready(&self.control_plane, &self.kubectl())
    }

    /// Starts metrics-server if it does not run yet, and waits for it.
    pub fn start_metrics_server(&self) -> Result<()> {
        metrics_server::start(self)
    }

    /// Removes a node, or what is left of one.
    pub fn remove_node(&self, name: &str) -> Result<()> {
        Node::destroy(self, name)
    }

    /// Makes a node.
    pub fn node(&self, name: &str, runtime: Runtime) -> Result<Node> {
        Node::create(self, name, runtime)
    }

    /// Every machine by name, the control plane's too; nothing for one that has
    /// died.
    pub fn machines(&self) -> Result<Vec<(String, Option<Machine>)>> {
        machine_names(&self.layout)?
            .into_iter()
            .map(|name| {
                let machine = Machine::open(&self.layout, &name)?;
                Ok((name, machine))
            })
            .collect()
    }

    /// Copies every log of the lab, for a look after its end.
    pub fn save_logs(&self, to: &Path) -> Result<()> {
        for (_, machine) in self.machines()? {
            if let Some(machine) = machine {
                save_logs(&machine, to)?;
            }
        }
        Ok(())
    }

    /// The directory of the upstream programs on the host.
    pub fn programs(&self) -> &Path {
        &self.state.programs
    }

    /// Where a program is that is built on request, for benches.
    fn program_on_request(&self, name: &str) -> Result<PathBuf> {
        let _lock = lock(&self.layout.cache.join("lock"))?;
        programs::on_request(&self.layout, name)
    }

    fn image_archive(&self) -> &Path {
        &self.state.image_archive
    }

    fn kubeconfig_file(&self, user: &str) -> PathBuf {
        self.layout.dir.join(format!("{user}.kubeconfig"))
    }

    fn lock(&self) -> Result<File> {
        lock(&self.layout.lock_file())
    }
}

/// What a lab is made from.
struct Parts {
    key: String,
    programs: PathBuf,
    images: images::Images,
    tools: Vec<PathBuf>,
}

impl Parts {
    fn build(layout: &Layout) -> Result<Self> {
        let _lock = lock(&layout.cache.join("lock"))?;
        debian::install_packages()?;
        let programs = programs::build(layout)?;
        let images = images::build(&layout.cache, &programs)?;
        let tools = cargo::build("lab-tools")?;
        let mut made_from = vec![
            machine::SCRIPTS.concat().into_bytes(),
            // The configuration of the control plane is in this file.
            include_bytes!("control_plane.rs").to_vec(),
            programs.as_os_str().as_encoded_bytes().to_vec(),
            images.archive.as_os_str().as_encoded_bytes().to_vec(),
        ];
        for tool in &tools {
            made_from.push(fs::read(tool)?);
        }
        Ok(Self {
            key: short_hash(made_from, 32),
            programs,
            images,
            tools,
        })
    }
}

/// Builds what a lab is made of, where that was never done on this machine. Whoever needs a part
/// of it builds it, too; but that takes minutes, and slows down whatever runs beside it.
pub fn build_programs() -> Result<PathBuf> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let _lock = lock(&layout.cache.join("lock"))?;
    programs::build(&layout)
}

/// The real kubectl for a server that is no lab's: built now, without what a lab needs beside
/// it, if it never was.
pub fn kubectl(kubeconfig: &Path) -> Result<Kubectl> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let _lock = lock(&layout.cache.join("lock"))?;
    let kubectl = programs::alone(&layout, "kubectl")?;
    Ok(Kubectl::new(kubectl, kubeconfig.to_path_buf()))
}

/// Where logs of a failed test are kept.
pub fn saved_logs_dir() -> PathBuf {
    workspace().join("target/lab-logs")
}

fn save_logs(machine: &Machine, to: &Path) -> Result<()> {
    let place = to.join(machine.name());
    fs::create_dir_all(&place)?;
    for daemon in machine.daemons()? {
        let file = place.join(format!("{}.log", daemon.name()));
        if daemon.log_file().exists() {
            fs::copy(daemon.log_file(), file)?;
        }
    }
    Ok(())
}

/// A kubeconfig for whoever has the token. JSON is YAML too.
fn kubeconfig(authority: &str, server: &str, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "lab", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64.encode(authority),
        }}],
        "users": [{ "name": "token", "user": { "token": token } }],
        "contexts": [{ "name": "token@lab", "context": { "cluster": "lab", "user": "token" } }],
        "current-context": "token@lab",
    })
    .to_string()
}

fn clean(layout: &Layout) -> Result<()> {
    let mut names = machine_names(layout)?;
    // The network hangs on the control plane: it goes last.
    names.sort_by_key(|name| name == control_plane::MACHINE);
    for name in names {
        Machine::destroy(layout, &name)?;
    }
    Cgroup::new(layout.cgroup()).destroy()?;
    cgroup::remove_if_empty("ferrolet-lab")?;
    match fs::remove_dir_all(&layout.dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", layout.dir.display()))
        }
        _ => Ok(()),
    }
}

fn machine_names(layout: &Layout) -> Result<Vec<String>> {
    let entries = match fs::read_dir(layout.machines_dir()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

pub fn require_root() -> Result<()> {
    if !geteuid().is_root() {
        bail!("the lab makes namespaces, mounts and cgroups: run it as root");
    }
    Ok(())
}

/// Held until the answer is dropped.
fn lock(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        println!(
            "lab: waiting for another process that holds {}",
            path.display()
        );
        flock(&file, FlockOperation::LockExclusive)?;
    }
    Ok(file)
}

fn state_file(layout: &Layout) -> PathBuf {
    layout.dir.join("lab.json")
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn random_token() -> Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut bytes = [0; 22];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut token: String = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect();
    token.insert(6, '.');
    Ok(token)
}

/// Written beside and renamed, readable by its owner only.
fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let unfinished = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&unfinished, path)?;
    Ok(())
}
