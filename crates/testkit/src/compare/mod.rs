//! The same scenario on a node with the upstream kubelet and on one with our
//! agent, and what the cluster saw of both, compared.
//!
//! A [`Scenario`] is a short script. It is played twice at the same time, on two
//! equal lab nodes, each in a namespace of its own. What the API server tells its
//! watchers meanwhile is kept on a [`tape`]; a pure function makes a [`Record`] of
//! it ([`story`]: sequences of phases, states and conditions, the last status, the
//! events), in which names, ids and times are replaced by words ([`words`]).
//! [`rules`] compares two records, [`differences`] says which differences are
//! meant. Nothing here knows which of the nodes is ours.

pub(crate) mod api;
pub mod differences;
pub(crate) mod manifest;
mod pair;
mod rules;
mod run;
mod scenario;
mod scenarios;
mod stage;
mod story;
mod tape;
pub(crate) mod words;

pub use self::api::Api;
pub(crate) use self::pair::both;
pub use self::pair::{Pair, Second};
pub use self::run::{Outcome, Run, Verdict};
pub use self::scenario::{Lane, Scenario};
pub use self::scenarios::all;
pub use self::story::Record;
