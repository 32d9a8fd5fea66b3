//! The signals that tell a command to end: by whoever runs it, by a keyboard, or by a
//! terminal that is closed.

use std::io;

use linux::process::ignores_hangup;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for them.
#[derive(Debug)]
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None`: whoever started this process, such as nohup, wants it to outlive the terminal.
    hangup: Option<Signal>,
}

impl EndSignals {
    pub(crate) fn new() -> io::Result<Self> {
        let hangup = || signal(SignalKind::hangup());
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: (!ignores_hangup()).then(hangup).transpose()?,
        })
    }

    /// The next of them, by its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_terminal_that_is_closed_ends_a_command() {
        let mut signals = EndSignals::new().unwrap();
        // Tests under nohup are to outlive their terminal, too.
        if signals.hangup.is_none() {
            return;
        }
        kill_process(getpid(), Signal::HUP).unwrap();
        assert_eq!(signals.next().await, "SIGHUP");
    }
}
