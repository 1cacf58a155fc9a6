//! A profile as a workload file, whose first lines say where it comes from.

use super::workload_toml::workload_toml;
use iosonde_analysis::profile_model::{Modelled, workload};
use iosonde_model::record::profile::{Op, ProfileRun, Subject};
use iosonde_model::record::store::utc;
use iosonde_model::units::{bytes, count};

/// Columns of the comments.
const COLUMNS: usize = 96;

/// The file that `iosonde run` replays.
///
/// # Errors
/// In words, if the profile is not enough for a load.
pub fn emit(run: &ProfileRun) -> Result<String, String> {
    let modelled = workload(run).map_err(|error| error.to_string())?;
    let head: Vec<String> = head(run, &modelled).iter().flat_map(|line| wrapped(line)).collect();
    workload_toml(&modelled.workload, &head, &modelled.roles)
}

fn head(run: &ProfileRun, modelled: &Modelled) -> Vec<String> {
    let watched = match &run.subject {
        Subject::Command { words, .. } => words.join(" "),
        Subject::Process { pid, words } => format!("process {pid}: {}", words.join(" ")),
        Subject::Cgroup { path } => format!("cgroup {path}"),
        Subject::Machine => "the whole machine".into(),
    };
    let sum = |op: Op| {
        let rows = run.traffic.iter();
        let rows = rows.filter(|row| row.class.is_of_the_program() && row.op == op);
        rows.fold((0, 0), |sum, row| (sum.0 + row.requests, sum.1 + row.bytes))
    };
    let traffic = [(Op::Read, "reads"), (Op::Write, "writes"), (Op::Discard, "discards")];
    let traffic: Vec<String> = traffic
        .into_iter()
        .map(|(op, word)| (sum(op), word))
        .filter(|((requests, _), _)| *requests > 0)
        .map(|((requests, length), word)| {
            format!("{} {word} of {}", count::thousands(requests), bytes::rough(length))
        })
        .collect();
    let mut lines = vec![
        format!("The requests of: {watched}"),
        format!(
            "watched by iosonde {} at {} for {} s: {}",
            run.program,
            utc(run.started_unix_ns),
            count::significant(run.measured_ns as f64 / 1e9),
            traffic.join(", ")
        ),
        String::new(),
        "The block layer's requests are regenerated, by direct I/O of their sizes, and not the \
         program's calls: page cache, read-ahead and write-back have had their say."
            .into(),
        String::new(),
    ];
    let paths: String = modelled.targets.iter().map(|_| " --path TARGET").collect();
    lines.push(format!(
        "Replay:  iosonde run THIS_FILE{paths} --runtime {}",
        duration_word(modelled.measured_ns)
    ));
    lines.push("         --speed 2x sends twice as fast, --speed max as fast as it answers".into());
    for target in &modelled.targets {
        lines.push(format!(
            "In place of {} a target of at least {} B ({}): what was touched lies side by side",
            target.device,
            target.needed_bytes,
            bytes::rough(target.needed_bytes)
        ));
    }
    if !modelled.left_out.is_empty() {
        lines.extend([String::new(), "Not regenerated, or not exactly:".into()]);
        lines.extend(modelled.left_out.iter().map(|line| format!("- {line}")));
    }
    lines
}

/// A time as `--runtime` takes it, rounded up to a millisecond.
fn duration_word(ns: u64) -> String {
    let ms = ns.div_ceil(1_000_000).max(1);
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

/// A line in pieces of at most so many columns, those after the first indented like it.
fn wrapped(line: &str) -> Vec<String> {
    if line.chars().count() <= COLUMNS {
        return vec![line.to_string()];
    }
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut lines: Vec<String> = vec![String::new()];
    for word in line.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + word.chars().count() < COLUMNS {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile_model::{profile, row};
    use iosonde_model::record::profile::Class;
    use iosonde_model::spec::catalogue;

    #[test]
    fn the_file_says_where_it_comes_from_and_is_the_model() {
        let mut run =
            profile(vec![row(Class::Program, Op::Write, 3000), row(Class::Journal, Op::Write, 9)]);
        run.subject = Subject::Command {
            words: vec!["/usr/bin/app".into(), "a\n[[role]]".into(), "long ".repeat(40)],
            pid: 1,
        };
        let text = emit(&run).unwrap();
        assert_eq!(
            catalogue::parse_workload(&text).unwrap(),
            workload(&run).unwrap().workload,
            "{text}"
        );
        for said in [
            "# The requests of: /usr/bin/app a",
            "3,000 writes of",
            "--runtime 10s",
            "- 9 requests",
        ] {
            assert!(text.contains(said), "{said} in {text}");
        }
        let comments = text.lines().filter(|line| line.starts_with('#'));
        assert!(comments.clone().count() > 8);
    }

    #[test]
    fn too_little_is_said() {
        let error = emit(&profile(vec![])).unwrap_err();
        assert!(error.contains("0 request(s)"), "{error}");
    }

    #[test]
    fn times_are_what_the_option_takes() {
        assert_eq!(duration_word(10_000_000_000), "10s");
        assert_eq!(duration_word(1_234_567_890), "1235ms");
        assert_eq!(duration_word(0), "1ms");
    }
}
