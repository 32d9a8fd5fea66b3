//! Users by their client certificates: the handshake has proven that the client holds
//! the key; here is decided whether its certificate is worth anything.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AttributeTypeAndValue;

use super::user::User;

/// Where a certificate can carry the uid of its user.
const UID: &str = "1.3.6.1.4.1.57683.2";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Why a certificate says nothing of its holder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateFault {
    #[error("the certificate of the CA cannot be used: {0}")]
    Authority(String),
    #[error("the client's certificate is not trusted: {0}")]
    Untrusted(String),
    #[error("the client's certificate cannot be read: {0}")]
    Malformed(String),
}

/// Judges certificates by the cluster's CA.
#[derive(Clone)]
pub struct ClientTrust(Arc<dyn ClientCertVerifier>);

impl ClientTrust {
    pub fn new(
        ca: &CertificateDer<'static>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, CertificateFault> {
        let unusable = |cause: &dyn fmt::Display| CertificateFault::Authority(cause.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone()).map_err(|cause| unusable(&cause))?;
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map(Self)
            .map_err(|cause| unusable(&cause))
    }

    /// The user of a chain, the client's own certificate first. `None` without a
    /// certificate, and for one that names nobody.
    pub fn user(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<Option<User>, CertificateFault> {
        let Some((own, others)) = chain.split_first() else {
            return Ok(None);
        };
        let since_epoch = now.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs();
        let now = UnixTime::since_unix_epoch(since_epoch);
        self.0
            .verify_client_cert(own, others, now)
            .map_err(|cause| CertificateFault::Untrusted(cause.to_string()))?;
        user_of(own)
    }
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientTrust")
            .finish_non_exhaustive()
    }
}

fn user_of(certificate: &CertificateDer<'_>) -> Result<Option<User>, CertificateFault> {
    let malformed = |cause: &dyn fmt::Display| CertificateFault::Malformed(cause.to_string());
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|cause| malformed(&cause))?;
    let subject = parsed.subject();
    let text = |value: &AttributeTypeAndValue<'_>| {
        let text = value.as_str().map(str::to_owned);
        text.map_err(|_| malformed(&"a name in it is in a form that is not read"))
    };
    // The last one, should there be several: upstream's reading.
    let Some(name) = subject.iter_common_name().last() else {
        return Ok(None);
    };
    let name = text(name)?;
    if name.is_empty() {
        return Ok(None);
    }
    let groups = subject.iter_organization().map(text);
    let mut user = User::authenticated(name, groups.collect::<Result<_, _>>()?);
    let is_uid = |value: &&AttributeTypeAndValue<'_>| value.attr_type().to_id_string() == UID;
    if let Some(uid) = subject.iter_attributes().find(is_uid) {
        user.uid = text(uid)?;
    }
    let hash = digest(&SHA256, certificate);
    let hash = super::hexadecimal(hash.as_ref());
    let credential = vec![format!("X509SHA256={hash}")];
    user.extra.insert(CREDENTIAL_ID.to_owned(), credential);
    Ok(Some(user))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::access::pki::Pki;
    use crate::access::pki::tests_support::{names, now};

    fn trust(pki: &Pki) -> ClientTrust {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientTrust::new(pki.ca.certificate_der(), &provider).unwrap()
    }

    #[test]
    fn a_certificate_of_the_ca_names_its_user_and_groups() {
        let pki = Pki::open(None, &names(), now()).unwrap();
        let trust = trust(&pki);
        let chain = [pki.admin.certificate_der().clone()];
        let user = trust.user(&chain, now()).unwrap().unwrap();
        assert_eq!(user.name, "kubernetes-admin");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert_eq!(trust.user(&[], now()).unwrap(), None);
    }

    #[test]
    fn what_is_foreign_expired_early_or_for_servers_is_refused() {
        let (own, foreign) = (
            Pki::open(None, &names(), now()).unwrap(),
            Pki::open(None, &names(), now()).unwrap(),
        );
        let trust = trust(&own);
        let year = SignedDuration::from_hours(24 * 366);
        for (pair, moment) in [
            (&foreign.admin, now()),
            (&own.admin, now() + year),
            (&own.admin, now() - year),
            (&own.serving, now()),
        ] {
            let chain = [pair.certificate_der().clone()];
            let refused = trust.user(&chain, moment);
            assert!(
                matches!(refused, Err(CertificateFault::Untrusted(_))),
                "{refused:?}"
            );
        }
    }
}
