//! One state machine per pod: from what is wanted to what the runtime runs.
//!
//! So far only [`spec`]: what a pod looks like to the runtime. The plan (what
//! should happen next), the act (doing it) and the task (one per pod) are to come.
//!
//! In: pods as the API has them, the node's settings, and everything that a pod
//! refers to, as data. Out: the messages of CRI, the files beside them, and what
//! users should be told. It must not know where pods come from, nor which machine
//! or runtime runs them.

pub mod spec;
