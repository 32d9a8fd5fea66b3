//! A cluster's names for tests.

use jiff::Timestamp;

use super::ServingNames;

pub(crate) fn names() -> ServingNames {
    ServingNames {
        names: vec!["Box.example".to_owned()],
        addresses: vec!["192.0.2.7".parse().unwrap()],
        service_address: "10.96.0.1".parse().unwrap(),
        cluster_domain: "cluster.local".to_owned(),
    }
}

pub(crate) fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}
