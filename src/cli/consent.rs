//! What the user agrees to lose.

use std::path::Path;

use clap::Args;

use super::exit::{Failure, wrong};
use super::inspect::InspectArgs;
use super::keep;
use iosonde_engine::target::gate::Consent;
use iosonde_engine::target::{Held, Intent, signature};
use iosonde_model::record::WriteAudit;
use iosonde_model::units::count;

/// Consents, each of which names what may be destroyed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Consent")]
pub(crate) struct ConsentArgs {
    /// Write this file although it contains other data; must be equal to PATH
    #[arg(long, value_name = "NAME")]
    overwrite_file: Option<String>,
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
    pub(crate) inspect: InspectArgs,
}

impl ConsentArgs {
    /// Whether anything was agreed to.
    pub(crate) fn is_given(&self) -> bool {
        let Consent { destroy_data, overwrite_signature, accept_unseen, accept_unseen_processes } =
            self.of_devices();
        let lists = [destroy_data, overwrite_signature, accept_unseen, accept_unseen_processes];
        self.overwrite_file.is_some() || lists.iter().any(|list| !list.is_empty())
    }

    /// The identities of devices that may be written.
    pub(crate) fn devices(&self) -> &[String] {
        &self.destroy_data
    }

    /// What is agreed to of block devices.
    pub(crate) fn of_devices(&self) -> Consent<'_> {
        Consent {
            destroy_data: &self.destroy_data,
            overwrite_signature: &self.overwrite_signature,
            accept_unseen: &self.inspect.accept_unseen,
            accept_unseen_processes: &self.accept_unseen_processes,
        }
    }

    /// The kinds of content that may be destroyed on them.
    pub(crate) fn kinds(&self) -> &[String] {
        &self.overwrite_signature
    }

    /// What is going to be done to a target, and what was agreed to.
    pub(crate) fn intent(&self, write: bool, results: Option<&Path>, rehearse: bool) -> Intent {
        self.inspect.over(Intent {
            write,
            overwrite_file: self.overwrite_file.clone(),
            destroy_data: self.destroy_data.clone(),
            overwrite_signature: self.overwrite_signature.clone(),
            accept_unseen_processes: self.accept_unseen_processes.clone(),
            results: keep::directory(results),
            rehearse,
            ..Intent::default()
        })
    }

    /// Every kind of content must be one that is looked for.
    pub(crate) fn check_kinds(&self) -> Result<(), Failure> {
        let known = signature::words();
        let is_known = |word: &&String| known.contains(&word.as_str());
        let Some(word) = self.overwrite_signature.iter().find(|word| !is_known(word)) else {
            return Ok(());
        };
        let meant = count::did_you_mean(word, known.iter().copied());
        let known = known.join(", ");
        Err(wrong(format!("--overwrite-signature: found `{word}`, expected one of {known}{meant}")))
    }

    /// A consent about a file that nothing asks for was meant for something else.
    pub(crate) fn none_for_files(&self, reason: &str) -> Result<(), Failure> {
        match self.overwrite_file {
            Some(_) => Err(wrong(format!("--overwrite-file has no effect: {reason}"))),
            None => Ok(()),
        }
    }

    /// The same about devices.
    pub(crate) fn none_for_devices(&self, reason: &str) -> Result<(), Failure> {
        let given = [
            ("--destroy-data", &self.destroy_data),
            ("--overwrite-signature", &self.overwrite_signature),
        ];
        match given.iter().find(|(_, words)| !words.is_empty()) {
            Some((option, _)) => Err(wrong(format!("{option} has no effect: {reason}"))),
            None => Ok(()),
        }
    }

    /// The same about anything.
    pub(crate) fn none(&self, reason: &str) -> Result<(), Failure> {
        if let Some(option) = self.inspect.given() {
            return Err(wrong(format!("{option} has no effect: {reason}")));
        }
        self.none_for_files(reason)?;
        self.none_for_devices(reason)?;
        self.none_for_processes(reason)
    }

    /// The same about who has a target open.
    pub(crate) fn none_for_processes(&self, reason: &str) -> Result<(), Failure> {
        match self.accept_unseen_processes.is_empty() {
            true => Ok(()),
            false => Err(wrong(format!("--accept-unseen-processes has no effect: {reason}"))),
        }
    }

    /// What was agreed to must have been needed by this target, which was opened for writing.
    pub(crate) fn were_needed(&self, held: &Held) -> Result<(), Failure> {
        match held.audits.iter().any(WriteAudit::is_of_device) {
            false => self.none_for_devices("the target is not a block device")?,
            true => self.none_for_files("the target is a block device")?,
        }
        let devices = self.destroy_data.iter().map(|word| format!("--destroy-data={word}"));
        let kinds = self.overwrite_signature.iter();
        let kinds = kinds.map(|word| format!("--overwrite-signature={word}"));
        unneeded(devices.chain(kinds), held, "nothing of this name was found")?;
        let unseen = self.accept_unseen_processes.iter();
        let unseen = unseen.map(|word| format!("--accept-unseen-processes={word}"));
        let contents = self.inspect.accept_unseen.iter();
        let unseen = unseen.chain(contents.map(|word| format!("--accept-unseen={word}")));
        unneeded(unseen, held, "no target of this name needs it; leave it out")
    }
}

/// A consent that a target did not need was meant for something else.
fn unneeded(
    mut given: impl Iterator<Item = String>,
    held: &Held,
    reason: &str,
) -> Result<(), Failure> {
    let needed = |option: &String| held.audits.iter().any(|audit| audit.needed(option));
    match given.find(|option| !needed(option)) {
        Some(option) => Err(wrong(format!("{option} has no effect: {reason}"))),
        None => Ok(()),
    }
}
