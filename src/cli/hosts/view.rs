//! Progress of the hosts: a line for each on a terminal, otherwise an occasional summary.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use iosonde_model::units::count;
use iosonde_report::clean::clean;

use super::connection::{Connection, Stage};
use crate::cli::output::note;
use crate::cli::progress::screen;

/// Update interval on a terminal.
const TERMINAL: Duration = Duration::from_millis(250);
/// Interval between lines elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// Largest number of rows on a terminal; a summary replaces the other hosts.
const ROWS: usize = 32;

/// Lines on stderr.
pub(super) struct View {
    screen: Option<ProgressBar>,
    shown: Instant,
}

impl View {
    pub(super) fn new() -> View {
        View { screen: io::stderr().is_terminal().then(screen), shown: Instant::now() }
    }

    pub(super) fn show(&mut self, hosts: &[Connection]) {
        let every = if self.screen.is_some() { TERMINAL } else { ELSEWHERE };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        match &self.screen {
            Some(screen) => screen.set_message(rows(hosts)),
            None => note(&summary(hosts)),
        }
    }

    /// Writes lines above the updated ones.
    pub(super) fn above(&self, write: impl FnOnce()) {
        match &self.screen {
            Some(screen) => screen.suspend(write),
            None => write(),
        }
    }

    pub(super) fn clear(&self) {
        if let Some(screen) = &self.screen {
            screen.finish_and_clear();
        }
    }
}

/// Operations per second between the last two progress messages.
fn iops(host: &Connection) -> Option<f64> {
    let [before, now] = host.moved;
    let span_ns = now.0.checked_sub(before.0).filter(|ns| *ns > 0)?;
    let is_running = matches!(host.stage, Stage::Running(_));
    is_running.then(|| now.1.saturating_sub(before.1) as f64 * 1e9 / span_ns as f64)
}

fn rows(hosts: &[Connection]) -> String {
    let shown = hosts.iter().take(ROWS);
    let mut rows: Vec<String> = shown.map(row).collect();
    if hosts.len() > ROWS {
        rows.push(summary(hosts));
    }
    rows.join("\n")
}

fn row(host: &Connection) -> String {
    let rate = iops(host).map(|iops| format!("  {} IOPS", count::significant_or_whole(iops)));
    let title = match host.stage {
        Stage::Ready(_) | Stage::Running(_) => format!("  {}", clean(&host.title)),
        _ => String::new(),
    };
    format!("{:16} {:10}{title}{}", host.outcome.known.name, stage(host), rate.unwrap_or_default())
}

fn stage(host: &Connection) -> &'static str {
    match host.stage {
        Stage::Launched => "connecting",
        Stage::Connected => "connected",
        Stage::Begun => "opening",
        Stage::Admitted => "admitted",
        Stage::Preparing => "preparing",
        Stage::Ready(_) => "ready",
        Stage::Running(_) => "running",
        Stage::Ended if host.outcome.known.end.is_done() => "done",
        Stage::Ended => "failed",
    }
}

/// Number of hosts by stage, and their total rate.
fn summary(hosts: &[Connection]) -> String {
    let mut stages: Vec<(&str, usize)> = Vec::new();
    for host in hosts {
        match stages.iter_mut().find(|(name, _)| *name == stage(host)) {
            Some((_, count)) => *count += 1,
            None => stages.push((stage(host), 1)),
        }
    }
    let stages: Vec<String> =
        stages.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
    let rates: Vec<(f64, &str)> = hosts
        .iter()
        .filter_map(|host| Some((iops(host)?, host.outcome.known.name.as_str())))
        .collect();
    let slowest = rates.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let rate = slowest.map(|(least, name)| {
        let sum: f64 = rates.iter().map(|(iops, _)| iops).sum();
        format!(
            "; {} IOPS, least {} ({name})",
            count::significant_or_whole(sum),
            count::significant_or_whole(*least)
        )
    });
    format!("hosts: {}{}", stages.join(", "), rate.unwrap_or_default())
}
