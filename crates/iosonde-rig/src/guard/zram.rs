//! A compressed RAM disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{device_number, doing};
use crate::{Unavailable, require_root};

const CONTROL: &str = "/sys/class/zram-control";

/// A new zram device, removed on drop. Existing devices are never touched.
#[derive(Debug)]
pub struct ZramDevice {
    id: String,
    path: PathBuf,
    number: (u32, u32),
}

impl ZramDevice {
    /// An empty device of `size_bytes`. Unwritten parts read as zeros and use no memory.
    pub fn new(size_bytes: u64) -> Result<Self, Unavailable> {
        require_root()?;
        // Reading this file creates the device.
        let id = fs::read_to_string(format!("{CONTROL}/hot_add"))
            .map_err(doing("add a zram device (is the module there?)"))?;
        let id = id.trim().to_owned();
        let path = PathBuf::from(format!("/dev/zram{id}"));
        let mut device = Self { id, path, number: (0, 0) };
        fs::write(format!("/sys/block/zram{}/disksize", device.id), size_bytes.to_string())
            .map_err(doing("set the size of the zram device"))?;
        device.number = device_number(&device.path)?;
        Ok(device)
    }

    /// The device node, such as `/dev/zram1`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor number.
    pub fn number(&self) -> (u32, u32) {
        self.number
    }
}

impl Drop for ZramDevice {
    fn drop(&mut self) {
        // It stays busy for a moment while udev or a closing user holds it.
        for _ in 0..50 {
            let _ = fs::write(format!("/sys/block/zram{}/reset", self.id), "1");
            if fs::write(format!("{CONTROL}/hot_remove"), &self.id).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
