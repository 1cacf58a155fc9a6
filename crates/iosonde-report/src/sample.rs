//! A report with invented numbers and every kind of block, for tests of renderers. The browser
//! tests of the page (`tests/html`) include this file too.
//!
//! Its device has 8 servers of 100 µs each, so the knee is at a depth of 8 and the ceiling at
//! 80,000 operations per second. Nothing was measured.

#[path = "sample/figures.rs"]
mod figures;

use crate::report::{
    Block, Column, DataSet, Datum, Entry, Picture, Report, Section, Source, Table, Trust, Warning,
};
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration;

const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const REPEATS: u32 = 3;
/// Servers of the invented device, and the service time of one operation.
const SERVERS: f64 = 8.0;
const SERVICE_NS: f64 = 100_000.0;
/// Depths presented as being of low confidence and as failed.
const LOW_CONFIDENCE: u32 = 128;
const FAILED: u32 = 256;
/// Length of the throughput graph, and the start of the disturbance, seconds.
const SECONDS: u32 = 60;
const DISTURBED: u32 = 41;

/// One invented run at one depth.
#[derive(Clone, Copy, Debug)]
struct Trial {
    depth: u32,
    repeat: u32,
    iops: f64,
    mean_ns: f64,
    p99_ns: f64,
}

/// All invented runs at one depth.
#[derive(Clone, Copy, Debug)]
struct Level {
    depth: u32,
    iops: f64,
    low: f64,
    high: f64,
    mean_ns: f64,
    p99_ns: f64,
    trust: Trust,
}

pub(crate) fn report() -> Report {
    let trials = trials();
    let levels = levels(&trials);
    Report {
        conformance: None,
        title: "Demonstration: invented numbers of a device that does not exist".into(),
        source: Source {
            program: concat!("iosonde ", env!("CARGO_PKG_VERSION")).into(),
            command: ["iosonde", "report", "--demo"].map(str::to_owned).to_vec(),
            started_unix_ns: None,
            complete: true,
            exit_code: 0,
        },
        question: "How many requests in flight does this device need, and what do more of them \
                   cost?"
            .into(),
        answer: vec![
            "8 requests in flight are enough: 58,400 operations per second, with a mean latency \
             of 137 µs."
                .into(),
            "More of them make it wait longer and little else: at 64 it does 36 % more and each \
             request takes 6 times as long."
                .into(),
        ],
        warnings: vec![
            Warning::new(
                "invented",
                "",
                true,
                "Nothing here was measured. All numbers are invented, to show what a report looks \
                 like.",
            ),
            Warning::new(
                "consistency",
                "proven",
                true,
                "At a depth of 256 a consistency check failed: 71,304 requests were submitted and \
                 71,296 came back. This point has no number.",
            ),
            Warning::new(
                "neighbour",
                "consistent with",
                false,
                "At a depth of 128 the rate fell by a third in second 41, while the device \
                 counted 2.1 GB that were not ours.",
            ),
        ],
        sections: vec![queue_depth(&levels), tails(), course()],
        method: vec![
            "4 KiB random reads of a 16 GiB file, direct, by io_uring, with one job.".into(),
            "3 repeats of 60 s at each of 9 depths, in randomised complete blocks (seed 7), after \
             a warm-up of 5 s."
                .into(),
            "Intervals are 95 % intervals of the mean over the repeats.".into(),
        ],
        environment: [
            ("device", "demo0, 1.0 TB, invented"),
            ("model", "EXAMPLE Model <8>"),
            ("kernel", "none"),
            ("processor", "none"),
            ("file system", "none"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        data: vec![trials_data(&trials), points_data(&levels), course_data()],
    }
}

/// A reproducible pseudo-random number from -1 to 1.
fn wobble(seed: u32) -> f64 {
    f64::from(seed.wrapping_mul(2_654_435_761) >> 8) / f64::from(1u32 << 23) - 1.0
}

/// Throughput at a depth: close to the maximum of the servers, lower where requests collide.
fn iops(depth: u32) -> f64 {
    let ceiling = SERVERS / SERVICE_NS * 1e9;
    let offered = f64::from(depth) / SERVICE_NS * 1e9;
    // A smooth minimum of both.
    (offered.powf(-2.2) + ceiling.powf(-2.2)).powf(-1.0 / 2.2)
}

fn trials() -> Vec<Trial> {
    let one = |depth: u32, repeat: u32| {
        let spread = if depth == LOW_CONFIDENCE { 0.09 } else { 0.012 };
        let fall = if depth == LOW_CONFIDENCE { 0.86 } else { 1.0 };
        let iops = iops(depth) * fall * (1.0 + spread * wobble(depth * 31 + repeat * 7 + 1));
        let mean_ns = f64::from(depth) / iops * 1e9;
        Trial { depth, repeat, iops, mean_ns, p99_ns: mean_ns * 2.13 }
    };
    DEPTHS.iter().flat_map(|depth| (1..=REPEATS).map(move |repeat| one(*depth, repeat))).collect()
}

fn levels(trials: &[Trial]) -> Vec<Level> {
    let level = |depth: &u32| {
        let of: Vec<&Trial> = trials.iter().filter(|trial| trial.depth == *depth).collect();
        let mean = |value: fn(&Trial) -> f64| {
            of.iter().map(|trial| value(trial)).sum::<f64>() / of.len() as f64
        };
        let iops = mean(|trial| trial.iops);
        let squares: f64 = of.iter().map(|trial| (trial.iops - iops).powi(2)).sum();
        // The 97.5 % quantile of t with two degrees of freedom, divided by the root of three.
        let half = 4.303 * (squares / 2.0 / 3.0).sqrt();
        let trust = match *depth {
            LOW_CONFIDENCE => Trust::LowConfidence,
            FAILED => Trust::Failed,
            _ => Trust::Good,
        };
        let (mean_ns, p99_ns) = (mean(|trial| trial.mean_ns), mean(|trial| trial.p99_ns));
        Level { depth: *depth, iops, low: iops - half, high: iops + half, mean_ns, p99_ns, trust }
    };
    DEPTHS.iter().map(level).collect()
}

fn queue_depth(levels: &[Level]) -> Section {
    let mut blocks = vec![Block::Words(
        "Up to 8 requests in flight each further one adds what the first one brought. From there \
         on the servers are busy, and a further request waits."
            .into(),
    )];
    blocks.extend(picture(
        "queue-depth-rate",
        "Operations per second at each depth, with 95 % intervals: they rise up to a depth of 8 \
         and hardly beyond",
        figures::rate(levels),
    ));
    blocks.extend(picture(
        "queue-depth-latency",
        "Mean and 99th percentile of the latency at each depth: both double with every doubling \
         from a depth of 16 on",
        figures::latency(levels),
    ));
    blocks.push(Block::Table(table(levels)));
    Section::new("queue-depth", "Queue depth", blocks)
}

fn tails() -> Section {
    let mut blocks = vec![Block::List(vec![
        "At a depth of 1 one operation in a thousand takes longer than 0.28 ms.".into(),
        "At a depth of 64 every one does.".into(),
    ])];
    blocks.extend(picture(
        "tails",
        "Share of operations above each latency at depths of 1, 8 and 64",
        figures::tails(),
    ));
    Section::new("tails", "Tail latency", blocks)
}

fn course() -> Section {
    let words = "The first repeat at a depth of 128, second by second.".into();
    let mut blocks = vec![Block::Words(words)];
    blocks.extend(picture(
        "course",
        "Operations per second over a minute: they fall by a third in second 41",
        figures::course(),
    ));
    Section::new("course", "Over time", blocks)
}

/// Invented operations per second in one second of the disturbed run.
fn second(at: u32) -> f64 {
    let share = if at < DISTURBED { 1.0 } else { 0.66 };
    iops(LOW_CONFIDENCE) * share * (1.0 + 0.015 * wobble(at + 500))
}

type Drawn = Result<crate::chart::Figure, crate::chart::ChartError>;

/// A picture as a block; a test proves that none fails to draw.
fn picture(name: &str, caption: &str, figure: Drawn) -> Option<Block> {
    let figure = figure.ok()?;
    let (name, caption) = (name.to_owned(), caption.to_owned());
    Some(Block::Picture(Box::new(Picture { name, caption, figure })))
}

fn table(levels: &[Level]) -> Table {
    let mut columns = Column::all(&[], &["depth", "IOPS", "95 % interval", "mean latency", "p99"]);
    columns.push(Column::words("remark"));
    let rows = levels.iter().map(row).collect();
    Table { caption: "Points, each over 3 repeats".into(), columns, rows }
}

fn row(level: &Level) -> Vec<Entry> {
    let whole = |value: f64| thousands(value.round() as u64);
    let interval = format!("{} to {}", whole(level.low), whole(level.high));
    let (mean, p99) = (duration::latency(level.mean_ns), duration::latency(level.p99_ns));
    let (more, remark) = match level.trust {
        Trust::Good if level.depth == 8 => ("", "knee"),
        Trust::Good => ("", ""),
        Trust::LowConfidence => ("the rate fell by a third in second 41", "disturbed"),
        Trust::Failed => ("71,304 requests were submitted and 71,296 came back", "invalid"),
    };
    let judged = |text: String| Entry { text, more: more.into(), trust: level.trust };
    let figures = match level.trust {
        Trust::Failed => [(); 4].map(|()| "n/a".to_owned()),
        Trust::Good | Trust::LowConfidence => [whole(level.iops), interval, mean, p99],
    };
    let mut row = vec![Entry::of(level.depth.to_string())];
    row.extend(figures.map(judged));
    row.push(Entry::of(remark));
    row
}

fn trials_data(trials: &[Trial]) -> DataSet {
    let columns = ["queue_depth", "repeat", "status", "iops", "latency_mean_ns", "latency_p99_ns"];
    let rows = trials.iter().map(|trial| {
        let failed = trial.depth == FAILED;
        let number = |value: f64| Datum::from((!failed).then_some(value.round()));
        vec![
            Datum::Integer(trial.depth.into()),
            Datum::Integer(trial.repeat.into()),
            if failed { "invalid".into() } else { "complete".into() },
            number(trial.iops),
            number(trial.mean_ns),
            number(trial.p99_ns),
        ]
    });
    DataSet::new("trials", columns, rows)
}

fn points_data(levels: &[Level]) -> DataSet {
    let columns = [
        "queue_depth",
        "status",
        "iops",
        "iops_low",
        "iops_high",
        "latency_mean_ns",
        "latency_p99_ns",
    ];
    let rows = levels.iter().map(|level| {
        let number =
            |value: f64| Datum::from((level.trust != Trust::Failed).then_some(value.round()));
        let status = match level.trust {
            Trust::Good => "good",
            Trust::LowConfidence => "low confidence",
            Trust::Failed => "failed",
        };
        vec![
            Datum::Integer(level.depth.into()),
            status.into(),
            number(level.iops),
            number(level.low),
            number(level.high),
            number(level.mean_ns),
            number(level.p99_ns),
        ]
    });
    DataSet::new("points", columns, rows)
}

fn course_data() -> DataSet {
    let rows = (0..SECONDS).map(|at| {
        let start = Datum::Integer(u64::from(at) * 1_000_000_000);
        vec![start, Datum::Number(second(at).round())]
    });
    DataSet::new("course", ["start_ns", "iops"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_of_the_demonstration_can_be_drawn() {
        let report = report();
        let names: Vec<&str> = report.pictures().map(|picture| picture.name.as_str()).collect();
        assert_eq!(names, ["queue-depth-rate", "queue-depth-latency", "tails", "course"]);
        for picture in report.pictures() {
            assert!(picture.figure.svg().is_ok(), "{}", picture.name);
        }
        assert_eq!(report, super::report());
    }

    #[test]
    fn its_words_are_true_of_its_numbers() {
        let levels = levels(&trials());
        let at = |depth| levels.iter().find(|level| level.depth == depth).copied();
        let (eight, many) = (at(8).map(|l| l.iops.round()), at(64));
        let words = report().answer.join(" ");
        let rate = eight.map(|iops| thousands((iops / 100.0).round() as u64 * 100));
        assert!(words.contains(&rate.clone().unwrap_or_default()), "{rate:?}: {words}");
        let mean = at(8).map(|level| duration::latency(level.mean_ns)).unwrap_or_default();
        assert!(words.contains(&mean), "{mean}: {words}");
        let gain = many.map(|l| l.iops).zip(eight).map(|(many, eight)| many / eight);
        assert!(gain.is_some_and(|gain| (1.30..1.45).contains(&gain)), "{gain:?}");
    }

    #[test]
    fn every_row_has_its_cells() {
        for data in report().data {
            assert!(data.rows.iter().all(|row| row.len() == data.columns.len()), "{}", data.name);
        }
    }
}
