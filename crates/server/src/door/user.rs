//! Who somebody is, and who a certificate says they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use thiserror::Error;
use x509_parser::der_parser::{Oid, oid};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// By which reviews and logs can tell one certificate from another.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Kubernetes' own attribute, for the uid of a user.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
const COMMON_NAME: Oid<'static> = oid!(2.5.4.3);
const ORGANIZATION: Oid<'static> = oid!(2.5.4.10);

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Nobody has proven anything.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// Known by proof: of the group of all those, too.
    pub(crate) fn authenticated(mut self) -> Self {
        let told = [AUTHENTICATED, UNAUTHENTICATED];
        if !self
            .groups
            .iter()
            .any(|group| told.contains(&group.as_str()))
        {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// What is wrong with a subject.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SubjectError {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the certificate's uid is no text")]
    NoText,
    #[error("the certificate has more than one uid")]
    SeveralUids,
    #[error("the certificate's uid is empty")]
    EmptyUid,
}

/// When a certificate ends, in seconds since 1970.
pub(crate) fn expiry(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// Whom a certificate names; `None`: nobody, as it has no common name.
pub(crate) fn of_certificate(
    certificate: &CertificateDer<'_>,
    with_uid: bool,
) -> Result<Option<User>, SubjectError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| SubjectError::Unreadable)?;
    let mut user = User::default();
    let mut uids = Vec::new();
    for attribute in parsed.subject().iter_attributes() {
        let kind = attribute.attr_type();
        if *kind == UID {
            uids.push(text(attribute));
            continue;
        }
        let Some(value) = text(attribute) else {
            continue;
        };
        if *kind == COMMON_NAME {
            // The last one counts, as Go reads names.
            user.name = value;
        } else if *kind == ORGANIZATION {
            user.groups.push(value);
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    if with_uid {
        user.uid = uid(uids)?;
    }
    let mut id = "X509SHA256=".to_owned();
    for byte in Sha256::digest(certificate) {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    let id = vec![id];
    user.extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), id)]);
    Ok(Some(user))
}

fn uid(mut found: Vec<Option<String>>) -> Result<String, SubjectError> {
    if found.iter().any(Option::is_none) {
        return Err(SubjectError::NoText);
    }
    match (found.len(), found.pop().flatten()) {
        (0, _) => Ok(String::new()),
        (1, Some(uid)) if !uid.is_empty() => Ok(uid),
        (1, _) => Err(SubjectError::EmptyUid),
        _ => Err(SubjectError::SeveralUids),
    }
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    /// `O=dev, O=ops, CN=old, CN=ann` and the uid `u-7`.
    const WHOLE: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBljCCATsCFB2foALaRclBMI72RsrvZ8YqEv+oMAoGCCqGSM49BAMCMEwxDDAK\n\
        BgNVBAoMA2RldjEMMAoGA1UECgwDb3BzMQwwCgYDVQQDDANvbGQxDDAKBgNVBAMM\n\
        A2FubjESMBAGCSsGAQQBg8JTAgwDdS03MCAXDTI2MTExNjEwNTEwMloYDzIxMjYx\n\
        MDIzMTA1MTAyWjBMMQwwCgYDVQQKDANkZXYxDDAKBgNVBAoMA29wczEMMAoGA1UE\n\
        AwwDb2xkMQwwCgYDVQQDDANhbm4xEjAQBgkrBgEEAYPCUwIMA3UtNzBZMBMGByqG\n\
        SM49AgEGCCqGSM49AwEHA0IABOX5kAc4E28oPkMEuBbsY32qMxL1w1xYpkwmllkx\n\
        gjI70afqvukl7aD7Q9U0ry9CQoLDTA/s6Cry9SFPLFCYgL4wCgYIKoZIzj0EAwID\n\
        SQAwRgIhALPywjTwk1jyD39gcSMW8o//crvSllCvAqgS7nrPlxHKAiEA6wJm9hWJ\n\
        AA2pn4R+EHLxEfBXOrg0109JUoBM0DkcahE=\n\
        -----END CERTIFICATE-----";
    /// `CN=ann` and two uids.
    const TWO_UIDS: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBajCCAQ8CFAhmCRKySaTbc5AQGz8YSsjhVyFYMAoGCCqGSM49BAMCMDYxDDAK\n\
        BgNVBAMMA2FubjESMBAGCSsGAQQBg8JTAgwDdS03MRIwEAYJKwYBBAGDwlMCDAN1\n\
        LTgwIBcNMjYxMTE2MTA1MTAyWhgPMjEyNjEwMjMxMDUxMDJaMDYxDDAKBgNVBAMM\n\
        A2FubjESMBAGCSsGAQQBg8JTAgwDdS03MRIwEAYJKwYBBAGDwlMCDAN1LTgwWTAT\n\
        BgcqhkjOPQIBBggqhkjOPQMBBwNCAAQUSJH68ig7sA+/0sQLi8NmSkc075WgHn1O\n\
        JYadKvvU60OreWdvcUJvwinHV6/FWt7TqJ65IPA+3zaQrQ+lJ73HMAoGCCqGSM49\n\
        BAMCA0kAMEYCIQCHu2i+5Q928HffbkMv4kKJv2nQdugvf0hGIRfW8HRSHQIhAN2Q\n\
        0qlFydnZDYDKbOhvGVcbtNrRbAQ3JazWTneaRVoe\n\
        -----END CERTIFICATE-----";
    /// `O=system:masters` alone.
    const NAMELESS: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBLjCB1QIUPXZaBLPQk7zSfQrXfHChjWNUVF4wCgYIKoZIzj0EAwIwGTEXMBUG\n\
        A1UECgwOc3lzdGVtOm1hc3RlcnMwIBcNMjYxMTE2MTA0NzQ4WhgPMjEyNjEwMjMx\n\
        MDQ3NDhaMBkxFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMFkwEwYHKoZIzj0CAQYI\n\
        KoZIzj0DAQcDQgAEpaZJxwG0ex2iFk5Pf07vodvX54vlSe7whSJ3qY97faEOHtoJ\n\
        dsvZBDnHUmkmrmUbNBhAwHDDeh+dSlktfwMp2zAKBggqhkjOPQQDAgNIADBFAiEA\n\
        npJK3O3mYZ9MGdWtrNZNPX6BTWJAO4Epo7V9W77GsQYCIFfLItg0j5fKLdp6RED7\n\
        WiMtyeUTX4TrVopcTTjDWJR4\n\
        -----END CERTIFICATE-----";

    fn read(certificate: &str, with_uid: bool) -> Result<Option<User>, SubjectError> {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        of_certificate(&certificate, with_uid)
    }

    #[test]
    fn a_certificate_names_a_user_its_groups_and_its_uid() {
        let user = read(WHOLE, true).unwrap().unwrap();
        assert_eq!(user.name, "ann");
        assert_eq!(user.groups, ["dev", "ops"]);
        assert_eq!(user.uid, "u-7");
        let id = &user.extra[CREDENTIAL_ID][0];
        assert_eq!(id.len(), "X509SHA256=".len() + 64, "{id}");
        assert_eq!(read(WHOLE, false).unwrap().unwrap().uid, "");
        let groups = user.authenticated().groups;
        assert_eq!(groups, ["dev", "ops", "system:authenticated"]);
    }

    #[test]
    fn who_has_no_name_is_nobody_and_who_has_two_uids_is_not_believed() {
        assert_eq!(read(NAMELESS, true), Ok(None));
        assert_eq!(read(TWO_UIDS, true), Err(SubjectError::SeveralUids));
        assert!(read(TWO_UIDS, false).is_ok_and(|user| user.is_some()));
        let nothing = CertificateDer::from(vec![1, 2, 3]);
        assert_eq!(
            of_certificate(&nothing, true),
            Err(SubjectError::Unreadable)
        );
    }
}
