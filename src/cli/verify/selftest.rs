//! `iosonde verify selftest`: tests whether the verifier detects faults.

use std::sync::Mutex;

use clap::Args;
use iosonde_sys::Clock;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, OutputFormat, note};
use crate::cli::place::{self, Place};
use crate::cli::screen;
use crate::cli::words::{not_one_of, time};
use crate::schedule::selftest::{self, Extent, Kind, Part};
use iosonde_engine::engine::Control;
use iosonde_model::units::{count, duration};
use iosonde_report::{repetition_json, repetition_text, selftest_json, selftest_text};

/// Test the verifier with injected faults of every kind.
///
/// Each is injected into a simulated device many times, and the verifier must find and classify
/// every visible fault, without false alarms. Faults in stored data cover every block length from
/// 512 to 1m: sectors swapped, copied and shifted within a block, between blocks and between the
/// regions of jobs; tears at any sector; single bit flips.
///
/// Nothing is written to storage. The expected data is known from a second memory above the fault.
/// Exit code 6 if any result is wrong: then no verdict of the verifier can be trusted.
///
/// Examples:
///   iosonde verify selftest
///   iosonde verify selftest --runs 100k --look-alikes 100k --soak-ops 100m
///   iosonde verify selftest --only tear --seed 7
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(in crate::cli) struct SelftestArgs {
    /// Simulations with a visible fault, all kinds together
    #[arg(long, value_name = "N", default_value = "10000", value_parser = at_least_one)]
    runs: u64,
    /// Simulations that only resemble a fault; 0 for none
    #[arg(long, value_name = "N", default_value = "10000", value_parser = number)]
    look_alikes: u64,
    /// Operations of a long simulation, no fault; 0 for none
    #[arg(long, value_name = "N", default_value = "1m", value_parser = number)]
    soak_ops: u64,
    /// Seed; with --only the seed of the single simulation
    #[arg(long, visible_alias = "randseed", value_name = "N")]
    seed: Option<u64>,
    /// Only the simulation of this seed, block by block: a kind of fault, or none for a look-alike
    #[arg(long, value_name = "FAULT", requires = "seed",
          conflicts_with_all = ["runs", "look_alikes", "soak_ops", "eta_interval"])]
    only: Option<String>,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "5")]
    eta_interval: String,
}

/// Runs `verify selftest`.
pub(in crate::cli) fn selftest(args: &SelftestArgs) -> Result<Exit, Failure> {
    args.output_format.supports("verify selftest")?;
    if let (Some(word), Some(seed)) = (&args.only, args.seed) {
        return only(word, seed, Output::new(args.output_format));
    }
    let interval_ns = time("--eta-interval", &args.eta_interval)?;
    let place = Place::find()?;
    let seed = args.seed.unwrap_or_else(place::fresh_seed);
    let extent = Extent {
        faults: args.runs,
        look_alikes: args.look_alikes,
        soak_ops: args.soak_ops,
        seed,
        threads: place.cpus() as usize,
        small: false,
    };
    let control = Control::new(std::sync::Arc::clone(&place.signal));
    let printer = Printer::new(place.clock, interval_ns, extent);
    let matrix = selftest::selftest(&extent, &control, &|part, done| printer.moved(part, done));
    let elapsed_ns = printer.end();
    let interrupted = place.interrupted();
    let complete = interrupted.is_none();
    let exit = match interrupted {
        Some(signal) => Exit::Signal(signal),
        None if matrix.is_clean() => Exit::Done,
        None => Exit::Invalid,
    };
    let mut output = Output::new(args.output_format);
    output.text(&selftest_text(&matrix, seed, elapsed_ns, complete, screen::columns()));
    output.value(&selftest_json(&matrix, seed, elapsed_ns, complete, exit.code()));
    Ok(output.end(exit))
}

/// Repeats one simulation.
fn only(word: &str, seed: u64, mut output: Output) -> Result<Exit, Failure> {
    let kind = match word {
        "none" => None,
        word => Some(kind(word)?),
    };
    let repetition = selftest::repeat(kind, seed);
    let exit = if repetition.right { Exit::Done } else { Exit::Invalid };
    output.text(&repetition_text(&repetition));
    output.value(&repetition_json(&repetition, exit.code()));
    Ok(output.end(exit))
}

/// Kind of fault by its name; the seed determines its value and time.
fn kind(found: &str) -> Result<Kind, Failure> {
    let kind = Kind::all().find(|kind| kind.word() == found);
    kind.ok_or_else(|| {
        let known: Vec<&str> = Kind::all().map(Kind::word).chain(["none"]).collect();
        not_one_of("--only", found, &known)
    })
}

/// Parses a number with suffix k, m or g, which are decimal here.
fn number(text: &str) -> Result<u64, String> {
    let expected = || format!("found `{text}`, expected a number such as 5000, 10k or 100m");
    let lower = text.to_ascii_lowercase();
    let units = [("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000)];
    let unit = units.into_iter().find_map(|(word, unit)| Some((lower.strip_suffix(word)?, unit)));
    let (digits, unit) = unit.unwrap_or((&lower, 1u64));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number).ok_or_else(expected)?;
    number
        .checked_mul(unit)
        .filter(|number| *number <= MOST)
        .ok_or_else(|| format!("found `{text}`, expected at most {}", count::thousands(MOST)))
}

/// Largest number accepted.
const MOST: u64 = 1_000_000_000_000;

fn at_least_one(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("found 0, expected at least 1".into()),
        number => Ok(number),
    }
}

/// Prints the progress.
struct Printer {
    clock: Clock,
    begun_ns: u64,
    interval_ns: u64,
    extent: Extent,
    reported_ns: Mutex<u64>,
}

impl Printer {
    fn new(clock: Clock, interval_ns: u64, extent: Extent) -> Printer {
        let begun_ns = clock.now_ns();
        Printer { clock, begun_ns, interval_ns, extent, reported_ns: Mutex::new(begun_ns) }
    }

    /// Prints the progress of a part, unless another thread is printing.
    fn moved(&self, part: Part, done: u64) {
        let Ok(mut reported_ns) = self.reported_ns.try_lock() else { return };
        let now_ns = self.clock.now_ns();
        if self.interval_ns == 0 || now_ns < *reported_ns + self.interval_ns {
            return;
        }
        *reported_ns = now_ns;
        let (what, all) = match part {
            Part::Faults => ("faults", self.extent.faults),
            Part::LookAlikes => ("look-alikes", self.extent.look_alikes),
            Part::Soak => ("soak", self.extent.soak_ops),
        };
        let elapsed = duration::span(now_ns - self.begun_ns);
        let (done, all) = (count::thousands(done.min(all)), count::thousands(all));
        note(&format!("selftest, {what}: {done} of {all}, {elapsed} so far"));
    }

    /// Elapsed time, ns.
    fn end(self) -> u64 {
        self.clock.now_ns() - self.begun_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_in_thousands() {
        for (text, expected) in
            [("0", 0), ("10000", 10_000), ("10K", 10_000), ("100m", 100_000_000)]
        {
            assert_eq!(number(text), Ok(expected));
        }
        for text in ["", "k", "-1", "+1", "1.5m", "1e6", "1t", "1001g", "99999999999999999999"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert!(at_least_one("0").is_err());
    }
}
