//! Certificates and moments for the tests of this crate.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType};

use crate::keys::{self, PrivateKey};
use crate::pair::Pair;

pub(crate) fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A self-signed pair, living for some seconds.
pub(crate) fn pair(common_name: &str, from: SystemTime, seconds: u64) -> Pair {
    pair_for(PrivateKey::generate().unwrap(), common_name, from, seconds)
}

pub(crate) fn pair_for(key: PrivateKey, common_name: &str, from: SystemTime, seconds: u64) -> Pair {
    let mut parameters = CertificateParams::default();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name);
    parameters.not_before = from.into();
    parameters.not_after = (from + Duration::from_secs(seconds)).into();
    let certificate = parameters.self_signed(key.signer()).unwrap();
    let pem = keys::encode("CERTIFICATE", certificate.der());
    Pair::issued(pem.as_bytes(), key).unwrap()
}
