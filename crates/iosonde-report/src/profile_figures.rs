//! Pictures of a profile, and of a profile beside its replay. They read shares and bins from the
//! record; the text report takes no figures from them.
//!
//! A picture without data is left out.

mod comparison;
mod depth;
pub(crate) mod distribution;
mod flame;
mod over_time;
mod places;
mod pool;
mod sizes;
mod sync_parts;
#[cfg(test)]
mod testing;

use crate::chart::{ChartError, Figure};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Op;

pub use comparison::comparison;

/// File name and contents.
pub type Picture = (String, String);

/// Every picture of a profile as SVG: latencies by operation and of syncs, parts of syncs, latency
/// and rates over time, sizes, requests in flight, places on the devices, and stacks if recorded.
///
/// # Errors
/// If the record holds numbers that no scale can hold.
pub fn figures(run: &ProfileRun) -> Result<Vec<Picture>, ChartError> {
    let mut all = pictures(drawn(run)?)?;
    all.extend(flame::pictures(run)?);
    Ok(all)
}

/// The same as figures, before rendering, and without stacks.
///
/// # Errors
/// Those of [`figures`].
pub fn drawn(run: &ProfileRun) -> Result<Vec<(String, Figure)>, ChartError> {
    let mut drawn = distribution::latencies(run)?;
    drawn.extend(distribution::syncs(run)?);
    drawn.extend(sync_parts::sync_parts(run)?);
    drawn.extend(over_time::latency_map(run)?);
    drawn.extend(over_time::rates(run)?);
    drawn.extend(sizes::sizes(run)?);
    drawn.extend(depth::depths(run)?);
    drawn.extend(places::places(run)?);
    Ok(drawn)
}

/// Stem of the file name, and figure.
type Drawn = (String, Figure);

fn pictures(drawn: Vec<Drawn>) -> Result<Vec<Picture>, ChartError> {
    drawn.into_iter().map(|(name, figure)| Ok((format!("{name}.svg"), figure.svg()?))).collect()
}

/// Word for an operation, and its style number in every picture.
fn word(op: Op) -> (&'static str, usize) {
    match op {
        Op::Read => ("read", 0),
        Op::Write => ("write", 1),
        Op::Discard => ("discard", 2),
        Op::Flush => ("flush", 3),
        Op::Other => ("other", 6),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::testing::{looked_at, profile};
    use super::*;
    use crate::chart::reading::words;
    use crate::golden::assert_golden;
    use iosonde_model::record::profile::{Chunk, Depth, Subject};
    use iosonde_stats::Histogram;

    #[test]
    fn every_picture_of_a_profile_can_be_read() {
        let pictures = figures(&profile(1.0)).unwrap();
        let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "latency-read-vda.svg",
                "latency-write-vda.svg",
                "latency-flush-vda.svg",
                "latency-device-flush-vda.svg",
                "latency-syncs.svg",
                "sync-parts.svg",
                "latency-over-time.svg",
                "rates-over-time.svg",
                "sizes.svg",
                "depth-vda.svg",
                "places-vda.svg",
            ]
        );
        looked_at(&pictures);
    }

    /// Profiles with extreme numbers.
    fn hard() -> Vec<ProfileRun> {
        let mut alone = profile(1.0);
        for traffic in &mut alone.traffic {
            let mut one = Histogram::new();
            one.record(77_777);
            (traffic.requests, traffic.sizes) = (1, vec![(512, 1)]);
            (traffic.latency, traffic.queued, traffic.device_time) =
                (one.clone(), one.clone(), one);
        }
        alone.places[0].chunks.truncate(1);
        alone.devices[0].program_depth =
            Depth { time_ns: vec![(1, 5)], arrivals: vec![(0, 1)], max: 1, area_ns: 5 };
        alone.series.truncate(1);
        alone.series[0].counters.ops.truncate(1);
        alone.series[0].latencies.intervals.truncate(1);
        let mut wide = profile(1.0);
        wide.subject =
            Subject::Process { pid: 7, words: vec!["\u{1b}[31m<x>&\u{202e}".repeat(200)] };
        for traffic in &mut wide.traffic {
            traffic.device = "c<0>d!0 and a name that goes on".into();
            traffic.latency.record(0);
            traffic.latency.record(1 << 50);
            traffic.queued.record_many(0, 1_000_000_000);
            traffic.sizes = (0..40).map(|power| ((1 << power) + 1, 1 << power)).collect();
        }
        wide.places[0].chunks.push(Chunk {
            number: 1 << 40,
            writes: u64::MAX >> 20,
            ..Chunk::default()
        });
        wide.places[0].chunks.push(Chunk { number: 0, reads: 1, ..Chunk::default() });
        wide.devices[0].program_depth.time_ns.push((u32::MAX, 1));
        wide.measured_ns = 0;
        for series in &mut wide.series {
            series.counters.ops = vec![u64::MAX >> 12; 3_000];
            series.latencies.intervals = vec![vec![(0, 1), (4_351, u64::MAX >> 30)]; 3_000];
            series.counters.width_ns = 3_600_000_000_000;
        }
        let mut senseless = profile(1.0);
        for series in &mut senseless.series {
            (series.counters.width_ns, series.latencies.width_ns) = (0, 0);
        }
        vec![alone, wide, senseless]
    }

    #[test]
    fn hard_numbers_still_give_pictures_that_can_be_read() {
        for (number, run) in hard().iter().enumerate() {
            for (name, picture) in figures(run).unwrap() {
                looked_at(&[(format!("hard-{number}-{name}"), picture)]);
            }
            for (name, picture) in comparison(run, &profile(2.0)).unwrap() {
                looked_at(&[(format!("hard-{number}-{name}"), picture)]);
            }
        }
    }

    #[test]
    fn the_words_of_every_picture_are_as_they_were() {
        let mut all = figures(&profile(1.0)).unwrap();
        all.extend(comparison(&profile(1.0), &profile(1.7)).unwrap());
        let formatted =
            all.iter().map(|(name, svg)| format!("{name}\n  {}\n", words(svg).join(" | ")));
        let formatted = formatted.collect::<String>();
        assert!(!formatted.contains('…'), "a text of our own is too long for its place");
        assert_golden("profile_figures.txt", &formatted);
    }

    #[test]
    fn an_empty_profile_has_no_pictures() {
        assert_eq!(figures(&ProfileRun::default()), Ok(Vec::new()));
        assert_eq!(comparison(&ProfileRun::default(), &profile(1.0)), Ok(Vec::new()));
    }
}
