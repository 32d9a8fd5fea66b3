//! Whether the main kubeconfig can be used as it is, or the node has to bootstrap.

use std::path::Path;
use std::{fs, io};

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;

use super::file::{Kubeconfig, ReadError};
use super::resolve::{ClientConfig, Identity, ResolveError};
use super::tls::{TlsError, Trust};

/// What the main kubeconfig is worth. Only [`Validity::Valid`] spares the node from bootstrapping,
/// and only [`Validity::Inaccessible`] is to end it.
#[derive(Debug, thiserror::Error)]
pub enum Validity {
    #[error("the kubeconfig and its client certificate are valid until {until}")]
    Valid {
        config: Box<ClientConfig>,
        until: Timestamp,
    },
    #[error("there is no kubeconfig yet")]
    Absent,
    #[error("the kubeconfig cannot be looked at: {0}; make its path accessible")]
    Inaccessible(io::Error),
    #[error("{0}")]
    Unreadable(ReadError),
    #[error("{0}")]
    Unusable(ResolveError),
    #[error("the kubeconfig's TLS material cannot be loaded: {0}")]
    Material(TlsError),
    /// A token or a plugin is none: the node has to have a certificate.
    #[error("the kubeconfig has no client certificate")]
    NoCertificate,
    #[error("a client certificate of the kubeconfig expired at {at}")]
    Expired { at: Timestamp },
}

/// Judges the kubeconfig at `path`. A certificate that is not valid yet counts as valid: the
/// clock may be behind.
///
/// Upstream loads a pair that lies in files only when it connects, and so takes files that do not
/// belong together for valid. That node would never connect; here it bootstraps.
pub fn judge(path: &Path, now: Timestamp, provider: &CryptoProvider) -> Validity {
    judged(path, now, provider).unwrap_or_else(|validity| validity)
}

fn judged(path: &Path, now: Timestamp, provider: &CryptoProvider) -> Result<Validity, Validity> {
    fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Validity::Absent,
        _ => Validity::Inaccessible(error),
    })?;
    let kubeconfig = Kubeconfig::read(path).map_err(Validity::Unreadable)?;
    let config = kubeconfig.resolve(None).map_err(Validity::Unusable)?;
    if let Some(Trust::Authority(authority)) = config.tls.as_ref().map(|tls| &tls.trust) {
        authority.load().map_err(Validity::Material)?;
    }
    let Identity::Given(given) = &config.identity else {
        return Err(Validity::NoCertificate);
    };
    let source = given.certificate.as_ref().ok_or(Validity::NoCertificate)?;
    let certificate = source.load(provider).map_err(Validity::Material)?;
    let until = certificate.first_expiry;
    if now > until {
        return Err(Validity::Expired { at: until });
    }
    Ok(Validity::Valid {
        config: Box::new(config),
        until,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustls::crypto::ring::default_provider;
    use tempfile::TempDir;

    use super::super::testing::{Pair, pair};
    use super::*;

    /// A kubeconfig whose user has `user`, beside `pair.pem` and `other.pem`.
    fn directory(user: &str) -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["pair.pem", "other.pem"] {
            let Pair { certificate, key } = pair(2030);
            fs::write(directory.path().join(name), format!("{certificate}{key}")).unwrap();
        }
        fs::write(directory.path().join("junk.pem"), "junk").unwrap();
        let path = directory.path().join("kubelet.conf");
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://192.0.2.10'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        fs::write(&path, text).unwrap();
        (directory, path)
    }

    fn at(path: &Path, now: &str) -> Validity {
        judge(path, now.parse().unwrap(), &default_provider())
    }

    const PAIR: &str = "client-certificate: pair.pem, client-key: pair.pem";

    #[test]
    fn a_certificate_is_valid_to_its_last_second_and_before_its_first() {
        let (_directory, path) = directory(PAIR);
        assert!(matches!(
            at(&path, "2010-01-01T00:00:00Z"),
            Validity::Valid { .. }
        ));
        assert!(matches!(
            at(&path, "2030-01-01T00:00:00Z"),
            Validity::Valid { .. }
        ));
        let expired = at(&path, "2030-01-01T00:00:01Z");
        assert_eq!(
            expired.to_string(),
            "a client certificate of the kubeconfig expired at 2030-01-01T00:00:00Z"
        );
    }

    #[test]
    fn what_is_not_valid_says_why() {
        let verdict = |user: &str| {
            let (_directory, path) = directory(user);
            at(&path, "2026-01-01T00:00:00Z")
        };
        assert!(matches!(verdict(PAIR), Validity::Valid { .. }));
        assert!(matches!(verdict("token: t"), Validity::NoCertificate));
        assert!(matches!(verdict(""), Validity::NoCertificate));
        let exec = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}";
        assert!(matches!(verdict(exec), Validity::NoCertificate));
        assert!(matches!(
            verdict("client-certificate: pair.pem"),
            Validity::Unusable(_)
        ));
        assert!(matches!(
            verdict("client-certificate: gone, client-key: pair.pem"),
            Validity::Unusable(_)
        ));
        assert!(matches!(verdict("token: 1"), Validity::Unreadable(_)));
        assert!(matches!(
            verdict("client-certificate: junk.pem, client-key: pair.pem"),
            Validity::Material(TlsError::NoCertificate { .. })
        ));
        let mismatch = verdict("client-certificate: pair.pem, client-key: other.pem");
        assert!(matches!(
            mismatch,
            Validity::Material(TlsError::Mismatch { .. })
        ));
        assert!(
            mismatch
                .to_string()
                .contains("does not belong to the certificate"),
            "{mismatch}"
        );
    }

    #[test]
    fn an_absent_file_is_told_from_one_that_cannot_be_looked_at() {
        let (directory, path) = directory(PAIR);
        assert!(matches!(
            at(&directory.path().join("none"), "2026-01-01T00:00:00Z"),
            Validity::Absent
        ));
        assert!(matches!(
            at(&path.join("below"), "2026-01-01T00:00:00Z"),
            Validity::Inaccessible(_)
        ));
        assert!(matches!(
            at(directory.path(), "2026-01-01T00:00:00Z"),
            Validity::Unreadable(_)
        ));
    }

    #[test]
    fn a_file_without_a_current_context_or_over_plain_http_is_not_valid() {
        let (_directory, path) = directory(PAIR);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("current-context: x\n", "")).unwrap();
        let verdict = at(&path, "2026-01-01T00:00:00Z");
        assert!(
            verdict.to_string().contains("current-context is not set"),
            "{verdict}"
        );
        fs::write(&path, text.replace("https:", "http:")).unwrap();
        assert!(matches!(
            at(&path, "2026-01-01T00:00:00Z"),
            Validity::NoCertificate
        ));
    }
}
