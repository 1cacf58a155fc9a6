//! A loop device over a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{device_number, doing, run};
use crate::{Unavailable, require_root};

/// Options of a loop device.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopOptions {
    /// Reads and writes the image with O_DIRECT.
    pub direct_io: bool,
    /// Refuses writes.
    pub read_only: bool,
    /// Logical sector size in bytes: 512 (also when 0) to the page size, a power of two.
    pub sector_bytes: u32,
    /// Allows partitions, which [`LoopDevice::add_partition`] adds.
    pub partitions: bool,
}

/// A loop device, detached on drop. The image file is kept.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    number: (u32, u32),
}

impl LoopDevice {
    /// A device over `image`, which is created or extended (with holes) to `size_bytes`.
    pub fn new(image: &Path, size_bytes: u64) -> Result<Self, Unavailable> {
        require_root()?;
        let making = format!("make image {}", image.display());
        let file = File::options().create(true).truncate(false).write(true).open(image);
        file.and_then(|file| file.set_len(size_bytes)).map_err(doing(making))?;
        Self::over(image, LoopOptions::default())
    }

    /// A device over an existing file.
    pub fn over(image: &Path, options: LoopOptions) -> Result<Self, Unavailable> {
        require_root()?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]);
        if options.direct_io {
            losetup.arg("--direct-io=on");
        }
        if options.read_only {
            losetup.arg("--read-only");
        }
        if options.partitions {
            losetup.arg("--partscan");
        }
        if options.sector_bytes != 0 {
            losetup.arg(format!("--sector-size={}", options.sector_bytes));
        }
        let path = PathBuf::from(run(losetup.arg(image))?);
        let mut device = Self { path, number: (0, 0) };
        device.number = device_number(&device.path)?;
        Ok(device)
    }

    /// The device node, such as `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a partition in the kernel without writing a partition table, in 512-byte sectors. It is
    /// removed with the device.
    pub fn add_partition(
        &self,
        number: u32,
        start: u64,
        sectors: u64,
    ) -> Result<PathBuf, Unavailable> {
        let numbers = [u64::from(number), start, sectors].map(|value| value.to_string());
        run(Command::new("addpart").arg(&self.path).args(numbers))?;
        let node = PathBuf::from(format!("{}p{number}", self.path.display()));
        device_number(&node)?;
        Ok(node)
    }

    /// Major and minor number.
    pub fn number(&self) -> (u32, u32) {
        self.number
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}
