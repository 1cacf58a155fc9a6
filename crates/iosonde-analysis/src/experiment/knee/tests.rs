//! Sweeps whose knee, limit or lack of both is known.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::TrialFigures;
use super::super::testing::{at, facts, noise, stage, stage_of};
use super::*;
use crate::finding::{Finding, Severity, Strength};
use iosonde_fixtures::Load;

fn sweep(shape: fn(f64) -> f64) -> StageFacts {
    let mut noise = noise(11, 0.01);
    facts(&stage("queue-depth", "queue-depth"), |cell, _| {
        let depth = at(cell, "iodepth");
        Load { depth: depth as u32, iops: shape(depth) * noise(), ..Load::default() }
    })
}

fn said(facts: &StageFacts) -> String {
    facts.answers[0].1.sentences.join("\n")
}

#[test]
fn the_knee_of_eight_servers_is_found_and_reported() {
    let facts = sweep(|depth| 2_000.0 * depth.min(8.0));
    let knee = facts.found("knee").unwrap();
    assert!((knee / 8.0 - 1.0).abs() < 0.1, "{knee}");
    assert!(facts.found("knee_min").unwrap() <= 8.1 && facts.found("knee_max").unwrap() >= 7.9);
    assert_eq!(facts.found("advised"), Some(8.0));
    assert!((facts.found("n_star").unwrap() / 8.0 - 1.0).abs() < 0.1);
    assert_eq!(facts.found("saturation"), Some(8.0));
    assert_eq!(facts.found("enough"), Some(8.0));
    assert!(said(&facts).contains("Set iodepth 8"), "{}", said(&facts));
    assert!(said(&facts).contains("Little's law holds"), "{}", said(&facts));
    assert_eq!(facts.answers[0].1.warnings, Vec::new());
}

#[test]
fn wrong_depths_are_found_where_runs_are_long_enough_to_show_them() {
    let violated = |shape, longest: fn(u64) -> u64| {
        let mut facts = sweep(shape);
        let runs = facts.points.iter_mut().flat_map(|point| &mut point.runs);
        runs.for_each(|figures| {
            figures.all.depth_seen *= 1.1;
            let max_ns = &mut figures.all.total.latency.max_ns;
            *max_ns = max_ns.map(longest);
        });
        analyse(&facts, &[]).warnings.iter().any(|finding| finding.code == "little")
    };
    assert!(violated(|depth| 2_000.0 * depth.min(8.0), |max| max));
    // One of thirty requests in flight at each end is a fifteenth of all.
    assert!(!violated(|_| 1.0, |max| max));
    // Requests of up to two seconds, which may end after the run.
    assert!(!violated(|depth| 2_000.0 * depth.min(8.0), |_| 2_000_000_000));
}

#[test]
fn what_more_depth_adds_is_said_with_its_numbers() {
    // A gain of a third at twice the knee, and none beyond.
    let more = sweep(|depth| if depth < 4.0 { 3_330.0 * depth.min(2.0) } else { 9_000.0 });
    assert_eq!(more.found("advised"), Some(2.0), "{}", said(&more));
    let words = said(&more);
    let adds = "Set iodepth 2 for the most throughput per latency: iodepth 4 adds 3";
    assert!(words.contains(adds) && words.contains(" for 1.4"), "{words}");
    assert!(!words.contains("rather than throughput"), "{words}");
    // A gain of nearly a twentieth, reported with the highest throughput.
    let little = |depth: f64| if depth < 8.0 { 5_000.0 * depth.min(4.0) } else { 20_900.0 };
    let words = said(&noisy(1, 0.002, little));
    let adds = "Set iodepth 4 for the most throughput per latency: iodepth 8 adds 4.";
    assert!(words.contains(adds), "{words}");
    assert!(!words.contains("rather than throughput"), "{words}");
    let none = said(&sweep(|depth| 2_000.0 * depth.min(8.0)));
    assert!(none.contains("Set iodepth 8: more adds latency rather than"), "{none}");
}

#[test]
fn no_queueing_is_said_only_where_latencies_show_none() {
    // At depth 4, latency is 3 % higher than at depth 1.
    let early = |depth: f64| 2_000.0 * depth.min(5.3) * if depth == 4.0 { 0.97 } else { 1.0 };
    let words = said(&noisy(1, 0.002, early));
    assert!(words.contains("a rise to 10,6"), "{words}");
    let queueing = "with queueing before its end: at iodepth 4 latency is 1.03 times (95 % 1.0";
    assert!(words.contains(queueing) && !words.contains("no queueing"), "{words}");
    let none = |depth: f64| 2_000.0 * depth.min(8.0);
    let words = said(&noisy(1, 0.002, none));
    assert!(words.contains("none beyond: no queueing before saturation (l"), "{words}");
    // Noise of 8 % shows neither.
    let words = said(&noisy(3, 0.08, none));
    assert!(words.contains("a linear rise to 1") && !words.contains("queueing b"), "{words}");
}

/// Runs of 30 s with this scatter of their counts: small for a limiter, larger for a queue.
fn bursting(scatter: f64, peak: f64) -> StageFacts {
    let mut noise = noise(7, scatter);
    facts(&stage("queue-depth", "queue-depth"), |cell, _| {
        let depth = at(cell, "iodepth");
        let rate = [3_330.0, peak][usize::from(depth > 1.0)];
        let rate = if depth > 2.0 { 6_000.0 } else { rate };
        Load { depth: depth as u32, iops: rate * noise(), noise: 0.0, ..Load::default() }
    })
}

#[test]
fn levels_of_one_exact_rate_below_a_peak_are_a_limiter_and_a_queue_is_not() {
    let limited = bursting(0.000_1, 6_660.0);
    let words = said(&limited);
    assert!(words.contains("6,000 IOPS is that of a limiter"), "{words}");
    assert!(words.contains("iodepth 2 did 6,660"), "{words}");
    for wrong in ["highest throughput", "falls by", "Set ", "lowest with"] {
        assert!(!words.contains(wrong), "{wrong}: {words}");
    }
    assert_eq!(limited.found("advised"), None);
    let queue = said(&bursting(0.005, 6_660.0));
    assert!(queue.contains("throughput falls by") && !queue.contains("limiter"), "{queue}");
}

/// Sets the standard deviation of the latencies of each run, as a share of their mean, by depth.
fn with_scatter(mut facts: StageFacts, of: impl Fn(f64) -> f64) -> StageFacts {
    for point in &mut facts.points {
        let share = of(point.at("iodepth").unwrap());
        for run in &mut point.runs {
            let latency = &mut run.all.total.latency;
            latency.std_dev_ns = latency.mean_ns.map(|mean| mean * share);
        }
    }
    facts
}

#[test]
fn levels_of_one_exact_rate_are_a_limit_only_where_service_scatters() {
    let flat = bursting(0.000_1, 6_000.0);
    let words = said(&flat);
    assert!(words.contains("stops growing at iodepth 2 (6,000 "), "{words}");
    assert!(words.contains("as of a rate limiter or a link: iodepth 2 to 256 have"), "{words}");
    assert!(!words.contains("Set ") && flat.found("advised").is_none(), "{words}");
    let queue = said(&bursting(0.005, 6_000.0));
    assert!(queue.contains("Set iodepth 2") && !queue.contains("limit"), "{queue}");
    let constant = analyse(&with_scatter(flat, |_| 0.0), &[]).sentences.join("\n");
    assert!(constant.contains("Set iodepth 2") && !constant.contains("limit"), "{constant}");
}

#[test]
fn a_full_queue_before_servers_of_constant_speed_is_no_limit() {
    // Three servers: at depth 4, a request waits for at most one other.
    let servers = || {
        facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            let iops = 5_000.0 * depth.min(3.0);
            Load { depth: depth as u32, iops, noise: 0.0, ..Load::default() }
        })
    };
    let full = |depth: f64| if depth < 3.0 { 0.0 } else { 1.4 / depth };
    let words = analyse(&with_scatter(servers(), full), &[]).sentences.join("\n");
    assert!(words.contains("Set iodepth 4") && !words.contains("limit"), "{words}");
    let limited = |depth: f64| if depth < 3.0 { 0.5 } else { 1.4 / depth };
    let words = analyse(&with_scatter(servers(), limited), &[]).sentences.join("\n");
    assert!(words.contains("a limit, as of a rate limiter") && !words.contains("Set "), "{words}");
    // Without a lower level, both are possible.
    let mut facts = with_scatter(servers(), full);
    facts.points.retain(|point| point.at("iodepth") >= Some(4.0));
    let words = analyse(&facts, &[]).sentences.join("\n");
    assert!(words.contains("is not decidable yet: iodepth 4 to 256 have one rate"), "{words}");
    assert!(!words.contains("Set ") && !words.contains("because of a limit"), "{words}");
}

#[test]
fn a_rate_that_is_as_even_as_its_service_is_no_limit() {
    // Counts of 60,000 requests whose dispersion is 0.01 or 0.001 of independent arrivals'.
    let said = |dispersion: f64| {
        let mut flat = with_scatter(bursting(0.0, 6_000.0), |_| 0.1);
        let mut noise = noise(7, f64::sqrt(dispersion / 60_000.0));
        for run in flat.points.iter_mut().flat_map(|point| &mut point.runs) {
            run.all.total.iops *= noise();
        }
        analyse(&flat, &[]).sentences.join("\n")
    };
    let servers = said(0.01);
    assert!(servers.contains("Set iodepth 2") && !servers.contains("limit"), "{servers}");
    let open = said(0.001);
    assert!(open.contains("whether a limit or the storage sets it needs"), "{open}");
    assert!(!open.contains("Set ") && !open.contains("because of a limit"), "{open}");
    let limit = said(0.000_1);
    assert!(limit.contains("because of a limit") && !limit.contains("Set "), "{limit}");
}

#[test]
fn what_is_reported_is_a_level_of_the_axis_whatever_the_jobs_and_the_order_of_the_file() {
    let stage = stage_of(
        "repeats = 3\nset = { numjobs = 4 }\nanalysis = [\"knee\"]\n[[stage.axis]]\nname = \
         \"rw\"\nvalues = [\"randread\"]\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [32, 1, \
         8, 2, 64, 16, 4]\n",
    );
    let mut noise = noise(5, 0.01);
    let facts = facts(&stage, |cell, _| {
        let depth = 4.0 * at(cell, "iodepth");
        Load { depth: depth as u32, iops: 500.0 * depth.min(32.0) * noise(), ..Load::default() }
    });
    let near = |name: &str| (facts.found(name).unwrap() / 8.0 - 1.0).abs() < 0.1;
    assert!(near("knee"), "{}", said(&facts));
    assert_eq!(facts.found("advised"), Some(8.0));
    assert_eq!(facts.found("saturation"), Some(8.0));
    assert_eq!(facts.found("enough"), Some(8.0));
    assert!(facts.found("knee_max").unwrap() < 12.0);
    assert!(facts.found("n_star").is_none(), "R(1) was not measured");
    assert!(said(&facts).contains("Set iodepth 8"), "{}", said(&facts));
}

#[test]
fn depths_that_do_not_follow_the_axis_give_a_knee_over_the_axis() {
    let facts = sweep(|depth| 2_000.0 * depth.min(8.0));
    let points: Vec<&Point> = facts.points.iter().collect();
    let line = Line { name: "", axis: "iodepth", points: &points, lines: 1, per_level: None };
    let levels: Vec<Level> = points.iter().filter_map(|point| line.level(point)).collect();
    let knee = line.in_levels(knee::knee(&levels, 1));
    assert_eq!((knee.state, knee.asymptotes_cross), (State::Found, None));
}

#[test]
fn a_straight_line_and_a_flat_one_have_no_knee_within() {
    let rising = sweep(|depth| 100.0 * depth);
    assert!(said(&rising).contains("outside the sweep, at or beyond iodepth 256"));
    assert_eq!(rising.found("knee_outside"), Some(1.0));
    assert_eq!(rising.found("advised"), None);
    let flat = sweep(|_| 4_000.0);
    assert!(said(&flat).contains("outside the sweep, at or below iodepth 1"), "{}", said(&flat));
    assert_eq!(flat.found("enough"), Some(1.0));
    let words = said(&flat);
    assert!(words.contains(" IOPS from iodepth 1 on"), "{words}");
    assert!(words.contains("iodepth 256 does ") && !words.contains("a linear rise"), "{words}");
}

#[test]
fn what_follows_a_knee_at_the_lower_edge_is_a_sentence() {
    for (seed, scatter) in [(11, 0.01), (1, 0.002), (3, 0.08)] {
        let words = said(&noisy(seed, scatter, |depth| 4_000.0 * depth.powf(0.05)));
        let Some((_, after)) = words.split_once("at or below iodepth 1 (") else { continue };
        assert!(after.contains(" IOPS at ") && after.contains("). Set iodepth 1"), "{words}");
        return;
    }
    panic!("no knee at the lower edge");
}

#[test]
fn a_maximum_that_only_the_last_level_shows_is_not_stated() {
    // 300 servers: the last level lies on the rise or slightly below it.
    for (below, seed) in [(1.0, 1), (1.0, 2), (0.97, 3), (0.97, 4)] {
        let mut noise = noise(seed, 0.003);
        let facts = facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            let share = if depth == 256.0 { below } else { 1.0 };
            let iops = 100.0 * depth * share * noise();
            Load { depth: depth as u32, iops, ..Load::default() }
        });
        let words = said(&facts);
        assert!(words.contains("it is not yet saturated at iodepth 256"), "{words}");
        assert!(words.contains("a linear rise, not saturated in this sweep"), "{words}");
    }
    // 200 servers: saturated somewhere between the last two levels.
    let words = said(&sweep(|depth| 1_111.0 * depth.min(200.0)));
    assert!(words.contains("throughput still grows at iodepth 256, less than the"), "{words}");
    assert!(words.contains("that bends before iodepth 256; its maximum is not"), "{words}");
    assert!(!words.contains("saturated") && !words.contains("none beyond"), "{words}");
}

#[test]
fn a_maximum_that_was_not_half_reached_is_not_stated() {
    let words = said(&noisy(1, 0.002, |depth| 40_000.0 * depth / (depth + 39.0)));
    assert!(words.contains("equal units accessed at random, which approach"), "{words}");
    let words = said(&noisy(1, 0.002, |depth| 400_000.0 * depth / (depth + 399.0)));
    assert!(!words.contains("equal units"), "{words}");
    assert!(words.contains("less than half way to its maximum"), "{words}");
}

#[test]
fn throughput_that_falls_is_reported_and_one_that_does_not_is_not() {
    let falling = sweep(|n| 2_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0)));
    assert!(falling.found("fall_share").unwrap() > 0.3, "{}", said(&falling));
    assert!(sweep(|depth| 2_000.0 * depth.min(8.0)).found("fall_share").is_none());
}

/// Runs with this relative noise, from random numbers with this seed.
fn noisy(seed: u64, relative: f64, shape: fn(f64) -> f64) -> StageFacts {
    let mut noise = noise(seed, relative);
    facts(&stage("queue-depth", "queue-depth"), |cell, _| {
        let depth = at(cell, "iodepth");
        Load { depth: depth as u32, iops: shape(depth) * noise(), ..Load::default() }
    })
}

#[test]
fn of_ties_the_figures_are_those_of_the_highest_and_no_fall_is_named() {
    for seed in 1..30 {
        // Falls by a tenth at the last level, which three runs hardly show.
        let falling = |depth: f64| 2_000.0 * depth.min(8.0) - 6.25 * depth;
        let facts = noisy(seed, 0.04, falling);
        let said = said(&facts);
        let ties = said.lines().find(|line| line.contains("highest throughput at")).unwrap();
        let Some((_, figures)) = ties.split_once(" (not shown to differ): ") else {
            continue;
        };
        let points: Vec<&Point> = facts.points.iter().collect();
        let Some(Ranking::Ties { points, .. }) = gate::ranking(&points, Measure::Iops) else {
            panic!("{ties}")
        };
        let (lowest, iops) = (points[0], |point: &&Point| point.mean(Measure::Iops).unwrap());
        let highest = points.iter().copied().max_by(|a, b| iops(a).total_cmp(&iops(b)));
        let highest = highest.unwrap().formatted(Measure::Iops);
        assert!(figures.starts_with(&highest), "{highest}: {ties}");
        let end = format!("at iodepth {}, the lowest of these.", lowest.name());
        assert!(figures.ends_with(&end), "{ties}");
        let is_tied_to_last = ties.contains(" to 256 (not shown");
        assert!(!is_tied_to_last || !said.contains("throughput falls by"), "{seed}: {said}");
    }
}

#[test]
fn a_limit_that_most_of_the_plateau_names_is_no_knee() {
    let mut facts = sweep(|depth| 2_000.0 * depth.min(8.0));
    // The limit holds neither at the knee nor at the level above it.
    let above = |trial: &&mut TrialFigures| facts.points[trial.cell].at("iodepth") > Some(16.0);
    for trial in facts.trials.iter_mut().filter(above) {
        trial.findings.push(Finding::new(
            "token_bucket",
            "a rate limiter at 16,000 IOPS",
            Strength::Supported,
            Severity::Limit,
            String::new(),
        ));
    }
    let answer = analyse(&facts, &[]);
    let first = &answer.sentences[0];
    assert!(first.contains("stops growing at iodepth 8 ("), "{first}");
    assert!(first.contains("because of a rate limiter at 16,000 IOPS"), "{first}");
    assert_eq!(answer.found.get("advised"), None);
}

#[test]
fn a_level_whose_rate_falls_within_its_runs_is_no_knee() {
    let facts = facts(&stage("queue-depth", "queue-depth"), |cell, repeat| {
        let depth = at(cell, "iodepth");
        // A bucket of 20,000/s: at depth 2 a burst of a tenth more lasts for half of the run.
        let burst: fn(f64) -> f64 = |time| if time < 0.5 { 1.1 } else { 1.0 };
        let even: fn(f64) -> f64 = |_| 1.0;
        Load {
            depth: depth as u32,
            iops: (11_000.0 * depth).min(20_000.0),
            shape: if depth == 2.0 { burst } else { even },
            seed: u64::from(repeat) + 1,
            ..Load::default()
        }
    });
    let words = said(&facts);
    assert_eq!(facts.found("advised"), None, "{words}");
    assert!(words.contains("no knee of the storage") || words.contains("falls within"), "{words}");
}

#[test]
fn one_run_that_shows_the_limiter_holds_for_levels_of_the_same_rate() {
    let mut facts = sweep(|depth| 2_000.0 * depth.min(8.0));
    let limiter = Finding::new(
        "token_bucket",
        "a rate limiter at 16,000 IOPS",
        Strength::Supported,
        Severity::Limit,
        String::new(),
    );
    let trial = facts.trials.iter_mut().find(|trial| trial.cell == facts.points.len() - 1);
    trial.unwrap().findings.push(limiter.with("sustained_iops", 16_000.0));
    let answer = analyse(&facts, &[]);
    let first = &answer.sentences[0];
    assert!(first.contains("because of a rate limiter at 16,000 IOPS"), "{first}");
}
