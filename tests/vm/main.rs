//! The built program in an emulated machine, on devices that most machines lack: NVMe, SCSI, device
//! mapper, md, swap, limits of cgroup version 2, and a power switch.
//!
//! Emulated, everything is slow, so one boot serves many checks. Where QEMU, busybox or a kernel is
//! missing, the tests are skipped with the reason.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a test says how many states it judged")]

mod crash;
mod gate;
mod inside;
mod limit;
mod passthrough;
mod power;
mod profile;
mod state;
