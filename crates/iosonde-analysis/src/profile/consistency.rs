//! Consistency checks of a profile: the trace against the kernel's counters, and the record against
//! itself.
//!
//! The kernel's counters cover the same time as the trace, settling included, and all programs, so
//! they are compared with all classes together. If they disagree, or many events were lost, no
//! figure is reliable; if Little's law or the intervals do not hold, the figures of depth and time
//! are not.

use crate::consistency::{Consistency, Identity, Severity};
use iosonde_model::record::facts::DeviceCounters;
use iosonde_model::record::profile::{
    Class, Depth, Method, Op, ProfileRun, ProfiledDevice, Traffic,
};
use iosonde_model::units::count;

use super::traffic::{Tally, share, uses};

/// Share by which the trace may differ from the kernel's counters.
const COUNTERS: f64 = 0.01;
/// Smallest allowance for requests that cross an edge of the profile and are seen by one side.
const EDGE: u64 = 8;
/// Largest request assumed for a device that does not report it, KiB.
const LARGEST_KIB: u32 = 1280;
/// Share by which sums over buckets may differ from exact sums: recorded sizes are exact within
/// 1/32.
const SIZES: f64 = 1.0 / 32.0;
/// Tolerance of Little's law.
const LITTLE: f64 = 0.02;
/// Tolerance of Little's law for a roughly known share.
const ROUGHLY: f64 = 0.1;
/// Level at or above which levels are lower edges of buckets, and the width of those buckets.
const COARSE_FROM: u32 = 64;
const COARSE: f64 = 1.0 / 32.0;
/// Share of the requests at or below which a loss is only a note: no figure changes by more.
const LOSS: f64 = 0.01;
/// Share by which the two parts of the latency may differ from the whole.
const PARTS: f64 = 0.01;

/// Whether a failed identity is reported first: it invalidates the profile, or is off by more than
/// a slight loss and is not explained.
pub fn matters(entry: &Identity) -> bool {
    entry.severity == Severity::Invalid || entry.residual > LOSS && !entry.explained
}

/// Evaluates every identity whose terms this profile has.
pub(super) fn consistency(run: &ProfileRun) -> Consistency {
    let mut entries = Vec::new();
    if run.source.method == Method::Counters {
        return Consistency { entries };
    }
    let visible = run.devices.iter().filter(|device| device.invisible.is_none());
    for device in visible.filter(|device| concerns(run, &device.facts.name)) {
        entries.extend(counted(run, device));
        let requests = requests(run, device, |_| true);
        let excused = |entry, depth| excused(entry, depth, unseen(run, device), edge(requests));
        let all = little("depth", device, &device.depth, requests);
        let own = program_depth(run, device);
        entries.extend(all.map(|entry| excused(entry, &device.depth)));
        entries.extend(own.map(|entry| excused(entry, &device.program_depth)));
    }
    let rows: Vec<&Traffic> = run.traffic.iter().filter(|row| concerns(run, &row.device)).collect();
    if !rows.is_empty() {
        entries.push(histograms(&rows));
        entries.push(sizes(&rows));
        entries.extend(parts(&rows));
        entries.extend(intervals(run));
    }
    entries.push(lost(run));
    Consistency { entries }
}

/// Whether a disk affects the program's figures: the program made requests there, or it fetched
/// data from storage although none of its requests was seen anywhere.
fn concerns(run: &ProfileRun, device: &str) -> bool {
    let is_idle = !run.traffic.iter().any(|row| uses(run, &row.device));
    let fetched = run.calls.is_some_and(|calls| calls.storage_read_bytes > 0);
    uses(run, device) || (is_idle && fetched)
}

/// Requests and bytes of one device against the kernel's counters.
fn counted(run: &ProfileRun, device: &ProfiledDevice) -> Vec<Identity> {
    let Some((start, end)) = device.counters else { return Vec::new() };
    let name = &device.facts.name;
    let own = |op: Op| run.traffic.iter().filter(move |t| t.device == *name && t.op == op);
    let of = |op: Op| Tally::of(own(op));
    let (read, write, discard) = (of(Op::Read), of(Op::Write), of(Op::Discard));
    let is_device = |t: &&Traffic| t.class == Class::DeviceFlush;
    let flushes: u64 = own(Op::Flush).filter(is_device).map(|t| t.requests).sum();
    let sent_flushes: u64 = own(Op::Flush).filter(|t| !is_device(t)).map(|t| t.requests).sum();
    let (begun, ending) = device.counters_within.unwrap_or((start, end));
    // Smallest and largest increase of a counter while requests were traced.
    let rose = |count: fn(&DeviceCounters) -> u64| {
        let by = |from: &DeviceCounters, to: &DeviceCounters| count(to).saturating_sub(count(from));
        let most = by(&start, &end);
        (by(&begun, &ending).min(most), most)
    };
    let bytes = |(least, most): (u64, u64)| (least.saturating_mul(512), most.saturating_mul(512));
    // Requests in flight at the start are counted but not traced; at the end, the reverse.
    let crossing = start.in_flight.max(end.in_flight);
    let largest = u64::from(device.facts.max_sectors_kb.unwrap_or(LARGEST_KIB)) << 10;
    let edge_bytes = |tally: &Tally| {
        let size = tally.sizes.keys().max().copied().unwrap_or(4096);
        edge(tally.requests) * size + crossing * largest
    };
    let edge = |requests: u64| edge(requests) + crossing;
    // The kernel counts write-zeroes, and on many versions the empty request that an fsync sends,
    // among the writes.
    let writes = write.requests + sent_flushes + discard.requests;
    let read_bytes = bytes(rose(|counters| counters.read_sectors));
    let written_bytes = bytes(rose(|counters| counters.write_sectors));
    let reads_counted = rose(|counters| counters.reads);
    let writes_counted = rose(|counters| counters.writes);
    let flushes_counted = rose(|counters| counters.flushes);
    let exactly = |traced: u64| (traced, traced);
    let written = (write.bytes, write.bytes + discard.bytes);
    [
        ("read_bytes", "bytes read", exactly(read.bytes), read_bytes, edge_bytes(&read)),
        ("write_bytes", "bytes written", written, written_bytes, edge_bytes(&write)),
        ("reads", "reads", exactly(read.requests), reads_counted, edge(read.requests)),
        ("writes", "writes", (write.requests, writes), writes_counted, edge(writes)),
        ("flushes", "flushes of the cache", exactly(flushes), flushes_counted, edge(flushes)),
    ]
    .into_iter()
    .filter(|(_, _, traced, kernel, _)| traced.1 > 0 || kernel.1 > 0)
    .map(|(code, what, traced, kernel, edge)| {
        counted_as_traced(code, &format!("{name}: {what}"), nearest(traced, kernel), edge)
    })
    .collect()
}

/// Number of these requests that may cross the edges of the profile: a few, or the uncertainty of a
/// count of independent events.
fn edge(requests: u64) -> u64 {
    EDGE.max((2.0 * (requests as f64).sqrt()) as u64)
}

/// One amount in the trace against the kernel's counters.
fn counted_as_traced(
    code: &'static str,
    what: &str,
    (traced, kernel): (u64, u64),
    edge: u64,
) -> Identity {
    let most = kernel.max(traced).max(1) as f64;
    let residual = kernel.abs_diff(traced) as f64 / most;
    let tolerance = COUNTERS.max(edge as f64 / most);
    let short = match kernel.cmp(&traced) {
        std::cmp::Ordering::Greater => "; the trace has too few",
        std::cmp::Ordering::Less => "; the counters have too few",
        std::cmp::Ordering::Equal => "",
    };
    let equation = format!(
        "{what} traced {} = counted by the kernel {}{short}",
        count::thousands(traced),
        count::thousands(kernel)
    );
    entry(code, residual, tolerance, equation)
}

/// The closest values of two ranges; equal if the ranges overlap.
fn nearest(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let of_one = other.0.clamp(one.0, one.1);
    (of_one, of_one.clamp(other.0, other.1))
}

/// Number of requests of a device that `pick` selects.
fn requests(run: &ProfileRun, device: &ProfiledDevice, pick: fn(&Traffic) -> bool) -> u64 {
    let own = run.traffic.iter().filter(|t| t.device == device.facts.name && pick(t));
    own.map(|traffic| traffic.requests).sum()
}

/// Little's law: the sum of level times duration equals the sum of the latencies.
fn little(
    code: &'static str,
    device: &ProfiledDevice,
    depth: &Depth,
    requests: u64,
) -> Option<Identity> {
    if requests == 0 || depth.area_ns == 0 {
        return None;
    }
    let level = |levels: fn(u32) -> bool| -> f64 {
        let kept = depth.time_ns.iter().filter(|(level, _)| levels(*level));
        kept.map(|(level, ns)| f64::from(*level) * *ns as f64).sum()
    };
    let (fine, coarse) = (level(|level| level < COARSE_FROM), level(|level| level >= COARSE_FROM));
    let (low, high) = (fine + coarse, fine + coarse * (1.0 + COARSE));
    let area = depth.area_ns as f64;
    // Requests in flight at the edges count in the time of the levels but have no latency.
    let crossing = (f64::from(depth.max) / requests as f64).min(0.5);
    let relative = |a: f64, b: f64| (a - b).abs() / a.max(b).max(1.0);
    let name = &device.facts.name;
    let equation = format!(
        "{name}: level x time {} s = request-time {} s",
        count::significant(low / 1e9),
        count::significant(area / 1e9)
    );
    let by_level = relative(area, area.clamp(low, high));
    Some(note(entry(code, by_level, LITTLE + crossing, equation)))
}

fn program_depth(run: &ProfileRun, device: &ProfiledDevice) -> Option<Identity> {
    let own = requests(run, device, |traffic| traffic.class.is_of_the_program());
    little("program_depth", device, &device.program_depth, own)
}

/// Whether the program's time in flight is roughly the sum of its latencies. A request whose
/// completion was not seen stays in flight, though it may have ended at once.
pub(super) fn is_depth_roughly_known(run: &ProfileRun, device: &ProfiledDevice) -> bool {
    program_depth(run, device).is_none_or(|entry| entry.ok || entry.residual < ROUGHLY)
}

/// Requests of a device that were counted but whose completion was not seen.
fn unseen(run: &ProfileRun, device: &ProfiledDevice) -> u64 {
    let own = run.traffic.iter().filter(|traffic| traffic.device == device.facts.name);
    own.map(|traffic| traffic.requests.saturating_sub(traffic.latency.count())).sum()
}

/// A request whose completion was not seen counts as in flight until its slot is reused: the levels
/// are too high, but the other figures are not affected. The difference is explained if these
/// requests can cause it and no more are `unseen` than may cross the edges.
fn excused(entry: Identity, depth: &Depth, unseen: u64, edge: u64) -> Identity {
    if unseen == 0 || entry.ok {
        return entry;
    }
    let equation = format!(
        "{}; the reported depth is too high, because the end of {} was not seen",
        entry.equation,
        count::of(unseen, "request")
    );
    let all_ns: u64 = depth.time_ns.iter().map(|(_, ns)| ns).sum();
    let added_ns = unseen as f64 * all_ns as f64;
    let most = added_ns / (added_ns + depth.area_ns as f64).max(1.0);
    let explained = unseen <= edge && entry.residual <= entry.tolerance + most;
    Identity { severity: Severity::Note, equation, explained, ..entry }
}

/// Every request has a latency and a size.
fn histograms(rows: &[&Traffic]) -> Identity {
    let (mut requests, mut off) = (0u64, 0u64);
    for traffic in rows {
        let sized: u64 = traffic.sizes.iter().map(|(_, requests)| requests).sum();
        requests += traffic.requests;
        off += traffic.requests.abs_diff(traffic.latency.count());
        // Flushes have no size.
        off += if sized == 0 { 0 } else { traffic.requests.abs_diff(sized) };
    }
    let equation = format!(
        "requests {} without a latency or a size {} = 0",
        count::thousands(requests),
        count::thousands(off)
    );
    let residual = share(off, requests).unwrap_or(0.0);
    // Requests that cross the edges are not reported.
    let tolerance = share(edge(requests), requests).unwrap_or(0.0);
    slight(entry("histograms", residual, tolerance, equation), off)
}

/// The sizes add up to the bytes.
fn sizes(rows: &[&Traffic]) -> Identity {
    let bytes: u64 = rows.iter().map(|traffic| traffic.bytes).sum();
    let sizes = rows.iter().flat_map(|traffic| &traffic.sizes);
    let by_size: u64 = sizes.map(|(size, requests)| size.saturating_mul(*requests)).sum();
    let equation = format!(
        "bytes {} = sizes x requests {}",
        count::thousands(bytes),
        count::thousands(by_size)
    );
    let residual = share(bytes.abs_diff(by_size), bytes.max(by_size)).unwrap_or(0.0);
    entry("sizes", residual, SIZES, equation)
}

/// Queue time in the block layer plus device time equals the latency; `None` if the issue event was
/// not seen.
fn parts(rows: &[&Traffic]) -> Option<Identity> {
    let all = Tally::of(rows.iter().copied().filter(|traffic| {
        let requests = traffic.requests;
        traffic.queued.count() == requests && traffic.device_time.count() == requests
    }));
    let whole = all.latency.sum() as f64;
    let parts = (all.queued.sum() + all.device_time.sum()) as f64;
    let equation = format!(
        "queue {} s + device {} s = latency {} s",
        count::significant(all.queued.sum() as f64 / 1e9),
        count::significant(all.device_time.sum() as f64 / 1e9),
        count::significant(whole / 1e9)
    );
    (all.requests > 0 && whole > 0.0)
        .then(|| entry("parts", (whole - parts).abs() / whole, PARTS, equation))
}

/// The intervals add up to the program's requests; `None` if none were recorded.
fn intervals(run: &ProfileRun) -> Option<Identity> {
    let kept: u64 = run.series.iter().flat_map(|series| &series.counters.ops).sum();
    let own = run.traffic.iter().filter(|traffic| traffic.class.is_of_the_program());
    let requests: u64 = own.map(|traffic| traffic.requests).sum();
    let equation = format!(
        "requests of all intervals {} = requests of the program {}",
        count::thousands(kept),
        count::thousands(requests)
    );
    let residual = share(kept.abs_diff(requests), kept.max(requests)).unwrap_or(0.0);
    let tolerance = COUNTERS.max(share(edge(requests), requests).unwrap_or(0.0));
    (!run.series.is_empty()).then(|| note(entry("intervals", residual, tolerance, equation)))
}

/// Prefix of the losses of requests; other losses concern one table only.
const OF_REQUESTS: &str = "requests:";

/// Nothing was lost. A loss in one table does not invalidate the others.
fn lost(run: &ProfileRun) -> Identity {
    let all: u64 = run.lost.values().sum();
    let each = run.lost.iter().map(|(what, times)| format!("{what} {}", count::thousands(*times)));
    let each: Vec<String> = each.collect();
    let which = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
    let requests: u64 = run.traffic.iter().map(|traffic| traffic.requests).sum();
    let residual = share(all, all + requests).unwrap_or(0.0);
    let equation = format!("lost {}{which} = 0", count::thousands(all));
    let of_requests = run.lost.iter().filter(|(what, _)| what.starts_with(OF_REQUESTS));
    let of_requests: u64 = of_requests.map(|(_, times)| *times).sum();
    // A few of many requests cross the edges without a latency.
    let tolerance =
        if of_requests > 0 { 0.0 } else { share(edge(requests), requests).unwrap_or(0.0) };
    let entry = entry("lost", residual, tolerance.min(LOSS), equation);
    if of_requests == 0 { note(entry) } else { slight(entry, of_requests) }
}

/// Reduces a failure to a note: it invalidates only the figures of depth or time.
fn note(entry: Identity) -> Identity {
    Identity { severity: Severity::Note, ..entry }
}

/// Reduces a failure to a note if the difference is small.
fn slight(entry: Identity, off: u64) -> Identity {
    let is_slight = entry.residual <= LOSS || off <= EDGE;
    Identity { severity: if is_slight { Severity::Note } else { Severity::Invalid }, ..entry }
}

fn entry(code: &'static str, residual: f64, tolerance: f64, equation: String) -> Identity {
    Identity::new(code, Severity::Invalid, residual, tolerance, equation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile::{Flow, by_counters, database, profile_of};
    use iosonde_stats::Histogram;

    /// Codes of the identities that fail.
    fn broken(run: &ProfileRun) -> Vec<&'static str> {
        consistency(run).broken().map(|entry| entry.code).collect()
    }

    #[test]
    fn a_consistent_profile_balances_in_every_way() {
        let consistency = consistency(&database());
        assert_eq!(consistency.broken().collect::<Vec<_>>(), Vec::<&Identity>::new());
        let codes: Vec<&str> = consistency.entries.iter().map(|entry| entry.code).collect();
        assert_eq!(
            codes,
            [
                "read_bytes",
                "write_bytes",
                "reads",
                "writes",
                "flushes",
                "depth",
                "program_depth",
                "histograms",
                "sizes",
                "parts",
                "intervals",
                "lost"
            ]
        );
        assert!(super::consistency(&by_counters()).entries.is_empty());
    }

    #[test]
    fn ends_that_were_not_seen_excuse_the_depth_and_nothing_else() {
        let mut run = profile_of(&[Flow { requests: 1000, ..Flow::default() }]);
        run.devices[0].depth.time_ns.push((40, 5_000_000_000));
        assert_eq!(broken(&run), ["depth"]);
        run.traffic[0].requests += 5;
        let entries = consistency(&run);
        let depth = entries.broken().find(|entry| entry.code == "depth").unwrap();
        assert_eq!(depth.severity, Severity::Note, "{depth:?}");
        assert!(depth.explained && depth.residual > depth.tolerance, "{depth:?}");
        assert!(depth.equation.contains("the end of 5 requests was not seen"), "{depth:?}");
    }

    #[test]
    fn a_few_unseen_ends_are_no_warning_and_many_are() {
        let mut run = profile_of(&[Flow { requests: 8_001, ..Flow::default() }]);
        run.traffic[0].latency = Histogram::new();
        run.traffic[0].latency.record_many(100_000, 7_998);
        // Three requests remain in flight until the end.
        run.devices[0].depth.time_ns.push((3, 5_000_000_000));
        let entries = consistency(&run);
        assert_eq!(broken(&run), ["depth"]);
        assert!(!entries.broken().any(matters), "{entries:?}");
        run.traffic[0].requests += 2_000;
        assert!(consistency(&run).broken().any(matters));
    }

    #[test]
    fn one_percent_and_a_few_requests_at_the_edges_are_forgiven() {
        let mut run = profile_of(&[Flow { requests: 100_000, ..Flow::default() }]);
        run.devices[0].counters.as_mut().unwrap().1.reads += 900;
        assert_eq!(broken(&run), Vec::<&str>::new());
        run.devices[0].counters.as_mut().unwrap().1.reads += 200;
        assert_eq!(broken(&run), ["reads"]);
        let mut few = profile_of(&[Flow { requests: 20, ..Flow::default() }]);
        few.devices[0].counters.as_mut().unwrap().1.reads += 8;
        assert_eq!(broken(&few), Vec::<&str>::new());
        few.devices[0].counters.as_mut().unwrap().1.reads += 1;
        assert_eq!(broken(&few), ["reads"]);
    }

    #[test]
    fn a_disk_that_the_program_did_not_use_is_not_checked() {
        let other = Flow { class: Class::Other, device: "sdb", ..Flow::default() };
        let spoiled = |flows: &[Flow]| {
            let mut run = profile_of(flows);
            let sdb = run.devices.iter_mut().find(|device| device.facts.name == "sdb").unwrap();
            sdb.counters.as_mut().unwrap().1.reads *= 2;
            let row = run.traffic.iter_mut().find(|row| row.device == "sdb").unwrap();
            row.sizes[0].0 *= 2;
            run
        };
        assert_eq!(broken(&spoiled(&[Flow::default(), other])), Vec::<&str>::new());
        let own = Flow { device: "sdb", requests: 100, ..Flow::default() };
        assert_eq!(broken(&spoiled(&[own, other])), ["reads"]);
        // It made no request, according to its counters.
        let mut idle = spoiled(&[other]);
        assert_eq!(broken(&idle), Vec::<&str>::new());
        idle.calls.as_mut().unwrap().storage_read_bytes = 1 << 20;
        assert_eq!(broken(&idle), ["reads", "sizes"]);
    }

    #[test]
    fn what_was_counted_while_tracing_began_and_ended_may_have_been_traced_or_not() {
        let traced = |requests: u64| {
            let mut run = profile_of(&[Flow { requests, ..Flow::default() }]);
            let at = |reads: u64| DeviceCounters {
                reads,
                read_sectors: reads * run.traffic[0].bytes / requests / 512,
                ..DeviceCounters::default()
            };
            let (outer, within) = ((at(100), at(1_400)), (at(250), at(1_350)));
            run.devices[0].counters = Some(outer);
            run.devices[0].counters_within = Some(within);
            broken(&run)
        };
        for requests in [1_100, 1_200, 1_300] {
            assert_eq!(traced(requests), Vec::<&str>::new());
        }
        for requests in [1_000, 1_400] {
            assert_eq!(traced(requests), ["read_bytes", "reads"]);
        }
    }

    #[test]
    fn the_side_that_is_short_is_named() {
        let mut run = profile_of(&[Flow::default()]);
        run.devices[0].counters.as_mut().unwrap().1.read_sectors *= 2;
        let consistency = consistency(&run);
        let entry = consistency.broken_code("read_bytes").unwrap();
        assert_eq!(
            entry.equation,
            "vda: bytes read traced 204,800,000 = counted by the kernel 409,600,000; the trace \
             has too few"
        );
        run.devices[0].counters.as_mut().unwrap().1.read_sectors /= 4;
        let consistency = super::consistency(&run);
        assert!(consistency.broken_code("read_bytes").unwrap().equation.ends_with(
            "counters have too \
            few"
        ));
    }

    #[test]
    fn empty_flushes_may_be_among_the_writes_or_not() {
        let flushes = Flow { op: Op::Flush, size_bytes: 0, requests: 5_000, ..Flow::default() };
        let mut run = profile_of(&[Flow { op: Op::Write, ..Flow::default() }, flushes]);
        assert_eq!(broken(&run), Vec::<&str>::new());
        run.devices[0].counters.as_mut().unwrap().1.writes -= 5_000;
        assert_eq!(broken(&run), Vec::<&str>::new());
        run.devices[0].counters.as_mut().unwrap().1.writes -= 5_000;
        assert_eq!(broken(&run), ["writes"]);
    }

    #[test]
    fn each_contradiction_within_the_record_is_seen() {
        type Spoil = fn(&mut ProfileRun);
        let cases: [(&str, Spoil); 5] = [
            ("depth", |run| run.devices[0].depth.time_ns[1].1 /= 2),
            ("program_depth", |run| run.devices[0].program_depth.area_ns *= 2),
            ("histograms", |run| run.traffic[0].latency.record_many(100_000, 5_000)),
            ("sizes", |run| run.traffic[0].sizes[0].0 *= 2),
            ("intervals", |run| run.series[0].counters.ops[0] *= 2),
        ];
        for (code, spoil) in cases {
            let mut run = profile_of(&[Flow::default()]);
            spoil(&mut run);
            assert!(broken(&run).contains(&code), "{code}: {:?}", broken(&run));
        }
        let mut run = profile_of(&[Flow::default()]);
        run.traffic[0].queued = run.traffic[0].device_time.clone();
        assert_eq!(broken(&run), ["parts"]);
    }

    #[test]
    fn a_slight_loss_is_a_note_and_a_great_one_is_grave() {
        let mut run = profile_of(&[Flow::default()]);
        run.lost.insert("requests: too many".into(), 10);
        let entry = consistency(&run).broken_code("lost").cloned().unwrap();
        assert_eq!((entry.severity, consistency(&run).valid()), (Severity::Note, true));
        assert_eq!(entry.equation, "lost 10 (requests: too many 10) = 0");
        run.lost.insert("requests: too many".into(), 100_000);
        assert!(!consistency(&run).valid());
        // Losses in one table.
        run.lost.clear();
        run.lost.insert("requests of cgroups: too many".into(), 100_000);
        let entry = consistency(&run).broken_code("lost").cloned().unwrap();
        assert_eq!(entry.severity, Severity::Note);
    }
}
