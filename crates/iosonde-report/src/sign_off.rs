//! The sign-off of a campaign: results of its devices with the evidence, as JSON, as text, and as a
//! page that a storage engineer signs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::answer::CampaignAnswer;
use super::clean::clean;
use super::report::{Block, Column, Entry, Report, Section, Source, Table, Trust};
use super::wording;
use iosonde_model::record::store::utc;
use iosonde_model::units::{bytes, count};

/// Name and version of the document.
pub const SIGN_OFF_SCHEMA: &str = "iosonde.signoff/1";

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SignOff {
    /// [`SIGN_OFF_SCHEMA`].
    pub schema: String,
    pub program: String,
    pub campaign: String,
    /// Time of writing, ns since 1970.
    pub written_unix_ns: u64,
    /// Whether every experiment is complete.
    pub complete: bool,
    /// In words, whether that is so and whether every stage in rounds was steady.
    pub verdict: String,
    /// Exit code of the campaign.
    pub exit_code: u8,
    /// The devices, in the order of the file.
    pub devices: Vec<SignedDevice>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SignedDevice {
    /// Name in the campaign file.
    pub name: String,
    /// Path in the campaign file.
    pub path: String,
    pub experiments: Vec<SignedExperiment>,
}

/// One experiment on a device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SignedExperiment {
    /// Name in the campaign file.
    pub name: String,
    /// `complete` or `incomplete`.
    pub state: String,
    /// The reason why it is incomplete, if its records give one; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// The result; `None` if it is incomplete.
    #[serde(flatten)]
    pub result: Option<SignedResult>,
}

/// The result of an experiment on a device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SignedResult {
    pub exit_code: u8,
    /// The first line of its answer.
    pub verdict: String,
    /// Start, ns since 1970.
    pub started_unix_ns: u64,
    /// Path of the target.
    pub target: String,
    /// The device of the target, in words.
    pub device: String,
    pub identity: Option<Identity>,
    pub stages: Vec<SignedStage>,
    pub evidence: Evidence,
}

/// Manufacturer's identification of a device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Identity {
    pub model: Option<String>,
    pub serial: Option<String>,
    pub bytes: Option<u64>,
}

/// A stage in rounds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SignedStage {
    pub name: String,
    /// Whether it became steady and stayed so.
    pub is_steady: bool,
    /// The verdict in words, with the rounds.
    pub verdict: String,
    /// Completed rounds.
    pub rounds: u32,
    /// Preconditioning writes of the whole active range.
    pub precondition_passes: u32,
}

/// Location of an experiment's records.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Evidence {
    /// The result folder, relative to the output directory of the campaign.
    pub folder: String,
    /// SHA-256 of its file `SHA256SUMS`.
    #[serde(rename = "sha256_of_SHA256SUMS")]
    pub sha256: String,
}

impl SignOff {
    fn experiments(&self) -> impl Iterator<Item = &SignedExperiment> {
        self.devices.iter().flat_map(|device| &device.experiments)
    }

    /// The results of the devices and the work left; `output` is the output directory.
    pub fn answer(&self, output: &Path) -> CampaignAnswer {
        let incomplete = self.experiments().filter(|each| each.result.is_none()).count();
        let results = self.experiments().filter_map(|each| each.result.as_ref());
        let stages: Vec<&SignedStage> = results.flat_map(|result| &result.stages).collect();
        let unsteady: Vec<&str> = stages
            .iter()
            .filter(|stage| !stage.is_steady)
            .map(|stage| stage.name.as_str())
            .collect();
        let steady = match stages.len() {
            0 => String::new(),
            all => {
                format!("{} of {} steady, ", all - unsteady.len(), count::of(all as u64, "stage"))
            }
        };
        let shown = output.display();
        CampaignAnswer {
            result: format!(
                "{}: {}, {steady}{} on {}",
                self.campaign,
                self.verdict,
                count::of(self.experiments().count() as u64, "experiment"),
                count::of(self.devices.len() as u64, "device")
            ),
            complete: match (incomplete, unsteady.as_slice()) {
                (0, []) => "yes".to_owned(),
                (0, names) => format!("yes, with no steady state in {}", names.join(", ")),
                (some, _) => format!("no: {} to go", count::of(some as u64, "experiment")),
            },
            next: match incomplete {
                0 => format!("Open report.html of each experiment, below {shown}/devices"),
                _ => format!("Run what is missing: iosonde campaign resume {shown}"),
            },
        }
    }

    /// The first three lines, followed by each experiment, for a screen of `columns` columns.
    pub fn text(&self, output: &Path, columns: usize) -> String {
        let mut text = self.answer(output).text(columns);
        for device in &self.devices {
            text += &format!("  {} ({})\n", clean(&device.name), clean(&device.path));
            for experiment in &device.experiments {
                let name = clean(&experiment.name);
                let Some(result) = &experiment.result else {
                    text += &format!("    {name}: {}\n", clean(&experiment.incomplete()));
                    continue;
                };
                let date = utc(result.started_unix_ns);
                text += &format!("    {name}, {date}: {}\n", clean(&result.verdict));
                for stage in &result.stages {
                    text += &format!("      {}: {}\n", clean(&stage.name), clean(&stage.verdict));
                }
                text += &format!("      evidence: {}\n", clean(&result.evidence.folder));
            }
        }
        text
    }

    /// The page for the signature.
    pub fn report(&self, output: &Path) -> Report {
        let CampaignAnswer { result, complete, next } = self.answer(output);
        let first = self.experiments().filter_map(|each| each.result.as_ref());
        let table = vec![Block::Table(self.table_of_devices())];
        let devices = Section::new("devices", "Devices", table);
        let each = self.devices.iter().enumerate().map(|(at, device)| {
            let blocks = device.experiments.iter().flat_map(blocks_of).collect();
            Section::new(format!("device-{}", at + 1), &device.name, blocks)
        });
        let fields = ["Name:", "Date:", "Signature:"].map(String::from).to_vec();
        let signature = Section::new("signature", "Signature", vec![Block::List(fields)]);
        Report {
            title: format!("Sign-off: {}", self.campaign),
            source: Source {
                program: format!("iosonde {}", self.program),
                command: Vec::new(),
                started_unix_ns: first.map(|result| result.started_unix_ns).min(),
                complete: self.complete,
                exit_code: self.exit_code,
            },
            conformance: None,
            question: "What was each device found to be, and on what evidence?".into(),
            answer: vec![
                format!("{result}."),
                format!("Complete: {complete}."),
                format!("Next: {next}"),
            ],
            warnings: Vec::new(),
            sections: [devices].into_iter().chain(each).chain([signature]).collect(),
            method: vec![
                "Every verdict is computed again from the stored records. The checksum is that of \
                 the file with the checksums of all records of an experiment: a record that was \
                 changed later no longer fits it."
                    .into(),
            ],
            environment: vec![("Written".into(), wording::moment(self.written_unix_ns))],
            data: Vec::new(),
        }
    }

    fn table_of_devices(&self) -> Table {
        let rows = self.devices.iter().map(|device| {
            let results = || device.experiments.iter().filter_map(|each| each.result.as_ref());
            let identity = results().find_map(|result| result.identity.as_ref());
            let known = |value: Option<String>| Entry::of(value.unwrap_or_else(|| "-".into()));
            let stages = || results().flat_map(|result| &result.stages);
            let steady = stages().filter(|stage| stage.is_steady).count();
            vec![
                Entry::of(&device.name),
                Entry::of(&device.path),
                known(identity.and_then(|identity| identity.model.clone())),
                known(identity.and_then(|identity| identity.serial.clone())),
                known(identity.and_then(|identity| identity.bytes).map(bytes::rough)),
                counted(results().count(), device.experiments.len()),
                counted(steady, stages().count()),
            ]
        });
        let words = ["Device", "Path", "Model", "Serial", "Size"];
        Table {
            caption: "Experiments that are complete, and stages in rounds that were steady".into(),
            columns: Column::all(&words, &["Complete", "Steady"]),
            rows: rows.collect(),
        }
    }
}

impl SignedExperiment {
    /// `incomplete`, with the reason if known.
    fn incomplete(&self) -> String {
        let because = &self.because;
        if because.is_empty() { "incomplete".into() } else { format!("incomplete: {because}") }
    }
}

/// `3 of 4`; marked as unusable unless all are good.
fn counted(good: usize, of: usize) -> Entry {
    let trust = if good == of { Trust::Good } else { Trust::Failed };
    Entry::new(if of == 0 { "-".into() } else { format!("{good} of {of}") }, "", trust)
}

/// An experiment and its result.
fn blocks_of(experiment: &SignedExperiment) -> [Block; 2] {
    let Some(result) = &experiment.result else {
        let missing = vec![format!("Result: {}", experiment.incomplete())];
        return [Block::Words(experiment.name.clone()), Block::List(missing)];
    };
    let stages = result.stages.iter().map(|stage| {
        let passes = match stage.precondition_passes {
            0 => "nothing written before".to_owned(),
            passes => format!("range written {passes} times before"),
        };
        format!("Stage {}: {}; {passes}", stage.name, stage.verdict)
    });
    let lines = [format!("Result: {}", result.verdict)].into_iter().chain(stages).chain([
        format!("Begun: {}", wording::moment(result.started_unix_ns)),
        format!("Records: {}", result.evidence.folder),
        format!("Checksum (SHA-256): {}", result.evidence.sha256),
    ]);
    [Block::Words(experiment.name.clone()), Block::List(lines.collect())]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{html, plain};

    fn stage(is_steady: bool) -> SignedStage {
        SignedStage {
            name: "pts-iops".into(),
            is_steady,
            verdict: "steady in rounds 1 to 5".into(),
            rounds: 5,
            precondition_passes: 2,
        }
    }

    fn experiment(stages: Vec<SignedStage>) -> SignedExperiment {
        SignedExperiment {
            name: "pts-iops".into(),
            state: "complete".into(),
            because: String::new(),
            result: Some(SignedResult {
                exit_code: 0,
                verdict: "4,000 IOPS".into(),
                started_unix_ns: 1_795_000_000_000_000_000,
                target: "/dev/x".into(),
                device: "nvme".into(),
                identity: Some(Identity {
                    model: Some("M <1>".into()),
                    serial: Some("S1".into()),
                    bytes: Some(1 << 30),
                }),
                stages,
                evidence: Evidence { folder: "devices/a/01".into(), sha256: "ab".repeat(32) },
            }),
        }
    }

    fn sign_off(experiments: Vec<SignedExperiment>) -> SignOff {
        SignOff {
            schema: SIGN_OFF_SCHEMA.into(),
            program: "0.1.0".into(),
            campaign: "fleet".into(),
            written_unix_ns: 0,
            complete: experiments.iter().all(|each| each.result.is_some()),
            verdict: "complete".into(),
            exit_code: 0,
            devices: vec![SignedDevice { name: "a".into(), path: "/dev/x".into(), experiments }],
        }
    }

    #[test]
    fn the_page_has_the_devices_their_verdicts_and_the_evidence() {
        let all = sign_off(vec![experiment(vec![stage(true)])]);
        assert_eq!(all.answer(Path::new("out")).complete, "yes");
        let page = html(&all.report(Path::new("out"))).unwrap();
        let checksum = "ab".repeat(32);
        for words in [
            "M &lt;1&gt;",
            "S1",
            "steady in rounds 1 to 5; range written 2 times",
            &checksum,
            "Signature:",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert_eq!(
            serde_json::from_value::<SignOff>(serde_json::to_value(&all).unwrap()).unwrap(),
            all
        );
    }

    #[test]
    fn what_is_missing_or_not_steady_stands_out() {
        let missing = SignedExperiment {
            name: "x".into(),
            state: "incomplete".into(),
            because: "stage s: read EIO".into(),
            result: None,
        };
        let all = sign_off(vec![missing, experiment(vec![stage(false)])]);
        let answer = all.answer(Path::new("out"));
        assert!(answer.complete.starts_with("no: 1 experiment to go"));
        assert!(answer.next.contains("campaign resume out"));
        let text = plain(&all.report(Path::new("out")), 200);
        assert!(text.contains("1 of 2") && text.contains("0 of 1"), "{text}");
        assert!(text.contains("incomplete: stage s: read EIO"), "{text}");
        let value = serde_json::to_value(&all).unwrap();
        // Only name, state and reason; no fields of a result.
        assert_eq!(value["devices"][0]["experiments"][0].as_object().unwrap().len(), 3);
    }
}
