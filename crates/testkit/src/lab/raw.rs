//! The API server asked by curl, beside it: for benches, where a kubectl would
//! cost more than what is measured, and for a thousand objects at once, which
//! kubectl takes minutes for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::Lab;

/// The administrator's identity, out of the kubeconfig into files, as curl
/// wants it: field, file.
const CERTIFICATE: (&str, &str) = ("client-certificate-data", "/run/lab-admin.crt");
const KEY: (&str, &str) = ("client-key-data", "/run/lab-admin.key");

/// Where the leases of nodes are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

impl Lab {
    /// What the API server answers to a GET of `path`.
    pub fn get_raw(&self, path: &str) -> Result<String> {
        let url = format!("{}{path}", self.inner_url());
        self.curl(&["--fail-with-body", "--max-time", "30", &url])
    }

    /// Deletes Node objects and their leases; it is no error when one is not
    /// there.
    pub fn delete_nodes(&self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let server = self.inner_url();
        let url = |kind: &str, name: &String| format!("{server}{kind}/{name}");
        let nodes = names.iter().map(|name| url("/api/v1/nodes", name));
        let leases = names.iter().map(|name| url(LEASES, name));
        let urls: Vec<String> = nodes.chain(leases).collect();
        let mut words = vec!["--request", "DELETE", "--parallel", "--parallel-max", "8"];
        words.extend(urls.iter().map(String::as_str));
        let said = self.curl(&words)?;
        ensure!(!said.contains("\"Forbidden\""), "may not delete: {said}");
        Ok(())
    }

    fn curl(&self, words: &[&str]) -> Result<String> {
        self.lay_down_identity()?;
        let identity = ["--cacert", "/etc/kubernetes/pki/ca.crt"];
        let pair = ["--cert", CERTIFICATE.1, "--key", KEY.1];
        let mut all = vec!["--silent", "--show-error"];
        all.extend(identity);
        all.extend(pair);
        all.extend(words);
        self.control_plane().run("curl", all)
    }

    fn lay_down_identity(&self) -> Result<()> {
        let machine = self.control_plane();
        if machine.root(KEY.1).exists() {
            return Ok(());
        }
        let kubeconfig = fs::read_to_string(self.admin_kubeconfig())?;
        // The key last: it stands for both.
        for (field, file) in [CERTIFICATE, KEY] {
            let pem = embedded(&kubeconfig, field)
                .with_context(|| format!("no {field} in the administrator's kubeconfig"))?;
            machine.write(file, "")?;
            fs::set_permissions(machine.root(file), fs::Permissions::from_mode(0o600))?;
            machine.write(file, pem)?;
        }
        Ok(())
    }
}

/// What a field of a kubeconfig of kubeadm's holds, decoded.
fn embedded(kubeconfig: &str, field: &str) -> Option<Vec<u8>> {
    let mut lines = kubeconfig.lines();
    let value = lines.find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(':'))?;
    BASE64.decode(value.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_field_is_found_and_decoded() {
        let kubeconfig = "users:\n- user:\n    client-key-data-x: no\n    client-key-data: aGk=\n";
        assert_eq!(
            embedded(kubeconfig, "client-key-data"),
            Some(b"hi".to_vec())
        );
        assert_eq!(embedded(kubeconfig, "client-certificate-data"), None);
    }
}
