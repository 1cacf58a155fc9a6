//! Instructions per operation of iosonde, counted by callgrind. The count does not depend on the
//! load of the machine, so a test can limit it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::cost::Extra;
use crate::{BenchError, InstructionArgs, doing};

/// Largest permitted growth of the count, as a share.
const ALLOWED_GROWTH: f64 = 0.05;

/// The committed counts.
#[derive(Debug, Serialize, Deserialize)]
struct Committed {
    /// Instructions per operation on the null engine: plain random reads.
    null_instructions_per_op: f64,
    /// The same under other loads, for information only.
    #[serde(default)]
    loads: BTreeMap<String, f64>,
}

/// Counts, prints, and compares the count with the committed one or writes it.
pub(crate) fn count(args: &InstructionArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let said = |error| BenchError::File { what: "cannot write the result".to_owned(), error };
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return writeln!(out, "skipped: valgrind cannot be run: {error}").map_err(said);
    }
    let plain = "--bs 4k --rw randread";
    let per_op = counted(args, plain)?;
    writeln!(out, "{per_op:.2} instructions per operation on the null engine").map_err(said)?;
    let mut loads = BTreeMap::new();
    if args.table || args.write.is_some() {
        writeln!(out, "\n| load | instructions per I/O | over plain |\n| --- | --- | --- |")
            .map_err(said)?;
        for extra in Extra::COUNTED {
            let count = counted(args, &extra.words(0.0))?;
            let (title, more) = (extra.title(), count - per_op);
            writeln!(out, "| {title} | {count:.1} | {more:+.1} |").map_err(said)?;
            loads.insert(extra.key(), count);
        }
    }
    if let Some(path) = &args.write {
        let mut text = format!(
            "# Instructions per operation of `iosonde run --ioengine null`, by callgrind.\n\
             # Written by `iosonde-bench instructions --write`; CI fails 5 % above the first.\n\
             null_instructions_per_op = {per_op:.2}\n\n\
             # The same under loads that are not plain reads, for comparison.\n[loads]\n"
        );
        for (key, count) in loads {
            let _ = writeln!(text, "{key} = {count:.2}");
        }
        fs::write(path, text).map_err(doing("cannot write the count"))?;
    }
    if let Some(path) = &args.gate {
        let committed = committed(path)?;
        let growth = gate(per_op, committed)?;
        let percent = growth * 100.0;
        writeln!(out, "committed: {committed:.2}; growth {percent:+.1} %").map_err(said)?;
    }
    Ok(())
}

fn committed(path: &Path) -> Result<f64, BenchError> {
    let text = fs::read_to_string(path).map_err(doing("cannot read the committed count"))?;
    let committed: Committed = toml::from_str(&text).map_err(|error| BenchError::File {
        what: format!("{} cannot be parsed", path.display()),
        error: std::io::Error::other(error.to_string()),
    })?;
    Ok(committed.null_instructions_per_op)
}

/// Growth over the committed count, as a share; an error if it is above the limit.
fn gate(per_op: f64, committed: f64) -> Result<f64, BenchError> {
    let growth = per_op / committed - 1.0;
    if growth <= ALLOWED_GROWTH {
        return Ok(growth);
    }
    Err(BenchError::Gate(format!(
        "{per_op:.2} instructions per operation are {:.1} % more than the committed \
         {committed:.2}; find the addition to the loop, or commit a new count with the reason",
        growth * 100.0
    )))
}

/// Instructions per operation of a load.
fn counted(args: &InstructionArgs, load: &str) -> Result<f64, BenchError> {
    let small = callgrind(&args.iosonde, load, args.small)?;
    let large = callgrind(&args.iosonde, load, args.large)?;
    per_operation((args.small, small), (args.large, large))
}

/// Start and end cost the same in both runs and cancel out.
fn per_operation(small: (u64, u64), large: (u64, u64)) -> Result<f64, BenchError> {
    let (ops, instructions) = (large.0.checked_sub(small.0), large.1.checked_sub(small.1));
    match (ops, instructions) {
        (Some(ops), Some(instructions)) if ops > 0 && instructions > 0 => {
            Ok(instructions as f64 / ops as f64)
        }
        _ => Err(BenchError::Gate(format!(
            "{} operations took {} instructions and {} took {}: the larger run must take more",
            small.0, small.1, large.0, large.1
        ))),
    }
}

/// Instructions of a whole process.
fn callgrind(iosonde: &Path, load: &str, operations: u64) -> Result<u64, BenchError> {
    let state = std::env::temp_dir().join(format!("iosonde-bench-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(iosonde);
    command.args(["run", "--ioengine", "null"]).args(load.split_whitespace());
    command.args(["--iodepth", "128", "--size", "1G", "--output-format", "json"]);
    command.arg("--number-ios").arg(operations.to_string());
    let ran = command.env("XDG_STATE_HOME", &state).output();
    let _ = fs::remove_dir_all(&state);
    let program = "valgrind with iosonde".to_owned();
    let ran = ran.map_err(|error| BenchError::NotRun { program: program.clone(), error })?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let (status, said) = (ran.status.to_string(), last_own_line(&said));
        return Err(BenchError::Failed { program, status, said });
    }
    collected(&said)
        .ok_or_else(|| BenchError::Output { program, what: "line `Collected : N`".to_owned() })
}

/// The last line that valgrind did not write.
fn last_own_line(said: &str) -> String {
    said.lines().rfind(|line| !line.starts_with("==")).unwrap_or("").to_owned()
}

/// The total of callgrind's line `==PID== Collected : N`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn start_and_end_fall_out() {
        let per_op = per_operation((200_000, 9_000_000), (1_200_000, 49_000_000)).unwrap();
        assert_eq!(per_op, 40.0);
        assert!(per_operation((10, 5), (10, 9)).is_err());
        assert!(per_operation((10, 9), (20, 9)).is_err());
        let said = "==7== Events    : Ir\n==7== Collected : 9000000\n==7==\n";
        assert_eq!(collected(said), Some(9_000_000));
        assert_eq!(collected("==7== no\n"), None);
    }

    #[test]
    fn the_gate_closes_above_five_percent() {
        assert!(gate(104.9, 100.0).is_ok() && gate(80.0, 100.0).is_ok());
        assert!(gate(105.1, 100.0).unwrap_err().to_string().contains("5.1 % more"));
    }
}
