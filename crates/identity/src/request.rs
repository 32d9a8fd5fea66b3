//! What the node asks a signer for: the template, the PKCS#10 request, the
//! `CertificateSigningRequest` object around it, and what became of it.

mod existing;
mod template;
mod verdict;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha512_256};

pub use existing::{Incompatible, Reused};
pub use template::{NodeAddress, RequestError, Template};
pub(crate) use template::{directory_string, parse_address};
pub use verdict::Verdict;

use crate::keys::{KeyKind, PrivateKey};

pub(crate) const TAG: &str = "CERTIFICATE REQUEST";

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To be known to the API server.
    Client,
    /// To be known by clients of the node's own port.
    Serving,
}

impl fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Serving => "serving",
        })
    }
}

impl Purpose {
    pub fn signer_name(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// The prefix of this purpose's files in the certificate directory.
    pub fn store_prefix(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }

    fn usages(self, kind: KeyKind) -> &'static [&'static str] {
        match (self, kind.is_rsa()) {
            (Self::Client, false) => &[DIGITAL_SIGNATURE, CLIENT_AUTH],
            (Self::Client, true) => &[DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH],
            (Self::Serving, false) => &[DIGITAL_SIGNATURE, SERVER_AUTH],
            (Self::Serving, true) => &[DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, SERVER_AUTH],
        }
    }
}

/// The blocking bootstrap's usages. Their order goes into the request's name, so
/// it is kept although the background requests have another one.
fn bootstrap_usages(kind: KeyKind) -> &'static [&'static str] {
    if kind.is_rsa() {
        &[DIGITAL_SIGNATURE, CLIENT_AUTH, KEY_ENCIPHERMENT]
    } else {
        &[DIGITAL_SIGNATURE, CLIENT_AUTH]
    }
}

/// A request ready to be created at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    name: Option<String>,
    signer_name: &'static str,
    usages: &'static [&'static str],
    pem: String,
}

impl SigningRequest {
    /// A request under a name that the API server makes up (`csr-…`).
    pub fn generated(
        purpose: Purpose,
        template: &Template,
        key: &PrivateKey,
    ) -> Result<Self, RequestError> {
        Ok(Self {
            name: None,
            signer_name: purpose.signer_name(),
            usages: purpose.usages(key.kind()),
            pem: template.pkcs10(key)?,
        })
    }

    /// The blocking bootstrap's request: the same key and node always give the
    /// same name, so a restarted node finds its own request again.
    pub fn bootstrap(node_name: &str, key: &PrivateKey) -> Result<Self, RequestError> {
        let template = Template::client(node_name);
        let usages = bootstrap_usages(key.kind());
        Ok(Self {
            name: Some(digested_name(&key.public_der(), &template, usages)),
            signer_name: Purpose::Client.signer_name(),
            usages,
            pem: template.pkcs10(key)?,
        })
    }

    /// The name, where it does not wait for the API server to choose one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn signer_name(&self) -> &'static str {
        self.signer_name
    }

    pub fn usages(&self) -> &'static [&'static str] {
        self.usages
    }

    /// The PKCS#10 request, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The `certificates.k8s.io/v1` object to create. Who asks is for the API
    /// server to fill in, and how long the certificate lives for the signer.
    pub fn object(&self) -> Value {
        let metadata = match &self.name {
            Some(name) => json!({ "name": name }),
            None => json!({ "generateName": "csr-" }),
        };
        json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": metadata,
            "spec": {
                "request": STANDARD.encode(&self.pem),
                "signerName": self.signer_name,
                "usages": self.usages,
            },
        })
    }
}

/// The name that follows from everything that makes two requests the same. Each
/// item ends with a byte outside the alphabet, so that no two lists of items
/// give the same stream.
fn digested_name(public_der: &[u8], template: &Template, usages: &[&str]) -> String {
    let mut digest = Sha512_256::new();
    let mut add = |item: &[u8]| {
        digest.update(URL_SAFE_NO_PAD.encode(item));
        digest.update(b"|");
    };
    add(public_der);
    add(template.common_name.as_bytes());
    add(template.organization.as_bytes());
    for usage in usages {
        add(usage.as_bytes());
    }
    format!("node-csr-{}", URL_SAFE_NO_PAD.encode(digest.finalize()))
}

#[cfg(test)]
mod tests;
