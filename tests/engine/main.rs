//! The engine and its backends, compared with simulated devices of known truth, with each other,
//! and with the kernel's result of the same request.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod analysis;
mod conformance;
mod known;
mod latency_target;
mod open_loop;
mod requests;
mod until;
