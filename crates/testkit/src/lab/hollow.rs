//! Programs that pretend to be nodes, in the machine of a lab node: our fleet,
//! and kubemark, which it is measured beside. Neither touches the machine's
//! runtime, nor anything of the host.

use std::path::Path;

use anyhow::Result;

use super::daemon::{Daemon, Spec};
use super::node::{FERROLET, Node};
use crate::cargo;

const ADMIN: &str = "/etc/kubernetes/admin.conf";
const KUBEMARK: &str = "/opt/lab/tools/kubemark";
/// The others of one machine follow it.
const FIRST_PORT: usize = 10250;

impl Node {
    /// Starts `ferrolet fleet` with the administrator's kubeconfig, a state
    /// directory of its own, and `flags`.
    pub fn start_fleet(&self, program: &Path, flags: &[String]) -> Result<Daemon> {
        self.let_administer()?;
        let fleet = self.machine().daemon("fleet");
        let installed = self.machine().file(FERROLET);
        // A program that runs cannot be written over.
        let _ = std::fs::remove_file(&installed);
        cargo::install(program, &installed)?;
        let mut arguments = vec![
            "fleet".to_owned(),
            format!("--kubeconfig={ADMIN}"),
            "--state-dir=/var/lib/fleet".to_owned(),
        ];
        arguments.extend_from_slice(flags);
        fleet.start(&Spec {
            program: FERROLET.to_owned(),
            arguments,
            ..Spec::default()
        })?;
        Ok(fleet)
    }

    /// Starts one of kubemark's hollow kubelets for each name.
    pub fn start_kubemark(&self, names: &[String]) -> Result<Vec<Daemon>> {
        self.let_administer()?;
        let machine = self.machine();
        let program = self.lab().program_on_request("kubemark")?;
        cargo::install(&program, &machine.file(KUBEMARK))?;
        // Its sockets are below /tmp whatever it is told, and a machine's /tmp
        // is the host's.
        machine.run("mount", ["-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp"])?;
        let start = |(index, name): (usize, &String)| {
            let daemon = machine.daemon(name);
            daemon.start(&Spec {
                program: KUBEMARK.to_owned(),
                arguments: vec![
                    "--morph=kubelet".to_owned(),
                    format!("--name={name}"),
                    format!("--kubeconfig={ADMIN}"),
                    format!("--kubelet-port={}", FIRST_PORT + index),
                    "--kubelet-read-only-port=0".to_owned(),
                    "--use-host-image-service=false".to_owned(),
                ],
                ..Spec::default()
            })?;
            Ok(daemon)
        };
        names.iter().enumerate().map(start).collect()
    }

    /// Nodes that only pretend share the administrator's identity.
    fn let_administer(&self) -> Result<()> {
        let kubeconfig = std::fs::read(self.lab().control_plane().root(ADMIN))?;
        self.machine().write(ADMIN, kubeconfig)
    }
}
