//! Places and times: working set, arrivals, rates and latencies over time.

use crate::clean::clean;
use crate::wrap::Text;
use iosonde_analysis::profile::{Figures, Heat, PlaceFigures};
use iosonde_model::record::profile::{Class, Op};
use iosonde_model::units::{bytes, count, duration};

use super::cells::{percent, rate, size, spread_row, time};

/// Most kinds of arrivals listed.
const KINDS: usize = 6;
/// Characters of the grid by the logarithm of the count; the first is for zero.
const SHADES: &[u8] = b" .:-=+*#%@";

/// Places that the program read and wrote.
pub(super) fn places(out: &mut Text, figures: &Figures) {
    if figures.places.is_empty() {
        return;
    }
    out.push_str("\nWorking Set:\n");
    for place in &figures.places {
        out.hanging(&format!("  {}: ", clean(&place.device)), &of_device(place));
    }
}

fn of_device(place: &PlaceFigures) -> String {
    let mut words = format!(
        "{} of different {} blocks (read {}, written {}) within {} of the disk",
        bytes::rough(place.working_set_bytes),
        size(place.block_bytes as f64),
        bytes::rough(place.read_set_bytes),
        bytes::rough(place.write_set_bytes),
        bytes::rough(place.span_bytes),
    );
    if let Some(share) = place.overwrite_share {
        words.push_str(&format!("; {} of the block writes were overwrites", percent(share)));
    }
    match place.hot_share {
        Some(share) => words.push_str(&format!(
            "; the hottest 20% of the {} chunks touched took {} of the requests",
            count::thousands(place.chunks),
            percent(share)
        )),
        None => words.push_str("; too few chunks to tell hot ones from others"),
    }
    if place.one_block_in > 1 {
        words.push_str(&format!("; estimated from one block in {}", place.one_block_in));
    }
    if place.lost_bytes > 0 {
        let lost = bytes::rough(place.lost_bytes);
        words.push_str(&format!("; not counted here, table full: {lost}"));
    }
    words
}

/// Arrival patterns of requests.
pub(super) fn arrivals(out: &mut Text, figures: &Figures) {
    if figures.arrivals.is_empty() {
        return;
    }
    out.push_str("\nArrivals:\n");
    for each in figures.arrivals.iter().take(KINDS) {
        let op = if each.op == Op::Read { "reads" } else { "writes" };
        let by = if each.class == Class::WriteBack { " by write-back" } else { "" };
        let words = format!(
            "{} {op}{by} on {}: {}/s while active, {} (inter-arrival CV {})",
            clean(&each.group),
            clean(&each.device),
            rate(each.per_s),
            each.process.word(),
            count::significant(each.cv)
        );
        out.hanging("  ", &words);
    }
}

/// Rates per interval, and the grid of latencies.
pub(super) fn course(out: &mut Text, figures: &Figures) {
    let Some(course) = figures.course.as_ref().filter(|course| course.intervals >= 2) else {
        return;
    };
    out.push_str(&format!(
        "\nOver Time ({} intervals of {}, {} idle):\n",
        count::thousands(course.intervals),
        duration::latency(course.width_ns as f64),
        count::thousands(course.idle)
    ));
    spread_row(out, "  Requests/s:", &course.requests_per_s, short);
    spread_row(out, "  MB/s:", &course.bytes_per_s, |rate| short(rate / 1e6));
    if let Some(heat) = &course.heat {
        grid(out, heat);
    }
}

/// A number of at most five characters.
fn short(value: f64) -> String {
    match value {
        value if value >= 9_999.5e3 => format!("{:.0}M", value / 1e6),
        value if value >= 99_999.5 => format!("{:.0}k", value / 1e3),
        value if value >= 99.95 || value == 0.0 => format!("{value:.0}"),
        value => count::significant(value),
    }
}

/// One character per column and row, darker with the logarithm of the count.
fn grid(out: &mut Text, heat: &Heat) {
    // Neighbouring columns are merged if the screen is too narrow.
    let room = out.columns.saturating_sub(17).max(1);
    let together = heat.counts.len().div_ceil(room).max(1);
    let counts: Vec<Vec<u64>> = heat.counts.chunks(together).map(summed).collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(0);
    let columns = counts.len();
    let column_ns = heat.column_ns * together as u64;
    let words = format!(
        "Latency over time, {} per column; `.` is 1 request, `@` {}:",
        duration::latency(column_ns as f64),
        count::thousands(most)
    );
    out.hanging("  ", &words);
    for (row, edge_ns) in heat.row_edges_ns.iter().enumerate().rev() {
        let signs: String = counts.iter().map(|column| shade(column[row], most)).collect();
        out.push_str(&format!("  {:>12} |{signs}|\n", format!(">={}", time(*edge_ns as f64))));
    }
    let end = duration::span(heat.column_ns * heat.counts.len() as u64);
    out.push_str(&format!("  {:>12} 0{end:>columns$}\n", ""));
}

/// Merges several columns.
fn summed(columns: &[Vec<u64>]) -> Vec<u64> {
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows).map(|row| columns.iter().map(|column| column[row]).sum()).collect()
}

fn shade(times: u64, most: u64) -> char {
    let darkest = SHADES.len() - 1;
    let depth = match (times, most) {
        (0, _) => 0,
        (_, 1) => 1,
        _ => {
            let part = (times as f64).ln() / (most as f64).ln();
            1 + (part * (darkest - 1) as f64).round() as usize
        }
    };
    char::from(SHADES[depth.min(darkest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_grow_with_the_count() {
        assert_eq!(
            [shade(0, 100), shade(1, 100), shade(10, 100), shade(100, 100)],
            [' ', '.', '+', '@']
        );
        assert_eq!(shade(1, 1), '.');
    }
}
