//! What is this machine? Kernel, processor, memory, devices, limits, mounts, telemetry.
//!
//! Promises: only reads, never panics, and never waits for long. Everything but `smart`, `fio` and
//! `witness`, which start outside programs, goes through one `Root` handle over `/proc`, `/sys` and
//! `/etc`, so that a recorded tree is a test fixture. A fact the kernel does not show is `None`,
//! never a guess. `fio` alone takes long and is noticed by others: it carries out the load that it
//! is reported.

mod cgroup;
mod device;
mod file_uses;
mod filesystem;
mod fio;
mod flush;
mod generic;
mod identity;
mod limits;
mod link;
mod loops;
mod memory;
mod mount;
pub mod neighbours;
mod openers;
mod paths;
mod platform;
mod processor;
pub mod program;
mod root;
mod served;
mod smart;
mod stack;
pub mod telemetry;
mod usage;
mod witness;

pub use device::{device, device_counters, device_of_mount, number_of_node};
pub use file_uses::{file_uses, locks};
pub use filesystem::filesystem_class;
pub use fio::{Fio, FioError};
pub use flush::{flush_layers, flushes, has_device_mapper};
pub use generic::{NvmeGeneric, generic_of_block, nvme_generic};
pub use identity::{Identity, identity};
pub use limits::io_limits;
pub use mount::{Mount, all as mounts, mount_by_name, mount_of, mount_of_file, mount_with_id};
pub use openers::{Access, FileId, Unseen};
pub use root::Root;
pub use smart::{nvme_health, smart};
pub use stack::{partition_starts, same_disk, uses};
pub use usage::{InUse, Usage, Use};
pub use witness::{ANSWER_WITHIN, Witness, WitnessError};

use iosonde_model::record::HostFacts;

/// Everything this room knows about the machine as a whole. Facts that cannot be read stay empty.
#[must_use]
pub fn facts(root: &Root) -> HostFacts {
    let mut facts = HostFacts::default();
    platform::describe(root, &mut facts);
    processor::describe(root, &mut facts);
    memory::describe(root, &mut facts);
    facts
}
