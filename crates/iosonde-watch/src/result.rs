//! Builds the record: the tracer's figures, the order of the devices, and the missing data.

use super::counters::CALLS;
use super::devices;
use super::tracer::{Traced, TracedDevice};
use iosonde_bpf::WAITS;
use iosonde_engine::host::{Root, mounts};
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::profile::{Method, Missing, ProfileRun, ProfiledDevice, Source};

/// One line that describes the method.
pub(super) fn how(source: &Source) -> String {
    match source.method {
        Method::Tracepoints => {
            let attached = source.programs.iter().filter(|program| program.refused.is_none());
            format!(
                "{} of {} kernel programs attached; requests are attributed at {}",
                attached.count(),
                source.programs.len(),
                source.attribution
            )
        }
        Method::Counters => match source.missing.first() {
            Some(Missing { reason, fix, .. }) => {
                let fix = fix.as_ref().map_or(String::new(), |fix| format!(" ({fix})"));
                format!("requests cannot be traced: {reason}{fix}; using counters instead")
            }
            None => "requests cannot be traced; using counters instead".into(),
        },
    }
}

/// File systems with dirty pages but without a traceable disk.
const WITHOUT_DISK: [&str; 9] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "ubifs", "jffs2"];

/// Reason why dirty pages may be written to an untraced disk, if any.
pub(super) fn unwatched(root: &Root, disks_are_chosen: bool) -> Option<String> {
    if disks_are_chosen {
        return Some(ProfileRun::SELECTED.into());
    }
    let mounts = mounts(root);
    let other = mounts.iter().find(|mount| WITHOUT_DISK.contains(&mount.filesystem.as_str()))?;
    Some(format!("{} ({}) has no disk that can be traced", other.point.display(), other.filesystem))
}

/// Fills in the tracer's figures. `is_over`: everything profiled started and ended meanwhile.
pub(super) fn fill_in(run: &mut ProfileRun, root: &Root, traced: Traced, is_over: bool) {
    for device in traced.devices {
        add(&mut run.devices, root, device);
    }
    run.traffic = traced.traffic;
    run.flags = traced.flags;
    run.groups = traced.groups;
    run.threads = traced.threads;
    run.files = traced.files;
    run.cgroups = traced.cgroups;
    run.syncs = traced.syncs;
    run.opens = traced.opens;
    // The tracer covers ended processes; the totals from `/proc` also cover running ones.
    if is_over {
        if traced.calls.is_some() {
            run.source.missing.retain(|missing| missing.what != CALLS);
        }
        run.calls = traced.calls.or(run.calls);
        run.io_delay_ns = traced.io_delay_ns.or(run.io_delay_ns);
        // If the kernel does not account it, the tracer reports zero.
        let known = traced.run_delay_ns.filter(|_| run.run_delay_ns.is_some());
        run.run_delay_ns = known.or(run.run_delay_ns);
    }
    if let Some(waits_ns) = traced.waits_ns {
        run.source.missing.retain(|missing| missing.what != WAITS);
        run.io_delay_ns = Some(waits_ns);
    }
    run.page_cache = traced.page_cache;
    run.file_systems = traced.file_systems;
    run.places = traced.places;
    run.series = traced.series;
    run.stacks = traced.stacks;
    run.lost = traced.lost;
    let bytes = |name: &str| -> u64 {
        let of_program = run.traffic.iter().filter(|kind| kind.class.is_of_the_program());
        of_program.filter(|kind| kind.device == name).map(|kind| kind.bytes).sum()
    };
    let mut order: Vec<(u64, ProfiledDevice)> = std::mem::take(&mut run.devices)
        .into_iter()
        .map(|device| (bytes(&device.facts.name), device))
        .collect();
    order.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    run.devices = order.into_iter().map(|(_, device)| device).collect();
}

/// Adds a disk seen by the tracer to the one known from its counters, or as a new one.
fn add(known: &mut Vec<ProfiledDevice>, root: &Root, traced: TracedDevice) {
    let TracedDevice { number, name, depth, program_depth } = traced;
    let at = known.iter().position(|device| device.facts.name == name).unwrap_or_else(|| {
        let unknown =
            || DeviceFacts { name: name.clone(), major_minor: number, ..Default::default() };
        let facts = devices::disk(root, &name).map_or_else(unknown, |disk| disk.facts);
        known.push(ProfiledDevice { facts, ..ProfiledDevice::default() });
        known.len() - 1
    });
    (known[at].depth, known[at].program_depth) = (depth, program_depth);
}

/// Missing data of a machine profile, which does not sample processes one by one.
pub(super) fn uncounted() -> Missing {
    Missing {
        what: "calls and CPU time of the processes".into(),
        reason: "the processes of a whole machine are not sampled one by one".into(),
        fix: Some("profile one of them by --pid, or a cgroup".into()),
    }
}

/// Missing data of a running program whose threads start and end.
pub(super) fn switches_of_ended() -> Missing {
    Missing {
        what: "context switches of threads that have ended".into(),
        reason: "the kernel reports them only for running threads, and for a command started by \
                 iosonde"
            .into(),
        fix: None,
    }
}

/// Missing data if processes outlive the command that started them; `None` if none does.
pub(super) fn outliving(names: &[String]) -> Option<Missing> {
    const NAMED: usize = 3;
    let processes = match names.len() {
        0 => return None,
        1 => "1 process that outlives".to_owned(),
        count => format!("{count} processes that outlive"),
    };
    let first = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED { ", …" } else { "" };
    Some(Missing {
        what: format!("later I/O of {processes} the command ({first}{more})"),
        reason: "the profile ends with the command, or once its dirty pages are written".into(),
        fix: Some("let the command wait for its children, or profile a cgroup".into()),
    })
}

/// All data that neither the tracer nor a counter provides here.
pub(super) fn missing(run: &ProfileRun, root: &Root) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut miss = |what: &str, reason: &str, fix: Option<&str>| {
        let (what, reason) = (what.into(), reason.into());
        missing.push(Missing { what, reason, fix: fix.map(str::to_owned) });
    };
    if run.source.method == Method::Counters && run.calls.is_some() {
        miss(
            "calls of children that no parent waits for",
            "processes are sampled once per interval and at the end: calls of such a child after \
             its last sample are not included",
            None,
        );
    }
    if run.machine_switches.is_none() {
        miss("context switches of the machine", "/proc/stat does not contain them", None);
    }
    if !root.exists("/proc/pressure/io") {
        let fix = "a kernel with CONFIG_PSI, started with psi=1";
        miss("pressure", "/proc/pressure does not exist", Some(fix));
    }
    for device in run.devices.iter().filter(|device| device.counters.is_none()) {
        let what = format!("counters of {}", device.facts.name);
        miss(&what, "the kernel has none for it", None);
    }
    missing
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn processes_that_outlive_the_command_are_counted_and_named() {
        let of = |names: &[&str]| {
            outliving(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), None);
        let one = of(&["dd"]).unwrap();
        assert_eq!(one.what, "later I/O of 1 process that outlives the command (dd)");
        let many = of(&["a", "b", "c", "d"]).unwrap();
        assert_eq!(many.what, "later I/O of 4 processes that outlive the command (a, b, c, …)");
    }

    #[test]
    fn a_file_system_without_a_disk_takes_pages_that_nobody_watches() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let disk = "29 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let table = dir.path().join("proc/self/mountinfo");
        std::fs::write(&table, disk).unwrap();
        assert_eq!(unwatched(&root, false), None);
        assert_eq!(unwatched(&root, true).unwrap(), "only the selected disks were traced");
        let far = "30 29 0:50 / /home rw - nfs4 server:/home rw\n";
        std::fs::write(&table, format!("{disk}{far}")).unwrap();
        assert_eq!(unwatched(&root, false).unwrap(), "/home (nfs4) has no disk that can be traced");
    }
}
