//! Sizes of requests as a split with few entries.

use super::rows::Row;
use iosonde_model::record::profile::{Op, ProfileRun};

/// Most entries of a split.
const MOST: usize = 24;
/// Grid of sizes used if hardly any request is off it, bytes: every device accepts such sizes.
const PAGE_BYTES: u64 = 4096;
/// Largest discard that is regenerated: each has a buffer, like every operation.
const LARGEST_DISCARD_BYTES: u64 = 16 << 20;

/// A percentage to three decimal places.
pub(super) fn rounded(percent: f64) -> f64 {
    (percent * 1000.0).round() / 1000.0
}

/// The most frequent size, on the grid of pages, bytes.
pub(super) fn commonest(row: &Row) -> u64 {
    let most = row.sizes.iter().max_by_key(|(size, requests)| (*requests, *size));
    most.map_or(PAGE_BYTES, |(size, _)| (size / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES))
}

/// Sizes with their percentages of the row's requests, ascending; they add up to 100.
pub(super) fn split(run: &ProfileRun, row: &Row) -> Vec<(u64, f64)> {
    let facts = run.devices.iter().find(|device| device.facts.name == row.device);
    let logical = facts.and_then(|device| device.facts.logical_block_bytes).unwrap_or(512).max(512);
    let off_grid = row.sizes.iter().filter(|(size, _)| !size.is_multiple_of(PAGE_BYTES));
    let off_grid: u64 = off_grid.map(|(_, requests)| requests).sum();
    let fine = off_grid * 100 > row.requests;
    let grid = if fine { u64::from(logical) } else { PAGE_BYTES.max(logical.into()) };
    let most = if row.op == Op::Discard { LARGEST_DISCARD_BYTES } else { 1 << 30 };
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    let mut given = row.sizes.clone();
    if given.iter().all(|(_, requests)| *requests == 0) {
        given = vec![(row.bytes / row.requests.max(1), row.requests)];
    }
    given.sort_unstable();
    for (size, requests) in given.into_iter().filter(|(_, requests)| *requests > 0) {
        let size = ((size + grid / 2) / grid * grid).clamp(grid, most / grid * grid);
        match sizes.last_mut() {
            Some((last, sum)) if *last == size => *sum += requests,
            _ => sizes.push((size, requests)),
        }
    }
    percentages(&few(sizes))
}

/// The most frequent sizes, each with the requests of the sizes nearest to it by ratio.
fn few(sizes: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    if sizes.len() <= MOST {
        return sizes;
    }
    let mut by_requests = sizes.clone();
    by_requests.sort_by_key(|(size, requests)| (std::cmp::Reverse(*requests), *size));
    let mut kept: Vec<(u64, u64)> =
        by_requests[..MOST].iter().map(|(size, _)| (*size, 0)).collect();
    kept.sort_unstable();
    let ratio = |a: u64, b: u64| (a as f64 / b as f64).ln().abs();
    for (size, requests) in sizes {
        let near = kept.iter_mut().min_by(|a, b| ratio(a.0, size).total_cmp(&ratio(b.0, size)));
        if let Some((_, sum)) = near {
            *sum += requests;
        }
    }
    kept
}

/// Counts as percentages to three decimal places; the largest absorbs the rounding error.
fn percentages(sizes: &[(u64, u64)]) -> Vec<(u64, f64)> {
    let whole: u64 = sizes.iter().map(|(_, requests)| requests).sum();
    let percent = |requests: u64| rounded(requests as f64 * 100.0 / whole.max(1) as f64);
    let shares = sizes.iter().map(|(size, requests)| (*size, percent(*requests)));
    let mut shares: Vec<(u64, f64)> = shares.filter(|(_, percent)| *percent > 0.0).collect();
    let sum: f64 = shares.iter().map(|(_, percent)| percent).sum();
    if let Some((_, most)) = shares.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)) {
        *most = rounded(*most + 100.0 - sum);
    }
    shares
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::rows::rows;
    use super::*;
    use iosonde_fixtures::profile_model::{profile, row};
    use iosonde_model::record::profile::{Class, Traffic};

    fn split_of(sizes: Vec<(u64, u64)>, op: Op) -> Vec<(u64, f64)> {
        let requests = sizes.iter().map(|(_, n)| n).sum();
        let run = profile(vec![Traffic { sizes, requests, ..row(Class::Program, op, requests) }]);
        split(&run, &rows(&run).0[0])
    }

    #[test]
    fn few_sizes_stay_as_they_are() {
        let split = split_of(vec![(4096, 700), (8192, 200), (131_072, 100)], Op::Write);
        assert_eq!(split, [(4096, 70.0), (8192, 20.0), (131_072, 10.0)]);
    }

    #[test]
    fn thirds_add_up_to_a_hundred() {
        let split = split_of(vec![(4096, 100), (8192, 100), (16_384, 100)], Op::Read);
        let sum: f64 = split.iter().map(|(_, percent)| percent).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{split:?}");
    }

    #[test]
    fn sizes_fit_every_device_unless_the_program_does_not() {
        // One in a thousand is odd: it moves to the grid.
        let split = split_of(vec![(4096, 999), (4608, 1)], Op::Read);
        assert_eq!(split, [(4096, 100.0)]);
        let split = split_of(vec![(512, 50), (4096, 50)], Op::Read);
        assert_eq!(split, [(512, 50.0), (4096, 50.0)]);
    }

    #[test]
    fn many_sizes_become_few_and_none_is_lost() {
        let sizes: Vec<(u64, u64)> = (1..=200).map(|n| (n * 4096, 1000 / n)).collect();
        let split = split_of(sizes.clone(), Op::Write);
        assert_eq!(split.len(), MOST);
        assert!((split.iter().map(|(_, percent)| percent).sum::<f64>() - 100.0).abs() < 1e-9);
        assert!(split.is_sorted_by_key(|(size, _)| *size));
    }

    #[test]
    fn a_discard_of_a_gibibyte_gets_no_buffer_of_a_gibibyte() {
        assert_eq!(split_of(vec![(1 << 30, 30)], Op::Discard), [(16 << 20, 100.0)]);
    }
}
