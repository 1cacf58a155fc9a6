//! Offsets on the devices that a program read and wrote.

use serde::{Deserialize, Serialize};

/// Offsets that the program read and wrote on one device, in chunks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Places {
    /// Kernel name of the whole disk.
    pub device: String,
    /// Size of a chunk, bytes.
    pub chunk_bytes: u64,
    /// Size of the blocks that are counted within a chunk, bytes.
    pub block_bytes: u64,
    /// Accessed chunks in ascending order. Their counts are estimates if blocks were sampled.
    pub chunks: Vec<Chunk>,
    /// One of 2^n blocks of a chunk was sampled; its counts represent the others.
    #[serde(default)]
    pub block_shift: u32,
    /// One of 2^n chunks is listed.
    #[serde(default)]
    pub chunk_shift: u32,
    /// Bytes of requests that did not fit into the table.
    pub lost_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Chunk {
    /// Number of the chunk, from the beginning of the disk.
    pub number: u64,
    /// Read requests that access it.
    pub reads: u64,
    /// Write requests that access it.
    pub writes: u64,
    /// Distinct blocks read.
    pub read_blocks: u32,
    /// Distinct blocks written.
    pub written_blocks: u32,
    /// Distinct blocks read or written.
    pub touched_blocks: u32,
    /// Blocks written, repeated writes included.
    pub block_writes: u64,
    /// Of those, overwrites of blocks that were written before.
    pub overwrites: u64,
}
