//! Lines that a witness accepts, and its log in every damaged form.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::*;
use crate::content::block::{RunId, crc32c};
use crate::plan::{VerifyMode, VerifySetting};
use crate::record::ledger_file::{LEDGER_SCHEMA, LedgerError};

const T: u64 = 1_790_000_000_000_000_000;

fn header() -> LedgerHeader {
    LedgerHeader {
        schema: LEDGER_SCHEMA.into(),
        program: "0.1.0".into(),
        run_id: RunId(7 << 100),
        stream_version: 3,
        jobs: 2,
        block_bytes: 4096,
        sector_bytes: 512,
        target: "/dev/disk é\n".into(),
        identity: Some("serial".into()),
        target_bytes: 1 << 30,
        region_start: 0,
        region_bytes: 1 << 24,
        boot_id: None,
        created_unix_ns: T,
        synced: false,
        plan: json!({"seed": 1}),
    }
}

fn hello() -> String {
    Line::hello(header()).unwrap().to_string()
}

fn parse(bytes: &[u8]) -> Result<WitnessLog, WitnessLogError> {
    WitnessLog::parse(&mut &bytes[..], 3)
}

/// The log of a witness that heard these lines after `hello`.
fn log(lines: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w");
    let mut recorder = Recorder::create(&path).unwrap();
    assert_eq!(recorder.hear(hello().as_bytes(), T).unwrap(), 1);
    for (number, line) in (2..).zip(lines) {
        assert_eq!(recorder.hear(line.as_bytes(), T + number).unwrap(), number);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::read(&path).unwrap()
}

fn job(flushes: u64, durable_ops: u64, pending: Option<u64>, bound: u64) -> WitnessedJob {
    WitnessedJob { flushes, durable_ops, pending_ops: pending, submitted_at_most_flush: bound }
}

#[test]
fn lines_say_what_they_mean() {
    let lines = [
        (Line::Pre { job: 1, flush: 2, ops: 3 }, "pre 1 2 3"),
        (Line::Post { job: 0, flush: 1, ops: u64::MAX }, "post 0 1 18446744073709551615"),
        (Line::Bye, "bye"),
    ];
    for (line, text) in lines {
        assert_eq!(line.to_string(), text);
        assert_eq!(text.parse::<Line>().unwrap(), line);
    }
    let run = "00000070000000000000000000000000";
    assert!(hello().starts_with(&format!("hello iosonde-witness/1 {run} {{\"schema\"")));
    assert!(!hello().contains('\n'));
    assert_eq!(hello().parse::<Line>().unwrap(), Line::hello(header()).unwrap());
    for wrong in [
        "",
        "by",
        "bye ",
        " bye",
        "pre",
        "pre 1 2",
        "pre 1 2 3 4",
        "pre 01 2 3",
        "pre +1 2 3",
        "pre 1  2 3",
        "pre 4294967296 1 1",
        "pre 1 2 18446744073709551616",
        "PRE 1 2 3",
        "hello",
        "hello x",
        "hello iosonde-witness/1",
        "hello iosonde-witness/1 7",
    ] {
        assert!(matches!(wrong.parse::<Line>(), Err(LineError::Malformed(_))), "{wrong}");
    }
    let newer = hello().replace("witness/1", "witness/2").parse::<Line>().unwrap_err();
    assert!(newer.to_string().contains("expected `iosonde-witness/1`"), "{newer}");
    let other = hello().replacen("0000007", "0000008", 1).parse::<Line>().unwrap_err();
    assert!(matches!(other, LineError::Header(_)), "{other}");
}

#[test]
fn the_last_answered_flush_bounds_from_below_and_above() {
    let said = parse(&log(&["pre 0 1 50", "post 0 1 50", "pre 1 1 9", "pre 0 2 80"])).unwrap();
    assert_eq!(said.header, header());
    assert_eq!(said.jobs, [job(1, 50, Some(80), 2), job(0, 0, Some(9), 1)]);
    assert_eq!((said.ended, said.first_unix_ns, said.last_unix_ns), (false, T, T + 5));
    assert!(said.notes.is_empty());
    let said = parse(&log(&[])).unwrap();
    assert_eq!(said.jobs, [job(0, 0, None, 1); 2]);
    assert!(parse(&log(&["bye"])).unwrap().ended);
}

#[test]
fn what_makes_no_sense_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |before: &[&str], line: &str| {
        let path = dir.path().join("w");
        let mut recorder = Recorder::create(&path).unwrap();
        for line in before {
            recorder.hear(line.as_bytes(), T).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let error = recorder.hear(line.as_bytes(), T).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(Recorder::create(&path).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        fs::remove_file(&path).unwrap();
        error.to_string()
    };
    let hello = &*hello();
    assert!(refused(&[], "bye").contains("expected `hello` first"));
    assert!(refused(&[hello], hello).contains("a second `hello`"));
    assert!(refused(&[hello], "pre 2 1 1").contains("found job 2, expected one of 2"));
    assert!(refused(&[hello], "post 0 1 1").contains("`post` of flush 1"));
    assert!(refused(&[hello], "pre 0 2 1").contains("`pre` of flush 2"));
    assert!(refused(&[hello, "pre 0 1 5"], "pre 0 1 5").contains("`pre` of flush 1"));
    assert!(refused(&[hello, "pre 0 1 5"], "post 0 1 6").contains("`post` of flush 1"));
    assert!(refused(&[hello, "pre 0 1 5", "post 0 1 5"], "pre 0 2 4").contains("flush 2"));
    assert!(refused(&[hello, "bye"], "pre 0 1 5").contains("after `bye`"));
    assert!(refused(&[hello], "what?").contains("found `what?`, expected `hello"));
    assert!(refused(&[hello], &"x".repeat(2 << 20)).contains("longer than"));
}

#[test]
fn a_cut_anywhere_leaves_what_was_whole_and_says_so() {
    let whole = log(&["pre 0 1 50", "post 0 1 50", "pre 0 2 90", "post 0 2 90"]);
    let ends: Vec<usize> = (1..=whole.len()).filter(|end| whole[end - 1] == b'\n').collect();
    for cut in 0..whole.len() {
        let Some(lines) = ends.iter().rposition(|end| *end <= cut).map(|place| place + 1) else {
            assert!(matches!(parse(&whole[..cut]), Err(WitnessLogError::Empty)));
            continue;
        };
        let said = parse(&whole[..cut]).unwrap();
        let torn = u64::from(cut != ends[lines - 1]);
        assert_eq!(said.notes.len() as u64, torn);
        // A `post` that was cut off here may have been answered there.
        let expected = match lines {
            1 => job(0, 0, None, 1),
            2 => job(0, 0, Some(50), 1 + torn),
            3 => job(1, 50, None, 2),
            _ => job(1, 50, Some(90), 2 + torn),
        };
        assert_eq!(said.jobs, [expected, job(0, 0, None, 1)], "{cut}");
    }
}

#[test]
fn no_bit_of_a_log_flips_in_silence() {
    let whole = log(&["pre 0 1 50", "post 0 1 50", "pre 0 2 90"]);
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match parse(&bytes) {
            Err(_) => {}
            Ok(said) => {
                // Its last line lost its end.
                assert_eq!((bit / 8, said.notes.len()), (whole.len() - 1, 1));
                assert_eq!(said.jobs[0], job(1, 50, None, 2));
            }
        }
    }
}

#[test]
fn a_line_is_neither_missing_nor_twice_there() {
    let whole = log(&["pre 0 1 50", "post 0 1 50", "pre 1 1 90"]);
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let found = |order: &[usize]| {
        let bytes: Vec<&[u8]> = order.iter().map(|line| lines[*line]).collect();
        match parse(&bytes.concat()) {
            Err(WitnessLogError::Damaged { line, .. }) => line,
            other => panic!("{order:?}: {other:?}"),
        }
    };
    assert_eq!(found(&[0, 2, 3]), 2);
    assert_eq!(found(&[0, 1, 3]), 3);
    assert_eq!(found(&[0, 1, 1, 2]), 3);
    assert_eq!(found(&[0, 1, 2, 3, 0]), 5);
}

#[test]
fn what_is_something_else_is_named() {
    let sealed = |text: &str| {
        let content = format!("1 {T} {text}");
        format!("{:08x} {content}\n", crc32c(content.as_bytes()))
    };
    assert_eq!(parse(sealed(&hello()).as_bytes()).unwrap().jobs.len(), 2);
    assert!(matches!(parse(b""), Err(WitnessLogError::Empty)));
    assert!(matches!(parse(b"{}\n"), Err(WitnessLogError::NotALog { .. })));
    let newer = sealed(&hello().replace("witness/1", "witness/2"));
    assert!(matches!(parse(newer.as_bytes()), Err(WitnessLogError::OtherVersion(_))));
    assert!(matches!(parse(sealed("bye").as_bytes()), Err(WitnessLogError::Damaged { .. })));
    let endless = vec![b'x'; 2 << 20];
    assert!(matches!(parse(&endless), Err(WitnessLogError::Damaged { line: 1, .. })));
    let whole = log(&[]);
    let law = WitnessLog::parse(&mut &whole[..], 4).unwrap_err();
    assert!(matches!(law, WitnessLogError::Run(LedgerError::OtherStream { .. })), "{law}");
}

#[test]
fn the_ledger_of_a_cut_run_reaches_to_the_flush_that_was_not_passed() {
    let setting = crate::plan::verify::tests::setting(VerifyMode::PowerCut, 8 << 20);
    let plan = |flush_every| {
        VerifyPlan::resolve(&VerifySetting { flush_every, ..setting.clone() }).unwrap()
    };
    let nine = plan(9);
    let flushes: Vec<u64> = VerifyStream::new(&nine, 0)
        .filter(|op| op.way == IoKind::Sync)
        .map(|op| op.index)
        .take(3)
        .collect();
    let bound = |job: WitnessedJob| job.submitted_at_most(&nine, 0);
    assert_eq!(bound(job(0, 0, None, 1)), Some(flushes[0]));
    assert_eq!(bound(job(0, 0, Some(flushes[0]), 1)), Some(flushes[0]));
    assert_eq!(bound(job(0, 0, Some(flushes[0]), 2)), Some(flushes[1]), "a line was cut off");
    assert_eq!(bound(job(1, flushes[0], None, 2)), Some(flushes[1]));
    assert_eq!(bound(job(2, flushes[1], None, 3)), Some(flushes[2]));
    assert_eq!(job(0, 0, None, 1).submitted_at_most(&plan(0), 0), None);
    // The block of the first operation is required once a flush followed it.
    let block = VerifyStream::new(&nine, 0).next().unwrap().first;
    let required = |job: WitnessedJob| job.ledger(&nine, 0).generations(block).2;
    assert_eq!(required(job(0, 0, Some(flushes[0]), 1)), 0);
    assert!(required(job(1, flushes[0], None, 2)) >= 1);
}
