//! `iosonde verify witness`: keeps a log for a machine whose power will be cut.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;

use clap::Args;
use iosonde_sys::clock::realtime_ns;

use crate::cli::exit::{About, Exit, Failure, environment, wrong};
use crate::cli::output::note;
use iosonde_model::record::witness_log::{MAX_LINE_BYTES, Recorder, Unrecorded};
use iosonde_report::clean::clean;

/// Logs what a run on another machine reports as durable, until its power is cut.
///
/// Started by `verify powercut --witness`, usually over ssh. Reads lines on stdin; each is stored
/// before it is answered on stdout. Input that ends without `bye` is the expected power cut.
/// Afterwards `verify check` uses its log to determine which data must have survived.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(in crate::cli) struct WitnessArgs {
    /// The log; the file must not exist
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
}

/// Runs `verify witness`.
pub(in crate::cli) fn witness(args: &WitnessArgs) -> Result<Exit, Failure> {
    let path = args.log.display();
    let mut recorder = Recorder::create(&args.log).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            wrong(format!("--log: {path} exists: each run needs a new log"))
        }
        _ => environment(format!("--log: {path} cannot be made: {error}")),
    })?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while !recorder.ended() {
        line.clear();
        let read = (&mut input).take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', &mut line);
        match read {
            // The other end of the socket has lost its power.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            read => read.or_environment("stdin")?,
        };
        // A short line without a line feed was cut off by the power cut.
        let whole = line.strip_suffix(b"\n");
        let Some(text) = whole.or((line.len() > MAX_LINE_BYTES).then_some(&*line)) else { break };
        match recorder.hear(text, realtime_ns()) {
            Ok(number) if answer(&mut output, &format!("ok {number}")) => {}
            // The other end has closed its input.
            Ok(_) => break,
            Err(unrecorded) => {
                let failure = failure(&unrecorded, recorder.lines());
                answer(&mut output, &format!("error {}", clean(&unrecorded.to_string())));
                return Err(failure);
            }
        }
    }
    if !recorder.ended() {
        let lines = recorder.lines();
        note(&format!(
            "the other side disconnected after {lines} lines; they are stored in {path}"
        ));
    }
    Ok(Exit::Done)
}

fn failure(unrecorded: &Unrecorded, lines: u64) -> Failure {
    let exit = match unrecorded {
        Unrecorded::System(_) => Exit::Environment,
        Unrecorded::Line(_) | Unrecorded::Order(_) => Exit::Usage,
    };
    Failure::new(exit, format!("line {}: {unrecorded}", lines + 1))
}

/// Sends an answer; returns whether it could be written.
fn answer(output: &mut dyn Write, words: &str) -> bool {
    writeln!(output, "{words}").and_then(|()| output.flush()).is_ok()
}
