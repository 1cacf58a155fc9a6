//! The state into which a stage brings its device before its first run: purged, its write cache on
//! or off.

use serde::{Deserialize, Serialize};

words! {
    /// How a target is returned to the state of one that was never written.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Purge {
        /// The strongest of the following that the target has.
        Any => "any",
        /// NVMe Format that erases user data; all of the device, and no other namespace.
        NvmeFormat => "nvme-format",
        /// NVMe Format that erases the key of the encryption.
        NvmeCrypto => "nvme-crypto",
        /// NVMe Sanitize: all of the drive, every namespace.
        NvmeSanitize => "nvme-sanitize",
        /// ATA Security Erase of all of the drive, by `hdparm`.
        AtaErase => "ata-erase",
        /// SCSI Sanitize of all of the drive, by `sg_sanitize`.
        ScsiSanitize => "scsi-sanitize",
        /// SCSI Format Unit of all of the drive, by `sg_format`.
        ScsiFormat => "scsi-format",
        /// Discard of the range that is used.
        Discard => "discard",
        /// Zeros over that range.
        Zero => "zero",
        /// The content of a file is given back to its file system, and its space reserved again.
        Recreate => "recreate",
        /// None, whatever the file says.
        None => "none",
    }
}

words! {
    /// A setting of two states.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Switch {
        On => "on",
        Off => "off",
    }
}

impl Purge {
    /// Whether a command of the drive itself erases all of it.
    pub fn is_of_the_drive(self) -> bool {
        use Purge::{AtaErase, NvmeCrypto, NvmeFormat, NvmeSanitize, ScsiFormat, ScsiSanitize};
        matches!(
            self,
            NvmeFormat | NvmeCrypto | NvmeSanitize | AtaErase | ScsiSanitize | ScsiFormat
        )
    }
}
