//! Refuses to verify data that this program did not write: such data is not damaged.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Ready;
use crate::cli::exit::{Exit, Failure, environment};
use iosonde_model::content::{Filler, is_ours_or_zero, is_zero};
use iosonde_model::plan::{EngineKind, Job};
use iosonde_model::spec::fio::Asking;

/// Number of sampled blocks, evenly spread, and their length, bytes.
const SAMPLES: u64 = 64;
const BLOCK_BYTES: u64 = 4096;
/// Unit with its own content, bytes.
const SECTOR_BYTES: u64 = 512;

/// Content of the sampled blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Content {
    /// Only zeros, or some data that the job writes: the comparison decides.
    Expected,
    /// Data of this program that the job does not write.
    OfAnotherSeed,
    /// Data of other programs.
    Foreign,
}

/// Refuses to compare data that no run of these jobs wrote.
pub(super) fn check(groups: &[Ready], askings: &[Asking]) -> Result<(), Failure> {
    let is_written = |path: &str| askings.iter().any(|asking| asking.writes_to(path));
    let mut seen = BTreeSet::new();
    for (ready, asking) in groups.iter().zip(askings) {
        if !ready.plan.engine.kind.is_real() || ready.plan.engine.kind == EngineKind::IoUringCmd {
            continue;
        }
        // Any program may have written a pattern.
        let compares = |job: &&Job| {
            let is_read = job.compares() || asking.verifies_only();
            job.data.checked && job.data.pattern.is_empty() && is_read
        };
        for job in ready.plan.jobs.iter().filter(compares) {
            for (index, target) in (0..).zip(&ready.plan.targets) {
                let uses = job.targets.is_empty() || job.targets.contains(&index);
                let is_made = ready.fresh.contains(&index) || is_written(&target.path);
                if uses && !is_made && seen.insert((&target.path, job.region_start)) {
                    let filler = Filler::new(ready.plan.seed, job);
                    refuse(&target.path, content(&target.path, job, &filler))?;
                }
            }
        }
    }
    Ok(())
}

fn refuse(path: &str, content: io::Result<Content>) -> Result<(), Failure> {
    let what = match content {
        Ok(Content::Expected) => return Ok(()),
        Ok(Content::OfAnotherSeed) => {
            "was written by iosonde with another randseed or without verify; give the options of \
             the run that wrote it"
        }
        Ok(Content::Foreign) => {
            "was not written by iosonde; verify what fio wrote with fio, or write it here first"
        }
        Err(error) => {
            return Err(environment(format!("`{path}` cannot be read before the run: {error}")));
        }
    };
    let message = format!("`{path}` cannot be verified: what it holds {what}");
    Err(Failure::new(Exit::Inconclusive, message))
}

/// Content of the part of a target that a job reads.
fn content(path: &str, job: &Job, filler: &Filler) -> io::Result<Content> {
    let file = File::open(path)?;
    let blocks = (job.region_bytes / BLOCK_BYTES).max(1);
    let first = job.region_start / BLOCK_BYTES;
    let samples = SAMPLES.min(blocks);
    let (mut any_ours, mut any_foreign) = (false, false);
    let mut block = vec![0; BLOCK_BYTES as usize];
    for sample in 0..samples {
        let offset = (first + sample * (blocks / samples)) * BLOCK_BYTES;
        let read = file.read_at(&mut block, offset)?;
        let sectors = block[..read].chunks_exact(SECTOR_BYTES as usize);
        for (at, sector) in (0..).zip(sectors).filter(|(_, sector)| !is_zero(sector)) {
            if filler.holds(sector, offset + at * SECTOR_BYTES) {
                return Ok(Content::Expected);
            }
            any_foreign = true;
            any_ours |= is_ours_or_zero(sector);
        }
    }
    Ok(match (any_foreign, any_ours) {
        (false, _) => Content::Expected,
        (true, true) => Content::OfAnotherSeed,
        (true, false) => Content::Foreign,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::spec::Data;

    #[test]
    fn data_of_others_and_of_another_seed_is_no_damage() {
        let data = Data { checked: true, ..Data::default() };
        let job = Job { data, region_bytes: 64 << 10, ..Job::default() };
        let filler = Filler::new(7, &job);
        let mut written = vec![0; 64 << 10];
        filler.clone().refresh(&mut written, 0);
        let mut damaged = written.clone();
        damaged[..8192].fill(9);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.img");
        let path = path.to_str().unwrap();
        for (bytes, seed, expected) in [
            (written.clone(), 7, Content::Expected),
            (damaged, 7, Content::Expected),
            (vec![0; 64 << 10], 7, Content::Expected),
            (written, 8, Content::OfAnotherSeed),
            (vec![9; 64 << 10], 7, Content::Foreign),
        ] {
            std::fs::write(path, &bytes).unwrap();
            assert_eq!(content(path, &job, &Filler::new(seed, &job)).unwrap(), expected);
        }
    }
}
