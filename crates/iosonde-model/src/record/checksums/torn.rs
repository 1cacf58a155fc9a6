//! Remains of a write that a kill or a power cut interrupted: the beginning of a line, zeros where
//! the file system had extended a file but not written the data, or both.

use super::{SEAL, is_checksum, is_inside};

/// Smallest sector in which data is written, bytes.
const SECTOR: usize = 512;

/// The text before zeros that reach to the end of a sector or of the text.
pub(super) fn before_zeros(text: &[u8]) -> &[u8] {
    let Some(start) = text.iter().position(|byte| *byte == 0) else { return text };
    let end = text.len().min((start + 1).next_multiple_of(SECTOR));
    if text[start..end].iter().all(|byte| *byte == 0) { &text[..start] } else { text }
}

/// Whether this is the incomplete beginning of a line of a list.
pub(super) fn is_beginning(line: &str) -> bool {
    let is_hex = |text: &str| is_checksum(&format!("{text:0<64}"));
    let (sum, name) = line.split_once("  ").unwrap_or((line.trim_end_matches(' '), ""));
    let is_entry = is_hex(sum) && (name.is_empty() || is_inside(name));
    let seal = line.strip_prefix(SEAL);
    let is_seal = SEAL.starts_with(line) || seal.is_some_and(|sum| sum.len() <= 64 && is_hex(sum));
    !line.ends_with('\n') && (is_entry || is_seal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_count_as_lost_up_to_the_end_of_a_sector() {
        assert_eq!(before_zeros(b"abc"), b"abc");
        assert_eq!(before_zeros(b"abc\0\0"), b"abc");
        assert_eq!(before_zeros(b"\0"), b"");
        // One zero in the middle of a line is no gap.
        assert_eq!(before_zeros(b"a\0c\n"), b"a\0c\n");
        let mut gap = b"abc".to_vec();
        gap.resize(SECTOR, 0);
        gap.extend(b"what the next sector has\n");
        assert_eq!(before_zeros(&gap), b"abc");
        gap[SECTOR - 1] = 1;
        assert_eq!(before_zeros(&gap), gap);
    }
}
