//! What of the node's configuration is about images.

use ::config::gates::FeatureGates;
use ::config::settings::Settings;

use crate::records::{Allowlist, Verification};

/// How images are pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub at_once: AtOnce,
    /// Pulls begun per second in the long run; 0: no limit.
    pub rate: u32,
    /// Pulls that may begin at once before the rate counts.
    pub burst: u32,
    /// `None`: whoever asks may use what is there.
    pub verification: Option<Verification>,
    /// Whether the runtime is told for which handler an image is.
    pub by_handler: bool,
}

/// How many pulls run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    AtMost(usize),
    /// As many as there are pods that want one.
    All,
}

impl Config {
    /// Takes what is needed; the configuration has been validated.
    pub fn from_settings(settings: &Settings, gates: &FeatureGates) -> Self {
        let amount = |path| u32::try_from(settings.int(path)).unwrap_or_default();
        let most = usize::try_from(settings.int("maxParallelImagePulls")).unwrap_or_default();
        let at_once = match (settings.bool("serializeImagePulls"), most) {
            (true, _) => AtOnce::AtMost(1),
            (false, 0) => AtOnce::All,
            (false, most) => AtOnce::AtMost(most),
        };
        let verified = gates.enabled("KubeletEnsureSecretPulledImages");
        Self {
            at_once,
            rate: amount("registryPullQPS"),
            burst: amount("registryBurst"),
            verification: verified.then(|| verification(settings)),
            by_handler: gates.enabled("RuntimeClassInImageCriAPI"),
        }
    }
}

fn verification(settings: &Settings) -> Verification {
    match settings.text("imagePullCredentialsVerificationPolicy") {
        "NeverVerify" => Verification::NeverVerify,
        "NeverVerifyAllowlistedImages" => {
            let patterns = settings.list("preloadedImagesVerificationAllowlist");
            let patterns = patterns.iter().filter_map(|pattern| pattern.as_str());
            Verification::NeverVerifyAllowlistedImages(Allowlist::new(patterns))
        }
        "AlwaysVerify" => Verification::AlwaysVerify,
        _ => Verification::NeverVerifyPreloadedImages,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::config::flags::CommandLine;
    use ::config::load;

    use super::*;

    fn read(arguments: &[&str]) -> Config {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let line = CommandLine::parse(&arguments).unwrap();
        let resolved = load::resolve(&line, Path::new("/")).unwrap();
        Config::from_settings(&resolved.settings, &resolved.gates)
    }

    fn read_file(content: &str) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        std::fs::write(&path, format!("{head}{content}")).unwrap();
        read(&["--config", &path.display().to_string()])
    }

    #[test]
    fn the_defaults_are_the_kubelets() {
        let expected = Config {
            at_once: AtOnce::AtMost(1),
            rate: 5,
            burst: 10,
            verification: Some(Verification::NeverVerifyPreloadedImages),
            by_handler: false,
        };
        assert_eq!(read(&[]), expected);
    }

    #[test]
    fn pulls_run_at_once_as_configured() {
        for (content, at_once) in [
            ("serializeImagePulls: true", AtOnce::AtMost(1)),
            ("serializeImagePulls: false", AtOnce::All),
            ("maxParallelImagePulls: 3", AtOnce::AtMost(3)),
        ] {
            assert_eq!(read_file(content).at_once, at_once, "{content}");
        }
    }

    #[test]
    fn images_are_verified_as_configured() {
        let listed = Allowlist::new(["r.io/app", "r.io/team/*"]);
        for (content, verification) in [
            (
                "imagePullCredentialsVerificationPolicy: NeverVerify",
                Some(Verification::NeverVerify),
            ),
            (
                "imagePullCredentialsVerificationPolicy: AlwaysVerify",
                Some(Verification::AlwaysVerify),
            ),
            (
                "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n\
                 preloadedImagesVerificationAllowlist: [r.io/app, r.io/team/*]",
                Some(Verification::NeverVerifyAllowlistedImages(listed)),
            ),
            (
                "featureGates: {KubeletEnsureSecretPulledImages: false}",
                None,
            ),
        ] {
            assert_eq!(read_file(content).verification, verification, "{content}");
        }
    }
}
