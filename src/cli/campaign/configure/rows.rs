//! Options of the menu: place in the file, meaning, and when each has an effect.

use super::document::{Document, Place};
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::{Needs, Purge};

/// Kind of value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Nothing: a heading.
    Heading,
    Text,
    Number,
    /// On or off.
    Toggle,
    /// One of these words, or unset.
    Choice(Vec<&'static str>),
    /// An experiment that can be added or removed.
    Experiment(String),
    AddDevice,
    /// Adds an experiment from a file.
    AddExperiment,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) depth: usize,
    pub(super) title: String,
    pub(super) kind: Kind,
    pub(super) place: Option<Place>,
    /// Value in the file.
    pub(super) value: Option<String>,
    pub(super) help: String,
    /// Why the option has no effect at present.
    pub(super) blocked: Option<&'static str>,
    pub(super) warning: Option<String>,
}

/// An option of a table: key, kind of value, help.
type Option_ = (&'static str, fn() -> Kind, &'static str);

const TOP: [Option_; 4] = [
    ("name", || Kind::Text, "Name of the campaign: part of its log and of its sign-off."),
    ("output", || Kind::Text, "Directory of the results; --output replaces it."),
    ("parallel", || Kind::Number, "Devices at once, at most. Not set: all of them."),
    (
        "round-robin",
        || Kind::Text,
        "Profiles that the devices have in turn, as a list; an experiment with a profile runs on \
         its devices alone.",
    ),
];

const STOP: [Option_; 3] = [
    ("missed", || Kind::Toggle, "An experiment without a steady state ends the work on a device."),
    ("invalid", || Kind::Toggle, "A failed consistency check ends the work on a device."),
    (
        "after",
        || Kind::Text,
        "No experiment begins on a device this long after the first of the command (8h).",
    ),
];

const DEVICE: [Option_; 11] = [
    ("name", || Kind::Text, "Name in logs and folders: letters, digits, - _ and ."),
    (
        "path",
        || Kind::Text,
        "Block device, file or directory; best a link below /dev/disk/by-id, which stays the same.",
    ),
    ("serial", || Kind::Text, "Serial number, checked before each experiment."),
    (
        "destroy-data",
        || Kind::Text,
        "Consent to lose ALL DATA of this block device: its serial number or WWN.",
    ),
    ("overwrite-file", || Kind::Text, "Consent to lose the content of this file: its path."),
    ("size", || Kind::Text, "Size of the part that is used (100g). Not set: all of it."),
    ("inspect-time", || Kind::Text, "Longest time to look for data before a write (10s)."),
    ("ioengine", || Kind::Text, "I/O engine, such as io_uring, psync or sim."),
    ("buffered", || Kind::Toggle, "Through the page cache, in place of direct I/O."),
    ("overwrite-signature", || Kind::Text, "Kinds of content that may be lost, as a list."),
    ("profile", || Kind::Text, "Its profile, in place of one of round-robin."),
];

const EXPERIMENT: [Option_; 14] = [
    ("quick", || Kind::Toggle, "Short runs and few repeats: an estimate."),
    ("seconds", || Kind::Text, "Length of each run (60s)."),
    ("repeats", || Kind::Number, "Runs of each cell."),
    ("rounds", || Kind::Number, "Rounds at most, until a steady state."),
    ("precondition-passes", || Kind::Number, "Passes of writes over the range before the rounds."),
    (
        "purge",
        || Kind::Choice(Purge::ALL.map(Purge::word).to_vec()),
        "How the target is purged first: the strongest method it has, one of the others, or none.",
    ),
    (
        "skip-if-prepared",
        || Kind::Toggle,
        "No purge or preconditioning where the experiment before did it, and measurements agree.",
    ),
    (
        "write-cache",
        || Kind::Choice(vec!["on", "off"]),
        "Write cache of the device meanwhile; read back, and restored afterwards.",
    ),
    ("active-range-percent", || Kind::Number, "Share of the target that is used, percent."),
    ("max-written", || Kind::Text, "Bytes that it may write in all (2TB)."),
    ("max-temperature", || Kind::Number, "No run begins at or above this temperature, °C."),
    ("rated-endurance", || Kind::Text, "Rated endurance of the drive, to report the wear (600TB)."),
    ("randseed", || Kind::Number, "Seed of order, offsets and data, to repeat it exactly."),
    ("profile", || Kind::Text, "Only on devices with this profile."),
];

/// All rows, in order.
pub(super) fn rows(document: &Document, experiments: &[Experiment]) -> Vec<Row> {
    let mut all = Vec::new();
    let mut add = |depth, title: &str, kind, place: Option<Place>, help: &str| {
        let value = place.and_then(|place| document.get(place));
        let title = title.to_owned();
        let (help, blocked, warning) = (help.to_owned(), None, None);
        all.push(Row { depth, title, kind, place, value, help, blocked, warning });
    };
    add(0, "Campaign", Kind::Heading, None, "What all devices share.");
    for (key, kind, help) in TOP {
        add(1, key, kind(), Some(Place::Top(key)), help);
    }
    add(0, "Stop rules", Kind::Heading, None, "What ends the work on a device before its last.");
    for (key, kind, help) in STOP {
        add(1, key, kind(), Some(Place::Stop(key)), help);
    }
    add(0, "Devices", Kind::Heading, None, "Nothing else is touched. `d` removes one.");
    for number in 0..document.count("device") {
        let name = document.get(Place::Device(number, "name")).unwrap_or_default();
        let help = "A device under test. `d` removes it.";
        add(1, &name, Kind::Heading, Some(Place::Device(number, "")), help);
        for (key, kind, help) in DEVICE {
            add(2, key, kind(), Some(Place::Device(number, key)), help);
        }
    }
    add(1, "add a device", Kind::AddDevice, None, "Enter adds one.");
    add(0, "Experiments", Kind::Heading, None, "Space or Enter adds or removes one.");
    let names = document.experiments();
    let is_built_in = |name: &str| experiments.iter().any(|each| each.name == name);
    for (number, name) in names.iter().enumerate().filter(|(_, name)| !is_built_in(name)) {
        let title = if name.is_empty() { "a file" } else { name };
        add_experiment(&mut add, number, title, Kind::Text, "A file. `d` removes it.");
    }
    add(1, "add an experiment of a file", Kind::AddExperiment, None, "Enter adds one.");
    for experiment in experiments {
        let about = experiment.about.replace('\n', " ");
        let help = format!("{} {about}", experiment.question);
        let kind = Kind::Experiment(experiment.name.clone());
        let own = (0..names.len()).filter(|number| names[*number] == experiment.name);
        let own: Vec<usize> = own.collect();
        for number in &own {
            add_experiment(&mut add, *number, &experiment.name, kind.clone(), &help);
        }
        if own.is_empty() {
            add(1, &experiment.name, kind, None, &help);
        }
    }
    for row in &mut all {
        row.blocked = blocked(row, document, experiments);
        row.warning = warning(row, document, experiments);
    }
    all
}

/// Adds the rows of an experiment: its name and its options.
fn add_experiment(
    add: &mut impl FnMut(usize, &str, Kind, Option<Place>, &str),
    number: usize,
    title: &str,
    kind: Kind,
    help: &str,
) {
    add(1, title, kind, Some(Place::Experiment(number, "name")), help);
    for (key, kind, help) in EXPERIMENT {
        add(2, key, kind(), Some(Place::Experiment(number, key)), help);
    }
}

/// Built-in experiment of a row.
fn of<'a>(row: &Row, document: &Document, all: &'a [Experiment]) -> Option<&'a Experiment> {
    let Some(Place::Experiment(number, _)) = row.place else { return None };
    let name = document.get(Place::Experiment(number, "name"))?;
    all.iter().find(|experiment| experiment.name == name)
}

fn blocked(row: &Row, document: &Document, all: &[Experiment]) -> Option<&'static str> {
    let mut stages = of(row, document, all)?.stages.iter();
    let Some(Place::Experiment(_, key)) = row.place else { return None };
    let (has_effect, why) = match key {
        "rounds" => {
            (stages.any(|stage| stage.rounds.is_some()), "none of its stages runs in rounds")
        }
        "repeats" => (stages.any(|stage| stage.rounds.is_none()), "all its stages run in rounds"),
        "precondition-passes" => {
            let is_preconditioned = stages.any(|stage| stage.precondition.is_some());
            (is_preconditioned, "none of its stages is preconditioned")
        }
        _ => return None,
    };
    (!has_effect).then_some(why)
}

fn has_consent(document: &Document) -> bool {
    (0..document.count("device")).any(|number| {
        let is_set = |key| document.get(Place::Device(number, key)).is_some();
        is_set("destroy-data") || is_set("overwrite-file")
    })
}

fn warning(row: &Row, document: &Document, all: &[Experiment]) -> Option<String> {
    match row.place {
        Some(Place::Device(number, "destroy-data")) if row.value.is_some() => {
            let more = match document.get(Place::Device(number, "serial")) {
                Some(_) => "",
                None => "; set serial too, so that it is checked before each experiment",
            };
            Some(format!("ALL DATA of this device will be lost{more}"))
        }
        Some(Place::Device(number, "path")) => {
            let path = row.value.as_deref().unwrap_or_default();
            let is_sim = document.get(Place::Device(number, "ioengine")).as_deref() == Some("sim");
            if path.is_empty() {
                return Some("a device needs a path".into());
            }
            let is_there = is_sim || std::path::Path::new(path).exists();
            (!is_there).then(|| "there is nothing of this name now".into())
        }
        Some(Place::Experiment(_, "name")) => {
            let mut stages = of(row, document, all)?.stages.iter();
            let writes = stages.any(|stage| stage.needs == Needs::Writing || stage.has_state());
            (writes && !has_consent(document)).then(|| {
                "it writes: block devices and files with content need a consent (destroy-data, \
                 overwrite-file), or its stages are skipped"
                    .into()
            })
        }
        Some(Place::Experiment(_, "purge"))
            if row.value.as_deref().is_some_and(|v| v != "none") =>
        {
            Some("a purge destroys everything in the range, or on the device".into())
        }
        _ => None,
    }
}
