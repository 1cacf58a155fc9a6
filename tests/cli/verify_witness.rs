//! The witness as a process: its answers, its log, and its end.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};

use iosonde_model::plan::RunId;
use iosonde_model::record::ledger_file::{LEDGER_SCHEMA, LedgerHeader};
use iosonde_model::record::witness_log::{Line, WitnessLog};

use super::program::Place;

const STREAM: u32 = 1;

fn hello() -> String {
    let header = LedgerHeader {
        schema: LEDGER_SCHEMA.into(),
        program: "0.1.0".into(),
        run_id: RunId(0xfeed),
        stream_version: STREAM,
        jobs: 2,
        block_bytes: 4096,
        sector_bytes: 512,
        target: "t".into(),
        identity: None,
        target_bytes: 1 << 20,
        region_start: 0,
        region_bytes: 1 << 20,
        boot_id: None,
        created_unix_ns: 0,
        synced: false,
        plan: serde_json::Value::Null,
    };
    Line::hello(header).unwrap().to_string()
}

/// A witness and its pipes.
struct Spoken {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Spoken {
    fn start(place: &Place) -> Spoken {
        let mut command = place.iosonde("verify witness --log w.log").into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Spoken { child, answers }
    }

    fn say(&mut self, line: &str) -> String {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().into()
    }

    /// Closes the input. Returns exit code and stderr.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

#[test]
fn what_was_answered_is_in_the_log_at_once() {
    let place = Place::new();
    let log = place.work().join("w.log");
    let mut witness = Spoken::start(&place);
    assert_eq!(witness.say(&hello()), "ok 1");
    assert_eq!(witness.say("pre 0 1 50"), "ok 2");
    assert_eq!(WitnessLog::read(&log, STREAM).unwrap().jobs[0].pending_ops, Some(50));
    assert_eq!(witness.say("post 0 1 50"), "ok 3");
    assert_eq!(WitnessLog::read(&log, STREAM).unwrap().jobs[0].durable_ops, 50);
    // The power is cut in the middle of a line.
    witness.child.stdin.as_mut().unwrap().write_all(b"pre 1 1 7").unwrap();
    let (code, said) = witness.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("the other side disconnected after 3 lines; they are stored in w.log"),
        "{said}"
    );
    let kept = WitnessLog::read(&log, STREAM).unwrap();
    assert!(!kept.ended && kept.notes.is_empty() && kept.jobs[1].pending_ops.is_none());
}

#[test]
fn a_run_that_ends_in_order_says_so() {
    let place = Place::new();
    let mut witness = Spoken::start(&place);
    assert_eq!(witness.say(&hello()), "ok 1");
    assert_eq!(witness.say("bye"), "ok 2");
    assert_eq!(witness.end(), (Some(0), String::new()));
    assert!(WitnessLog::read(&place.work().join("w.log"), STREAM).unwrap().ended);
}

#[test]
fn what_makes_no_sense_is_answered_and_ends_it() {
    for (line, words) in [
        ("what?", "error found `what?`, expected `hello iosonde-witness/1 RUN HEADER`"),
        ("post 0 1 50", "error found `post` of flush 1"),
        ("pre 2 1 50", "error found job 2, expected one of 2"),
        ("\u{1b}[31mbye", "error found `"),
        (&"x".repeat(3 << 20), "error found a line longer than"),
    ] {
        let place = Place::new();
        let mut witness = Spoken::start(&place);
        assert_eq!(witness.say(&hello()), "ok 1");
        // The witness may stop reading before the end of a line.
        let mut input = witness.child.stdin.take().unwrap();
        let _ = input.write_all(format!("{line}\n").as_bytes());
        let mut answer = String::new();
        witness.answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with(words) && !answer.contains('\u{1b}'), "{answer}");
        let (code, said) = witness.end();
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("error: line 2: found "), "{said}");
        let kept = fs::read_to_string(place.work().join("w.log")).unwrap();
        assert_eq!(kept.lines().count(), 1);
    }
}

#[test]
fn a_log_that_is_there_is_left_alone() {
    let place = Place::new();
    let log = place.file("w.log", b"precious");
    let ended = place.iosonde("verify witness --log w.log").end().exits(2);
    ended.says("--log: w.log exists: each run needs a new log");
    assert_eq!(fs::read(&log).unwrap(), b"precious");
    place.iosonde("verify witness").end().exits(2).says("--log <FILE>");
    place.iosonde("verify witness --log nowhere/w").end().exits(1).says("cannot be made");
}
