//! End-to-end tests: what a user of the cluster sees, with real clients
//! against the lab. They start the lab if it does not run; they need root.
//!
//! In: the programs of this checkout and the lab of crate `testkit`. Out:
//! verdicts. A test knows commands, files and API objects, and nothing of how
//! our crates work inside. The tests are in `shared_lab`,
//! `config_differential` (upstream's program and ours on the same input),
//! `identity_live` (our way to the API server as a library: only there can
//! requests and connections be counted) and `lab_itself`. Without a lab: `pod_loop`,
//! `machine`, and `embedded` (our agent on our own API server).
