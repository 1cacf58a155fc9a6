//! Consent options: the user's permission to destroy data.

use std::path::Path;

use clap::Args;

use super::exit::{Failure, wrong};
use super::inspect::InspectArgs;
use super::keep;
use super::words::not_one_of;
use iosonde_engine::target::gate::Consent;
use iosonde_engine::target::vhost::VhostConsent;
use iosonde_engine::target::{Held, Inspection, Intent, signature};
use iosonde_model::record::WriteAudit;

/// The consent for files; the others are for devices, or for both.
const FILES: &str = "--overwrite-file";
/// The consent for devices.
const DEVICES: &str = "--destroy-data";

/// Consents, each of which names what may be destroyed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Consent")]
pub(crate) struct ConsentArgs {
    /// Write this file although it contains other data; must be equal to its path as given
    #[arg(long, value_name = "NAME")]
    overwrite_file: Vec<String>,
    /// Write the block device with this identity, as printed by the refusal
    #[arg(long, value_name = "ID")]
    destroy_data: Vec<String>,
    /// Write the device although this type of content was found on it; may be repeated
    #[arg(long, value_name = "KIND")]
    overwrite_signature: Vec<String>,
    /// Write this device or file although some processes could not be checked for having it open;
    /// ID as printed by the refusal
    #[arg(long, value_name = "ID")]
    accept_unseen_processes: Vec<String>,
    #[command(flatten)]
    inspect: InspectArgs,
}

impl ConsentArgs {
    /// Every consent option with its values.
    fn given(&self) -> [(&'static str, &[String]); 5] {
        [
            (FILES, &self.overwrite_file),
            (DEVICES, &self.destroy_data),
            ("--overwrite-signature", &self.overwrite_signature),
            ("--accept-unseen-processes", &self.accept_unseen_processes),
            ("--accept-unseen", &self.inspect.accept_unseen),
        ]
    }

    /// Whether any consent was given.
    pub(crate) fn is_given(&self) -> bool {
        self.given().iter().any(|(_, words)| !words.is_empty())
    }

    /// Whether a command line has a consent to write.
    pub(crate) fn is_in(words: &[String]) -> bool {
        words.iter().any(|word| [FILES, DEVICES].iter().any(|option| word.starts_with(option)))
    }

    /// The identities of devices that may be written.
    pub(crate) fn devices(&self) -> &[String] {
        &self.destroy_data
    }

    /// The consent for block devices.
    pub(crate) fn of_devices(&self) -> Consent<'_> {
        Consent {
            destroy_data: &self.destroy_data,
            overwrite_signature: &self.overwrite_signature,
            accept_unseen: &self.inspect.accept_unseen,
            accept_unseen_processes: &self.accept_unseen_processes,
        }
    }

    /// The consent for the device of a vhost-user server, which must be empty.
    pub(crate) fn of_server(&self) -> Result<VhostConsent<'_>, Failure> {
        const REASON: &str =
            "a vhost-user server's device needs a single --destroy-data and must be empty";
        self.none_of(&[FILES, "--overwrite-signature", "--accept-unseen-processes"], REASON)?;
        if let Some(second) = self.destroy_data.get(1) {
            return Err(wrong(format!("--destroy-data={second} has no effect: {REASON}")));
        }
        Ok(VhostConsent {
            destroy_data: self.destroy_data.first().map(String::as_str),
            accept_unseen: &self.inspect.accept_unseen,
        })
    }

    /// How a target is inspected.
    pub(crate) fn inspection(&self) -> Inspection {
        self.inspect.inspection()
    }

    /// The intended access to this target, with the consents given.
    pub(crate) fn intent(
        &self,
        path: &Path,
        write: bool,
        results: Option<&Path>,
        rehearse: bool,
    ) -> Intent {
        // Without a match the first name is passed on, so that the refusal shows both names.
        let is_of_path = |name: &&String| Path::new(name.as_str()) == path;
        let file = self.overwrite_file.iter().find(is_of_path).or(self.overwrite_file.first());
        self.inspect.over(Intent {
            write,
            overwrite_file: file.cloned(),
            destroy_data: self.destroy_data.clone(),
            overwrite_signature: self.overwrite_signature.clone(),
            accept_unseen_processes: self.accept_unseen_processes.clone(),
            results: keep::directory(results),
            rehearse,
            ..Intent::default()
        })
    }

    /// Refuses a kind of content that the inspection cannot detect.
    pub(crate) fn check_kinds(&self) -> Result<(), Failure> {
        let known = signature::words();
        let is_known = |word: &&String| known.contains(&word.as_str());
        match self.overwrite_signature.iter().find(|word| !is_known(word)) {
            Some(word) => Err(not_one_of("--overwrite-signature", word, &known)),
            None => Ok(()),
        }
    }

    /// Refuses every consent, where none is needed.
    pub(crate) fn none(&self, reason: &str) -> Result<(), Failure> {
        if let Some(option) = self.inspect.given() {
            return Err(wrong(format!("{option} has no effect: {reason}")));
        }
        self.none_of(&self.given().map(|(option, _)| option), reason)
    }

    /// Refuses the consents of these options, where they are not needed.
    fn none_of(&self, options: &[&str], reason: &str) -> Result<(), Failure> {
        let is_given =
            |(option, words): &(&str, &[String])| options.contains(option) && !words.is_empty();
        match self.given().into_iter().find(is_given) {
            Some((option, _)) => Err(wrong(format!("{option} has no effect: {reason}"))),
            None => Ok(()),
        }
    }

    /// Refuses a consent that none of these targets needed for writing. A rehearsal checks only the
    /// names of files.
    pub(crate) fn were_needed(&self, held: &[Held], rehearse: bool) -> Result<(), Failure> {
        let is_held = |name: &String| held.iter().any(|held| held.path == Path::new(name));
        if let Some(name) = self.overwrite_file.iter().find(|name| !is_held(name)) {
            let reason = "no file of this name is written";
            return Err(wrong(format!("--overwrite-file={name} has no effect: {reason}")));
        }
        if rehearse {
            return Ok(());
        }
        let is_device = |held: &Held| held.audits.iter().any(WriteAudit::is_of_device);
        if held.iter().all(is_device) {
            self.none_of(&[FILES], "the target is a block device")?;
        }
        let needed = |option: &String| {
            held.iter().flat_map(|held| &held.audits).any(|audit| audit.needed(option))
        };
        for (option, words) in self.given().into_iter().filter(|(option, _)| *option != FILES) {
            let mut options = words.iter().map(|word| format!("{option}={word}"));
            if let Some(option) = options.find(|option| !needed(option)) {
                let reason = "no target that is written needs it; leave it out";
                return Err(wrong(format!("{option} has no effect: {reason}")));
            }
        }
        Ok(())
    }
}
