//! Data saved from a device before it is written: enough to recover its file systems and
//! partitions, unless their data is overwritten.

use serde::{Deserialize, Serialize};

/// Name and version of the schema.
pub const UNDO_SCHEMA: &str = "iosonde.undo/1";

/// The saved data of one device; the bytes are in a separate file, piece after piece.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Undo {
    /// [`UNDO_SCHEMA`].
    pub schema: String,
    /// Path of the device, as given.
    pub path: String,
    /// Identity, as `--destroy-data` expects it.
    pub id: String,
    /// Kernel name.
    pub name: String,
    /// Model, where the disk has one.
    pub model: Option<String>,
    /// Size of the device, bytes.
    pub bytes: u64,
    /// The kernel's sequence number of this disk instance (`diskseq`).
    pub disk_sequence: Option<u64>,
    /// Signatures that were found.
    pub signatures: Vec<Signature>,
    /// Saved pieces, ascending and without overlap.
    pub pieces: Vec<Piece>,
}

/// A signature that was found.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Signature {
    /// The word that `--overwrite-signature` expects.
    pub kind: String,
    /// Offset, bytes.
    pub offset: u64,
}

/// Bytes that were saved.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Piece {
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Undo {
    /// File name of the description of a device, by its number from 1.
    pub fn name(number: usize) -> String {
        format!("undo-{number}.json")
    }

    /// File name of its bytes.
    pub fn bytes_name(number: usize) -> String {
        format!("undo-{number}.bin")
    }
}
