//! The scenarios, by topic.

mod claims;
mod configuration;
mod controllers;
mod debugging;
mod deletion;
mod evictions;
mod hooks;
mod images;
mod lifecycle;
mod own_users;
mod place;
mod probes;
mod resizes;
mod restarts;
mod room;
mod sandboxes;
mod security;
mod static_pods;
mod volume_options;
mod volumes;

use super::scenario::Scenario;

/// All of them, in the order of the list.
pub fn all() -> Vec<Scenario> {
    [
        lifecycle::SCENARIOS,
        deletion::SCENARIOS,
        hooks::SCENARIOS,
        probes::SCENARIOS,
        images::SCENARIOS,
        configuration::SCENARIOS,
        volumes::SCENARIOS,
        volume_options::SCENARIOS,
        claims::SCENARIOS,
        security::SCENARIOS,
        own_users::SCENARIOS,
        place::SCENARIOS,
        static_pods::SCENARIOS,
        controllers::SCENARIOS,
        debugging::SCENARIOS,
        restarts::SCENARIOS,
        sandboxes::SCENARIOS,
        room::SCENARIOS,
        evictions::SCENARIOS,
        resizes::SCENARIOS,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own_that_a_namespace_can_hold() {
        let mut names = BTreeSet::new();
        for Scenario { name, about, .. } in all() {
            assert!(names.insert(name), "{name} is there twice");
            // Beside it there is room for the number of a process.
            let letters = name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            assert!(letters && name.len() <= 40, "{name}");
            assert!(!about.is_empty(), "{name}");
        }
        assert!(names.len() >= 40, "{} scenarios", names.len());
    }

    #[test]
    fn ci_plays_sixteen() {
        let ci = all().iter().filter(|scenario| scenario.ci).count();
        assert_eq!(ci, 16);
    }
}
