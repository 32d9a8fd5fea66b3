//! What several tests here are made of.

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

/// A certificate and its key, in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A self-signed certificate that is valid until the first day of `year`.
pub(super) fn pair(year: i32) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["node".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&key).unwrap().pem();
    Pair {
        certificate,
        key: key.serialize_pem(),
    }
}
