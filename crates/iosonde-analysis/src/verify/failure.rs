//! Details of a failure: what is wrong, where, what was expected, what was found, and since when.

use serde::Serialize;

use super::replay::{OpDetails, Past, author, details as op_details, pasts};
use super::{reported, reproducer};
use iosonde_model::content::block::RunId;
use iosonde_model::content::classify::{Class, Sector, Stray};
use iosonde_model::content::damage::Damage;
use iosonde_model::plan::VerifyMode;
use iosonde_model::record::store::utc;
use iosonde_model::record::verify::{Failure, Reread, VerifyRun};
use iosonde_model::units::count::thousands;

/// One block with unexpected content.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailureDetails {
    /// Kind of failure.
    pub class: Class,
    /// The failure as a sentence, with its figures.
    pub words: String,
    /// First byte of the block on the target.
    pub offset: u64,
    /// Length of the block, bytes.
    pub bytes: u64,
    /// Number of the block within its job's part.
    pub block: u64,
    /// Job that owns the block.
    pub job: u16,
    /// The expected content.
    pub expected: Expected,
    /// Content of the block's header, if it has a valid one.
    pub found: Option<Found>,
    /// Number of the operation that read the block; `None` for the final read back.
    pub read_by_op: Option<u64>,
    /// Operations of the job that were submitted by then.
    pub after_ops: u64,
    /// Time of the read, ns since 1970.
    pub seen_unix_ns: u64,
    /// Earliest time at which the block can have become wrong, as a sentence.
    pub since: String,
    /// The operation of the job directly before the one that wrote the expected content.
    pub before: Option<OpDetails>,
    /// The operation of the job directly after that one.
    pub after: Option<OpDetails>,
    /// The last operations on the block.
    pub touches: Vec<OpDetails>,
    /// The block's sectors in order, if they differ.
    pub sectors: Vec<SectorText>,
    /// The difference from the expected content, if bits differ.
    pub damage: Option<Damage>,
    /// The result of a second read.
    pub reread: Reread,
    /// The result of the second read as a sentence.
    pub reread_words: String,
    /// Whether the stored block is right and the read was wrong.
    pub transient: bool,
    /// A command line that reproduces the failure.
    pub reproducer: String,
}

/// The expected content of a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Lowest allowed generation; 0 if no data of this run was required.
    pub low: u32,
    /// Highest allowed generation.
    pub high: u32,
    /// The last generation that a flush made durable.
    pub durable: u32,
    /// As a sentence.
    pub words: String,
    /// The operation that wrote or trimmed the lowest generation.
    pub wrote: Option<OpDetails>,
    /// Operations of the first few further generations.
    pub pending: Vec<OpDetails>,
}

/// The content of a block's header.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub offset: u64,
    pub generation: u32,
    /// The job that wrote it.
    pub writer: u16,
    /// Number of the operation in that job.
    pub op: u64,
    /// When it was written, ns since 1970.
    pub written_unix_ns: u64,
    /// The run that wrote it, if it was another run.
    pub run: Option<RunId>,
    /// As a sentence.
    pub words: String,
}

/// A sequence of equal sectors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SectorText {
    /// First sector of the block.
    pub first: u32,
    /// Number of sectors.
    pub count: u32,
    /// Content of the sectors.
    pub words: String,
}

/// Describes the failures of a run that are recorded in detail.
pub(super) fn details_of(run: &VerifyRun, words: &[String]) -> Vec<FailureDetails> {
    let failures: Vec<&Failure> = reported(run).collect();
    let pasts = pasts(run, &failures);
    failures.iter().zip(&pasts).map(|(failure, past)| details(run, failure, past, words)).collect()
}

fn details(run: &VerifyRun, failure: &Failure, past: &Past, words: &[String]) -> FailureDetails {
    let author = author(run, failure);
    let one = |touch| op_details(run, author, touch);
    let sectors = failure.misfit.sectors.iter().map(|(first, count, sector)| SectorText {
        first: *first,
        count: *count,
        words: sector_text(*sector),
    });
    let expected = Expected {
        low: failure.low,
        high: failure.high,
        durable: failure.durable,
        wrote: past.wrote.map(one),
        pending: past.pending.iter().copied().map(one).collect(),
        words: String::new(),
    };
    let expected = Expected { words: expected_text(run, failure, &expected), ..expected };
    FailureDetails {
        class: failure.misfit.class,
        words: class_text(failure, &expected),
        offset: failure.offset,
        bytes: run.plan.block_bytes.into(),
        block: failure.block,
        job: failure.owner,
        found: found(run, failure),
        read_by_op: failure.op,
        after_ops: failure.after_ops,
        seen_unix_ns: failure.seen_unix_ns,
        since: since(run, failure, past, &expected),
        before: past.before.map(one),
        after: past.after.map(one),
        touches: past.touches.iter().copied().map(one).collect(),
        sectors: sectors.collect(),
        damage: failure.misfit.damage.clone(),
        reread: failure.reread,
        reread_words: reread_words(failure.reread).into(),
        transient: failure.reread == Reread::Right,
        reproducer: reproducer::line(run, failure, past, words),
        expected,
    }
}

fn class_text(failure: &Failure, expected: &Expected) -> String {
    let misfit = &failure.misfit;
    let (low, high) = (failure.low, failure.high);
    let generation = misfit.label.map_or(0, |label| label.generation);
    let trimmed = expected.wrote.as_ref().is_some_and(|wrote| wrote.way == "trim");
    let what = match misfit.class {
        Class::Stale if trimmed => format!(
            "generation {generation} is still there, although the trim (change {low}) was \
             acknowledged"
        ),
        Class::Stale => {
            format!("generation {generation} instead of {low}: an acknowledged write is missing")
        }
        Class::Lost => format!("zeros instead of generation {low}"),
        Class::OldRun => match low {
            0 => "a block of another run, which does not belong here".into(),
            _ => format!(
                "a block of another run: generation {low}, which this run wrote, is missing"
            ),
        },
        Class::Misdirected => match misfit.label {
            Some(label) if label.offset != failure.offset => {
                format!("contains the block that belongs at offset {}", thousands(label.offset))
            }
            _ => match misfit.stray {
                Some(Stray { at, offset, index }) => format!(
                    "sector {at} is sector {index} of the block that belongs at offset {}",
                    thousands(offset)
                ),
                None => "contains sectors of a block that belongs elsewhere".into(),
            },
        },
        Class::Phantom => format!(
            "generation {generation}, but the last one written is {high}: the verifier or its \
             ledger is wrong, or the data was forged"
        ),
        Class::Torn => "sectors of different writes are mixed in one block".into(),
        Class::Swapped => "sectors of it are swapped".into(),
        Class::Duplicated => "sectors of it are duplicated in place of others".into(),
        Class::Shifted => "a range of sectors is shifted".into(),
        Class::BitFlip | Class::Corrupt => {
            misfit.damage.as_ref().map_or_else(|| "part of the block differs".into(), damage_text)
        }
        Class::Garbage => "none of the written data can be recognised".into(),
        Class::Unread => "the read was acknowledged but transferred nothing into the buffer".into(),
    };
    format!("{}: {what}", misfit.class.word())
}

fn damage_text(damage: &Damage) -> String {
    let Damage { bits, generation, first_byte, span_bytes, .. } = damage;
    let plural = if *bits == 1 { "bit differs" } else { "bits differ" };
    let shown = damage.positions.len() as u64 == *bits && *bits <= 8;
    let place = match shown {
        true => {
            let each = damage.positions.iter();
            let each = each.map(|bit| format!("byte {} bit {}", bit / 8, bit % 8));
            each.collect::<Vec<_>>().join(", ")
        }
        false => {
            let aligned = 1 << first_byte.trailing_zeros().min(12);
            format!("{span_bytes} bytes from byte {first_byte} on (aligned to {aligned})")
        }
    };
    format!("{} {plural} from generation {generation}: {place}", thousands(*bits))
}

fn expected_text(run: &VerifyRun, failure: &Failure, expected: &Expected) -> String {
    let Failure { low, high, .. } = *failure;
    let by = expected.wrote.as_ref();
    let by = by.map_or(String::new(), |by| format!(", {} of {}", by.way, op_words(by)));
    let unlimited = high >= iosonde_model::content::block::MAX_GENERATION;
    let further = match (high > low, unlimited) {
        (false, _) => String::new(),
        (true, true) => "; or any later one: the number of submitted writes is not known".into(),
        (true, false) if run.plan.overlaps() => {
            "; or the data that another job wrote there at the same time".into()
        }
        (true, false) => {
            let each = expected.pending.iter().map(op_words).collect::<Vec<_>>();
            let colon = if each.is_empty() { "" } else { ": " };
            let listed = format!("{colon}{}", each.join(", "));
            format!("; or up to generation {high}, which was in flight{listed}")
        }
    };
    let durable = match (failure.durable, run.plan.mode) {
        (_, VerifyMode::Pipeline) | (0, _) => String::new(),
        (durable, _) if durable >= low => ", made durable by a flush".into(),
        (durable, _) => format!(" (a flush made generation {durable} durable)"),
    };
    match low {
        0 if high == 0 && run.plan.begins_as_zeros => {
            "zeros: the file was made for this run, and the block was never written".into()
        }
        0 if high == 0 => "no data of this run: the block was never written".into(),
        0 => format!("the previous content{further}"),
        _ => format!("generation {low}{by}{durable}{further}"),
    }
}

/// An operation with its number in the stream and its time.
fn op_words(op: &OpDetails) -> String {
    let time = op.between_unix_ns.map_or_else(String::new, |(from, to)| {
        format!(", submitted between {} and {}", instant(from), instant(to))
    });
    format!("operation {} of job {}{time}", op.op, op.job)
}

fn found(run: &VerifyRun, failure: &Failure) -> Option<Found> {
    let label = failure.misfit.label?;
    let other = failure.misfit.run;
    let damaged = matches!(failure.misfit.class, Class::BitFlip | Class::Corrupt);
    let offset = thousands(label.offset);
    let place = match (label.offset == failure.offset, place_of(run, label.offset)) {
        (true, _) => String::new(),
        (false, Some((job, block))) if other.is_none() => {
            format!(", which belongs at offset {offset} (block {block} of job {job})")
        }
        (false, _) => format!(", which belongs at offset {offset}"),
    };
    let of_run = other.map_or_else(String::new, |run| format!(" of run {run}"));
    let words = format!(
        "{}generation {}{place}, written by operation {} of job {}{of_run} at {}",
        if damaged { "by its header (which may be damaged): " } else { "" },
        label.generation,
        label.sequence,
        label.writer,
        instant(label.time_ns),
    );
    Some(Found {
        offset: label.offset,
        generation: label.generation,
        writer: label.writer,
        op: label.sequence,
        written_unix_ns: label.time_ns,
        run: other,
        words,
    })
}

/// The job and its block at an offset.
fn place_of(run: &VerifyRun, offset: u64) -> Option<(usize, u64)> {
    let jobs = run.plan.plan.jobs.iter().enumerate();
    jobs.filter(|(_, job)| offset >= job.region_start)
        .map(|(index, job)| (index, offset - job.region_start, job.region_bytes))
        .find(|(_, within, bytes)| within < bytes)
        .map(|(index, within, _)| (index, within / u64::from(run.plan.block_bytes)))
}

/// Earliest time at which the block can have become wrong: its last correct read, or its write.
fn since(run: &VerifyRun, failure: &Failure, past: &Past, expected: &Expected) -> String {
    let seen = match failure.op {
        Some(op) => format!("{} (operation {op} read it)", instant(failure.seen_unix_ns)),
        None => format!("{} (everything was read back)", instant(failure.seen_unix_ns)),
    };
    if failure.reread == Reread::Right {
        return format!("only the read at {seen} was wrong; the stored data is right");
    }
    let wrote = past.wrote.map_or(0, |(op, _)| op.index);
    let own = !matches!(run.plan.mode, VerifyMode::Check | VerifyMode::Pipeline);
    let errors =
        run.jobs.get(usize::from(failure.owner)).is_none_or(|job| job.unreadable_blocks > 0);
    let right = past.last_read.filter(|read| own && !errors && read.index > wrote);
    match (right, &expected.wrote) {
        (Some(read), _) => {
            let read = op_details(run, failure.owner, (read, None));
            format!("it was right when {} read it, and wrong at {seen}", op_words(&read))
        }
        (None, Some(wrote)) => {
            format!("at any time from {} on; first seen at {seen}", op_words(wrote))
        }
        (None, None) => format!("not known; first seen at {seen}"),
    }
}

fn reread_words(reread: Reread) -> &'static str {
    match reread {
        Reread::None => "there was no second read",
        Reread::Same => "a second read returned the same",
        Reread::Right => {
            "a second read returned the expected data: the stored block is right, the first read \
             was wrong"
        }
        Reread::Other => "a second read returned different wrong data",
    }
}

fn sector_text(sector: Sector) -> String {
    match sector {
        Sector::Ours(generation) => format!("generation {generation}"),
        Sector::Moved(by) => {
            let (count, which) = (by.unsigned_abs(), if by > 0 { "further on" } else { "before" });
            let plural = if count == 1 { "sector" } else { "sectors" };
            format!("of this block: belongs {count} {plural} {which}")
        }
        Sector::Elsewhere => "belongs elsewhere".into(),
        Sector::OldRun => "another run".into(),
        Sector::Unread => "the read did not fill it".into(),
        Sector::Zeros => "zeros".into(),
        Sector::Damaged => "damaged: its checksum is wrong".into(),
    }
}

/// `20261120T104500.123Z`.
fn instant(unix_ns: u64) -> String {
    let seconds = utc(unix_ns);
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), unix_ns / 1_000_000 % 1000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::verify::{STARTED, check_of, fail_with, failure, soak, stale};
    use iosonde_model::content::block::Label;
    use iosonde_model::plan::{IoKind, VerifyStream};

    fn details_of_failure(failure: Failure) -> FailureDetails {
        let mut run = soak();
        fail_with(&mut run, failure);
        details_of(&run, &[]).pop().unwrap()
    }

    #[test]
    fn a_stale_block_is_reported_with_both_writes_and_its_time() {
        let details = details_of_failure(stale());
        let start = "stale: generation 1 instead of 2: an acknowledged write is missing";
        assert_eq!(details.words, start);
        let wrote = details.expected.wrote.clone().unwrap();
        assert_eq!(wrote.generation, Some(2));
        let words = &details.expected.words;
        assert!(words.starts_with("generation 2, write of operation"), "{words}");
        assert!(words.contains("made durable by a flush"), "{words}");
        assert!(words.contains("submitted between 20231114T221320.000Z"), "{words}");
        let found = details.found.unwrap();
        assert_eq!((found.generation, found.op, found.run), (1, 31, None));
        let expected = "generation 1, written by operation 31 of job 0 at 20231114T221320.100Z";
        assert_eq!(found.words, expected);
        assert_eq!(
            (details.before.unwrap().op + 1, details.after.unwrap().op - 1),
            (wrote.op, wrote.op)
        );
        assert!(details.touches.iter().any(|op| op.way == "read" || op.generation.is_some()));
        assert!(details.reproducer.contains("--only-job 0"));
    }

    #[test]
    fn a_read_after_the_write_narrows_the_time() {
        let run = soak();
        let touching = VerifyStream::new(&run.plan, 0).take(500).filter(|op| op.touches(2));
        let touching: Vec<_> = touching.collect();
        let read = touching.iter().rfind(|op| op.way == IoKind::Read).unwrap();
        let writes = touching.iter().filter(|op| op.way == IoKind::Write && op.index < read.index);
        let generation = writes.count() as u32;
        let seen_after = read.index + 1;
        let failure =
            Failure { low: generation, high: generation, after_ops: seen_after, ..stale() };
        let details = details_of_failure(failure.clone());
        let expected = format!("it was right when operation {} of job 0", read.index);
        assert!(details.since.starts_with(&expected), "{}", details.since);
        // The read that saw the failure is not a correct read.
        let details = details_of_failure(Failure { op: Some(read.index), ..failure });
        assert!(!details.since.contains(&expected), "{}", details.since);
        assert!(details.since.contains(&format!("operation {} read it", read.index)));
    }

    #[test]
    fn a_wrong_read_of_what_is_right_is_reported_as_such() {
        let details = details_of_failure(Failure { reread: Reread::Right, ..stale() });
        assert!(details.transient && details.since.contains("the stored data is right"));
        assert!(details.reread_words.contains("the first read was wrong"));
        assert!(!details_of_failure(stale()).transient);
    }

    #[test]
    fn what_belongs_elsewhere_is_reported_with_its_place() {
        let mut failure = failure(Class::Misdirected);
        let label =
            Label { offset: 532_480, generation: 3, writer: 1, sequence: 9, time_ns: STARTED };
        failure.misfit.label = Some(label);
        let details = details_of_failure(failure);
        assert_eq!(details.words, "misdirected: contains the block that belongs at offset 532,480");
        let words = details.found.unwrap().words;
        assert!(words.contains("offset 532,480 (block 2 of job 1)"), "{words}");
    }

    #[test]
    fn damage_is_reported_bit_by_bit_or_by_its_span() {
        let damage = Damage {
            generation: 2,
            bits: 2,
            positions: vec![8003, 8010],
            first_byte: 1000,
            span_bytes: 2,
            ..Damage::default()
        };
        let mut flipped = failure(Class::BitFlip);
        flipped.misfit.damage = Some(damage.clone());
        let expected =
            "bit-flip: 2 bits differ from generation 2: byte 1000 bit 3, byte 1001 bit 2";
        assert_eq!(details_of_failure(flipped).words, expected);
        let mut corrupt = failure(Class::Corrupt);
        let damage = Damage { bits: 300, first_byte: 1024, span_bytes: 64, ..damage };
        corrupt.misfit.damage = Some(damage);
        let words = details_of_failure(corrupt).words;
        assert!(words.ends_with("64 bytes from byte 1024 on (aligned to 1024)"), "{words}");
    }

    #[test]
    fn every_class_and_every_sector_has_words() {
        for class in Class::ALL {
            let words = details_of_failure(failure(class)).words;
            assert!(words.starts_with(class.word()) && words.len() > class.word().len() + 10);
        }
        let mut torn = failure(Class::Torn);
        torn.misfit.sectors = vec![(0, 3, Sector::Ours(2)), (3, 5, Sector::Zeros)];
        let details = details_of_failure(torn);
        assert_eq!(details.sectors[1], SectorText { first: 3, count: 5, words: "zeros".into() });
        assert_eq!(details.sectors[0].words, "generation 2");
    }

    #[test]
    fn what_was_under_way_is_reported_and_what_is_not_known_is_not_made_up() {
        let details = details_of_failure(Failure { low: 1, high: 2, durable: 0, ..stale() });
        let words = &details.expected.words;
        assert!(words.contains("or up to generation 2, which was in flight: operation"), "{words}");
        let details =
            details_of_failure(Failure { low: 0, high: 0, durable: 0, after_ops: 0, ..stale() });
        assert_eq!(details.expected.words, "no data of this run: the block was never written");
        assert!(details.since.starts_with("not known"));
        let run = check_of(&[Failure { low: 1, high: u32::MAX >> 1, ..stale() }]);
        let details = details_of(&run, &[]).pop().unwrap();
        assert!(details.expected.words.contains("is not known"), "{}", details.expected.words);
        assert!(details.expected.pending.is_empty());
    }
}
