//! Verdicts of comparisons of runs with known differences.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::identity::Facts;
use super::*;
use iosonde_stats::chance::Chance;

/// Normal noise (Box and Muller).
fn noise(draws: &mut Chance) -> f64 {
    let mut unit = || ((draws.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (radius, angle) = (unit(), unit());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Runs around a level.
fn runs(draws: &mut Chance, count: usize, level: f64, spread: f64) -> Vec<f64> {
    (0..count).map(|_| level * (1.0 + spread * noise(draws))).collect()
}

/// Verdicts over simulated pairs of `count` runs a side, B at `level` of A, and the raw p values.
fn simulated(pairs: u64, count: usize, level: f64, spread: f64) -> (Vec<Verdict>, Vec<f64>) {
    let mut draws = Chance::new(count as u64 ^ level.to_bits());
    let comparison = (0..pairs).map(|seed| {
        let a = runs(&mut draws, count, 100.0, spread);
        let b = runs(&mut draws, count, 100.0 * level, spread);
        let contrast = Contrast::of_sides(&a, &b, seed).unwrap();
        let verdict = contrast.verdict(Better::Higher, contrast.p, contrast::TOLERANCE, 1);
        (verdict, contrast.p)
    });
    comparison.unzip()
}

fn share(verdicts: &[Verdict], of: impl Fn(&Verdict) -> bool) -> f64 {
    verdicts.iter().filter(|verdict| of(verdict)).count() as f64 / verdicts.len() as f64
}

#[test]
fn equal_sides_are_seldom_called_different() {
    let (verdicts, p) = simulated(2_000, 10, 1.0, 0.02);
    let small = p.iter().filter(|p| **p <= 0.05).count() as f64 / p.len() as f64;
    assert!((0.03..=0.07).contains(&small), "{small}");
    let wrong = share(&verdicts, |v| matches!(v, Verdict::Faster | Verdict::Slower));
    assert!(wrong <= 0.01, "{wrong}");
    let same = share(&verdicts, |v| matches!(v, Verdict::Same { .. }));
    assert!(same > 0.4, "ten quiet runs are often enough to say so: {same}");
}

#[test]
fn a_slowdown_of_eight_percent_is_seen_with_five_runs() {
    let (verdicts, _) = simulated(1_000, 5, 0.92, 0.02);
    let slower = share(&verdicts, |verdict| *verdict == Verdict::Slower);
    assert!(slower >= 0.9, "{slower}");
    assert_eq!(share(&verdicts, |verdict| *verdict == Verdict::Faster), 0.0);
}

#[test]
fn a_slowdown_of_five_percent_is_never_the_same() {
    for (count, spread, pairs) in [(5, 0.02, 1_000), (10, 0.02, 500), (5, 0.005, 500)] {
        let (verdicts, _) = simulated(pairs, count, 0.95, spread);
        let same = share(&verdicts, |verdict| matches!(verdict, Verdict::Same { .. }));
        assert_eq!(same, 0.0, "{count} runs at {spread}");
    }
}

#[test]
fn rounds_see_through_a_drift_that_both_sides_share() {
    let mut draws = Chance::new(5);
    let drift: Vec<f64> = (0..10).map(|round| 100.0 * 1.1f64.powi(round)).collect();
    let mut side = |level: f64| -> Vec<f64> {
        drift.iter().map(|at| at * level * (1.0 + 0.005 * noise(&mut draws))).collect()
    };
    let (a, b) = (side(1.0), side(0.9));
    let verdict = |contrast: Contrast| contrast.verdict(Better::Higher, contrast.p, 0.05, 1);
    assert_eq!(verdict(Contrast::of_rounds(&a, &b, 1).unwrap()), Verdict::Slower);
    let blind = verdict(Contrast::of_sides(&a, &b, 1).unwrap());
    assert!(matches!(blind, Verdict::Inconclusive { .. }), "{blind:?}");
}

#[test]
fn exchanging_the_sides_turns_the_verdict_round() {
    let mut draws = Chance::new(8);
    for level in [0.8, 0.95, 1.0, 1.04, 1.3] {
        let (a, b) = (runs(&mut draws, 8, 50.0, 0.01), runs(&mut draws, 8, 50.0 * level, 0.01));
        let of = |a: &[f64], b: &[f64]| {
            let contrast = Contrast::of_sides(a, b, 1).unwrap();
            (contrast.verdict(Better::Higher, contrast.p, 0.05, 1), contrast.ratio)
        };
        let ((one, ratio), (other, turned)) = (of(&a, &b), of(&b, &a));
        assert!((ratio * turned - 1.0).abs() < 1e-12);
        let expected = match one {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            same => same,
        };
        assert_eq!(other, expected, "{level}");
    }
}

#[test]
fn few_runs_get_numbers_and_no_verdict_and_too_many_questions_more_runs() {
    let few = Contrast::of_sides(&[1.0; 4], &[2.0; 9], 1).unwrap();
    assert_eq!(few.verdict(Better::Higher, few.p, 0.05, 1), Verdict::TooFew);
    assert_eq!((few.ratio, few.interval), (2.0, None));
    // The sides are completely separated, but seven tests need more than five runs.
    let (a, b) = ([1.00, 1.01, 1.02, 1.03, 1.04], [2.00, 2.01, 2.02, 2.03, 2.04]);
    let contrast = Contrast::of_sides(&a, &b, 1).unwrap();
    let corrected = contrast.p * 7.0;
    let verdict = contrast.verdict(Better::Higher, corrected, 0.05, 7);
    let expected = Verdict::Inconclusive {
        more_to_differ: Some(3),
        more_to_be_same: None,
        more_to_decide: Some(3),
    };
    assert_eq!(verdict, expected);
    // Five runs with an observed spread of 5 % allow a true one of 8.6 %; with 500 %, anything.
    let mut noisy = Contrast::of_sides(&a, &a, 1).unwrap();
    noisy.spread = Some(0.05);
    let verdict = noisy.verdict(Better::Higher, 0.5, 0.05, 1);
    let Verdict::Inconclusive { more_to_differ, more_to_be_same, more_to_decide } = verdict else {
        panic!()
    };
    assert_eq!((more_to_differ, more_to_be_same), (Some(122), Some(197)));
    assert_eq!(more_to_decide, more_to_be_same);
    noisy.spread = Some(5.0);
    let verdict = noisy.verdict(Better::Higher, 0.5, 0.05, 1);
    let expected =
        Verdict::Inconclusive { more_to_differ: None, more_to_be_same: None, more_to_decide: None };
    assert_eq!(verdict, expected);
}

#[test]
fn the_requested_tolerance_is_kept_whatever_the_noise() {
    let (verdicts, p) = simulated(500, 20, 0.85, 0.1);
    let shown = verdicts.iter().zip(&p).filter(|(_, p)| **p <= 0.05);
    let wrong = shown.filter(|(verdict, _)| **verdict != Verdict::Slower).count();
    assert!(wrong <= 5, "{wrong}");
}

#[test]
fn who_makes_as_many_runs_as_recommended_gets_a_verdict() {
    let mut draws = Chance::new(12);
    for level in [1.0, 0.98, 0.93] {
        let (mut decided, mut all) = (0, 0);
        for seed in 0..100 {
            let mut a = runs(&mut draws, 5, 100.0, 0.02);
            let mut b = runs(&mut draws, 5, 100.0 * level, 0.02);
            let verdict = |a: &[f64], b: &[f64]| {
                let contrast = Contrast::of_sides(a, b, seed).unwrap();
                contrast.verdict(Better::Higher, contrast.p, contrast::TOLERANCE, 1)
            };
            let Verdict::Inconclusive { more_to_decide, .. } = verdict(&a, &b) else {
                continue;
            };
            let more = more_to_decide.unwrap() as usize;
            a.extend(runs(&mut draws, more, 100.0, 0.02));
            b.extend(runs(&mut draws, more, 100.0 * level, 0.02));
            all += 1;
            decided += u32::from(!matches!(verdict(&a, &b), Verdict::Inconclusive { .. }));
        }
        assert!(f64::from(decided) >= 0.95 * f64::from(all), "{level}: {decided} of {all}");
    }
}

/// A run with these values.
fn observed(cell: &str, started: u64, iops: f64) -> Observation {
    let facts = [("depth".to_owned(), "4".to_owned())].into();
    Observation {
        record: format!("{cell} {started} {iops}"),
        cell: cell.into(),
        identity: Identity { facts: [(Kind::Plan, facts)].into() },
        started_unix_ns: started,
        directions: vec!["read".into()],
        values: [("iops".into(), iops), ("bw".into(), 4096.0 * iops), ("p50".into(), 1e9 / iops)]
            .into(),
        ..Observation::default()
    }
}

fn side(cell: &str, level: f64, count: u64) -> Side {
    let runs = (0..count).map(|i| observed(cell, i, level + 0.1 * i as f64)).collect();
    Side { name: cell.into(), runs }
}

fn requested() -> Request {
    Request { tolerance: 0.05, now_unix_ns: 1 << 60, ..Request::default() }
}

#[test]
fn rates_and_latencies_have_their_own_good_direction() {
    let comparison = compare(&side("a", 100.0, 10), &side("a", 80.0, 10), &requested()).unwrap();
    let rows = &comparison.cells[0].rows;
    let metrics: Vec<&str> = rows.iter().map(|row| row.metric.as_str()).collect();
    assert_eq!(metrics, ["iops", "p50"], "bandwidth repeats the rate");
    assert!(rows.iter().all(|row| row.verdict == Verdict::Slower), "{rows:?}");
    assert_eq!(comparison.family, 2);
    let missing = &comparison.cells[0].missing[0];
    assert_eq!(
        (missing.metric.as_str(), missing.reason.as_str()),
        (
            "mean",
            "no run has this \
        metric"
        )
    );
}

#[test]
fn a_higher_offered_rate_is_no_gain_and_one_that_is_not_sustained_is_a_doubt() {
    let offered = |rate: &str, iops: f64| {
        let mut side = side("a", iops, 10);
        for run in &mut side.runs {
            let facts = run.identity.facts.get_mut(&Kind::Plan).unwrap();
            facts.insert("jobs.pace.rate.rate.ops".into(), rate.into());
        }
        side
    };
    let (a, mut b) = (offered("3500.0", 3_500.0), offered("6000.0", 4_000.0));
    for run in &mut b.runs {
        run.is_unsustainable = true;
        run.doubts.push("a rate beyond what the storage sustains".into());
        run.values.remove("p50");
    }
    let requested = Request { allow: vec![Kind::Plan], ..requested() };
    let comparison = compare(&a, &b, &requested).unwrap();
    let cell = &comparison.cells[0];
    assert_eq!(cell.rows, []);
    let why = |metric: &str| &cell.missing.iter().find(|of| of.metric == metric).unwrap().reason;
    let offers = "loads differ, A 1 job at 3500 ops/s, B 1 job at 6000 ops/s: what";
    assert!(why("iops").contains(offers), "{}", why("iops"));
    assert!(why("p50").contains("in 10 more was offered than was sustained"), "{}", why("p50"));
    assert!(comparison.warnings[0].contains("B: 10 of 10 runs have low confidence: a rate"));
    let same = compare(&a, &offered("3500.0", 3_000.0), &requested).unwrap();
    assert_eq!(same.cells[0].rows[0].verdict, Verdict::Slower, "the same offer is compared");
}

#[test]
fn what_differs_is_refused_unless_allowed_and_a_machine_is_a_warning() {
    let (a, mut b) = (side("a", 100.0, 5), side("a", 100.0, 5));
    b.runs[3].identity.facts.get_mut(&Kind::Plan).unwrap().insert("depth".into(), "8".into());
    let error = compare(&a, &b, &requested()).unwrap_err().to_string();
    assert!(error.contains("plan depth: A has `4`, B has `8`"), "{error}");
    assert!(error.ends_with("--allow plan"), "{error}");
    let comparison = Request { allow: vec![Kind::Plan], ..requested() };
    assert_eq!(compare(&a, &b, &comparison).unwrap().differences.len(), 1);
    let host = |kernel: &str| Facts::from([("kernel".to_owned(), kernel.to_owned())]);
    let (mut a, mut b) = (side("a", 100.0, 5), side("a", 100.5, 5));
    a.runs.iter_mut().for_each(|run| drop(run.identity.facts.insert(Kind::Host, host("1"))));
    b.runs.iter_mut().for_each(|run| drop(run.identity.facts.insert(Kind::Host, host("2"))));
    let comparison = compare(&a, &b, &requested()).unwrap();
    assert!(comparison.warnings[0].contains("different machines"), "{:?}", comparison.warnings);
}

#[test]
fn cells_are_paired_by_name_and_the_others_named() {
    let (mut a, mut b) = (side("x", 100.0, 5), side("x", 100.0, 5));
    a.runs.extend(side("only a", 1.0, 5).runs);
    b.runs.extend(side("only b", 1.0, 5).runs);
    b.runs.iter_mut().for_each(|run| run.record.push('b'));
    let comparison = compare(&a, &b, &requested()).unwrap();
    assert_eq!((comparison.cells.len(), comparison.cells[0].cell.as_str()), (1, "x"));
    assert_eq!(comparison.warnings, ["only A has only a", "only B has only b"]);
    a.runs.retain(|run| run.cell != "x");
    a.runs.extend(side("other", 1.0, 5).runs);
    let error = compare(&a, &b, &requested()).unwrap_err().to_string();
    assert!(error.contains("no cell is on both sides: A has only a, other; B has x"), "{error}");
}

#[test]
fn what_does_not_count_is_left_out_and_reported() {
    let (mut a, b) = (side("x", 100.0, 6), side("x", 90.0, 6));
    a.runs[2].left_out = Some("INVALID".into());
    a.runs.push(a.runs[5].clone());
    a.runs[0].started_unix_ns = 1 << 62;
    let comparison = compare(&a, &b, &requested()).unwrap();
    assert_eq!(comparison.sides[0].runs, 5);
    let all = comparison.warnings.join("\n");
    for words in ["start time in the future", "1 of 6 runs are left out", "given twice"] {
        assert!(all.contains(words), "{words} in {all}");
    }
    // In rounds the partner is excluded too.
    let in_rounds = Request { in_rounds: true, ..requested() };
    assert_eq!(compare(&a, &b, &in_rounds).unwrap().sides.map(|side| side.runs), [5, 5]);
    a.runs.iter_mut().for_each(|run| run.left_out = Some("INVALID".into()));
    assert!(matches!(compare(&a, &b, &requested()), Err(Incomparable::NothingLeft { .. })));
}

#[test]
fn simulations_with_one_seed_count_once() {
    let seeded = |level: f64, seeds: &[u64]| {
        let of = |(at, seed): (usize, &u64)| Observation {
            seed: Some(*seed),
            // CPU time is real in simulations too.
            values: [("iops".into(), level + *seed as f64), ("cpu".into(), at as f64)].into(),
            ..observed("x", at as u64, level)
        };
        Side { name: "x".into(), runs: seeds.iter().enumerate().map(of).collect() }
    };
    let runs = |a: &Side, b: &Side, in_rounds: bool| {
        let compared = compare(a, b, &Request { in_rounds, ..requested() }).unwrap();
        (compared.sides.map(|side| side.runs), compared.warnings.len())
    };
    let (same, apart) = (seeded(90.0, &[7; 6]), seeded(100.0, &[1, 2, 3, 4, 5, 6]));
    assert_eq!(runs(&same, &apart, false), ([1, 6], 1));
    assert_eq!(runs(&same, &apart, true), ([1, 1], 2));
    assert_eq!(runs(&same, &same, true), ([1, 1], 2));
    // On a real device the same seed gives other figures.
    let mut real = same.clone();
    real.runs.iter_mut().zip(1..).for_each(|(run, at)| {
        run.values.insert("iops".into(), 90.0 + f64::from(at));
    });
    assert_eq!(runs(&real, &apart, false), ([6, 6], 0));
}

#[test]
fn only_one_record_is_the_same_run() {
    let constant = |name: &str| {
        let mut side = side("x", 100.0, 6);
        for (at, run) in side.runs.iter_mut().enumerate() {
            run.record = format!("{name} {at}");
            run.started_unix_ns = 0;
        }
        side
    };
    let warnings = |b: &Side| compare(&constant("a"), b, &requested()).unwrap().warnings;
    assert_eq!(warnings(&constant("b")), Vec::<String>::new(), "equal figures are no same run");
    let mut shared = constant("b");
    shared.runs[3].record = "a 1".into();
    assert!(warnings(&shared)[0].contains("the same run is on both sides"));
}

#[test]
fn a_gate_on_what_is_not_there_is_unknown() {
    let gates = ["iops>-5%", "p99<5%", "Nobody.iops>-5%", "bw>-5%"];
    let gates = gates.into_iter().map(|text| Gate::parse(text).unwrap()).collect();
    let requested = Request { gates, ..requested() };
    let comparison = compare(&side("x", 100.0, 6), &side("x", 80.0, 6), &requested).unwrap();
    let failed = |index: usize| matches!(comparison.gates[index].outcome, Outcome::Failed { .. });
    let unknown = |index: usize| matches!(comparison.gates[index].outcome, Outcome::Unknown { .. });
    assert!(failed(0) && unknown(1) && unknown(2) && failed(3), "{:?}", comparison.gates);
}
