//! The unique name of a block device, which the user repeats to consent to its destruction.

use std::path::Path;

use super::device::{device, file_name, words};
use super::{Root, mount};
use iosonde_model::record::facts::DeviceFacts;

/// What identifies a block device on this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Serial number, else WWN, else backing file, else `name:bytes`; for a partition followed by
    /// `-part` and its number. Contains no control characters.
    pub id: String,
    /// Kernel name of the device or partition.
    pub name: String,
    /// Model, if the disk reports one.
    pub model: Option<String>,
    /// Size, bytes.
    pub bytes: u64,
    /// Whether the kernel refuses to write to it.
    pub read_only: bool,
    /// The kernel's sequence number, new for each attached disk (`diskseq`, Linux 5.15).
    pub sequence: Option<u64>,
}

/// The identity of the block device with this number; `None` if sysfs does not list it.
///
/// A serial number that another disk of this machine also shows is skipped, and the next in order
/// is used: disks behind cheap USB bridges and in virtual machines often share serial numbers.
#[must_use]
pub fn identity(root: &Root, major: u32, minor: u32) -> Option<Identity> {
    let own = root.resolve(format!("/sys/dev/block/{major}:{minor}"))?;
    let partition: Option<String> = root.word(own.join("partition"));
    let disk = if partition.is_some() { own.parent()?.to_owned() } else { own.clone() };
    let facts = device(root, major, minor)?;
    let name = file_name(&own)?;
    let bytes = root.number::<u64>(own.join("size"))?.checked_mul(512)?;
    let disk_bytes = root.number::<u64>(disk.join("size"))?.saturating_mul(512);
    let others = others(root, &facts.name);
    let reported = marks(root, &disk, &facts)
        .into_iter()
        .find(|mark| !others.contains(mark))
        .unwrap_or_else(|| format!("{}:{disk_bytes}", facts.name));
    let id = match &partition {
        Some(number) => format!("{reported}-part{}", words(number)),
        None => reported,
    };
    Some(Identity {
        id: printable(&id),
        name,
        model: facts.model,
        bytes,
        read_only: root.number::<u8>(own.join("ro")) == Some(1)
            || root.number::<u8>(disk.join("ro")) == Some(1),
        sequence: root.number(disk.join("diskseq")),
    })
}

/// The possible identifiers of a disk, best first.
fn marks(root: &Root, disk: &Path, facts: &DeviceFacts) -> Vec<String> {
    // The namespaces of an NVMe share the serial number of their controller.
    let namespace = root.number::<u32>(disk.join("nsid")).filter(|number| *number > 1);
    let serial = facts.serial.as_deref().map(words).map(|serial| match namespace {
        Some(number) => format!("{serial}_{number}"),
        None => serial,
    });
    let file = root.word(disk.join("loop/backing_file"));
    [serial, facts.wwid.clone(), file].into_iter().flatten().filter(|m| !m.is_empty()).collect()
}

/// The possible identifiers of all other disks of this machine.
fn others(root: &Root, own: &str) -> Vec<String> {
    let mut marks_of_others = Vec::new();
    for name in root.names("/sys/class/block") {
        let Some(path) = root.resolve(format!("/sys/class/block/{name}")) else { continue };
        if name == own || root.exists(path.join("partition")) {
            continue;
        }
        let number = root.text(path.join("dev")).and_then(|text| mount::device_number(&text));
        if let Some(facts) = number.and_then(|(major, minor)| device(root, major, minor)) {
            marks_of_others.extend(marks(root, &path, &facts));
        }
    }
    marks_of_others
}

/// Replaces control characters and marks of writing direction, by which a device could display
/// another name than it has.
fn printable(text: &str) -> String {
    let turns = |c: char| {
        let marks = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
        marks.iter().any(|range| range.contains(&c))
    };
    text.chars().map(|c| if c.is_control() || turns(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_deceive_a_terminal_are_made_harmless() {
        assert_eq!(printable("S123\x1b[2K\u{202e}x"), "S123?[2K?x");
        assert_eq!(printable("/images/größe 1.img"), "/images/größe 1.img");
    }
}
