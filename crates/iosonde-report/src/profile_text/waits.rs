//! Waits of the program and its heaviest files, placed before all figures.

use crate::clean::clean;
use crate::wrap::Text;
use iosonde_analysis::profile::Figures;
use iosonde_model::record::profile::FileRun;
use iosonde_model::units::{bytes, count, duration};

use super::cells::{percent, shortened};

/// Most files that are named.
const FILES: usize = 3;
/// Most characters of a path.
const ROOM: usize = 60;
/// Least share of other programs' requests that is reported.
const OTHERS: f64 = 0.01;
/// From this share on, rounding would show all of them.
const NEARLY_ALL: f64 = 0.995;
/// Least share of the time without a CPU that is reported.
const NO_CPU: f64 = 0.02;

/// Writes `Waits:` and `Files:`, unless they are empty.
pub(super) fn waits(out: &mut Text, figures: &Figures) {
    let shares = shares(figures);
    if !shares.is_empty() {
        out.hanging("Waits: ", &shares.join("; "));
    }
    let mut files: Vec<(&FileRun, u64)> = figures
        .files
        .iter()
        .map(|each| (&each.file, each.file.read_bytes + each.file.write_bytes))
        .filter(|(file, moved)| *moved > 0 && !is_sum(file))
        .collect();
    files.sort_by_key(|(_, moved)| std::cmp::Reverse(*moved));
    let heavy: Vec<String> = files
        .into_iter()
        .take(FILES)
        .map(|(file, moved)| {
            format!("{} ({})", shortened(&clean(&file.path), ROOM), bytes::rough(moved))
        })
        .collect();
    if !heavy.is_empty() {
        out.hanging("Heaviest: ", &heavy.join(", "));
    }
}

/// Whether it is the sum entry for all unlisted files, the only one without a disk.
fn is_sum(file: &FileRun) -> bool {
    file.device.is_empty() && file.inode == 0
}

pub(super) fn shares(figures: &Figures) -> Vec<String> {
    let (waits, machine) = (&figures.waits, &figures.machine);
    let mut words = Vec::new();
    let of_threads = [
        ("blocked on I/O", machine.program_io_delay, 0.0),
        ("in syncs", waits.in_syncs, 0.0),
        ("ready, but without a CPU", machine.program_run_delay, NO_CPU),
    ];
    for (what, share, least) in of_threads {
        let Some(share) = share.filter(|share| *share > least) else { continue };
        let share = if share > 1.0 {
            format!("{} threads at once", count::significant(share))
        } else {
            format!("{} of the time", percent(share))
        };
        words.push(format!("{what} {share}"));
    }
    if let Some(share) = waits.in_flight {
        let inside = waits.in_device.map_or(String::new(), |inside| {
            format!(
                " (of their latency {} in the device, {} before it)",
                percent(inside),
                percent(1.0 - inside)
            )
        });
        let span = figures.program.as_ref().map_or(0, |side| side.window_ns);
        let time = match span > figures.window_ns {
            true => format!("{} until the last had ended", duration::span(span)),
            false => "time".to_owned(),
        };
        words.push(format!("requests in flight {} of the {time}{inside}", percent(share)));
    }
    if let Some(share) = waits.on_cpu {
        words.push(format!("on a CPU {}", percent(share)));
    }
    if let Some(share) = waits.for_others.filter(|share| *share >= OTHERS) {
        // The program itself has requests on these devices, so the share is below 100 %.
        let share = if share >= NEARLY_ALL { "nearly all".to_owned() } else { percent(share) };
        words.push(format!("{share} of the requests were for others"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::profile::figures;
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::profile::{Class, Op};

    fn text_of(figures: &Figures) -> String {
        let mut out = Text::new(100, 100);
        waits(&mut out, figures);
        out.into_string()
    }

    #[test]
    fn the_share_in_flight_names_its_time_where_requests_came_after_the_end() {
        let back = Flow { class: Class::WriteBack, op: Op::Write, ..Flow::default() };
        let mut run = profile_of(&[back]);
        let text = text_of(&figures(&run));
        assert!(
            text.contains("blocked on I/O 50% of the time; requests in flight 50% of the time")
        );
        // The program took a second, and its pages were written until the end.
        run.measured_ns = 1_000_000_000;
        run.io_delay_ns = None;
        let figures = figures(&run);
        let text = text_of(&figures);
        assert!(text.contains("in flight 50% of the 10.0 s until the last had ended"), "{text}");
        let depth = figures.devices[0].program_depth.as_ref();
        assert_eq!(depth.and_then(|depth| depth.busy_share), figures.waits.in_flight);
    }

    #[test]
    fn not_all_requests_are_for_others_where_some_are_the_programs() {
        let said = |requests: u64| {
            let other = Flow { class: Class::Other, requests, ..Flow::default() };
            text_of(&figures(&profile_of(&[Flow { requests: 10, ..Flow::default() }, other])))
        };
        let text = said(100_000);
        assert!(text.contains("; nearly all of the requests were for others"), "{text}");
        assert!(said(90).contains("; 90% of the requests were for others"), "{}", said(90));
    }

    #[test]
    fn the_sum_of_further_files_is_no_file() {
        let mut run = profile_of(&[Flow::default()]);
        let rest = FileRun { path: "further files".into(), reads: 9, ..FileRun::default() };
        run.files.push(FileRun { read_bytes: 1 << 40, ..rest });
        let text = text_of(&figures(&run));
        assert!(text.contains("Heaviest: /data/app file (195 MiB)\n"), "{text}");
    }
}
