//! Comparison of a check with classes of storage that have public figures.

use super::figures::GroupFigures;
use super::verdict::Assessment;
use iosonde_model::record::facts::{FilesystemClass, TargetFacts};
use iosonde_model::record::run::Run;
use iosonde_model::spec::EachWrite;
use iosonde_model::spec::reference::ReferenceClass;
use iosonde_model::units::{bytes, count, duration};

/// Requests below this size, bytes, are compared by IOPS, larger ones by bytes per second.
const SMALL: u64 = 64 << 10;
/// Factor by which a row may be outside a range and count as within it: ranges are rounded.
const LEEWAY: f64 = 1.25;
/// Smallest share of rows within their ranges for a class to fit.
const FITS: f64 = 0.6;
/// Ratio of the ends of a range at or above which the position in the range is stated.
const WIDE: f64 = 10.0;
/// Relative distance from a limit at or below which a figure is at the limit.
const ON_LIMIT: f64 = 0.03;
/// Mean latency of small requests that no flash and no virtual disk should have, ns.
const ABSURD_NS: f64 = 50e6;

/// Position of a row relative to the range of its class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Within the range.
    Typical,
    /// Below it.
    Slow,
    /// Above it.
    Fast,
}

/// A row compared with its class.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRow {
    pub title: String,
    /// Position relative to the range.
    pub place: Place,
    /// Whether bytes per second are compared, and not IOPS.
    pub is_rate_of_bytes: bool,
    /// Measured rate.
    pub measured: f64,
    /// The range of the class.
    pub range: [f64; 2],
}

impl PlacedRow {
    /// Third of the range in which the row lies, on a logarithmic scale; `None` if the range is
    /// narrower than a decade or the row is outside.
    pub fn third(&self) -> Option<&'static str> {
        let [low, high] = self.range;
        if self.place != Place::Typical || high < low * WIDE {
            return None;
        }
        match (self.measured / low).ln() / (high / low).ln() * 3.0 {
            third if third < 1.0 => Some("lower third"),
            third if third < 2.0 => Some("middle third"),
            _ => Some("upper third"),
        }
    }

    /// A rate with its unit.
    pub fn figure(&self, value: f64) -> String {
        match self.is_rate_of_bytes {
            true => bytes::per_second(value),
            false => format!("{} IOPS", count::significant_or_whole(value)),
        }
    }
}

/// A check compared with the class that fits it best.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The class, its source, and its rows; `None` if nothing could be compared.
    pub class: Option<(String, String, Vec<PlacedRow>)>,
    /// Whether most rows are within its ranges.
    pub fits: bool,
    /// The limit of a service at which figures lie, as text.
    pub limit: Option<String>,
    /// A mean latency that no such device should have, as text.
    pub absurd: Option<String>,
}

impl Placement {
    /// The placement as text, for the first line.
    pub fn words(&self) -> Option<String> {
        let class = self.class.as_ref().map(|(name, _, rows)| {
            let slow = rows.iter().filter(|row| row.place == Place::Slow);
            let slow: Vec<&str> = slow.map(|row| row.title.as_str()).collect();
            match (self.fits, slow.is_empty()) {
                (true, true) => format!("typical of {name}"),
                (true, false) => format!("typical of {name}, but slow in {}", slow.join(", ")),
                (false, _) if slow.len() == rows.len() => format!("slow for {name}"),
                (false, _) => format!("no reference class fits (nearest: {name})"),
            }
        });
        let parts: Vec<String> =
            [self.absurd.clone(), class, self.limit.clone()].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Finds the class that fits best among those possible for the target.
pub fn place(rows: &[(&Run, &Assessment)], classes: &[ReferenceClass]) -> Placement {
    let usable: Vec<&(&Run, &Assessment)> = rows
        .iter()
        .filter(|(_, row)| row.complete && row.consistency.valid() && row.figures.all.total.ops > 0)
        .filter(|(run, _)| is_acknowledged(run))
        .collect();
    let Some((first, _)) = usable.first() else { return Placement::default() };
    if ["simulated", "null"].contains(&first.target.kind.as_str()) {
        return Placement::default();
    }
    let kinds = kinds(&first.target);
    let may_be = |class: &&ReferenceClass| {
        let is_any = class.storage.is_empty() || kinds.is_empty();
        let is_kind = class.storage.iter().any(|kind| kinds.contains(&kind.as_str()));
        (is_any || is_kind) && is_model(class, &first.target)
    };
    let compared = |class: &ReferenceClass| -> Vec<PlacedRow> {
        usable.iter().map(|(run, row)| placed(run, &row.figures.all, class)).collect()
    };
    // Of two classes that fit equally, the narrower one says more.
    let best =
        classes.iter().filter(may_be).map(|class| (class, compared(class))).min_by(|a, b| {
            (distance(&a.1), width(a.0))
                .partial_cmp(&(distance(&b.1), width(b.0)))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    let typical = |rows: &[PlacedRow]| {
        let within = rows.iter().filter(|row| row.place == Place::Typical).count();
        within as f64 >= FITS * rows.len() as f64
    };
    let is_virtual = kinds.contains(&"virtual") || kinds.contains(&"network");
    Placement {
        fits: best.as_ref().is_some_and(|(_, rows)| typical(rows)),
        limit: is_virtual.then(|| limit(&usable, classes.iter().filter(may_be))).flatten(),
        absurd: absurd(&usable, &kinds, best.as_ref().map(|(class, _)| *class)),
        class: best.map(|(class, rows)| (class.name.clone(), class.source.clone(), rows)),
    }
}

/// Whether writes are only acknowledged: a class has no figures of durable writes.
fn is_acknowledged(run: &Run) -> bool {
    run.plan.jobs.iter().all(|job| job.sync.each_write == EachWrite::Accepted)
}

/// Kinds of storage that the target can be, according to the kernel; empty for any.
fn kinds(target: &TargetFacts) -> Vec<&'static str> {
    if target.class == FilesystemClass::Network {
        return vec!["network"];
    }
    let Some(device) = &target.device else { return Vec::new() };
    let model = device.model.as_deref().unwrap_or_default();
    let of_clouds = ["Amazon Elastic Block Store", "nvme_card-pd", "PersistentDisk", "Microsoft"];
    if device.is_virtual == Some(true) || of_clouds.iter().any(|word| model.contains(word)) {
        return vec!["virtual"];
    }
    match (device.transport.as_deref(), device.rotational) {
        (Some("nvme"), _) => vec!["nvme"],
        (Some("sata" | "sas" | "scsi" | "ata"), Some(true)) => vec!["hdd"],
        (Some("sata" | "sas" | "scsi" | "ata"), Some(false)) => vec!["sata"],
        _ => Vec::new(),
    }
}

/// Whether the device may belong to a service, by its model.
fn is_model(class: &ReferenceClass, target: &TargetFacts) -> bool {
    let model = target.device.as_ref().and_then(|device| device.model.as_deref());
    let model = model.unwrap_or_default();
    class.model.is_empty() || class.model.iter().any(|word| model.contains(word.as_str()))
}

/// One row compared with the range that applies to it.
fn placed(run: &Run, all: &GroupFigures, class: &ReferenceClass) -> PlacedRow {
    let is_large = run.plan.nominal_block_bytes >= SMALL;
    let [read, write] = match is_large {
        true => [class.read_mb_per_s, class.write_mb_per_s].map(|range| range.map(|mb| mb * 1e6)),
        false => [class.read_iops, class.write_iops],
    };
    // A mix lies between the rates of the two directions alone.
    let range = match all.read_share {
        Some(share) if share >= 0.95 => read,
        Some(share) if share <= 0.05 => write,
        _ => [read[0].min(write[0]), read[1].max(write[1])],
    };
    let measured = if is_large { all.total.bytes_per_s } else { all.total.iops };
    let place = match measured {
        value if value * LEEWAY < range[0] => Place::Slow,
        value if value > range[1] * LEEWAY => Place::Fast,
        _ => Place::Typical,
    };
    PlacedRow { title: run.plan.title.clone(), place, is_rate_of_bytes: is_large, measured, range }
}

/// Mean distance of the rows from their ranges, in decades.
fn distance(rows: &[PlacedRow]) -> f64 {
    let each = rows.iter().map(|row| {
        let [low, high] = row.range;
        let below = (low / row.measured.max(1e-9)).log10().max(0.0);
        let above = (row.measured / high).log10().max(0.0);
        below.max(above)
    });
    each.sum::<f64>() / rows.len().max(1) as f64
}

/// Total width of the ranges of a class, in decades.
fn width(class: &ReferenceClass) -> f64 {
    let ranges = [class.read_iops, class.write_iops, class.read_mb_per_s, class.write_mb_per_s];
    ranges.iter().map(|[low, high]| (high / low).log10()).sum()
}

/// The limit of a service at which at least two rows lie: a single figure may be there by chance.
fn limit<'a>(
    rows: &[&(&Run, &Assessment)],
    possible: impl Iterator<Item = &'a ReferenceClass>,
) -> Option<String> {
    let near = |value: f64, limit: f64| (value / limit - 1.0).abs() <= ON_LIMIT;
    let sits = |of: fn(&GroupFigures) -> f64, limit: f64| {
        rows.iter().filter(|(_, row)| near(of(&row.figures.all), limit)).count()
    };
    let found = possible.flat_map(|class| {
        let counted = class.limit_iops.iter().map(|limit| {
            (
                sits(|all| all.total.iops, *limit),
                format!("{} IOPS", count::significant_or_whole(*limit)),
            )
        });
        let weighed = class.limit_mb_per_s.iter().map(|limit| {
            (sits(|all| all.total.bytes_per_s, *limit * 1e6), bytes::per_second(*limit * 1e6))
        });
        let named = counted.chain(weighed).collect::<Vec<_>>();
        named.into_iter().map(|(rows, words)| (rows, words, class.name.as_str()))
    });
    let (rows, words, name) =
        found.max_by_key(|(rows, ..)| *rows).filter(|(rows, ..)| *rows >= 2)?;
    Some(format!("{rows} rows are at a limit of {name} ({words})"))
}

/// A mean latency that no device of this kind should have.
fn absurd(
    rows: &[&(&Run, &Assessment)],
    kinds: &[&str],
    class: Option<&ReferenceClass>,
) -> Option<String> {
    // A device that may have to move heads can be this slow.
    if kinds.is_empty() || kinds.contains(&"hdd") || kinds.contains(&"network") {
        return None;
    }
    let usual_ns = class.map_or(ABSURD_NS, |class| (class.usual_ms * 1e6).min(ABSURD_NS));
    let (title, mean_ns) = rows
        .iter()
        .filter(|(run, _)| run.plan.nominal_block_bytes < SMALL)
        .filter_map(|(run, row)| Some((&run.plan.title, row.figures.all.total.latency.mean_ns?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    (mean_ns > usual_ns.max(ABSURD_NS)).then(|| {
        let device = if kinds.contains(&"virtual") { "virtual disk" } else { "flash device" };
        format!(
            "a mean latency of {} in {title}, which no {device} should have",
            duration::latency(mean_ns)
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::verdict::assess;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;
    use iosonde_model::spec::reference::built_in;

    fn device(transport: &str, rotational: bool, is_virtual: bool) -> DeviceFacts {
        DeviceFacts {
            name: "x".into(),
            transport: Some(transport.into()),
            rotational: Some(rotational),
            is_virtual: Some(is_virtual),
            ..DeviceFacts::default()
        }
    }

    /// Random reads at the first rate, and large reads at the second.
    fn check(device: &DeviceFacts, iops: f64, large: f64) -> Vec<Run> {
        let quiet = Load { noise: 0.0, ..Load::default() };
        let mut small = run_of(&[Load { iops, ..quiet }]);
        let mut read = run_of(&[Load { block_bytes: 1 << 20, iops: large, ..quiet }]);
        small.plan.nominal_block_bytes = 4096;
        read.plan.nominal_block_bytes = 1 << 20;
        small.plan.title = "Cache".into();
        read.plan.title = "Recovery".into();
        for run in [&mut small, &mut read] {
            run.target.device = Some(device.clone());
        }
        vec![small, read]
    }

    fn words(runs: &[Run]) -> String {
        let assessed: Vec<Assessment> = runs.iter().map(|run| assess(run, None)).collect();
        let pairs: Vec<(&Run, &Assessment)> = runs.iter().zip(&assessed).collect();
        place(&pairs, &built_in().unwrap()).words().unwrap_or_default()
    }

    #[test]
    fn a_sata_ssd_is_typical_and_a_bad_one_is_slow() {
        let sata = device("sata", false, false);
        assert_eq!(words(&check(&sata, 60_000.0, 500.0)), "typical of a SATA SSD");
        let slow = words(&check(&sata, 300.0, 20.0));
        assert!(slow.ends_with("slow for a SATA SSD"), "{slow}");
        let hdd = device("sata", true, false);
        assert_eq!(words(&check(&hdd, 150.0, 180.0)), "typical of a hard disk, 7,200/min");
    }

    #[test]
    fn a_place_in_a_wide_range_is_a_third_of_it() {
        let row = |measured: f64, range: [f64; 2], place: Place| PlacedRow {
            title: "Cache".into(),
            place,
            is_rate_of_bytes: false,
            measured,
            range,
        };
        let wide = |measured| row(measured, [1e3, 1e6], Place::Typical).third();
        let thirds = [900.0, 9_000.0, 11_000.0, 99_000.0, 101_000.0, 1.2e6].map(wide);
        let words = [["lower third"; 2], ["middle third"; 2], ["upper third"; 2]].concat();
        assert_eq!(thirds.to_vec(), words.into_iter().map(Some).collect::<Vec<_>>());
        assert_eq!(row(5e3, [1e3, 9e3], Place::Typical).third(), None);
        assert_eq!(row(100.0, [1e3, 1e6], Place::Slow).third(), None);
    }

    #[test]
    fn what_no_class_has_is_said() {
        let sata = device("sata", false, false);
        let found = words(&check(&sata, 900_000.0, 9_000.0));
        assert!(found.starts_with("no reference class fits"), "{found}");
    }

    #[test]
    fn figures_on_the_limit_of_a_volume_name_it_and_one_alone_does_not() {
        let mut volume = device("nvme", false, true);
        volume.model = Some("Amazon Elastic Block Store".into());
        let mut runs = check(&volume, 3_000.0, 125.0);
        runs.push(runs[0].clone());
        let found = words(&runs);
        assert!(found.contains("2 rows are at a limit of"), "{found}");
        assert!(found.contains("(3,000 IOPS)"), "{found}");
        assert!(!words(&check(&volume, 3_000.0, 700.0)).contains("limit"));
    }

    #[test]
    fn seconds_on_flash_are_absurd_and_on_a_hard_disk_usual() {
        let slow = |device: &DeviceFacts| {
            let mut runs = check(device, 100.0, 150.0);
            let load = Load { iops: 20.0, depth: 8, noise: 0.0, ..Load::default() };
            let target = runs[0].target.clone();
            runs[0] = run_of(&[load]);
            runs[0].plan.nominal_block_bytes = 4096;
            runs[0].plan.title = "Cache".into();
            runs[0].target = target;
            words(&runs)
        };
        let disk = device("virtio", true, true);
        let found = slow(&disk);
        assert!(found.contains("in Cache, which no virtual disk should have"), "{found}");
        assert!(!slow(&device("sata", true, false)).contains("should have"));
    }
}
