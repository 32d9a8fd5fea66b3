//! What of a node's configuration is about the logs of containers.

use std::time::Duration;

use config::settings::Settings;
use types::Quantity;

/// How large logs may get, and how they are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `containerLogMaxSize`, in bytes: a log of this size is rotated.
    pub most_bytes: u64,
    /// `containerLogMaxFiles`, the one that is written to among them.
    pub most_files: usize,
    /// `containerLogMaxWorkers`: so many logs are worked on at once.
    pub workers: usize,
    /// `containerLogMonitorInterval`.
    pub interval: Duration,
}

impl Policy {
    /// Takes what is needed; the configuration has been validated. `None`: logs are not
    /// rotated.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let most: Option<Quantity> = settings.text("containerLogMaxSize").parse().ok();
        let most = most.as_ref().and_then(Quantity::as_i64_exact)?;
        let count = |path| usize::try_from(settings.int(path)).unwrap_or_default();
        let interval = settings.duration("containerLogMonitorInterval");
        Some(Self {
            most_bytes: u64::try_from(most).ok()?,
            most_files: count("containerLogMaxFiles"),
            workers: count("containerLogMaxWorkers").max(1),
            interval: interval.to_std()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::flags::CommandLine;
    use config::load;

    use super::*;

    fn read(words: &[&str]) -> Option<Policy> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let line = CommandLine::parse(&words).unwrap();
        let resolved = load::resolve(&line, Path::new("/")).unwrap();
        Policy::from_settings(&resolved.settings)
    }

    #[test]
    fn the_defaults_are_the_kubelets_and_a_negative_size_turns_rotation_off() {
        let defaults = Policy {
            most_bytes: 10 << 20,
            most_files: 5,
            workers: 1,
            interval: Duration::from_secs(10),
        };
        assert_eq!(read(&[]), Some(defaults));
        let told = read(&[
            "--container-log-max-size=100k",
            "--container-log-max-files=3",
        ]);
        let wanted = Policy {
            most_bytes: 100_000,
            most_files: 3,
            ..defaults
        };
        assert_eq!(told, Some(wanted));
        assert_eq!(read(&["--container-log-max-size=-1"]), None);
    }
}
