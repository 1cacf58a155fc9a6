//! Every damaged form of the ledger is detected.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use super::format::{Layout, Note};
use super::*;
use crate::plan::chance::Chance;

const RUN: RunId = RunId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

fn header(jobs: u32) -> LedgerHeader {
    LedgerHeader {
        schema: LEDGER_SCHEMA.into(),
        program: "0.1.0".into(),
        run_id: RUN,
        stream_version: 3,
        jobs,
        block_bytes: 4096,
        sector_bytes: 512,
        target: "t.bin".into(),
        identity: None,
        target_bytes: 1 << 30,
        region_start: 1 << 20,
        region_bytes: 1 << 24,
        boot_id: Some("b".into()),
        created_unix_ns: 1_790_000_000_000_000_000,
        synced: false,
        plan: json!({"seed": u64::MAX, "exponent": 1.1, "name": "x"}),
    }
}

fn progress(submitted: u64, acked: u64, durable: u64) -> Progress {
    Progress { submitted, acked, durable, ended: false }
}

fn reader() -> Reader<'static> {
    Reader { stream_version: 3, boot_id: Some("b") }
}

fn read(path: &Path) -> Result<LedgerFile, LedgerError> {
    LedgerFile::read(path, &reader())
}

/// A ledger of two jobs in the middle of a run, with room for four failures and one in it.
fn in_the_middle(path: &Path) {
    let (_writer, mut jobs) = LedgerWriter::create_with_room(path, &header(2), 4).unwrap();
    jobs[0].note(progress(8, 0, 0)).unwrap();
    jobs[0].failed(3).unwrap();
    jobs[0].note(progress(16, 8, 0)).unwrap();
    jobs[1].note(progress(4, 0, 0)).unwrap();
    jobs[1].note(progress(9, 4, 4)).unwrap();
    jobs[1].note(progress(12, 9, 4)).unwrap();
}

#[test]
fn what_was_noted_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    in_the_middle(&path);
    assert!(fs::read(&path).unwrap().starts_with(b"iosonde.ledger/2\n\0"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ledger = read(&path).unwrap();
    assert_eq!(ledger.header, header(2));
    assert_eq!(ledger.notes, Vec::<String>::new());
    assert!(!ledger.ended());
    let failed = vec![3];
    let first = JobProgress { durable: 0, acked: 8, submitted: Some(16), ended: false, failed };
    let second =
        JobProgress { durable: 4, acked: 9, submitted: Some(12), ended: false, failed: vec![] };
    assert_eq!(ledger.jobs, [first, second]);
    assert_eq!(ledger.header.plan::<serde_json::Value>().unwrap()["seed"], u64::MAX);
    assert!(matches!(ledger.header.plan::<u32>(), Err(LedgerError::Damaged { .. })));
}

#[test]
fn a_run_that_ended_is_known_to_the_last_operation_on_any_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (writer, jobs) = LedgerWriter::create(&path, &header(3)).unwrap();
    for (n, mut job) in (1..).zip(jobs) {
        job.note(progress(n, 0, 0)).unwrap();
    }
    writer.finish(&[1, 2, 3].map(|n| Progress::ended(n, n))).unwrap();
    for boot_id in [Some("b"), Some("another"), None] {
        let ledger = LedgerFile::read(&path, &Reader { boot_id, ..reader() }).unwrap();
        assert!(ledger.ended() && ledger.notes.is_empty());
        assert_eq!(ledger.jobs[2].submitted, Some(3));
    }
}

#[test]
fn after_a_crash_only_what_was_synced_bounds_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    for (synced, bound) in [(false, None), (true, Some(5))] {
        let path = dir.path().join(format!("{synced}"));
        let header = LedgerHeader { synced, ..header(1) };
        let (_writer, mut jobs) = LedgerWriter::create(&path, &header).unwrap();
        jobs[0].note(progress(5, 2, 1)).unwrap();
        assert_eq!(read(&path).unwrap().jobs[0].submitted, Some(5), "only the program has ended");
        for boot_id in [Some("another"), None] {
            let ledger = LedgerFile::read(&path, &Reader { boot_id, ..reader() }).unwrap();
            assert_eq!(ledger.jobs[0].submitted, bound);
            assert_eq!((ledger.jobs[0].acked, ledger.jobs[0].durable), (2, 1));
            assert_eq!(ledger.notes.len(), usize::from(!synced));
        }
    }
    // Without a boot identity, no boot counts as the same one.
    let path = dir.path().join("unknown");
    LedgerWriter::create(&path, &LedgerHeader { boot_id: None, ..header(1) }).unwrap();
    let ledger = LedgerFile::read(&path, &Reader { boot_id: None, ..reader() }).unwrap();
    assert_eq!(ledger.jobs[0].submitted, None);
}

#[test]
fn no_name_that_is_taken_becomes_a_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("l"), dir.path().join("link"));
    fs::write(&path, "precious").unwrap();
    symlink(dir.path().join("elsewhere"), &link).unwrap();
    for taken in [&path, &link] {
        let error = LedgerWriter::create(taken, &header(1)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert!(!dir.path().join("elsewhere").exists());
}

#[test]
fn a_header_that_makes_no_sense_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    for wrong in [
        LedgerHeader { jobs: 0, ..header(1) },
        LedgerHeader { jobs: MAX_JOBS + 1, ..header(1) },
        LedgerHeader { block_bytes: 1000, ..header(1) },
        LedgerHeader { sector_bytes: 0, ..header(1) },
        LedgerHeader { region_bytes: 0, ..header(1) },
        LedgerHeader { region_start: u64::MAX, ..header(1) },
        LedgerHeader { region_bytes: 1 << 30, ..header(1) },
        LedgerHeader { schema: "x".into(), ..header(1) },
        LedgerHeader { target: "x".repeat(2 << 20), ..header(1) },
    ] {
        let error = LedgerWriter::create(&path, &wrong).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{wrong:?}");
        assert!(!path.exists());
    }
}

#[test]
fn counts_that_cannot_be_true_are_not_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(1), 2).unwrap();
    let job = &mut jobs[0];
    job.note(progress(9, 5, 3)).unwrap();
    for wrong in [progress(8, 5, 3), progress(9, 4, 3), progress(9, 5, 2), progress(9, 10, 3)] {
        job.note(wrong).unwrap_err();
    }
    job.note(Progress { ended: true, ..progress(9, 5, 3) }).unwrap_err();
    job.failed(8).unwrap();
    assert_eq!(job.noted(), progress(9, 5, 3));
    // An operation that was not announced, such as a read, is announced now.
    job.failed(11).unwrap();
    for _ in 0..3 {
        let error = job.failed(8).unwrap_err().to_string();
        assert!(error.contains("too many operations failed, the ledger holds 2"), "{error}");
    }
    assert_eq!(job.noted(), progress(12, 5, 3));
    let known = read(&path).unwrap().jobs.remove(0);
    assert_eq!((known.acked, known.submitted, known.failed), (5, Some(12), vec![8, 11]));
    drop(jobs);
    writer.finish(&[Progress::ended(12, 9)]).unwrap();
    assert!(read(&path).unwrap().ended());
}

#[test]
fn no_bit_flips_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    in_the_middle(&path);
    let whole = fs::read(&path).unwrap();
    let formatted = LedgerFile::parse(&whole, &reader()).unwrap();
    let mut survived = 0;
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(ledger) = LedgerFile::parse(&bytes, &reader()) else { continue };
        survived += 1;
        assert_eq!(ledger.notes.len(), 1, "bit {bit}");
        let mut unknown = 0;
        for (weaker, stronger) in ledger.jobs.iter().zip(&formatted.jobs) {
            assert!(weaker.acked <= stronger.acked && weaker.durable <= stronger.durable);
            assert_eq!(weaker.failed, stronger.failed);
            if weaker != stronger {
                assert_eq!(weaker.submitted, None, "bit {bit}");
                unknown += 1;
            }
        }
        assert_eq!(unknown, 1, "bit {bit}");
    }
    // Two notes of 64 bytes of each of two jobs, and no other bit.
    assert_eq!(survived, 2 * 2 * 64 * 8);
}

#[test]
fn the_damaged_note_of_a_job_that_ended_costs_nothing_but_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(1), 0).unwrap();
    jobs.remove(0).note(progress(7, 0, 0)).unwrap();
    writer.finish(&[Progress::ended(7, 7)]).unwrap();
    let whole = fs::read(&path).unwrap();
    let layout = Layout { header_bytes: json_bytes(&whole), jobs: 1, failures: 0 };
    for (sequence, ended, submitted) in [(3, true, Some(7)), (4, false, None)] {
        let mut bytes = whole.clone();
        bytes[layout.note_at(0, sequence) as usize + 20] ^= 1;
        let ledger = LedgerFile::parse(&bytes, &reader()).unwrap();
        assert_eq!((ledger.ended(), ledger.jobs[0].submitted), (ended, submitted));
        assert_eq!(ledger.notes.len(), 1);
    }
}

fn json_bytes(file: &[u8]) -> u32 {
    u32::from_le_bytes(file[24..28].try_into().unwrap())
}

#[test]
fn a_cut_off_or_longer_ledger_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    in_the_middle(&path);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        let error = LedgerFile::parse(&whole[..length], &reader()).unwrap_err();
        let LedgerError::Truncated { found, expected } = error else { panic!("{error}") };
        assert_eq!(found, length as u64);
        assert_eq!(expected, if length < 64 { 64 } else { whole.len() as u64 });
    }
    let longer = [&whole[..], &[0]].concat();
    let error = LedgerFile::parse(&longer, &reader()).unwrap_err().to_string();
    assert!(error.contains("damaged in its end: 1 bytes too many"), "{error}");
}

#[test]
fn what_is_something_else_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let said = |bytes: &[u8]| LedgerFile::parse(bytes, &reader()).unwrap_err().to_string();
    assert!(said(b"{\"schema\": 1}").contains("begins with `{\\\"schema\\\": 1}`"));
    assert!(said(&[0; 5000]).contains("expected a ledger"));
    assert!(said(b"iosonde.ledger/0\n").contains("expected a ledger"));
    assert!(said(b"iosonde.ledger/99999999999999999999999\n").contains("expected a ledger"));
    let newer = said(b"iosonde.ledger/12\nwhatever");
    let older = said(b"iosonde.ledger/1\nwhatever");
    assert!(older.contains("is of version 1, this program reads version 2"), "{older}");
    assert!(older.contains("write and check again"), "{older}");
    assert!(newer.contains("is of version 12, this program reads version 2"), "{newer}");
    in_the_middle(&path);
    let law = LedgerFile::read(&path, &Reader { stream_version: 4, ..reader() });
    let law = law.unwrap_err().to_string();
    assert!(law.contains("by algorithm 3, this program has algorithm 4; check"), "{law}");
    let missing = read(&dir.path().join("x")).unwrap_err().to_string();
    assert!(missing.contains("no such file"), "{missing}");
    let huge = dir.path().join("huge");
    fs::File::create(&huge).unwrap().set_len(65 << 20).unwrap();
    assert!(matches!(read(&huge), Err(LedgerError::TooLong { .. })));
}

#[test]
fn a_note_torn_anywhere_announces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (_writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(1), 0).unwrap();
    jobs[0].note(progress(8, 4, 2)).unwrap();
    jobs[0].note(progress(12, 8, 4)).unwrap();
    let before = fs::read(&path).unwrap();
    jobs[0].note(progress(16, 12, 8)).unwrap();
    let after = fs::read(&path).unwrap();
    let at = (0..before.len()).find(|at| before[*at] != after[*at]).unwrap() / 512 * 512;
    for torn in 0..=64 {
        let mut bytes = before.clone();
        bytes[at..at + torn].copy_from_slice(&after[at..at + torn]);
        let job = LedgerFile::parse(&bytes, &reader()).unwrap().jobs.remove(0);
        let known = (job.acked, job.submitted);
        let expected: &[_] = if bytes == before {
            &[(8, Some(12))]
        } else if bytes == after {
            &[(12, Some(16))]
        } else {
            &[(8, None)]
        };
        assert!(expected.contains(&known), "{torn} bytes: {known:?}");
    }
}

#[test]
fn notes_of_another_run_or_place_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("l"), dir.path().join("other"));
    let forge = |change: &dyn Fn(&mut Note)| {
        let _ = fs::remove_file(&other);
        in_the_middle(&other);
        let mut bytes = fs::read(&other).unwrap();
        let layout = Layout { header_bytes: json_bytes(&bytes), jobs: 2, failures: 4 };
        let at = layout.note_at(1, 1) as usize;
        let mut note = Note::decode(bytes[at..].first_chunk().unwrap()).unwrap();
        change(&mut note);
        bytes[at..at + 64].copy_from_slice(&note.encode());
        fs::write(&other, &bytes).unwrap();
        read(&other)
    };
    in_the_middle(&path);
    assert_eq!(forge(&|_| {}).unwrap(), read(&path).unwrap());
    let wrong: [&dyn Fn(&mut Note); 9] = [
        &|note| note.run_low ^= 1,
        &|note| note.job = 0,
        &|note| note.sequence += 1,
        &|note| note.sequence += 2,
        &|note| note.progress.submitted = 8,
        &|note| note.progress.acked = 13,
        &|note| note.progress.durable = 10,
        &|note| note.progress.ended = true,
        &|note| note.failures = 1,
    ];
    for (number, change) in wrong.iter().enumerate() {
        let found = forge(change);
        assert!(matches!(found, Err(LedgerError::Damaged { .. })), "{number}: {found:?}");
    }
}

#[test]
fn a_failed_operation_does_not_get_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    in_the_middle(&path);
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    let entries = bytes.len() - 4 * 32;
    bytes[entries..entries + 32].fill(0);
    let error = LedgerFile::parse(&bytes, &reader()).unwrap_err().to_string();
    assert!(error.contains("the failed operations: 0 of 1 of job 0"), "{error}");
    // The entry may be anywhere: jobs that reserved earlier ones may have died.
    let mut bytes = whole;
    bytes.copy_within(entries..entries + 32, entries + 64);
    bytes[entries..entries + 32].fill(0);
    let ledger = LedgerFile::parse(&bytes, &reader()).unwrap();
    assert_eq!(ledger.jobs[0].failed, [3]);
}

#[test]
fn chance_makes_no_ledger_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    in_the_middle(&path);
    let whole = fs::read(&path).unwrap();
    let formatted = LedgerFile::parse(&whole, &reader()).unwrap();
    let mut chance = Chance::new(7);
    for round in 0..4000 {
        let mut bytes: Vec<u8> = whole.clone();
        if round % 4 == 0 {
            // Random bytes up to some MiB, sometimes after the right schema name.
            let length = 1usize << chance.below(if round % 400 == 0 { 23 } else { 13 });
            bytes = (0..length).map(|_| chance.bits() as u8).collect();
            if chance.below(2) == 0 {
                bytes.splice(0..bytes.len().min(24), whole[..24].to_vec());
            }
        }
        for _ in 0..chance.below(40) {
            let at = chance.below(bytes.len() as u64) as usize;
            bytes[at] = chance.bits() as u8;
        }
        if let Ok(ledger) = LedgerFile::parse(&bytes, &reader()) {
            assert!(bytes == whole || !ledger.notes.is_empty(), "round {round}");
            assert!(
                ledger.jobs.iter().zip(&formatted.jobs).all(|(now, then)| now.acked <= then.acked)
            );
        }
    }
}

#[test]
fn jobs_note_from_their_own_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (writer, jobs) = LedgerWriter::create(&path, &header(8)).unwrap();
    std::thread::scope(|scope| {
        for (number, mut job) in (0u64..).zip(jobs) {
            scope.spawn(move || {
                for n in 0..200 {
                    job.note(progress(n + 2, n + 1, n)).unwrap();
                    if n % 50 == number {
                        job.failed(n).unwrap();
                    }
                }
            });
        }
    });
    writer.finish(&[Progress::ended(201, 200); 8]).unwrap();
    let ledger = read(&path).unwrap();
    assert!(ledger.ended() && ledger.notes.is_empty());
    for (number, job) in (0u64..).zip(&ledger.jobs) {
        assert_eq!((job.durable, job.acked, job.submitted), (200, 201, Some(201)));
        assert_eq!(job.failed, [number, number + 50, number + 100, number + 150]);
    }
}

#[test]
fn a_ledger_does_not_end_while_a_job_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    for (kept, ends) in [(1, 2), (0, 1), (0, 3)] {
        let (writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(2), 0).unwrap();
        jobs.truncate(kept);
        let error = writer.finish(&vec![Progress::ended(1, 1); ends]).unwrap_err().to_string();
        assert!(error.contains(&format!("{} of 2 jobs have ended", 2 - kept)), "{error}");
        assert!(!read(&path).unwrap().ended());
        fs::remove_file(&path).unwrap();
    }
    let (writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(1), 0).unwrap();
    jobs.remove(0).note(progress(9, 0, 0)).unwrap();
    writer.finish(&[Progress::ended(8, 8)]).unwrap_err();
}

#[test]
fn a_target_in_larger_sectors_than_the_blocks_is_refused() {
    let header = header(1);
    header.fits(512).unwrap();
    header.fits(4096).unwrap();
    assert_eq!(header.region_end(), (1 << 20) + (1 << 24));
    assert!(matches!(header.fits(8192), Err(LedgerError::SectorMismatch { .. })));
}

#[test]
fn a_ledger_that_vanished_under_its_writer_is_still_written() {
    // The jobs write to the descriptor, not to the name.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("l");
    let (_writer, mut jobs) = LedgerWriter::create_with_room(&path, &header(1), 0).unwrap();
    let file = fs::File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    jobs[0].note(progress(3, 2, 1)).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(LedgerFile::parse(&bytes, &reader()).unwrap().jobs[0].submitted, Some(3));
}
