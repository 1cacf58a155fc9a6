//! Devices and files of a campaign when it began: a different device at the same path is not
//! touched, and an experiment file that has changed since is not run.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::plan::identity;
use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use crate::cli::experiment::own_texts;
use iosonde_engine::host::Root;
use iosonde_engine::host::identity as identity_of;
use iosonde_model::record::given;
use iosonde_model::spec::campaign::{Campaign, Device, Requested};
use iosonde_model::units::bytes;

/// File name in the campaign folder.
pub(super) const BEGIN: &str = "begin.json";

/// Largest size of this file, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// State of the devices and files when the campaign began.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Begin {
    /// Block devices.
    devices: Vec<Known>,
    /// Sizes of plain files, bytes, by device name; older programs did not store them.
    #[serde(default)]
    sizes: BTreeMap<String, u64>,
    /// SHA-256 of each of the user's experiment files (with its includes) and data sheets, by name.
    files: BTreeMap<String, String>,
}

/// A block device of the campaign when it began.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Known {
    /// Name in the campaign file.
    name: String,
    /// Serial number or other identity, as a consent names it.
    id: String,
    /// Size, bytes.
    bytes: u64,
}

impl Begin {
    /// Records the state for a new campaign.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn of(campaign: &Campaign) -> Result<Begin, Failure> {
        let real = campaign.devices.iter().filter(|device| !device.is_simulated());
        let devices = real.filter_map(|device| known(device, identity(device).ok()?.1)).collect();
        let real = campaign.devices.iter().filter(|device| !device.is_simulated());
        let sizes = real.filter_map(|device| Some((device.name.clone(), size_of_file(device)?)));
        let sizes = sizes.collect();
        let mut files = BTreeMap::new();
        for requested in &campaign.experiments {
            files.extend(files_of(requested)?);
        }
        Ok(Begin { devices, sizes, files })
    }

    /// Checks that a device exists, has the given serial number and was not replaced.
    ///
    /// # Errors
    /// If not.
    pub(super) fn is_same_device(&self, device: &Device) -> Result<(), Failure> {
        let (_, number) = identity(device)?;
        let before = self.devices.iter().find(|each| each.name == device.name);
        let differs = differs(before, known(device, number).as_ref());
        let size = (self.sizes.get(&device.name), size_of_file(device));
        match differs.or_else(|| resized(*size.0?, size.1?)) {
            None => Ok(()),
            Some(how) => Err(Failure::new(
                Exit::Refused,
                format!("device `{}`: `{}` {how}: it is another one", device.name, device.path),
            )),
        }
    }

    /// Checks that the files of an experiment are unchanged since the campaign began.
    ///
    /// # Errors
    /// If one has changed.
    pub(super) fn are_same_files(&self, requested: &Requested) -> Result<(), Failure> {
        for (name, sum) in files_of(requested)? {
            if self.files.get(&name).is_some_and(|before| *before != sum) {
                return Err(wrong(format!(
                    "`{name}`, or a file that it includes, was changed since the campaign began: \
                     put it back as it was, or begin a new campaign with another --output"
                )));
            }
        }
        Ok(())
    }
}

/// Checksums of the user's files that an experiment needs, by name.
fn files_of(requested: &Requested) -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    if let Some(texts) = own_texts(&requested.name)? {
        all.push((requested.name.clone(), sum_of(&texts)));
    }
    if let Some(spec) = &requested.spec {
        let text = given::text(Path::new(spec), MAX_BYTES).or_wrong(format!("spec: `{spec}`"))?;
        all.push((spec.clone(), sum_of(&[text])));
    }
    Ok(all)
}

fn sum_of(texts: &[String]) -> String {
    let mut sum = Sha256::new();
    for text in texts {
        // The length distinguishes two texts from their concatenation.
        sum.update((text.len() as u64).to_le_bytes());
        sum.update(text);
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the state when the campaign began; `None` if an older program did not store it.
///
/// # Errors
/// If the file is damaged.
pub(super) fn begin_of(folder: &Path) -> Result<Option<Begin>, Failure> {
    let path = folder.join(BEGIN);
    if !path.is_file() {
        return Ok(None);
    }
    let text = given::bytes(&path, MAX_BYTES).or_wrong(shown(&path))?;
    serde_json::from_slice(&text).map(Some).or_wrong(shown(&path))
}

fn known(device: &Device, number: u64) -> Option<Known> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let found = identity_of(&Root::system(), major, minor).filter(|_| number != 0)?;
    Some(Known { name: device.name.clone(), id: found.id, bytes: found.bytes })
}

fn size_of_file(device: &Device) -> Option<u64> {
    let found = Path::new(&device.path).metadata().ok()?;
    found.is_file().then_some(found.len())
}

/// Words for a changed size; `None` if it is unchanged.
fn resized(before_bytes: u64, now_bytes: u64) -> Option<String> {
    let (before, now) = (bytes::exact(before_bytes), bytes::exact(now_bytes));
    let words = format!("has {now}, and had {before} when the campaign began");
    (before_bytes != now_bytes).then_some(words)
}

/// How a device differs from its state when the campaign began, if it does.
fn differs(before: Option<&Known>, now: Option<&Known>) -> Option<String> {
    match (before, now) {
        (None, None) => None,
        (None, Some(_)) => Some("is a block device, and was not when the campaign began".into()),
        (Some(_), None) => Some("is not a block device, but was when the campaign began".into()),
        (Some(before), Some(now)) if before.id != now.id => {
            Some(format!("is `{}`, and was `{}` when the campaign began", now.id, before.id))
        }
        (Some(before), Some(now)) => resized(before.bytes, now.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_size_or_kind_is_another_device() {
        let known = |id: &str, bytes| Known { name: "a".into(), id: id.into(), bytes };
        let (old, same) = (known("S1", 4096), known("S1", 4096));
        let how = |now: Option<&Known>| differs(Some(&old), now).unwrap_or_default();
        assert_eq!(how(Some(&same)), "");
        assert!(how(Some(&known("S2", 4096))).contains("is `S2`, and was `S1`"));
        assert!(how(Some(&known("S1", 8192))).contains("had 4 KiB"));
        assert!(how(None).contains("is not a block device"));
        assert_eq!(differs(None, None), None);
        assert!(differs(None, Some(&same)).is_some());
    }
}
