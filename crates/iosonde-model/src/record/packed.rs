//! Compressed records (Zstandard, RFC 8878): `zstd -dc FILE` prints their JSON.

use std::io::{self, Read};
use std::path::Path;

use super::given;

/// Suffix of the name of a compressed file.
pub const PACKED: &str = ".zst";
/// A higher level takes several times as long and saves a tenth.
const LEVEL: i32 = 9;

/// Compresses bytes and adds their checksum.
///
/// # Errors
/// If the compressor cannot be created.
pub fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(bytes)
}

/// Decompresses bytes, if the result is no longer than `most` bytes.
///
/// # Errors
/// If it is damaged or longer.
pub fn unpacked(bytes: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    zstd::Decoder::new(bytes)?.take(most.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("longer than {most} B, which is more than is read")));
    }
    Ok(text)
}

/// Reads a file of at most `most` bytes and decompresses it if its name says so.
///
/// # Errors
/// As text, if it cannot be read, is damaged, or longer.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let bytes = given::bytes(path, most).map_err(|error| error.to_string())?;
    match path.to_string_lossy().ends_with(PACKED) {
        true => {
            unpacked(&bytes, most).map_err(|error| format!("not a compressed record ({error})"))
        }
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_unpacked_is_what_was_packed_or_an_error() {
        let text: Vec<u8> =
            (0..10_000_u32).flat_map(|n| format!("[{n},1],").into_bytes()).collect();
        let small = packed(&text).unwrap();
        assert!(small.len() < text.len() / 4, "{} of {}", small.len(), text.len());
        assert_eq!(unpacked(&small, text.len() as u64).unwrap(), text);
        assert!(
            unpacked(&small, text.len() as u64 - 1).unwrap_err().to_string().contains("longer")
        );
        let mut altered = small.clone();
        altered[small.len() / 2] ^= 1;
        assert!(unpacked(&altered, 1 << 20).is_err(), "its checksum is compared");
        assert!(unpacked(&small[..small.len() - 8], 1 << 20).is_err(), "it is not whole");
        assert!(unpacked(b"{}", 1 << 20).is_err());
    }
}
