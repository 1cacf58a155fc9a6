//! Facts about this machine: kernel, processor, memory, devices, limits, mounts, telemetry.
//!
//! This module only reads, never panics and never waits for long. It reads through one `Root`
//! handle over `/proc`, `/sys` and `/etc`, so that a recorded tree can be a test fixture. `smart`,
//! `fio` and `witness` start outside programs instead. A fact that the kernel does not show is
//! `None`, never a guess. Only `fio` takes long and loads a device: it runs the jobs it is given.

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

/// Facts about the machine as a whole. A fact that cannot be read stays empty.
#[must_use]
pub fn facts(root: &Root) -> HostFacts {
    let mut facts = HostFacts::default();
    platform::describe(root, &mut facts);
    processor::describe(root, &mut facts);
    memory::describe(root, &mut facts);
    facts
}
