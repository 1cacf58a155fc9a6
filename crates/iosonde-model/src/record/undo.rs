//! What stood on a device before it was written: enough to make its file systems and partitions be
//! found again, as long as their data was not overwritten.

use serde::{Deserialize, Serialize};

/// Name and version of the schema.
pub const UNDO_SCHEMA: &str = "iosonde.undo/1";

/// The account of one device; the bytes lie in a file beside it, piece after piece.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Undo {
    /// [`UNDO_SCHEMA`].
    pub schema: String,
    /// Path of the device, as given.
    pub path: String,
    /// Identity, as `--destroy-data` takes it.
    pub id: String,
    /// Kernel name.
    pub name: String,
    /// Model, where the disk has one.
    pub model: Option<String>,
    /// Size of the device, bytes.
    pub bytes: u64,
    /// The kernel's serial number of this appearance of the disk.
    pub disk_sequence: Option<u64>,
    /// Each signature that was found.
    pub signatures: Vec<Signature>,
    /// What was saved, ascending and without overlap.
    pub pieces: Vec<Piece>,
}

/// A signature that was found.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Signature {
    /// The word that `--overwrite-signature` takes.
    pub kind: String,
    /// Where, bytes.
    pub offset: u64,
}

/// Bytes that were saved.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Piece {
    /// Where they stood, bytes.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Undo {
    /// Name of the account of the device with this number, from 1.
    pub fn name(number: usize) -> String {
        format!("undo-{number}.json")
    }

    /// Name of the file with its bytes.
    pub fn bytes_name(number: usize) -> String {
        format!("undo-{number}.bin")
    }
}
