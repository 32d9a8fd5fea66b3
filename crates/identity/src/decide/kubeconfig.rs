//! Which kubeconfig wins, and how the node comes by its first certificate.

use std::time::SystemTime;

/// What a node of a cluster was told; it has a `--kubeconfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
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

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
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
        let told = |bootstrap, rotate| Told { bootstrap, rotate };
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
    }
}
