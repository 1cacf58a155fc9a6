//! The built program in an emulated machine, on devices that most machines lack: NVMe, SCSI, device
//! mapper, md, swap, limits of cgroup version 2, and a power switch.
//!
//! Emulation is slow, so one boot serves many checks. Without QEMU, busybox or a kernel the tests
//! are skipped with the reason.
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
