//! The engine and its backends: against simulated devices of known truth, against each other, and
//! against what the kernel does with the same request.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod analysis;
mod conformance;
mod known;
mod latency_target;
mod open_loop;
mod requests;
mod until;
