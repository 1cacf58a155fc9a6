//! Cgroup limits on the I/O of this process.
//!
//! Sources: the kernel's `cgroup-v2.rst` (io.max) and `blkio-controller.rst` (version 1). In
//! version 2 the limits of all ancestors bind. Version 1 throttles each group by itself ("flat",
//! unless the hierarchy was mounted with the development option sane_behavior), so there only the
//! limits of the process's own group count.

use super::{Root, cgroup, device, mount};
use iosonde_model::record::facts::{IoLimit, IoLimitKind};

/// Version 1: one file per kind of limit.
const THROTTLE_FILES: [(&str, IoLimitKind); 4] = [
    ("blkio.throttle.read_bps_device", IoLimitKind::ReadBytes),
    ("blkio.throttle.write_bps_device", IoLimitKind::WriteBytes),
    ("blkio.throttle.read_iops_device", IoLimitKind::ReadIops),
    ("blkio.throttle.write_iops_device", IoLimitKind::WriteIops),
];

/// Every limit that applies to this process on the device, its whole disk, or a device below it.
#[must_use]
pub fn io_limits(root: &Root, major: u32, minor: u32) -> Vec<IoLimit> {
    let devices = device::numbers_in_stack(root, major, minor);
    let mut limits = Vec::new();
    for hierarchy in cgroup::hierarchies(root, "io") {
        for level in hierarchy.levels.iter().filter(|_| hierarchy.unified) {
            let file = level.join("io.max");
            let text = root.text(&file).unwrap_or_default();
            limits.extend(unified(&text, &devices).map(|(kind, per_second)| IoLimit {
                source: file.display().to_string(),
                kind,
                per_second,
            }));
        }
    }
    for hierarchy in cgroup::hierarchies(root, "blkio") {
        for own in hierarchy.levels.first().iter().filter(|_| !hierarchy.unified) {
            for (name, kind) in THROTTLE_FILES {
                let file = own.join(name);
                let text = root.text(&file).unwrap_or_default();
                limits.extend(flat(&text, &devices).map(|per_second| IoLimit {
                    source: file.display().to_string(),
                    kind,
                    per_second,
                }));
            }
        }
    }
    limits
}

/// `8:16 rbps=2097152 wbps=max riops=max wiops=120`
fn unified<'a>(
    text: &'a str,
    devices: &'a [(u32, u32)],
) -> impl Iterator<Item = (IoLimitKind, u64)> + 'a {
    text.lines().filter_map(|line| of_device(line, devices)).flat_map(|settings| {
        settings.split_whitespace().filter_map(|setting| {
            let (key, value) = setting.split_once('=')?;
            let kind = match key {
                "rbps" => IoLimitKind::ReadBytes,
                "wbps" => IoLimitKind::WriteBytes,
                "riops" => IoLimitKind::ReadIops,
                "wiops" => IoLimitKind::WriteIops,
                _ => return None,
            };
            // `max` is no number, hence no limit.
            Some((kind, value.parse().ok()?))
        })
    })
}

/// `8:16 1048576`
fn flat<'a>(text: &'a str, devices: &'a [(u32, u32)]) -> impl Iterator<Item = u64> + 'a {
    text.lines().filter_map(|line| of_device(line, devices)?.trim().parse().ok())
}

/// The text after the device number, if that is one of the devices.
fn of_device<'a>(line: &'a str, devices: &[(u32, u32)]) -> Option<&'a str> {
    let (number, rest) = line.trim().split_once(' ')?;
    devices.contains(&mount::device_number(number)?).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_devices_and_odd_lines_are_silent() {
        let text =
            "8:0 rbps=max wbps=7 riops=100 wiops=-1\n8:16 riops=5\n\n8:0\ngarbage\n8:0 riops";
        let seen: Vec<_> = unified(text, &[(8, 0)]).collect();
        assert_eq!(seen, [(IoLimitKind::WriteBytes, 7), (IoLimitKind::ReadIops, 100)]);
        let text = "8:0 99999999999999999999999\n8:0 12\n8:16 4\nx";
        assert_eq!(flat(text, &[(8, 0)]).collect::<Vec<_>>(), [12]);
    }
}
