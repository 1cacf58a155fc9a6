//! The device state that a stage establishes before its first run: purge and write cache.

use serde::{Deserialize, Serialize};

words! {
    /// How a target is returned to its never-written state.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Purge {
        /// The strongest of the following that the target supports.
        Any => "any",
        /// NVMe Format with user data erase, of the whole namespace and no other.
        NvmeFormat => "nvme-format",
        /// NVMe Format with cryptographic erase.
        NvmeCrypto => "nvme-crypto",
        /// NVMe Sanitize of the whole drive, every namespace.
        NvmeSanitize => "nvme-sanitize",
        /// ATA Security Erase of the whole drive, by `hdparm`.
        AtaErase => "ata-erase",
        /// SCSI Sanitize of the whole drive, by `sg_sanitize`.
        ScsiSanitize => "scsi-sanitize",
        /// SCSI Format Unit of the whole drive, by `sg_format`.
        ScsiFormat => "scsi-format",
        /// Discard of the active range.
        Discard => "discard",
        /// Zeros written over the active range.
        Zero => "zero",
        /// The blocks of a file are deallocated and allocated again.
        Recreate => "recreate",
        /// No purge, whatever the experiment's file requests.
        None => "none",
    }
}

words! {
    /// A setting that is on or off.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Switch {
        On => "on",
        Off => "off",
    }
}

impl Purge {
    /// Whether a command of the drive erases all of it.
    pub fn is_of_the_drive(self) -> bool {
        use Purge::{AtaErase, NvmeCrypto, NvmeFormat, NvmeSanitize, ScsiFormat, ScsiSanitize};
        matches!(
            self,
            NvmeFormat | NvmeCrypto | NvmeSanitize | AtaErase | ScsiSanitize | ScsiFormat
        )
    }
}
