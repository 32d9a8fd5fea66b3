//! Whole nodes against an API server in memory, on a paused clock.

mod bench;
mod csinode;
mod events;
mod lease;
mod recorder;
mod register;
mod status;
