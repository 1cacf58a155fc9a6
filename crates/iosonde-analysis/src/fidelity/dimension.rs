//! Each dimension in which two loads are compared: its score, `0..=1`, and both sides as text.

use super::observed::{Course, Known, Moved, Observed, Touched, WAYS};
use iosonde_model::record::profile::Op;
use iosonde_model::units::{bytes, count};
use iosonde_stats::distance::{Weighted, kolmogorov_smirnov, likeness, total_variation};
use iosonde_stats::quantile::at_rank;

/// Minimum syncs or flushes on the side with more: a few at the end of a program or a replay are
/// no property of the load.
const FEWEST: u64 = 20;

/// Intermediate data of a dimension.
pub(super) struct Scored {
    pub(super) score: f64,
    pub(super) ways: Vec<(Op, f64)>,
    pub(super) formatted: [String; 2],
}

/// Inter-arrival times up to this count as equal, ns: within a burst, the CPU and not the load
/// determines them.
const AT_ONCE_NS: u64 = 1 << 13;

impl Scored {
    /// A dimension without directions.
    fn whole(score: f64, formatted: [String; 2]) -> Known<Scored> {
        Ok(Scored { score, ways: Vec::new(), formatted })
    }
}

type OfWay = fn(&Moved, &Moved) -> Known<(f64, [String; 2])>;

/// Scores each direction in both loads, weighted by its share of the recorded requests.
pub(super) fn by_way(one: &Observed, other: &Observed, of: OfWay) -> Known<Scored> {
    let (mut sum, mut weight) = (0.0, 0.0);
    let (mut ways, mut formatted) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut reason = "no direction in common".to_string();
    for (op, mine) in &one.ways {
        let Some((_, theirs)) = other.ways.iter().find(|(way, _)| way == op) else { continue };
        match of(mine, theirs) {
            Ok((score, words)) => {
                sum += score * mine.requests as f64;
                weight += mine.requests as f64;
                ways.push((*op, score));
                for (all, words) in formatted.iter_mut().zip(words) {
                    all.push(format!("{} {words}", word(*op)));
                }
            }
            Err(why) => reason = why,
        }
    }
    if ways.is_empty() {
        return Err(reason);
    }
    let formatted = formatted.map(|words| words.join(", "));
    Ok(Scored { score: sum / weight, ways, formatted })
}

/// The name of a direction.
pub fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Discard => "discard",
        Op::Flush => "flush",
        Op::Other => "other",
    }
}

/// The weighted median.
fn median(of: &Weighted) -> u64 {
    let mut steps = of.to_vec();
    steps.sort_unstable();
    let half = steps.iter().map(|(_, weight)| weight).sum::<u64>().div_ceil(2);
    at_rank(steps, half).unwrap_or(0)
}

fn ks(one: &Weighted, other: &Weighted) -> Known<f64> {
    kolmogorov_smirnov(one, other)
        .map(|d| 1.0 - d)
        .ok_or_else(|| "no requests were counted".to_string())
}

pub(super) fn sizes(one: &Moved, other: &Moved) -> Known<(f64, [String; 2])> {
    let formatted = |of: &Moved| format!("median {}", bytes::exact(median(&of.sizes)));
    Ok((ks(&one.sizes, &other.sizes)?, [formatted(one), formatted(other)]))
}

pub(super) fn gaps(one: &Moved, other: &Moved) -> Known<(f64, [String; 2])> {
    let (mine, theirs) = (one.gaps.clone()?, other.gaps.clone()?);
    let formatted =
        |of: &Weighted| format!("median {} µs", count::significant(median(of) as f64 / 1e3));
    let resolved = |of: &Weighted| -> Vec<(u64, u64)> {
        of.iter().map(|(ns, times)| (AT_ONCE_NS.max(*ns), *times)).collect()
    };
    let score = ks(&resolved(&mine), &resolved(&theirs))?;
    Ok((score, [formatted(&mine), formatted(&theirs)]))
}

pub(super) fn sequential(one: &Moved, other: &Moved) -> Known<(f64, [String; 2])> {
    let (mine, theirs) = (one.sequential.clone()?, other.sequential.clone()?);
    Ok((1.0 - (mine - theirs).abs(), [count::percent(mine), count::percent(theirs)]))
}

pub(super) fn working_set(one: &Moved, other: &Moved) -> Known<(f64, [String; 2])> {
    let (mine, theirs) = (one.touched.clone()?, other.touched.clone()?);
    let formatted = |of: &Touched| bytes::rough(of.bytes as u64);
    let score = likeness(mine.bytes, theirs.bytes).ok_or("nothing was touched")?;
    Ok((score, [formatted(&mine), formatted(&theirs)]))
}

pub(super) fn skew(one: &Moved, other: &Moved) -> Known<(f64, [String; 2])> {
    let (mine, theirs) = (one.touched.clone()?, other.touched.clone()?);
    let formatted =
        |of: &Touched| format!("{} in the hottest tenth", count::percent(of.share_of_hottest(0.1)));
    Ok((1.0 - mine.apart(&theirs), [formatted(&mine), formatted(&theirs)]))
}

pub(super) fn mix(one: &Observed, other: &Observed) -> Known<Scored> {
    let counts = |of: &Observed| {
        [Op::Read, Op::Write, Op::Discard].map(|op| {
            of.ways.iter().find(|(way, _)| *way == op).map_or(0, |(_, moved)| moved.requests)
        })
    };
    let (mine, theirs) = (counts(one), counts(other));
    let formatted = |counts: [u64; 3]| {
        let all = counts.iter().sum::<u64>().max(1) as f64;
        let share = |requests: u64| count::significant(requests as f64 * 100.0 / all);
        format!("{} / {} / {} %", share(counts[0]), share(counts[1]), share(counts[2]))
    };
    let distance = total_variation(&mine, &theirs).ok_or("one of the two has no requests")?;
    Scored::whole(1.0 - distance, [formatted(mine), formatted(theirs)])
}

pub(super) fn depth(one: &Observed, other: &Observed) -> Known<Scored> {
    // A replay's depth includes its journal job. Both sides then use the depth of all requests.
    let of_program = || -> Known<_> { Ok((one.depth.clone()?, other.depth.clone()?)) };
    let of_all = |_| -> Known<_> { Ok((one.everyone.clone()?, other.everyone.clone()?)) };
    let (mine, theirs) = of_program().or_else(of_all)?;
    let formatted = |of: &Weighted| {
        let whole: f64 = of.iter().map(|(_, ns)| *ns as f64).sum();
        let sum: f64 = of.iter().map(|(level, ns)| *level as f64 * *ns as f64).sum();
        format!("mean {}", count::significant(sum / whole.max(1.0)))
    };
    Scored::whole(ks(&mine, &theirs)?, [formatted(&mine), formatted(&theirs)])
}

pub(super) fn syncs(one: &Observed, other: &Observed) -> Known<Scored> {
    let writes = |of: &Observed| {
        of.ways.iter().find(|(op, _)| *op == Op::Write).map_or(0, |(_, moved)| moved.requests)
    };
    let (mine, theirs) = (one.syncs.clone()?, other.syncs.clone()?);
    if mine.max(theirs) < FEWEST {
        return Err(format!("fewer than {FEWEST} syncs in both"));
    }
    if writes(one) == 0 || writes(other) == 0 {
        return Err("one of the two has no writes".into());
    }
    let per_write = [mine as f64 / writes(one) as f64, theirs as f64 / writes(other) as f64];
    let score = likeness(per_write[0], per_write[1]).ok_or("neither has syncs")?;
    let formatted = per_write.map(|share| format!("{} per write", count::significant(share)));
    Scored::whole(score, formatted)
}

pub(super) fn rate(one: &Observed, other: &Observed) -> Known<Scored> {
    let (mine, theirs) = (one.course.clone()?, other.course.clone()?);
    let distance = mine.apart(&theirs).ok_or("one of the two has no time series")?;
    let formatted = |course: &Course| {
        format!(
            "{} requests in {} s",
            count::thousands(course.total() as u64),
            count::significant(course.length_ns() / 1e9)
        )
    };
    Scored::whole(1.0 - distance, [formatted(&mine), formatted(&theirs)])
}

/// Compares the bytes per second of each direction, weighted by the larger rate of the two.
pub(super) fn device_rate(one: &Observed, other: &Observed) -> Known<Scored> {
    let (mine, theirs) = (one.device.clone()?, other.device.clone()?);
    let rates = WAYS.map(|op| (op, mine.rate(op), theirs.rate(op)));
    let used: Vec<_> = rates.into_iter().filter(|(_, a, b)| a + b > 0.0).collect();
    let ways: Vec<(Op, f64)> =
        used.iter().map(|(op, a, b)| (*op, likeness(*a, *b).unwrap_or(0.0))).collect();
    let weights: Vec<f64> = used.iter().map(|(_, a, b)| a.max(*b)).collect();
    let sum: f64 = ways.iter().zip(&weights).map(|((_, score), weight)| score * weight).sum();
    let formatted = |pick: fn(&(Op, f64, f64)) -> f64| {
        let rate = |way: &(Op, f64, f64)| {
            format!("{} {} MB/s", word(way.0), count::significant(pick(way) / 1e6))
        };
        used.iter().map(rate).collect::<Vec<_>>().join(", ")
    };
    Ok(Scored {
        score: sum / weights.iter().sum::<f64>(),
        ways,
        formatted: [formatted(|way| way.1), formatted(|way| way.2)],
    })
}

pub(super) fn flushes(one: &Observed, other: &Observed) -> Known<Scored> {
    let (mine, theirs) = (one.device.clone()?, other.device.clone()?);
    if mine.flushes.max(theirs.flushes) < FEWEST {
        return Err(format!("fewer than {FEWEST} flushes in both"));
    }
    let rates = [&mine, &theirs].map(|of| of.flushes as f64 * 1e9 / of.length_ns);
    let score = likeness(rates[0], rates[1]).ok_or("neither has flushes")?;
    let formatted = rates.map(|rate| format!("{} per second", count::significant(rate)));
    Scored::whole(score, formatted)
}

pub(super) fn journal(one: &Observed, other: &Observed) -> Known<Scored> {
    let (mine, theirs) = (one.device.clone()?, other.device.clone()?);
    let shares = [&mine, &theirs].map(|of| of.journal_bytes as f64 / of.all_bytes().max(1) as f64);
    Scored::whole(1.0 - (shares[0] - shares[1]).abs(), shares.map(count::percent))
}
