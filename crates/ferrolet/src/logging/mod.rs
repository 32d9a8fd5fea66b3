//! Log lines as operators know them from the kubelet: klog's text format, or
//! its JSON.
//!
//! In: `tracing` events of the whole process. Out: one line each, on whatever
//! writer the program chose. A `tracing` level stands for a verbosity: errors
//! and warnings are always shown, INFO is `-v=0`, DEBUG `-v=4`, TRACE `-v=6`. A
//! field `v` says it exactly: `info!(v = 2, pod, "started")` is shown from `-v=2`
//! on. The level still is what `tracing` itself switches off, so `v` can ask for
//! more verbosity than the level stands for, not for less.
//!
//! A field `err` or `error` prints as `err`. Spans are not printed.
//!
//! Nothing here is static: [`Verbosity`] is the handle that changes what is
//! shown while the program runs.

mod json;
mod layer;
mod printable;
mod quote;
mod record;
mod text;
mod verbosity;

pub(crate) use layer::{KlogLayer, LogFormat, Origin, Waiting};
pub(crate) use verbosity::{ModuleVerbosity, Verbosity};
