//! What a node stands on, in memory: a machine, and a runtime that runs pods of
//! which nothing is real but their story.
//!
//! In: what the machine is made of, and what ails it ([`Faults`]). Out: the seams
//! [`seams::Host`], [`seams::Storage`], [`seams::Runtime`] and, to its pods, [`seams::Net`]; and of the
//! runtime a socket that others can talk to ([`socket`]), with a record of what they said ([`record`]).
//!
//! It must not know who stands on it, nor that there are others like it.
//!
//! # The story of a pod
//!
//! Annotations of a pod tell what becomes of its containers; with the name of one
//! behind a dot (`sim.ferrolet.dev/exit-code.CONTAINER`), of that one.
//!
//! | `sim.ferrolet.dev/…` | what it says | such as |
//! |---|---|---|
//! | `start-delay` | how long a start takes | `2s` |
//! | `run-time` | when it ends by itself; else it runs for ever | `1m30s` |
//! | `exit-code` | what it ends with | `3` |
//! | `crash-loop` | both in one: it ends so soon, with 1 | `5s` |
//! | `oom-after` | when it is killed for want of memory | `10s` |
//! | `stop-delay` | how long it goes on when asked to end; then 143, or 137 if killed | `20s` |
//! | `ready-after`, `never-ready` | what a probe by command sees; before, it does not listen | `10s`, `true` |
//! | `http` | what a request over the network gets: a status, `refused`, or `silent`; else 200 | `404` |
//! | `log-lines` | lines at a rate, or a text at the start | `10/s`, `hello` |
//! | `cpu`, `memory` | what it uses: so much, or a wave between two values | `250m`, `64Mi..1Gi/10m` |
//! | `pull-delay`, `pull-failure` | of all images of the pod: how long, and what error | `3s`, `no such tag` |

mod cgroups;
mod disk;
mod faults;
mod machine;
mod net;
pub mod record;
mod runtime;
pub mod socket;

pub use faults::{DiskFault, Faults, RuntimeFault};
pub use machine::{Machine, MachineShape};
pub use runtime::{LogLine, Logs, NetworkError, PodNetwork, Runtime, RuntimeShape};
