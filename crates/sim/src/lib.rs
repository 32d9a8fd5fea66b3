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
//! | `http` | what a request over the network gets: a status, `refused`, `silent`, or `echo`, which gives everything back; else 200. From 400 on its health by gRPC is bad, too | `404` |
//! | `other-commands` | what commands come to that are not among those below: `probe`, or `missing`, as if they were not in the image | `missing` |
//! | `log-lines` | lines at a rate, or a text at the start | `10/s`, `hello` |
//! | `cpu`, `memory` | what it uses: so much, or a wave between two values | `250m`, `64Mi..1Gi/10m` |
//! | `pull-delay`, `pull-failure` | of all images of the pod: how long, and what error | `3s`, `no such tag` |
//!
//! # Commands, and streams
//!
//! A command in a container, whether a probe, a hook or a person runs it, is one of these
//! (by its last path element; in `sh -c`, too):
//!
//! | command | what it does |
//! |---|---|
//! | `true`, `false`, `exit N` | ends with that |
//! | `echo WORDS` | prints them |
//! | `sleep SECONDS` | lasts so long, unless the container ends before: then 137 |
//! | `cat` | gives back what it hears, to its end; on a terminal Ctrl-C and Ctrl-D end it |
//! | anything else | is taken for a probe: ends with 0 if the container is ready by its story, else with 1. With `other-commands: missing` it cannot be started, in containerd's words; in a shell it ends with 127 |
//!
//! Attached to a container, one sees the lines that it prints from then on, until it ends. A
//! forwarded port reaches what the pod's probes reach: `http` says what that answers.
//!
//! Streams are served as runtimes do it: a URL that is good once and for a minute, SPDY/3.1,
//! `v4.channel.k8s.io` for commands and `portforward.k8s.io` for ports. Web sockets are not
//! spoken. To whoever dials through the runtime's own [`seams::Net`], the server is in
//! memory: no port, no task. [`Runtime::open_streams_port`] makes one for others.

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
pub use runtime::{LogLine, Logs, NetworkError, PodNetwork, Runtime, RuntimeShape, StreamsPort};
