//! The generic character devices of NVMe (`/dev/ngXnY`), each of which takes commands for the
//! namespace that is the block device `nvmeXnY`.
//!
//! Source: `drivers/nvme/host` of the kernel, which names both alike, below the same parent: the
//! controller, or with native multipath the subsystem.

use super::device::file_name;
use super::{Root, mount};

/// The device numbers of a node: major, minor.
type Number = (u32, u32);

/// A generic device, and the block device of the same namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NvmeGeneric {
    /// Kernel name of the generic device (`ng0n1`).
    pub name: String,
    /// Kernel name and number of the block device, if the kernel has made one.
    pub block: Option<(String, Number)>,
}

/// The NVMe generic device with this number; `None` if it is another character device.
#[must_use]
pub fn nvme_generic(root: &Root, major: u32, minor: u32) -> Option<NvmeGeneric> {
    let place = root.resolve(format!("/sys/dev/char/{major}:{minor}"))?;
    let class = root.link(place.join("subsystem"))?;
    if class.file_name()? != "nvme-generic" {
        return None;
    }
    let name = file_name(&place)?;
    let block = || {
        let beside = format!("nvme{}", name.strip_prefix("ng")?);
        let number = mount::device_number(&root.text(place.parent()?.join(&beside).join("dev"))?)?;
        // The name must be that of a block device.
        root.exists(format!("/sys/class/block/{beside}")).then_some((beside, number))
    };
    Some(NvmeGeneric { block: block(), name })
}

/// Kernel name of the generic device of the NVMe namespace with this block device or partition.
#[must_use]
pub fn generic_of_block(root: &Root, major: u32, minor: u32) -> Option<String> {
    let mut place = root.resolve(format!("/sys/dev/block/{major}:{minor}"))?;
    if root.exists(place.join("partition")) {
        place.pop();
    }
    let name = format!("ng{}", file_name(&place)?.strip_prefix("nvme")?);
    root.exists(place.parent()?.join(&name)).then_some(name)
}
