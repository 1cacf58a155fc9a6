//! The state into which a stage brings its device before its first run: purged, its write cache on
//! or off.

use serde::{Deserialize, Serialize};

/// How a target is returned to the state of one that was never written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purge {
    /// The strongest of the following that the target has.
    Any,
    /// NVMe Format that erases user data; all of the device, and no other namespace.
    NvmeFormat,
    /// NVMe Format that erases the key of the encryption.
    NvmeCrypto,
    /// NVMe Sanitize: all of the drive, every namespace.
    NvmeSanitize,
    /// ATA Security Erase of all of the drive, by `hdparm`.
    AtaErase,
    /// SCSI Sanitize of all of the drive, by `sg_sanitize`.
    ScsiSanitize,
    /// SCSI Format Unit of all of the drive, by `sg_format`.
    ScsiFormat,
    /// Discard of the range that is used.
    Discard,
    /// Zeros over that range.
    Zero,
    /// The content of a file is given back to its file system, and its space reserved again.
    Recreate,
    /// None, whatever the file says.
    None,
}

/// A setting of two states.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    On,
    Off,
}

impl Purge {
    /// All, for messages and completion.
    pub const ALL: [Purge; 11] = [
        Purge::Any,
        Purge::NvmeFormat,
        Purge::NvmeCrypto,
        Purge::NvmeSanitize,
        Purge::AtaErase,
        Purge::ScsiSanitize,
        Purge::ScsiFormat,
        Purge::Discard,
        Purge::Zero,
        Purge::Recreate,
        Purge::None,
    ];

    /// The word of files and of the command line.
    pub fn word(self) -> &'static str {
        match self {
            Purge::Any => "any",
            Purge::NvmeFormat => "nvme-format",
            Purge::NvmeCrypto => "nvme-crypto",
            Purge::NvmeSanitize => "nvme-sanitize",
            Purge::AtaErase => "ata-erase",
            Purge::ScsiSanitize => "scsi-sanitize",
            Purge::ScsiFormat => "scsi-format",
            Purge::Discard => "discard",
            Purge::Zero => "zero",
            Purge::Recreate => "recreate",
            Purge::None => "none",
        }
    }

    /// Whether a command of the drive itself erases all of it.
    pub fn is_of_the_drive(self) -> bool {
        use Purge::{AtaErase, NvmeCrypto, NvmeFormat, NvmeSanitize, ScsiFormat, ScsiSanitize};
        matches!(
            self,
            NvmeFormat | NvmeCrypto | NvmeSanitize | AtaErase | ScsiSanitize | ScsiFormat
        )
    }

    /// The method of this word.
    pub fn parse(word: &str) -> Option<Purge> {
        Purge::ALL.into_iter().find(|each| each.word() == word)
    }
}

impl Switch {
    /// The word of files and of the command line.
    pub fn word(self) -> &'static str {
        if self == Switch::On { "on" } else { "off" }
    }
}
