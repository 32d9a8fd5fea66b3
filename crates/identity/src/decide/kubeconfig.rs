//! Which kubeconfig wins, and how the node comes by its first certificate.

use std::time::SystemTime;

use crate::certificate;

/// What the node was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// `--kubeconfig` is set.
    pub kubeconfig: bool,
    /// `--bootstrap-kubeconfig` is set.
    pub bootstrap: bool,
    /// `rotateCertificates`.
    pub rotate: bool,
}

/// What the main kubeconfig looks like. Only looked at beside a bootstrap one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MainKubeconfig {
    Absent,
    /// There, as far as can be told, but not to be looked at.
    Unreachable {
        cause: String,
    },
    /// Not a kubeconfig, or without a usable current context.
    Unusable {
        cause: String,
    },
    /// A file that it refers to, or data in it, cannot be loaded.
    TlsUnusable {
        cause: String,
    },
    /// Without a client certificate; a token does not count.
    NoCertificate,
    Expired {
        since: SystemTime,
    },
    Valid,
}

impl MainKubeconfig {
    /// A kubeconfig that loads, judged by its client certificate's PEM. Any
    /// certificate past its end spoils the file; beginnings are not looked at.
    pub fn with_certificate(client_pem: &[u8], now: SystemTime) -> Self {
        let Ok(leaves) = certificate::read_leaves(client_pem) else {
            return Self::NoCertificate;
        };
        let expired = leaves.iter().find(|leaf| leaf.is_expired(now));
        expired.map_or(Self::Valid, |leaf| Self::Expired {
            since: leaf.not_after,
        })
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// No API server at all.
    Standalone,
    /// The main kubeconfig as it is, with every way to authenticate it names.
    UseMain,
    /// The main kubeconfig, its identity taken over by certificates that rotate.
    RotateFromMain,
    /// Write the main kubeconfig now, pointing at the store, and fetch the
    /// certificate with the bootstrap credentials in the background.
    BootstrapInBackground,
    /// Fetch the certificate first, then write the main kubeconfig.
    BootstrapFirst,
    /// The main kubeconfig cannot even be looked at: stop, and say so.
    Stop { cause: String },
}

/// Which kubeconfig wins.
pub fn choose(told: Told, main: &MainKubeconfig) -> Start {
    if !told.kubeconfig {
        return Start::Standalone;
    }
    let needs_bootstrap = told.bootstrap && *main != MainKubeconfig::Valid;
    match (needs_bootstrap, main, told.rotate) {
        (true, MainKubeconfig::Unreachable { cause }, _) => Start::Stop {
            cause: cause.clone(),
        },
        (true, _, true) => Start::BootstrapInBackground,
        (true, _, false) => Start::BootstrapFirst,
        (false, _, true) => Start::RotateFromMain,
        (false, _, false) => Start::UseMain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn the_kubeconfig_that_wins_follows_from_flags_and_the_main_file() {
        use MainKubeconfig as Main;
        let text = || "x".to_owned();
        let since = SystemTime::UNIX_EPOCH;
        let invalid = [
            Main::Absent,
            Main::Unusable { cause: text() },
            Main::TlsUnusable { cause: text() },
            Main::NoCertificate,
            Main::Expired { since },
        ];
        let told = |bootstrap, rotate| Told {
            kubeconfig: true,
            bootstrap,
            rotate,
        };
        for main in &invalid {
            assert_eq!(choose(told(false, true), main), Start::RotateFromMain);
            assert_eq!(choose(told(false, false), main), Start::UseMain);
            assert_eq!(choose(told(true, true), main), Start::BootstrapInBackground);
            assert_eq!(choose(told(true, false), main), Start::BootstrapFirst);
        }
        assert_eq!(
            choose(told(true, true), &Main::Valid),
            Start::RotateFromMain
        );
        assert_eq!(choose(told(true, false), &Main::Valid), Start::UseMain);
        let unreachable = Main::Unreachable { cause: text() };
        for rotate in [false, true] {
            let stop = Start::Stop { cause: text() };
            assert_eq!(choose(told(true, rotate), &unreachable), stop);
        }
        assert_eq!(choose(told(false, false), &unreachable), Start::UseMain);
        let standalone = Told {
            kubeconfig: false,
            ..told(true, true)
        };
        assert_eq!(choose(standalone, &Main::Absent), Start::Standalone);
    }

    #[test]
    fn a_kubeconfig_is_spoilt_by_any_certificate_past_its_end() {
        let issued = testdata::at(1_000_000);
        let short = testdata::certificate("a", issued, 100);
        let long = testdata::certificate("b", issued, 1_000);
        let chain = [long.as_bytes(), short.as_bytes()].concat();
        let judge = |seconds| MainKubeconfig::with_certificate(&chain, testdata::at(seconds));
        assert_eq!(
            judge(0),
            MainKubeconfig::Valid,
            "the beginning does not count"
        );
        assert_eq!(judge(1_000_100), MainKubeconfig::Valid);
        let since = testdata::at(1_000_100);
        assert_eq!(judge(1_000_101), MainKubeconfig::Expired { since });
        let none = MainKubeconfig::with_certificate(b"", issued);
        assert_eq!(none, MainKubeconfig::NoCertificate);
    }
}
