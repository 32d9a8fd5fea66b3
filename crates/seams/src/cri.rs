//! The messages of the Container Runtime Interface, v1, and the paths of its
//! calls. Made of `proto/*.proto` when the crate is built; not written by hand,
//! but for what must not be printed.

#![allow(
    clippy::pedantic,
    clippy::doc_markdown,
    reason = "the generator's code follows the generator's style"
)]

include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));

/// What the messages and calls are made of, as protobuf describes itself: a
/// `FileDescriptorSet`, for those who show messages without knowing them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

impl std::fmt::Debug for AuthConfig {
    /// Requests end up in logs, passwords must not.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AuthConfig")
            .field("username", &self.username)
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

/// The signal that the API calls so, such as `SIGTERM` or `SIGRTMIN+1`.
pub fn signal_of(name: &str) -> Option<Signal> {
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    let signal = Signal::from_str_name(&name);
    signal.filter(|signal| *signal != Signal::RuntimeDefault)
}

/// What the API calls a signal; `None`: the runtime does not say which.
pub fn signal_name(signal: Signal) -> Option<String> {
    let name = signal.as_str_name();
    let name = name.replace("PLUS", "+").replace("MINUS", "-");
    (signal != Signal::RuntimeDefault).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_called_as_the_api_calls_them() {
        for (name, signal) in [
            ("SIGTERM", Signal::Sigterm),
            ("SIGRTMIN", Signal::Sigrtmin),
            ("SIGRTMIN+15", Signal::Sigrtminplus15),
            ("SIGRTMAX-14", Signal::Sigrtmaxminus14),
        ] {
            assert_eq!(signal_of(name), Some(signal));
            assert_eq!(signal_name(signal).as_deref(), Some(name));
        }
        assert_eq!(signal_name(Signal::RuntimeDefault), None);
        for nothing in ["", "TERM", "RUNTIME_DEFAULT", "SIGRTMIN+99"] {
            assert_eq!(signal_of(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_request_to_pull_is_printed_without_its_secrets() {
        let request = PullImageRequest {
            auth: Some(AuthConfig {
                username: "somebody".to_owned(),
                password: "secret-1".to_owned(),
                auth: "secret-2".to_owned(),
                server_address: "registry.example".to_owned(),
                identity_token: "secret-3".to_owned(),
                registry_token: "secret-4".to_owned(),
            }),
            ..PullImageRequest::default()
        };
        let printed = format!("{request:?}");
        assert!(printed.contains("somebody"), "{printed}");
        assert!(!printed.contains("secret"), "{printed}");
    }
}
