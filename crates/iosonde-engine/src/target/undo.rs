//! Saves the metadata of a device's content before the first write, and restores it.
//!
//! Both ends of the device and the surroundings of each signature found are saved. Restoring them
//! passes the gate: the device must be the same and not in use, consent must name it, and at their
//! places there must be no newer data of others.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use iosonde_model::content::is_ours_or_zero;
use iosonde_model::record::checksums::checksum;
use iosonde_model::record::undo::{Piece, Signature, UNDO_SCHEMA, Undo};
use rustix::fs::fsync;
use rustix::io::{pread, pwrite};

use super::contents::{EDGE_BYTES, Foreign};
use super::gate::{self, Consent, Report};
use super::ranges::Ranges;
use super::{Direct, TargetError};
use crate::host::{self, Identity, Root};

/// Size of the aligned unit that is saved around a signature, bytes: larger than any superblock.
const UNIT_BYTES: u64 = 64 << 10;
/// Unit of the comparison with the current content, bytes.
const BLOCK_BYTES: usize = 4096;

/// Saved content of a device.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The device, and the list of its saved pieces.
    pub undo: Undo,
    /// The bytes of all pieces.
    pub bytes: Vec<u8>,
}

/// Why the content was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The files do not belong together, or were altered.
    #[error("what was saved of `{path}` is damaged ({what}); nothing was written")]
    Damaged { path: String, what: String },
    /// The device is not connected.
    #[error(
        "found no block device with the identity {id} and {bytes} B, which `{path}` had; connect \
         it; nothing was written"
    )]
    Absent {
        /// Its path when it was saved.
        path: String,
        id: String,
        bytes: u64,
    },
    /// A device without a lasting identity may be another one.
    #[error(
        "`{path}` has no serial number, and was reconnected since (disk sequence {found}, \
         expected {expected}): it may be another device; nothing was written"
    )]
    Reconnected {
        path: PathBuf,
        /// Its disk sequence now.
        found: u64,
        /// Its disk sequence when it was saved.
        expected: u64,
    },
    /// Others have written there since.
    #[error(
        "`{path}` holds newer data ({found}), which this program did not write; putting back what \
         was there before would destroy it. If that is meant, add --overwrite-signature={word}",
        word = super::signature::UNKNOWN
    )]
    Newer { path: PathBuf, found: Foreign },
    /// The gate refuses, or the device fails.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Result of a restore.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The device node.
    pub path: PathBuf,
    /// How much was written, bytes.
    pub bytes: u64,
}

impl Saved {
    /// Reads the content to save; `None` if nothing was found on the device.
    pub(super) fn of(device: &OwnedFd, report: &Report) -> io::Result<Option<Saved>> {
        if report.findings.is_empty() {
            return Ok(None);
        }
        let who = &report.identity;
        let mut ranges = Ranges::default();
        ranges.insert(0..EDGE_BYTES.min(who.bytes));
        ranges.insert(who.bytes.saturating_sub(EDGE_BYTES)..who.bytes);
        for mark in &report.contents.marks {
            let start = mark.offset / UNIT_BYTES * UNIT_BYTES;
            ranges.insert(start..(start + UNIT_BYTES).min(who.bytes));
        }
        let mut saved = Saved {
            undo: Undo {
                schema: UNDO_SCHEMA.into(),
                path: report.path.to_string_lossy().into_owned(),
                id: who.id.clone(),
                name: who.name.clone(),
                model: who.model.clone(),
                bytes: who.bytes,
                disk_sequence: who.sequence,
                ..Undo::default()
            },
            bytes: Vec::new(),
        };
        let signature = |mark: &super::signature::Finding| Signature {
            kind: mark.kind.into(),
            offset: mark.offset,
        };
        saved.undo.signatures = report.contents.marks.iter().map(signature).collect();
        for range in ranges.all() {
            let from = saved.bytes.len();
            saved.bytes.resize(from + (range.end - range.start) as usize, 0);
            read_whole(device, &mut saved.bytes[from..], range.start)?;
            saved.undo.pieces.push(Piece {
                offset: range.start,
                length: range.end - range.start,
                sha256: checksum(&saved.bytes[from..]),
            });
        }
        Ok(Some(saved))
    }

    /// Each piece with its bytes.
    ///
    /// # Errors
    /// If the bytes are not those that were saved.
    fn pieces(&self) -> Result<Vec<(u64, &[u8])>, RestoreError> {
        let damaged = |what: String| RestoreError::Damaged { path: self.undo.path.clone(), what };
        if self.undo.schema != UNDO_SCHEMA {
            return Err(damaged(format!("schema: found `{}`", self.undo.schema)));
        }
        let mut rest = self.bytes.as_slice();
        let mut pieces = Vec::new();
        for piece in &self.undo.pieces {
            let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
            let (bytes, others) = rest
                .split_at_checked(length)
                .ok_or_else(|| damaged(format!("it ends before offset {}", piece.offset)))?;
            let end = piece.offset.checked_add(piece.length);
            if end.is_none_or(|end| end > self.undo.bytes) || checksum(bytes) != piece.sha256 {
                return Err(damaged(format!("SHA-256 of the piece at offset {}", piece.offset)));
            }
            pieces.push((piece.offset, bytes));
            rest = others;
        }
        Ok(pieces)
    }

    /// Writes the pieces back and verifies them by reading.
    ///
    /// # Errors
    /// If the bytes are damaged, the device is absent, another one, in use or refused by the gate,
    /// or holds something newer.
    pub fn restore(
        &self,
        root: &Root,
        consent: Consent<'_>,
        results: Option<&Path>,
    ) -> Result<Restored, RestoreError> {
        let pieces = self.pieces()?;
        let path = self.device(root)?;
        let held = gate::pass(root, &path, consent, results, Direct::Never, None)?;
        let failed = |what: &'static str| {
            let path = path.clone();
            move |error: io::Error| TargetError::System { what, path: path.clone(), error }
        };
        let overwrites = consent.overwrite_signature.iter().any(|w| w == super::signature::UNKNOWN);
        let mut now = Vec::new();
        for (offset, bytes) in &pieces {
            now.resize(bytes.len(), 0);
            read_whole(&held.file, &mut now, *offset).map_err(failed("read"))?;
            if let Some(found) = newer(&now, bytes, *offset).filter(|_| !overwrites) {
                return Err(RestoreError::Newer { path, found });
            }
        }
        let mut written = 0;
        for (offset, bytes) in &pieces {
            write_whole(&held.file, bytes, *offset).map_err(failed("write"))?;
            written += bytes.len() as u64;
        }
        fsync(&held.file).map_err(|error| failed("sync")(error.into()))?;
        super::held::drop_cache(&held.file);
        for (offset, bytes) in &pieces {
            now.resize(bytes.len(), 0);
            read_whole(&held.file, &mut now, *offset).map_err(failed("read"))?;
            if now != *bytes {
                let error = io::Error::other(format!("other bytes came back at offset {offset}"));
                return Err(failed("verify")(error).into());
            }
        }
        Ok(Restored { path, bytes: written })
    }

    /// The node of the same device, under whatever name it has now.
    fn device(&self, root: &Root) -> Result<PathBuf, RestoreError> {
        let undo = &self.undo;
        let names = std::iter::once(undo.name.clone()).chain(root.names("/sys/class/block"));
        let nodes = names.map(|name| Path::new("/dev").join(name.replace('!', "/")));
        let mut nodes = std::iter::once(PathBuf::from(&undo.path)).chain(nodes);
        let found = nodes.find_map(|node| {
            let (major, minor) = root.node(&node)?;
            let who = host::identity(root, major, minor)?;
            ((&who.id, who.bytes) == (&undo.id, undo.bytes)).then_some((node, who))
        });
        let Some((node, who)) = found else {
            let (path, id) = (undo.path.clone(), undo.id.clone());
            return Err(RestoreError::Absent { path, id, bytes: undo.bytes });
        };
        if let (true, Some(found), Some(expected)) =
            (is_fleeting(&who), who.sequence, undo.disk_sequence)
            && found != expected
        {
            return Err(RestoreError::Reconnected { path: node, found, expected });
        }
        Ok(node)
    }
}

/// Whether an identity consists of name and size only.
fn is_fleeting(who: &Identity) -> bool {
    who.id.split("-part").next().is_some_and(|id| {
        id.split_once(':').is_some_and(|(name, bytes)| {
            who.name.starts_with(name) && bytes.chars().all(|digit| digit.is_ascii_digit())
        })
    })
}

/// The first block that is neither as saved, nor zero, nor written by this program.
fn newer(now: &[u8], saved: &[u8], offset: u64) -> Option<Foreign> {
    let blocks = now.chunks(BLOCK_BYTES).zip(saved.chunks(BLOCK_BYTES));
    let mut blocks = (offset..).step_by(BLOCK_BYTES).zip(blocks);
    let is_newer = |now: &[u8], saved: &[u8]| now != saved && !is_ours_or_zero(now);
    let (offset, (now, _)) = blocks.find(|(_, (now, saved))| is_newer(now, saved))?;
    Some(Foreign::of(now, offset))
}

fn read_whole(file: &OwnedFd, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        let read = pread(file, &mut *into, offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        into = &mut into[read..];
        offset += read as u64;
    }
    Ok(())
}

fn write_whole(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn saved() -> Saved {
        let bytes = vec![7; 8192];
        let piece = Piece { offset: 4096, length: 8192, sha256: checksum(&bytes) };
        let undo = Undo {
            schema: UNDO_SCHEMA.into(),
            bytes: 1 << 20,
            pieces: vec![piece],
            ..Undo::default()
        };
        Saved { undo, bytes }
    }

    #[test]
    fn every_alteration_of_what_was_saved_is_noticed() {
        assert_eq!(saved().pieces().unwrap(), [(4096, &[7; 8192][..])]);
        let alter = |alter: fn(&mut Saved)| {
            let mut saved = saved();
            alter(&mut saved);
            saved.pieces().unwrap_err().to_string()
        };
        assert!(alter(|saved| saved.bytes[5000] ^= 1).contains("offset 4096"));
        assert!(alter(|saved| saved.bytes.truncate(8191)).contains("it ends before"));
        assert!(alter(|saved| saved.undo.bytes = 12_287).contains("offset 4096"));
        assert!(alter(|saved| saved.undo.schema.clear()).contains("schema"));
    }

    #[test]
    fn only_what_somebody_else_wrote_since_is_newer() {
        let saved = [7; 8192];
        let mut now = saved;
        now[..4096].fill(0);
        assert_eq!(newer(&now, &saved, 0), None, "zeros, and what was there");
        now[4100] = 8;
        assert_eq!(newer(&now, &saved, 1 << 20).unwrap().offset, (1 << 20) + 4096);
    }

    #[test]
    fn a_name_with_a_size_does_not_last() {
        let who = |id: &str, name: &str| Identity {
            id: id.into(),
            name: name.into(),
            model: None,
            bytes: 1,
            read_only: false,
            sequence: None,
        };
        assert!(is_fleeting(&who("zram0:1048576", "zram0")));
        assert!(is_fleeting(&who("sdb:1048576-part1", "sdb1")));
        assert!(!is_fleeting(&who("S4EVNX0M", "sdb")));
        assert!(!is_fleeting(&who("/srv/a.img", "loop0")));
    }
}
