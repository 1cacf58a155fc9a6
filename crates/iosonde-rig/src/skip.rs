//! How a test says that it could not run.

use std::fmt::Display;

/// Says that the running test cannot run on this machine, why, and what is therefore untested: what
/// the name of the test states. The test then returns.
pub fn skip(reason: impl Display) {
    say(&reason.to_string(), "");
}

/// The same for a part of the running test, of which the rest runs: `io_uring`, `the median`.
pub fn skip_part(part: &str, reason: impl Display) {
    say(&reason.to_string(), part);
}

#[allow(clippy::print_stderr, reason = "a skipped test says why; `.ci/summary` collects it")]
fn say(reason: &str, part: &str) {
    let thread = std::thread::current();
    eprintln!("{}", line(reason, thread.name().unwrap_or_default(), part));
}

/// One line. With a single test thread the tests run on the main one, which is not named after
/// them; the harness then names the test beside its output.
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
