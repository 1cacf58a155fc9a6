//! Reads a campaign file and applies the changes of the command line.

use std::path::Path;

use super::configure::document::Document;
use crate::cli::exit::{About, Failure, shown, wrong};
use crate::cli::words::unfit;
use iosonde_model::record::given;
use iosonde_model::spec::campaign::{Campaign, Device, Requested, check};
use iosonde_model::spec::experiment::Switch;

/// Largest campaign file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Presets, each with the experiments that replace those of the file, if any.
pub(super) const PRESETS: [(&str, &[&str]); 9] = [
    ("none", &[]),
    ("quick", &[]),
    ("all", &["pts-iops", "pts-throughput", "pts-latency", "pts-write-saturation"]),
    ("enterprise", &[]),
    ("client", &[]),
    ("families", &["basic", "iobatch", "max-iobatch-single-job", "max-iobatch-jobs"]),
    ("provision-sequential", &["provision-sequential"]),
    ("provision-random", &["provision-random"]),
    (MIXED, &["provision-sequential", "provision-random"]),
];
/// The preset that assigns its experiments to the devices in turn.
const MIXED: &str = "provision-mixed";

/// Reads a campaign and applies the changes of the command line.
///
/// # Errors
/// If it is not a campaign, or contradicts itself.
pub(super) fn load(path: &Path, preset: Option<&str>, set: &[String]) -> Result<Campaign, Failure> {
    let text = given::text(path, MAX_BYTES).or_wrong(shown(path))?;
    // The unchanged text is parsed first, so that an error has its line and column.
    toml::from_str::<Campaign>(&text).or_wrong(format!("{} is not a campaign", shown(path)))?;
    let mut document = Document::parse(&text).map_err(wrong)?;
    for change in set {
        let pair = change.split_once('=');
        let (key, value) = pair.ok_or_else(|| unfit("--set", change, "KEY=VALUE"))?;
        document.put_dotted(key.trim(), value.trim()).or_wrong(format!("--set {change}"))?;
    }
    let changed = toml::from_str::<Campaign>(&document.text());
    let mut campaign = changed.map_err(|error| wrong(format!("--set: {}", error.message())))?;
    apply(&mut campaign, preset);
    check(&campaign).map_err(|error| {
        // Values from the command line have no line in the file.
        let is_changed = preset.is_some() || !set.is_empty();
        let line = if is_changed { None } else { line_of(&text, &error.place) };
        let line = line.map_or(String::new(), |line| format!(", line {line}"));
        wrong(format!("{}{line}: {error}", shown(path)))
    })?;
    Ok(campaign)
}

/// Line, from 1, of a place such as `device.1.name`: of its key, or else of the table that lacks
/// it.
fn line_of(text: &str, place: &str) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut item = document.as_item();
    let mut start = None;
    for step in place.split('.') {
        let (key, inner) = match step.parse::<usize>() {
            Ok(number) => (None, item.get(number)),
            Err(_) => item.as_table_like().and_then(|table| table.get_key_value(step)).unzip(),
        };
        let Some(inner) = inner else { break };
        start = key.and_then(toml_edit::Key::span).or_else(|| inner.span()).or(start);
        item = inner;
    }
    Some(text[..start?.start].matches('\n').count() + 1)
}

/// Applies a preset to the experiments.
pub(super) fn apply(campaign: &mut Campaign, preset: Option<&str>) {
    match preset {
        None => {}
        Some("none") => {
            campaign.experiments.clear();
            give_in_turn(campaign, false);
        }
        Some("quick") => campaign.experiments.iter_mut().for_each(|each| each.quick = true),
        // SNIA SSS PTS 2.0.2: enterprise drives are tested with write cache off over the full
        // range, client drives with it on over 75 percent.
        Some("enterprise") => of_class(campaign, Switch::Off, 100, (32, 4)),
        Some("client") => of_class(campaign, Switch::On, 75, (16, 2)),
        Some(preset) => {
            let names = PRESETS.iter().find(|(name, _)| *name == preset);
            let named = |name: &&str| Requested { name: (*name).into(), ..Requested::default() };
            campaign.experiments =
                names.map_or_else(Vec::new, |(_, names)| names.iter().map(named).collect());
            give_in_turn(campaign, preset == MIXED);
        }
    }
}

/// Makes each experiment a profile that the devices have in turn, or, if not mixed, removes
/// profiles so that all experiments run on every device.
fn give_in_turn(campaign: &mut Campaign, is_mixed: bool) {
    campaign.devices.iter_mut().for_each(|device| device.profile = None);
    campaign.round_robin.clear();
    for each in campaign.experiments.iter_mut().filter(|_| is_mixed) {
        each.profile = Some(each.name.clone());
        campaign.round_robin.push(each.name.clone());
    }
}

/// Sets the parameters of a drive class; queue depth and jobs only for `pts-iops`.
fn of_class(campaign: &mut Campaign, cache: Switch, range: u8, (depth, jobs): (u32, u32)) {
    let simulated = |device: &Device| device.is_simulated();
    let has_cache = !campaign.devices.iter().all(simulated);
    for each in &mut campaign.experiments {
        each.write_cache = has_cache.then_some(cache);
        each.active_range_percent = Some(range);
        if each.name.starts_with("pts-iops") {
            each.set.extend([format!("iodepth={depth}"), format!("numjobs={jobs}")]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const FILE: &str = "name = \"c\"\n[[device]]\nname = \"a\"\npath = \"/dev/x\"\n\
        destroy-data = \"S1\"\n[[device]]\nname = \"b\"\npath = \".\"\n\
        [[experiment]]\nname = \"queue-depth\"\nseconds = \"1s\"\nset = [\"block-size=8k\"]\n\
        [[experiment]]\nname = \"mine/x y.toml\"\ndevices = [\"b\"]\n";

    #[test]
    fn a_place_has_the_line_of_its_key_or_of_what_it_lacks() {
        for (place, line) in [
            ("name", 1),
            ("device.0", 2),
            ("device.1.name", 7),
            ("device.1.profile", 6),
            ("experiment.0.set", 12),
            ("experiment.1.devices", 15),
        ] {
            assert_eq!(line_of(FILE, place), Some(line), "{place}");
        }
        assert_eq!(line_of(FILE, "round-robin"), None);
    }

    #[test]
    fn keys_on_the_command_line_change_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        std::fs::write(&path, FILE).unwrap();
        let loaded = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(ToString::to_string).collect();
            load(&path, None, &set).map_err(|failure| failure.message)
        };
        let changed =
            loaded(&["device.b.size=1g", "experiment.0.rounds = 7", "stop.missed=true"]).unwrap();
        assert_eq!(changed.devices[1].size.as_deref(), Some("1g"));
        assert_eq!((changed.experiments[0].rounds, changed.stop.missed), (Some(7), true));
        for (change, why) in [
            ("device.c.size=1g", "no entry `c`"),
            ("name.x=1", "not a table"),
            ("device.b.size", "expected KEY=VALUE"),
            ("stop.missed=perhaps", "invalid type"),
        ] {
            let error = loaded(&[change]).unwrap_err();
            assert!(error.contains(why), "{change}: {error}");
        }
    }
}
