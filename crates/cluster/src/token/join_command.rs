//! The command line that a token is handed out for.

use std::fmt;

use identity::certificate::CertificateError;

use super::Token;
use crate::kubeconfig::Endpoint;
use crate::pin::CaPin;

/// How the node is to come to trust the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// By the keys of its certificate authorities.
    Pinned(Vec<CaPin>),
    /// By the token alone: whoever knows it could pretend to be the cluster.
    Unpinned,
}

/// The command that a new node is to run. `Display` shows the token: it is meant
/// for the terminal of whoever asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinCommand {
    /// HOST:PORT of the API server.
    pub endpoint: String,
    pub token: Token,
    pub discovery: Discovery,
}

impl JoinCommand {
    /// For the cluster that a kubeconfig names, with all its authorities pinned.
    pub fn for_cluster(endpoint: &Endpoint, token: &Token) -> Result<Self, CertificateError> {
        Ok(Self {
            endpoint: endpoint.host_port().to_owned(),
            token: token.clone(),
            discovery: Discovery::Pinned(CaPin::of_pem(endpoint.authority_pem())?),
        })
    }
}

impl fmt::Display for JoinCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.expose();
        write!(formatter, "ferrolet join {} --token {token}", self.endpoint)?;
        match &self.discovery {
            Discovery::Pinned(pins) => pins
                .iter()
                .try_for_each(|pin| write!(formatter, " --discovery-token-ca-cert-hash {pin}")),
            Discovery::Unpinned => {
                formatter.write_str(" --discovery-token-unsafe-skip-ca-verification")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CA_PEM, CA_PIN};

    #[test]
    fn the_command_for_a_cluster_pins_its_authority() {
        let endpoint = Endpoint::new("https://api.example.test:6443/", CA_PEM.as_bytes()).unwrap();
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        assert_eq!(
            JoinCommand::for_cluster(&endpoint, &token)
                .unwrap()
                .to_string(),
            format!(
                "ferrolet join api.example.test:6443 --token abcdef.0123456789abcdef \
                 --discovery-token-ca-cert-hash {CA_PIN}"
            )
        );
    }

    #[test]
    fn the_command_names_the_endpoint_the_token_and_every_pin() {
        let pin: CaPin = format!("sha256:{}", "0e".repeat(32)).parse().unwrap();
        let mut command = JoinCommand {
            endpoint: "192.0.2.10:6443".to_owned(),
            token: "abcdef.0123456789abcdef".parse().unwrap(),
            discovery: Discovery::Pinned(vec![pin.clone(), pin.clone()]),
        };
        assert_eq!(
            command.to_string(),
            format!(
                "ferrolet join 192.0.2.10:6443 --token abcdef.0123456789abcdef \
                 --discovery-token-ca-cert-hash {pin} --discovery-token-ca-cert-hash {pin}"
            )
        );
        command.discovery = Discovery::Unpinned;
        assert!(
            command
                .to_string()
                .ends_with(" --discovery-token-unsafe-skip-ca-verification")
        );
    }
}
