//! A campaign file: devices, the experiments on each, and the rules that stop them.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::spec::experiment::{Purge, Switch};
use crate::units::{count, duration};

/// Most devices of a campaign.
const MOST_DEVICES: usize = 256;

/// A campaign: the devices to qualify, and how.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Campaign {
    /// Name, as printed.
    pub name: String,
    /// Directory of the results, used by no other campaign.
    pub output: Option<String>,
    /// Most devices at once; all if absent.
    pub parallel: Option<usize>,
    /// Profiles assigned in turn to the devices without one, in the order of the file.
    #[serde(default)]
    pub round_robin: Vec<String>,
    /// What stops the work on a device before its last experiment.
    #[serde(default)]
    pub stop: StopRules,
    /// The devices; no other is touched.
    #[serde(rename = "device")]
    pub devices: Vec<Device>,
    /// The experiments to run on each device, in order.
    #[serde(default, rename = "experiment")]
    pub experiments: Vec<Requested>,
}

/// What stops the work on a device. An experiment that could not be carried out always does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StopRules {
    /// A missed expectation, such as no steady state (exit code 3).
    pub missed: bool,
    /// Results whose consistency checks failed (exit code 6).
    pub invalid: bool,
    /// No experiment starts on a device this long after the first that the command (`run` or
    /// `resume`) started on it.
    pub after: Option<String>,
}

/// A device under test, with the consent to overwrite it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Device {
    /// Name in logs and folders.
    pub name: String,
    /// Block device, file or directory; a device spec if `ioengine` is `sim`.
    pub path: String,
    /// Its profile, instead of one from `round_robin`.
    pub profile: Option<String>,
    /// The expected serial number of a block device.
    pub serial: Option<String>,
    /// As `--destroy-data`.
    pub destroy_data: Option<String>,
    /// As `--overwrite-signature`.
    pub overwrite_signature: Vec<String>,
    /// As `--overwrite-file`.
    pub overwrite_file: Option<String>,
    /// As `--accept-unseen`.
    pub accept_unseen: Vec<String>,
    /// As `--accept-unseen-processes`.
    pub accept_unseen_processes: Vec<String>,
    /// As `--inspect-time`.
    pub inspect_time: Option<String>,
    /// As `--size`.
    pub size: Option<String>,
    /// As `--ioengine`.
    pub ioengine: Option<String>,
    /// As `--buffered`.
    pub buffered: bool,
}

/// An experiment and its options.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Requested {
    /// Name of a built-in experiment, or a file.
    pub name: String,
    /// Names of the devices to run on; all if empty.
    pub devices: Vec<String>,
    /// Only on devices with this profile.
    pub profile: Option<String>,
    /// As `--quick`.
    pub quick: bool,
    /// As `--seconds`.
    pub seconds: Option<String>,
    /// As `--repeats`.
    pub repeats: Option<u32>,
    /// As `--rounds`.
    pub rounds: Option<u32>,
    /// As `--precondition-passes`.
    pub precondition_passes: Option<u32>,
    /// As `--purge`.
    pub purge: Option<Purge>,
    /// Whether to skip the purge or the preconditioning if the previous experiment on the device
    /// did it and measurements agree (`--prepared-by`).
    pub skip_if_prepared: bool,
    /// As `--write-cache`.
    pub write_cache: Option<Switch>,
    /// As `--active-range-percent`.
    pub active_range_percent: Option<u8>,
    /// As `--stages`.
    pub stages: Vec<String>,
    /// As `--set`, one per entry.
    pub set: Vec<String>,
    /// As `--spec`.
    pub spec: Option<String>,
    /// As `--max-written`.
    pub max_written: Option<String>,
    /// As `--max-temperature`.
    pub max_temperature: Option<u32>,
    /// As `--rated-endurance`.
    pub rated_endurance: Option<String>,
    /// As `--randseed`.
    pub randseed: Option<u64>,
}

/// A contradiction in a campaign.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CampaignError {
    /// Position in the file, such as `device.1.name`: keys and entry numbers from 0.
    pub place: String,
    /// What was found, and what was expected.
    pub message: String,
}

fn wrong<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, CampaignError> {
    Err(CampaignError { place: place.into(), message: message.into() })
}

/// Checks a campaign, as far as its file alone permits.
///
/// # Errors
/// The first contradiction.
pub fn check(campaign: &Campaign) -> Result<(), CampaignError> {
    check_name("name".into(), "the campaign", &campaign.name)?;
    if campaign.devices.is_empty() || campaign.devices.len() > MOST_DEVICES {
        let count = campaign.devices.len();
        return wrong("device", format!("found {count} devices, expected 1 to {MOST_DEVICES}"));
    }
    if campaign.parallel == Some(0) {
        return wrong("parallel", "parallel: found 0, expected at least 1");
    }
    if let Some(after) = &campaign.stop.after
        && let Err(error) = duration::parse(after, 1_000_000_000)
    {
        return wrong("stop.after", format!("stop.after: {error}"));
    }
    let mut names = BTreeSet::new();
    for (number, device) in campaign.devices.iter().enumerate() {
        let place = format!("device.{number}");
        check_name(format!("{place}.name"), "a device", &device.name)?;
        if device.path.is_empty() {
            return wrong(place, format!("device `{}`: give its path", device.name));
        }
        if !names.insert(device.name.as_str()) {
            let message = format!("two devices are named `{}`", device.name);
            return wrong(format!("{place}.name"), message);
        }
    }
    for (number, experiment) in campaign.experiments.iter().enumerate() {
        let place = format!("experiment.{number}");
        if experiment.name.is_empty() {
            return wrong(place, "an [[experiment]] has no name");
        }
        if let Some(lost) = experiment.devices.iter().find(|name| !names.contains(name.as_str())) {
            let meant = meant(lost, &names);
            let message = format!("experiment `{}`: no device `{lost}`{meant}", experiment.name);
            return wrong(format!("{place}.devices"), message);
        }
    }
    check_profiles(campaign)
}

/// Checks that a name can be part of file names.
fn check_name(place: String, what: &str, name: &str) -> Result<(), CampaignError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = (1..=60).contains(&name.len()) && name.chars().all(is_plain);
    if fits && !name.starts_with('.') {
        return Ok(());
    }
    let expected = "1 to 60 letters, digits, - _ and ., as it is part of file names";
    wrong(place, format!("{what}: found name `{name}`, expected {expected}"))
}

/// Checks that each profile belongs to a device and to an experiment.
fn check_profiles(campaign: &Campaign) -> Result<(), CampaignError> {
    let of_devices: BTreeSet<&str> =
        campaign.devices.iter().filter_map(|device| campaign.profile_of(device)).collect();
    let of_experiments: BTreeSet<&str> =
        campaign.experiments.iter().filter_map(|each| each.profile.as_deref()).collect();
    if let Some(lost) = campaign.round_robin.iter().find(|name| !of_devices.contains(name.as_str()))
    {
        let message = format!(
            "round-robin: no device is left for the profile `{lost}`: remove it, or add a device \
             without a profile of its own"
        );
        return wrong("round-robin", message);
    }
    let has_none = |device: &&Device| {
        campaign.profile_of(device).is_some_and(|profile| !of_experiments.contains(profile))
    };
    if let Some((number, device)) =
        campaign.devices.iter().enumerate().find(|(_, device)| has_none(device))
    {
        let profile = campaign.profile_of(device).unwrap_or_default();
        let own = format!("device.{number}.profile");
        let place = if device.profile.is_some() { own } else { "round-robin".into() };
        let message = format!(
            "no experiment has the profile `{profile}`: give one `profile = \"{profile}\"`"
        );
        return wrong(place, message);
    }
    let lost = campaign.experiments.iter().enumerate().find_map(|(number, each)| {
        let profile = each.profile.as_deref().filter(|profile| !of_devices.contains(profile))?;
        Some((number, profile))
    });
    let Some((number, profile)) = lost else { return Ok(()) };
    let meant = meant(profile, &of_devices);
    let message = format!(
        "no device has the profile `{profile}` of an experiment: add it to round-robin{meant}"
    );
    wrong(format!("experiment.{number}.profile"), message)
}

/// Suggestion of the most similar known name; empty if none is similar.
fn meant(name: &str, known: &BTreeSet<&str>) -> String {
    count::did_you_mean(name, known.iter().copied())
}

impl Campaign {
    /// Experiments of a device, in order, each with its number in the file, from 1.
    pub fn steps<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = (usize, &'a Requested)> {
        let profile = self.profile_of(device);
        let own = move |requested: &Requested| {
            (requested.devices.is_empty() || requested.devices.contains(&device.name))
                && (requested.profile.is_none() || requested.profile.as_deref() == profile)
        };
        (1..).zip(&self.experiments).filter(move |(_, requested)| own(requested))
    }

    /// The profile of a device: its own, or else the next in turn of `round_robin`.
    pub fn profile_of<'a>(&'a self, device: &'a Device) -> Option<&'a str> {
        if device.profile.is_some() {
            return device.profile.as_deref();
        }
        let mut without = self.devices.iter().filter(|other| other.profile.is_none());
        let turn = without.position(|other| other.name == device.name)?;
        let turn = turn.checked_rem(self.round_robin.len())?;
        self.round_robin.get(turn).map(String::as_str)
    }

    /// Time after which no experiment starts on a device, ns.
    pub fn after_ns(&self) -> Option<u64> {
        duration::parse(self.stop.after.as_deref()?, 1_000_000_000).ok()
    }
}

impl Requested {
    /// Name of its folder within that of a device.
    pub fn folder(&self, number: usize) -> String {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        format!("{number:02}-{}", stem.chars().map(plain).collect::<String>())
    }

    /// Arguments of `iosonde` that run it on a device, without output options.
    pub fn words(&self, device: &Device) -> Vec<String> {
        let mut words = vec!["experiment".into(), "run".into(), self.name.clone()];
        words.push(device.path.clone());
        let mut give = |option: &str, value: &str| words.push(format!("--{option}={value}"));
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let once = [
            ("size", device.size.clone()),
            ("ioengine", device.ioengine.clone()),
            ("seconds", self.seconds.clone()),
            ("repeats", number(self.repeats)),
            ("rounds", number(self.rounds)),
            ("precondition-passes", number(self.precondition_passes)),
            ("purge", self.purge.map(|method| method.word().into())),
            ("write-cache", self.write_cache.map(|state| state.word().into())),
            ("active-range-percent", self.active_range_percent.map(|share| share.to_string())),
            ("stages", Some(self.stages.join(",")).filter(|names| !names.is_empty())),
            ("spec", self.spec.clone()),
            ("max-written", self.max_written.clone()),
            ("max-temperature", number(self.max_temperature)),
            ("rated-endurance", self.rated_endurance.clone()),
            ("randseed", self.randseed.map(|seed| seed.to_string())),
        ];
        for (option, value) in once {
            if let Some(value) = value {
                give(option, &value);
            }
        }
        self.set.iter().for_each(|value| give("set", value));
        words.extend(self.quick.then(|| "--quick".to_owned()));
        words.extend(device.buffered.then(|| "--buffered".to_owned()));
        words.extend(device.consent());
        words
    }
}

impl Device {
    /// Consent options from the file.
    pub fn consent(&self) -> Vec<String> {
        let lists = [
            ("overwrite-signature", &self.overwrite_signature),
            ("accept-unseen", &self.accept_unseen),
            ("accept-unseen-processes", &self.accept_unseen_processes),
        ];
        let one = [
            ("destroy-data", &self.destroy_data),
            ("overwrite-file", &self.overwrite_file),
            ("inspect-time", &self.inspect_time),
        ];
        let lists = lists.iter().flat_map(|(option, all)| all.iter().map(move |v| (*option, v)));
        let one = one.iter().filter_map(|(option, value)| value.as_ref().map(|v| (*option, v)));
        one.chain(lists).map(|(option, value)| format!("--{option}={value}")).collect()
    }

    /// Whether the device is simulated.
    pub fn is_simulated(&self) -> bool {
        self.ioengine.as_deref() == Some("sim")
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

    fn campaign() -> Campaign {
        toml::from_str(FILE).unwrap()
    }

    #[test]
    fn each_device_has_its_own_experiments_with_its_own_consent() {
        let campaign = campaign();
        let steps = |device: usize| -> Vec<String> {
            let device = &campaign.devices[device];
            campaign.steps(device).map(|(number, step)| step.folder(number)).collect()
        };
        assert_eq!(steps(0), ["01-queue-depth"]);
        assert_eq!(steps(1), ["01-queue-depth", "02-x_y"]);
        let words = campaign.experiments[0].words(&campaign.devices[0]).join(" ");
        assert_eq!(
            words,
            "experiment run queue-depth /dev/x --seconds=1s --set=block-size=8k --destroy-data=S1"
        );
        assert!(!campaign.experiments[0].words(&campaign.devices[1]).join(" ").contains("destroy"));
    }

    #[test]
    fn profiles_are_given_to_the_devices_in_turn() {
        let device = |name: &str, own: &str| {
            format!("[[device]]\nname = \"{name}\"\npath = \"/dev/{name}\"\n{own}\n")
        };
        let devices = ["a", "b", "c", "d"]
            .map(|name| device(name, if name == "b" { "profile = \"reads\"" } else { "" }));
        let experiment = |name: &str, profile: &str| {
            format!("[[experiment]]\nname = \"{name}\"\nprofile = \"{profile}\"\n")
        };
        let text = format!(
            "name = \"c\"\nround-robin = [\"seq\", \"rand\"]\n{}{}{}{}[[experiment]]\nname = \
             \"jobs\"\n",
            devices.concat(),
            experiment("provision-sequential", "seq"),
            experiment("provision-random", "rand"),
            experiment("random", "reads"),
        );
        let campaign: Campaign = toml::from_str(&text).unwrap();
        check(&campaign).unwrap();
        let profiles: Vec<_> = campaign.devices.iter().map(|d| campaign.profile_of(d)).collect();
        assert_eq!(profiles, [Some("seq"), Some("reads"), Some("rand"), Some("seq")]);
        let steps = |device: usize| -> Vec<String> {
            let device = &campaign.devices[device];
            campaign.steps(device).map(|(number, step)| step.folder(number)).collect()
        };
        assert_eq!(steps(0), ["01-provision-sequential", "04-jobs"]);
        assert_eq!(steps(1), ["03-random", "04-jobs"]);
        assert_eq!(steps(2), ["02-provision-random", "04-jobs"]);
        assert_eq!(steps(3), steps(0));
        let refused = |old: &str, new: &str| {
            let campaign: Campaign = toml::from_str(&text.replace(old, new)).unwrap();
            check(&campaign).unwrap_err().to_string()
        };
        let said = refused("\"seq\", \"rand\"]", "\"seq\", \"rand\", \"x\"]");
        assert!(said.contains("no experiment has the profile `x`"), "{said}");
        let said = refused("\"seq\", \"rand\"]", "\"seq\", \"rand\", \"seq\", \"y\"]");
        assert!(said.contains("no device is left for the profile `y`"), "{said}");
        let said = refused("profile = \"rand\"", "profile = \"rnd\"");
        assert!(said.contains("no experiment has the profile `rand`"), "{said}");
        let said = refused("round-robin = [\"seq\", \"rand\"]", "");
        assert!(said.contains("no device has the profile"), "{said}");
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let refused = |change: fn(&mut Campaign)| {
            let mut campaign = campaign();
            change(&mut campaign);
            check(&campaign).unwrap_err().to_string()
        };
        assert!(refused(|c| c.devices[1].name = "a".into()).contains("two devices are named"));
        assert!(refused(|c| c.devices[1].name = "a/b".into()).contains("part of file names"));
        assert!(refused(|c| c.devices.clear()).contains("found 0 devices"));
        assert!(refused(|c| c.experiments[1].devices = vec!["bb".into()]).contains("no device"));
        assert!(refused(|c| c.stop.after = Some("soon".into())).contains("stop.after"));
    }
}
