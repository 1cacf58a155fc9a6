//! A part of a region for each of several hosts: `--share 2/4`.

use super::exit::{Failure, wrong};
use super::words::unfit;

/// Parts begin at multiples of this, bytes: the largest physical block of a disk.
const GRAIN_BYTES: u64 = 4096;

/// A part of a region, and the number of parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    /// From 1.
    part: u64,
    parts: u64,
}

impl Share {
    /// `2/4` is the second of four parts; `None` is the whole region.
    ///
    /// # Errors
    /// If the text is not a valid part.
    pub(crate) fn parse(text: Option<&str>) -> Result<Share, Failure> {
        let Some(text) = text else { return Ok(Share { part: 1, parts: 1 }) };
        let numbers = text.split_once('/').map(|(part, parts)| (part.parse(), parts.parse()));
        match numbers {
            Some((Ok(part), Ok(parts))) if (1..=parts).contains(&part) => Ok(Share { part, parts }),
            _ => Err(unfit("--share", text, "a part and the number of parts, such as 2/4")),
        }
    }

    /// Whether this is the whole region.
    pub(crate) fn is_whole(self) -> bool {
        self.parts == 1
    }

    /// First byte and end of this part of a region, in whole blocks of this size.
    ///
    /// # Errors
    /// If the parts are smaller than a block.
    pub(crate) fn of(self, (offset, end): (u64, u64), block: u64) -> Result<(u64, u64), Failure> {
        if self.is_whole() {
            return Ok((offset, end));
        }
        let grain_bytes = block.max(GRAIN_BYTES);
        let length = (end - offset) / self.parts / grain_bytes * grain_bytes;
        if length == 0 {
            return Err(wrong(format!(
                "--share: found {} parts of {} B, expected parts of at least {grain_bytes} B",
                self.parts,
                end - offset
            )));
        }
        let first = offset + (self.part - 1) * length;
        Ok((first, first + length))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn parts_are_equal_and_lie_side_by_side() {
        let of = |text: &str, block| Share::parse(Some(text)).unwrap().of((8192, 1 << 20), block);
        let parts: Vec<(u64, u64)> =
            (1..=3).map(|part| of(&format!("{part}/3"), 512).unwrap()).collect();
        assert_eq!(parts[0].0, 8192);
        assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0) && parts[2].1 <= 1 << 20);
        assert!(parts.iter().all(|(first, end)| (end - first) % 4096 == 0 && end > first));
        assert_eq!(Share::parse(None).unwrap().of((5, 9), 512).unwrap(), (5, 9));
        assert!(of("1/2", 1 << 20).unwrap_err().message.contains("at least 1048576 B"));
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "2", "0/4", "5/4", "a/b", "1/0", "-1/2", "1/2/3"] {
            let failure = Share::parse(Some(text)).unwrap_err();
            assert!(failure.message.contains("such as 2/4"), "{}", failure.message);
        }
    }
}
