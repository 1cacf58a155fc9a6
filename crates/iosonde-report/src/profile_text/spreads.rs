//! Percentile rows: the histograms and the CPU summary.

use crate::wrap::Text;
use iosonde_analysis::profile::{DepthFigures, Figures, OpFigures, Side, Spread};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Op;
use iosonde_model::units::{count, duration};

use super::cells::{latency_row, maybe_percent, percent, rate, size, spread_row};
use super::{labelled, no_data, used};

/// Names of the rows of operations.
const ROWS: [(Op, &str); 5] = [
    (Op::Read, "reads"),
    (Op::Write, "writes"),
    (Op::Discard, "discards"),
    (Op::Flush, "flushes"),
    (Op::Other, "other"),
];

/// `Histograms:` and its rows.
pub(super) fn histograms(out: &mut Text, figures: &Figures) {
    out.push_str("Histograms:\n");
    let Some(side) = &figures.program else {
        for label in ["Queue Depth:", "Block Size:", "IO Latency:"] {
            labelled(out, label, &no_data(figures.unseen.as_deref()));
        }
        return;
    };
    if side.requests() == 0 {
        out.push_str("  no request of the program reached a device\n");
        return;
    }
    let before = out.len();
    depths(out, figures);
    sizes(out, side);
    latencies(out, side);
    if out.since(before).contains("=n/a") {
        let needs = [(0.25, 15), (0.99, 370), (0.999, 3_700)].map(|(q, needs)| {
            format!("p{} needs {}", (q * 1e5_f64).round() / 1e3, count::thousands(needs))
        });
        let needs = needs.join(", ");
        out.hanging("  ", &format!("n/a: too few latencies for it ({needs})"));
    }
}

fn depths(out: &mut Text, figures: &Figures) {
    for device in used(figures) {
        let Some(own) = &device.program_depth else { continue };
        let words = format!(
            "{}: {}; with others {}",
            device.name,
            levels(own),
            device.depth.as_ref().map_or("n/a".into(), levels)
        );
        labelled(out, "Queue Depth:", &words);
        spread_row(out, "    by time", &own.by_time, level);
        spread_row(out, "    on arrival", &own.on_arrival, level);
        if let Some(all) = device.depth.as_ref().filter(|all| all.by_time != own.by_time) {
            spread_row(out, "    with others", &all.by_time, level);
        }
    }
}

fn levels(depth: &DepthFigures) -> String {
    let mean = depth.by_time.mean.map_or("n/a".into(), count::significant);
    let span = duration::span(depth.span_ns);
    format!("busy {} of {span} with {mean} on average", maybe_percent(depth.busy_share))
}

fn level(level: f64) -> String {
    format!("{level:.0}")
}

fn sizes(out: &mut Text, side: &Side) {
    out.push_str("  Block Size:\n");
    let moved = side.ops.iter().zip(ROWS).filter(|(op, _)| op.bytes > 0);
    for (op, (_, word)) in moved {
        spread_row(out, &format!("    {word}"), &op.sizes, size);
    }
}

fn latencies(out: &mut Text, side: &Side) {
    out.push_str("  IO Latency:\n");
    for (op, (_, word)) in side.ops.iter().zip(ROWS).filter(|(op, _)| op.requests > 0) {
        latency_row(out, &format!("    {word}"), &op.latency);
        split(out, op);
    }
}

/// Queue time in the block layer and device time, if both were traced.
fn split(out: &mut Text, op: &OpFigures) {
    if op.queued.count > 0 {
        latency_row(out, "      queue", &op.queued);
    }
    if op.device_time.count > 0 {
        latency_row(out, "      device", &op.device_time);
    }
}

/// `CPU Summary:` and its lines.
pub(super) fn processor(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    out.push_str("CPU Summary:\n");
    let machine = &figures.machine;
    of_intervals(out, "CPU Usage:", &machine.cpu_used);
    of_intervals(out, "IOWait:", &machine.iowait);
    let of_program = match (machine.program_user, machine.program_system) {
        (Some(user), Some(system)) => {
            format!("{} user / {} system of one CPU", percent(user), percent(system))
        }
        _ => no_data(Some("its CPU time was not accounted")),
    };
    let of_machine = match (machine.user_share, machine.system_share, machine.steal_share) {
        (Some(user), Some(system), Some(steal)) => {
            let steal = match steal {
                steal if steal >= 0.001 => format!(" / {} stolen", percent(steal)),
                _ => String::new(),
            };
            format!("; machine {} / {}{steal} of all", percent(user), percent(system))
        }
        _ => String::new(),
    };
    labelled(out, "User/System:", &format!("{of_program}{of_machine}"));
    let switches =
        (machine.program_voluntary_switches_per_s, machine.program_involuntary_switches_per_s);
    let program = match switches {
        (Some(voluntary), Some(forced)) => {
            format!("; program {}/s voluntary, {}/s involuntary", rate(voluntary), rate(forced))
        }
        _ => String::new(),
    };
    let whole = machine.switches_per_s.map_or_else(
        || no_data(Some("not reported by the kernel")),
        |per_s| format!("{}/s (machine)", rate(per_s)),
    );
    labelled(out, "Ctx Switches:", &format!("{whole}{program}"));
    let waited = match (run.io_delay_ns, machine.program_io_delay) {
        (Some(ns), Some(share)) => format!(
            "the program's tasks waited {} for block I/O ({} of the time of one)",
            duration::latency(ns as f64),
            percent(share)
        ),
        _ => no_data(Some("delay accounting is off: sysctl kernel.task_delayacct=1")),
    };
    labelled(out, "IO Delay:", &waited);
    if let (Some(ns), Some(share)) = (run.run_delay_ns, machine.program_run_delay) {
        let words = format!(
            "the program's tasks were ready for {} and had no CPU ({} of the time of one)",
            duration::latency(ns as f64),
            percent(share)
        );
        labelled(out, "Run Delay:", &words);
    }
    if let Some(share) = machine.io_pressure {
        let words = format!("some task waited for I/O {} of the time", percent(share));
        labelled(out, "IO Pressure:", &words);
    }
}

fn of_intervals(out: &mut Text, label: &str, spread: &Spread) {
    if spread.count == 0 {
        labelled(out, label, &no_data(Some("no complete interval was sampled")));
    } else {
        spread_row(out, &format!("  {label}"), spread, percent);
    }
}
