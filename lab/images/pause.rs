//! The program that holds a pod's namespaces open, and the first process of
//! every lab machine: it waits to be told to end and reaps orphans meanwhile.
//!
//! Compiled by the lab with plain `rustc` into one static file, outside the
//! workspace: an image holds this file and nothing else, so it can have no
//! dependency but the C library that it carries inside.

use std::ffi::c_int;

const SIG_BLOCK: c_int = 0;
const SIGINT: c_int = 2;
const SIGTERM: c_int = 15;
const SIGCHLD: c_int = 17;
const WNOHANG: c_int = 1;

/// As wide as the C library's on every Linux that we build for.
#[repr(C)]
struct SignalSet([u64; 16]);

unsafe extern "C" {
    fn sigemptyset(set: *mut SignalSet) -> c_int;
    fn sigaddset(set: *mut SignalSet, signal: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigwait(set: *const SignalSet, signal: *mut c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

fn main() {
    let mut set = SignalSet([0; 16]);
    // SAFETY: `set` is as large as the C library's sigset_t and outlives the
    // calls; the null pointers are allowed where they are passed.
    unsafe {
        sigemptyset(&raw mut set);
        for signal in [SIGINT, SIGTERM, SIGCHLD] {
            sigaddset(&raw mut set, signal);
        }
        // Blocked signals stay pending until sigwait takes them, so none is
        // lost between two turns of the loop.
        sigprocmask(SIG_BLOCK, &raw const set, std::ptr::null_mut());
        loop {
            let mut signal: c_int = 0;
            if sigwait(&raw const set, &raw mut signal) != 0 {
                continue;
            }
            if signal != SIGCHLD {
                return;
            }
            while waitpid(-1, std::ptr::null_mut(), WNOHANG) > 0 {}
        }
    }
}
