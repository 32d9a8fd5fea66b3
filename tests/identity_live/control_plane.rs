//! The lab's control plane, bent by one test at a time and put back after it;
//! and objects in it that do not outlive their test.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use testkit::lab::{Component, Daemon, Kubectl, Lab, Spec};

/// Held by the test that bends.
static BENT: Mutex<()> = Mutex::new(());

/// Those that the tests here start with other arguments.
const BENDABLE: [Component; 2] = [Component::ApiServer, Component::ControllerManager];

/// The control plane, as it was when the test began once this is dropped.
pub(crate) struct ControlPlane {
    pub(crate) lab: Lab,
    before: Vec<(Daemon, Spec)>,
    _alone: MutexGuard<'static, ()>,
}

impl ControlPlane {
    pub(crate) fn take() -> Result<Self> {
        // A test that failed has put back what it bent.
        let alone = BENT.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Lab::shared()?;
        let before = BENDABLE.map(|component| lab.component(component));
        let before = before.into_iter().map(|daemon| {
            let spec = daemon.spec()?;
            Ok((daemon, spec))
        });
        Ok(Self {
            before: before.collect::<Result<_>>()?,
            lab,
            _alone: alone,
        })
    }

    /// Restarts a component with other arguments. Whether it serves is for the
    /// caller to see: the lab's own clients may not be able to tell.
    pub(crate) fn bend(&self, component: Component, arguments: &[&str]) -> Result<()> {
        let daemon = self.lab.component(component);
        daemon
            .restart_with(arguments)
            .with_context(|| format!("restarting {} with {arguments:?}", component.name()))
    }

    /// Puts everything back and waits until it serves.
    pub(crate) fn straighten(&self) -> Result<()> {
        let mut bent = false;
        for (daemon, spec) in &self.before {
            if daemon.spec()?.arguments != spec.arguments {
                bent = true;
                daemon.stop()?;
                daemon.start(spec)?;
            }
        }
        if bent {
            self.lab.wait_serving()?;
        }
        Ok(())
    }

    /// What the host has open to the API server, by the port that each
    /// connection has in the machine where they arrive.
    pub(crate) fn connections(&self) -> Result<BTreeSet<u16>> {
        let words = [
            "--no-header",
            "--tcp",
            "--numeric",
            "--processes",
            "state",
            "established",
            "dport",
            "=",
            ":6443",
        ];
        let said = self.lab.control_plane().run("ss", words)?;
        let forwarded = said.lines().filter(|line| line.contains("lab-forward"));
        forwarded
            .map(|line| {
                let local = line.split_whitespace().nth(2);
                let port = local.and_then(|address| address.rsplit(':').next());
                port.and_then(|port| port.parse().ok())
                    .with_context(|| format!("no local port in ss's line: {line}"))
            })
            .collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Err(error) = self.straighten() {
            eprintln!("the control plane is not as it was: {error:#}");
        }
    }
}

/// Objects that are deleted in the end, in the order of their naming.
pub(crate) struct Swept {
    kubectl: Kubectl,
    objects: Vec<[String; 3]>,
}

impl Swept {
    pub(crate) fn new(lab: &Lab) -> Self {
        Self {
            kubectl: lab.kubectl(),
            objects: Vec::new(),
        }
    }

    pub(crate) fn later(&mut self, kind: &str, namespace: &str, name: &str) {
        let namespace = format!("--namespace={namespace}");
        let object = [kind.to_owned(), name.to_owned(), namespace];
        self.objects.push(object);
    }
}

impl Drop for Swept {
    fn drop(&mut self) {
        for object in &self.objects {
            let delete = ["delete", "--ignore-not-found", "--wait=false"];
            let words = delete.into_iter().chain(object.iter().map(String::as_str));
            if let Err(error) = self.kubectl.run(words) {
                eprintln!("left behind: {error:#}");
            }
        }
    }
}

/// A name that no run before has used: what it left may still be on its way out.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}
