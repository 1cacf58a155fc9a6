//! How a test reports that it was skipped.

use std::fmt::Display;

/// Reports that the running test cannot run on this machine, why, and what is untested as a result:
/// the statement in the test's name. The test then returns.
pub fn skip(reason: impl Display) {
    say(&reason.to_string(), "");
}

/// As [`skip`], for a part of a test that otherwise runs: `io_uring`, `the median`.
pub fn skip_part(part: &str, reason: impl Display) {
    say(&reason.to_string(), part);
}

#[allow(clippy::print_stderr, reason = "a skipped test says why; `.ci/summary` collects it")]
fn say(reason: &str, part: &str) {
    let thread = std::thread::current();
    eprintln!("{}", line(reason, thread.name().unwrap_or_default(), part));
}

/// The line to print. With a single test thread, tests run on the main thread, which does not carry
/// the test's name; the harness then prints that name beside the output.
fn line(reason: &str, thread: &str, part: &str) -> String {
    let reason = reason.trim().replace('\n', "; ");
    let test = thread.rsplit("::").next().unwrap_or_default().replace('_', " ");
    let test = if matches!(&*test, "" | "main") { "this test".to_owned() } else { test };
    match part {
        "" => format!("skipped: {reason}; untested: {test}"),
        part => format!("skipped in part: {reason}; untested: {test}: {part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_skip_says_why_and_what_is_untested() {
        let found = line("no clang-14\n", "bpf::the_object_is_that_of_the_source", "");
        assert_eq!(found, "skipped: no clang-14; untested: the object is that of the source");
        let found = line("not permitted", "main", "io_uring");
        assert_eq!(found, "skipped in part: not permitted; untested: this test: io_uring");
    }
}
