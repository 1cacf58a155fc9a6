//! The link between a disk and the machine: current speed, best speed, payload ceiling.

use std::path::{Path, PathBuf};

use super::Root;
use iosonde_model::record::facts::DeviceFacts;

/// Share of a PCIe link's bytes that can be payload, in percent (method: "~0.90 payload").
const PCIE_PAYLOAD_PERCENT: u64 = 90;

/// SATA at 6 Gb/s carries about this much payload, bytes per second.
const SATA_3_BYTES_PER_S: u64 = 550_000_000;

/// Fills `link`, `link_max` and `link_bytes_per_s` where the kernel shows them.
pub(super) fn describe(root: &Root, disk: &Path, parts: &[PathBuf], facts: &mut DeviceFacts) {
    match facts.transport.as_deref() {
        Some("nvme") => describe_pcie(root, parts, facts),
        Some("sata") => describe_sata(root, disk, facts),
        Some("usb") => describe_usb(root, disk, facts),
        _ => {}
    }
}

/// A PCIe link: speed of one lane as the kernel words it, and the number of lanes.
#[derive(Clone, Debug, PartialEq)]
struct Pcie {
    words: String,
    lane_bytes_per_s: u64,
    width: u64,
}

impl Pcie {
    fn read(root: &Root, function: &Path, which: &str) -> Option<Self> {
        let words = root.word(function.join(format!("{which}_link_speed")))?;
        let width = root.number(function.join(format!("{which}_link_width")))?;
        // The specification ends at x32; the kernel shows 255 for an unknown width.
        if !(1..=32).contains(&width) {
            return None;
        }
        Some(Self { lane_bytes_per_s: lane_bytes_per_s(&words)?, words, width })
    }

    fn reported(&self) -> String {
        format!("{} x{}", self.words, self.width)
    }
}

/// Bytes per second of one lane after line coding (method 4.5).
fn lane_bytes_per_s(words: &str) -> Option<u64> {
    match words.split_whitespace().next()? {
        "2.5" => Some(250_000_000),
        "5" | "5.0" => Some(500_000_000),
        "8" | "8.0" => Some(985_000_000),
        "16" | "16.0" => Some(1_969_000_000),
        "32" | "32.0" => Some(3_938_000_000),
        "64" | "64.0" => Some(7_563_000_000),
        _ => None,
    }
}

fn describe_pcie(root: &Root, parts: &[PathBuf], facts: &mut DeviceFacts) {
    let functions: Vec<PathBuf> =
        parts.iter().filter_map(|directory| pci_function(root, directory)).collect();
    // Several controllers (multipath) may carry data at once: no single link is the ceiling.
    let Some(function) = functions.first().filter(|f| functions.iter().all(|g| g == *f)) else {
        return;
    };
    if let Some(now) = Pcie::read(root, function, "current") {
        let raw = now.lane_bytes_per_s * now.width;
        facts.link_bytes_per_s = Some(raw / 100 * PCIE_PAYLOAD_PERCENT);
        facts.link = Some(now.reported());
    }
    let Some(device) = Pcie::read(root, function, "max") else { return };
    let port = function.parent().and_then(|port| Pcie::read(root, port, "max"));
    let best = match port {
        None => device,
        Some(port) => {
            let width = device.width.min(port.width);
            let slower =
                if port.lane_bytes_per_s < device.lane_bytes_per_s { port } else { device };
            Pcie { width, ..slower }
        }
    };
    facts.link_max = Some(best.reported());
}

/// The PCI function a directory belongs to: the nearest one above that shows a link.
fn pci_function(root: &Root, directory: &Path) -> Option<PathBuf> {
    directory
        .ancestors()
        .find(|above| root.exists(above.join("current_link_speed")))
        .map(Path::to_owned)
}

/// The disk's maximum is not in sysfs, so `link_max` stays empty: 3.0 Gbps may be all it can do.
fn describe_sata(root: &Root, disk: &Path, facts: &mut DeviceFacts) {
    let port = disk.ancestors().find(|above| {
        above.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            name.strip_prefix("ata").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        })
    });
    let speed = port.and_then(|port| {
        let link = root.names(port).into_iter().find(|name| name.starts_with("link"))?;
        root.word(port.join(&link).join("ata_link").join(&link).join("sata_spd"))
    });
    let speed = speed.filter(|speed| speed.ends_with("Gbps"));
    facts.link_bytes_per_s = Some(match speed.as_deref() {
        Some("1.5 Gbps") => SATA_3_BYTES_PER_S / 4,
        Some("3.0 Gbps") => SATA_3_BYTES_PER_S / 2,
        // No SATA link is faster, so this is also the ceiling where the speed is not shown.
        _ => SATA_3_BYTES_PER_S,
    });
    facts.link = speed.map(|speed| format!("{speed} SATA"));
}

/// The ceiling is the line rate after coding; a USB bridge reaches less.
fn describe_usb(root: &Root, disk: &Path, facts: &mut DeviceFacts) {
    let speed: Option<u64> = disk.ancestors().find_map(|above| root.number(above.join("speed")));
    let Some(megabits) = speed.filter(|&megabits| megabits > 0) else { return };
    facts.link = Some(format!("{megabits} Mb/s USB"));
    facts.link_bytes_per_s = match megabits {
        480 => Some(60_000_000),
        5_000 => Some(500_000_000),
        10_000 => Some(1_212_000_000),
        20_000 => Some(2_424_000_000),
        _ => None,
    };
}
