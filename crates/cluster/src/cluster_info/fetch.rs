//! One look at cluster-info through a client that the caller has made.

use std::error::Error as StdError;
use std::io;

use api::transport::{DialProblem, SendError};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use thiserror::Error;

use super::{ClusterInfo, NAME, NAMESPACE};

/// Why cluster-info did not come.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FetchError {
    #[error("{0}; check the address, that the API server runs, and that no firewall is between")]
    Unreachable(String),
    #[error(
        "there is no ConfigMap {NAMESPACE}/{NAME}: that cluster is not prepared for tokens; run `kubeadm init phase bootstrap-token` there"
    )]
    Missing,
    #[error(
        "it may not be read without logging in ({0}); bind the role to system:anonymous as `kubeadm init phase bootstrap-token` does, or use --discovery-file"
    )]
    Forbidden(String),
    #[error("what answers there is not an API server ({0}); give the HOST:PORT of the API server")]
    NotApiServer(String),
    #[error("its certificate is not to be trusted: {0}")]
    Untrusted(String),
}

impl FetchError {
    /// Whether a later look may find more.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Missing | Self::Forbidden(_) => true,
            Self::NotApiServer(_) | Self::Untrusted(_) => false,
        }
    }

    /// What a client's error means here.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                // A proxy in front of a server that is just starting.
                500.. if status.reason == UNREADABLE => {
                    Self::Unreachable(format!("it answers {}", status.code))
                }
                _ if status.reason == UNREADABLE => {
                    Self::NotApiServer(format!("it answers {}", status.code))
                }
                404 if status.message.contains(NAME) => Self::Missing,
                404 => Self::NotApiServer("it knows no ConfigMaps".to_owned()),
                401 | 403 => Self::Forbidden(status.message.clone()),
                _ => Self::Unreachable(status.message.clone()),
            },
            kube::Error::SerdeError(cause) => Self::NotApiServer(cause.to_string()),
            other => of_transport(other),
        }
    }
}

/// kube's reason for an error whose body is no `Status`.
const UNREADABLE: &str = "Failed to parse error data";

fn of_transport(error: &(dyn StdError + 'static)) -> FetchError {
    if let Some(problem) = dial_problem(error) {
        return of_dial(problem);
    }
    match tls_error(error) {
        Some(rustls::Error::InvalidMessage(_)) => {
            FetchError::NotApiServer("it does not speak TLS".to_owned())
        }
        Some(rustls::Error::InvalidCertificate(cause)) => FetchError::Untrusted(cause.to_string()),
        Some(other) => FetchError::Unreachable(other.to_string()),
        None => FetchError::Unreachable(innermost(error)),
    }
}

/// What our own transport says of a dial. It has put the handshake's errors into
/// words already.
fn dial_problem<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a DialProblem> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(SendError::Dial(dial)) = error.downcast_ref() {
            return Some(&dial.problem);
        }
        next = error.source();
    }
    None
}

fn of_dial(problem: &DialProblem) -> FetchError {
    match problem {
        DialProblem::Certificate(cause) => FetchError::Untrusted(cause.clone()),
        DialProblem::Tls(cause) if cause.contains("corrupt message") => {
            FetchError::NotApiServer("it does not speak TLS".to_owned())
        }
        other => FetchError::Unreachable(other.to_string()),
    }
}

/// The handshake's error among the causes. An I/O error hides what it wraps from
/// `source`, so that one is looked into.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Reads cluster-info. How far the connection is to be trusted is the client's
/// affair.
pub async fn fetch(client: &Client) -> Result<ClusterInfo, FetchError> {
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let object = objects.get(NAME).await;
    object
        .map(|object| ClusterInfo::of(&object))
        .map_err(|cause| FetchError::of(&cause))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::transport::DialError;
    use kube::core::Status;

    use super::*;
    use crate::testing::FakeApi;

    const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

    #[tokio::test]
    async fn cluster_info_is_read_and_a_refusal_is_told() {
        let api = FakeApi::new();
        let info = ClusterInfo {
            kubeconfig: "x".to_owned(),
            ..ClusterInfo::default()
        };
        api.put(PATH, serde_json::to_value(info.object()).unwrap());
        assert_eq!(fetch(&api.client()).await, Ok(info));
        api.forbid(PATH);
        let error = fetch(&api.client()).await.unwrap_err();
        assert!(matches!(error, FetchError::Forbidden(_)), "{error}");
    }

    #[test]
    fn an_answer_says_whether_it_is_an_api_server_and_whether_waiting_helps() {
        let of = |code, reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(code);
            FetchError::of(&kube::Error::Api(status.boxed()))
        };
        let missing = of(404, "NotFound", r#"configmaps "cluster-info" not found"#);
        assert_eq!(missing, FetchError::Missing);
        assert!(missing.may_pass());
        let page = of(404, UNREADABLE, "<html>cluster-info");
        assert!(matches!(page, FetchError::NotApiServer(_)), "{page}");
        assert!(!page.may_pass());
        let busy = of(503, "ServiceUnavailable", "starting");
        assert_eq!(busy, FetchError::Unreachable("starting".to_owned()));
        assert!(busy.may_pass());
        let proxy = of(502, UNREADABLE, "<html>bad gateway");
        assert!(proxy.may_pass(), "{proxy}");
    }

    #[test]
    fn what_our_transport_says_of_a_dial_is_told_apart() {
        let failed = |problem| {
            let dial = DialError {
                server: "https://h:1".to_owned(),
                via: None,
                problem,
            };
            let error = SendError::Dial(Arc::new(dial));
            FetchError::of(&kube::Error::Service(Box::new(error)))
        };
        let untrusted = failed(DialProblem::Certificate("why".to_owned()));
        assert_eq!(untrusted, FetchError::Untrusted("why".to_owned()));
        let garbled = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let plain = failed(DialProblem::Tls(garbled.to_string()));
        assert!(matches!(plain, FetchError::NotApiServer(_)), "{plain}");
        let ended = failed(DialProblem::Tls("end of file".to_owned()));
        assert!(ended.may_pass(), "{ended}");
    }

    #[test]
    fn a_handshake_error_is_found_below_io_errors() {
        let wrapped = |error: rustls::Error| {
            let error = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            FetchError::of(&kube::Error::Service(Box::new(error)))
        };
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert!(matches!(wrapped(unknown), FetchError::Untrusted(_)));
        let plain = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert!(matches!(wrapped(plain), FetchError::NotApiServer(_)));
        let refused =
            kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert!(matches!(
            FetchError::of(&refused),
            FetchError::Unreachable(_)
        ));
    }
}
