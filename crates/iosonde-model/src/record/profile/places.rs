//! Where on the devices a program read and wrote.

use serde::{Deserialize, Serialize};

/// Where the program read and wrote on one device, by chunks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Places {
    /// Kernel name of the whole disk.
    pub device: String,
    /// Size of a chunk, bytes.
    pub chunk_bytes: u64,
    /// Size of the blocks that are distinguished within a chunk, bytes.
    pub block_bytes: u64,
    /// Chunks that were touched, ascending by place. Their counts are estimates where only a sample
    /// of their blocks was looked at.
    pub chunks: Vec<Chunk>,
    /// Of 2^n blocks of a chunk, one was looked at: its counts stand for the others.
    #[serde(default)]
    pub block_shift: u32,
    /// Of 2^n chunks, one is listed.
    #[serde(default)]
    pub chunk_shift: u32,
    /// Bytes of requests that found no place in the table.
    pub lost_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Chunk {
    /// Number of the chunk, counted from the beginning of the disk.
    pub number: u64,
    /// Read requests that touch it.
    pub reads: u64,
    /// Write requests that touch it.
    pub writes: u64,
    /// Different blocks read.
    pub read_blocks: u32,
    /// Different blocks written.
    pub written_blocks: u32,
    /// Different blocks read or written.
    pub touched_blocks: u32,
    /// Blocks written, each time anew.
    pub block_writes: u64,
    /// Of those, onto blocks that were written before.
    pub overwrites: u64,
}
