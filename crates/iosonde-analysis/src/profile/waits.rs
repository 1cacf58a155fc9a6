//! Waits of the program, as shares of the time measured or of the time of its requests.

use serde::Serialize;

use iosonde_model::record::profile::{Class, ProfileRun, ProfiledDevice};

use super::consistency::is_depth_roughly_known;
use super::depth::busy_ns;
use super::traffic::{Tally, carries, program_window_ns, share, uses, while_it_ran};

/// Shares of the time measured, unless noted. They overlap: a sync waits for requests while other
/// threads continue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaitFigures {
    /// Share of the time until the end of its last request (as for its rates) with a request of the
    /// program in flight, on the busiest device. `None` if too many completions were lost.
    pub in_flight: Option<f64>,
    /// Share of the latency of its requests spent in the device; the rest is before it.
    pub in_device: Option<f64>,
    /// Time in sync calls, summed over its threads, over the time; 1 is one thread always.
    pub in_syncs: Option<f64>,
    /// CPU time of the program over the time; 1 is one CPU.
    pub on_cpu: Option<f64>,
    /// Share of the requests on its devices, while it ran, that were made for others. Excludes
    /// devices below another device that it used.
    pub for_others: Option<f64>,
}

/// The shares; each is `None` if this profile does not have its data.
pub(super) fn waits(run: &ProfileRun) -> WaitFigures {
    let own = Tally::of(run.traffic.iter().filter(|each| each.class.is_of_the_program()));
    let is_shared = |disk: &str| uses(run, disk) && !carries(run, disk);
    let there = || run.traffic.iter().filter(|each| is_shared(&each.device));
    let all = while_it_ran(run, there()).requests;
    let others = while_it_ran(run, there().filter(|each| each.class == Class::Other)).requests;
    let of_time = |ns: u64| share(ns, program_window_ns(run));
    let busy_ns = |device: &&ProfiledDevice| busy_ns(&device.program_depth);
    let busiest = run.devices.iter().max_by_key(busy_ns).filter(|_| own.requests > 0);
    let known = busiest.filter(|device| is_depth_roughly_known(run, device));
    let syncs = || run.syncs.iter().map(|sync| sync.latency.sum()).sum::<u128>();
    let parts = own.queued.sum() + own.device_time.sum();
    let cpu = run.cpu.as_ref().filter(|cpu| cpu.span_ns > 0);
    WaitFigures {
        in_flight: known.map(|device| busy_ns(&device)).and_then(of_time).map(|at| at.min(1.0)),
        in_device: (parts > 0).then(|| own.device_time.sum() as f64 / parts as f64),
        in_syncs: (!run.syncs.is_empty() && run.measured_ns > 0)
            .then(|| syncs() as f64 / run.measured_ns as f64),
        on_cpu: cpu.map(|cpu| (cpu.cpu_user_ns + cpu.cpu_system_ns) as f64 / cpu.span_ns as f64),
        for_others: (all > 0.0).then(|| others / all),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};
    use iosonde_model::record::profile::{Op, SyncKind};

    #[test]
    fn shares_are_those_of_the_record() {
        let own = Flow { op: Op::Write, requests: 3_000, queued_ns: 10_000, ..Flow::default() };
        let other = Flow { class: Class::Other, requests: 1_000, ..Flow::default() };
        let mut run = profile_of(&[Flow { device_ns: 90_000, ..own }, other]);
        with_syncs(&mut run, "app", SyncKind::Fsync, 100, 25_000_000);
        let waits = waits(&run);
        assert_eq!(waits.for_others, Some(0.25));
        assert_eq!(waits.in_syncs, Some(0.25));
        assert!((waits.in_device.unwrap() - 0.9).abs() < 0.02, "{waits:?}");
        assert!(waits.in_flight.unwrap() <= 1.0);
        // The requests of others came after its end.
        run.traffic[1].active_ns = Some((10_500_000_000, 12_000_000_000));
        assert_eq!(super::waits(&run).for_others, Some(0.0));
        // A disk that the program does not use.
        let elsewhere = Flow { device: "sdb", ..other };
        let elsewhere = super::waits(&profile_of(&[own, elsewhere]));
        assert_eq!(elsewhere.for_others, Some(0.0));
        let idle = super::waits(&profile_of(&[]));
        assert_eq!((idle.in_flight, idle.in_syncs, idle.for_others), (None, None, None));
    }

    #[test]
    fn a_depth_that_lost_completions_made_too_high_is_no_share_of_the_time() {
        let run = profile_of(&[Flow { requests: 1_000, ..Flow::default() }]);
        let known = waits(&run).in_flight;
        assert!(known.is_some_and(|share| share < 0.2), "{known:?}");
        // Two of its requests stay in flight, which changes nothing if that time is short.
        let times = |ns: u64| {
            let mut run = run.clone();
            run.traffic[0].requests += 2;
            run.devices[0].program_depth.time_ns.push((2, ns));
            waits(&run).in_flight
        };
        assert!(times(5_000_000).is_some(), "off by less than a tenth");
        assert_eq!(times(8_000_000_000), None);
    }
}
