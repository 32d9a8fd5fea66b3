//! What tests stand on: a real cluster on this machine, and how to wait for it.
//!
//! In: the pins under `lab/`, the toolchains and package registries of the
//! machine, root. Out: [`lab::Lab`] with its kubeconfigs, its components that
//! can be stopped, frozen, cut off and restarted, and nodes to put a kubelet
//! in; [`wait`] for what takes its time, [`pace`] for what may not; [`watch`] for when it came; [`chaos`]
//! for an agent that is killed over and over; [`clock`] for tests that pass
//! hours; [`host`] for tests on this machine's own disks; [`knobs`] for long runs.
//!
//! Only tests and `xtask` import this crate. It must not know how our agent
//! works inside: it deals in processes, files and API objects, so that the
//! upstream kubelet can take our agent's place in every test.

#![allow(
    clippy::disallowed_methods,
    reason = "a test tool owns its process: it reads the environment, the clock, and waits"
)]

pub mod cargo;
pub mod chaos;
pub mod clock;
pub mod command;
pub mod compare;
pub mod host;
pub mod knobs;
pub mod lab;
pub mod pace;
pub mod wait;
pub mod watch;
pub mod wire;
pub mod workload;
