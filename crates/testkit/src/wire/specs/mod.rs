//! The specs, one file for each theme.

mod basics;
mod env;
mod ephemeral;
mod images;
mod lifecycle;
mod mounts;
mod network;
mod resize;
mod resources;
mod restarts;
mod security;
mod sidecars;
mod statics;
mod volumes;

use super::spec::Spec;

/// All of them, in the order of the list.
pub fn all() -> Vec<Spec> {
    [
        // First: some have a deadline.
        lifecycle::specs(),
        basics::specs(),
        env::specs(),
        volumes::specs(),
        mounts::specs(),
        security::specs(),
        resources::specs(),
        network::specs(),
        sidecars::specs(),
        images::specs(),
        statics::specs(),
        ephemeral::specs(),
        resize::specs(),
        restarts::specs(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::progress::items;

    #[test]
    fn there_are_many_and_each_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = all().iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), all().len());
        assert!(names.len() >= 120, "{}", names.len());
        for name in names {
            let fits =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(name.bytes().all(fits), "{name}");
        }
    }

    #[test]
    fn no_two_want_the_same_port_of_their_node() {
        let mut taken = BTreeSet::new();
        for spec in all() {
            let pod = &spec.pod["spec"];
            let containers = items(&pod["containers"]).iter();
            for port in containers.flat_map(|container| items(&container["ports"])) {
                let port = match (&pod["hostNetwork"], &port["hostPort"]) {
                    (serde_json::Value::Bool(true), _) => &port["containerPort"],
                    (_, port) => port,
                };
                if let Some(port) = port.as_u64() {
                    assert!(taken.insert(port), "{}: {port}", spec.name);
                }
            }
        }
    }
}
