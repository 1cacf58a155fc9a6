//! Erases by the tools of ATA and SCSI drives: `hdparm`, `sg_sanitize` and `sg_format`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Held, of_a_part};
use crate::host::Root;
use crate::host::program::{self, Limits, Said};
use iosonde_model::spec::experiment::Purge;
use iosonde_model::units::clean::clean;

/// A large disk overwrites itself for more than a day.
const TIME_LIMIT: Duration = Duration::from_secs(72 * 3600);
/// Limit on the output of a tool, bytes.
const OUTPUT_LIMIT_BYTES: u64 = 1 << 20;
/// An ATA erase needs a password, which it removes.
const PASSWORD: &str = "iosonde";

/// An erase that passed its checks.
#[derive(Debug)]
pub(super) struct Erase {
    tool: PathBuf,
    device: PathBuf,
    method: Purge,
}

/// The erase of this drive by a tool, if the range covers the whole drive.
pub(super) fn erases(
    held: &Held,
    root: &Root,
    range_bytes: u64,
    method: Purge,
) -> Result<Erase, String> {
    let facts = held.device(root).ok_or("the kernel does not know the device")?;
    if let Some(partition) = &facts.partition {
        return Err(format!("{partition} is a partition, and it erases all of {}", facts.name));
    }
    of_a_part(held, range_bytes, method.word())?;
    let device = PathBuf::from("/dev").join(facts.name.replace('!', "/"));
    let number = rustix::fs::makedev(facts.major_minor.0, facts.major_minor.1);
    // The tool opens it by its name, so that must be the device that the consent names.
    match fs::metadata(&device) {
        Ok(found) if found.rdev() == number => {}
        Ok(_) => return Err(format!("{} is another device now", device.display())),
        Err(error) => return Err(format!("{}: {error}", device.display())),
    }
    let (name, package) = match method {
        Purge::AtaErase => ("hdparm", "hdparm"),
        Purge::ScsiSanitize => ("sg_sanitize", "sg3-utils"),
        _ => ("sg_format", "sg3-utils"),
    };
    let tool = program::find(name)
        .ok_or_else(|| format!("{name} is not installed (package {package})"))?;
    let erase = Erase { tool, device, method };
    if method == Purge::AtaErase {
        secures(&erase.call(&["-I"])?.1)?;
    }
    Ok(erase)
}

impl Erase {
    /// Runs the erase to its end. Returns the commands, and the last line printed.
    pub(super) fn run(&self) -> Result<String, String> {
        match self.method {
            Purge::AtaErase => self.secure_erase(),
            Purge::ScsiSanitize => self.call(&["--block", "--quick", "--wait"]),
            _ => self.call(&["--format", "--quick", "--wait"]),
        }
        .map(|(words, said)| match last_line(&said) {
            "" => words,
            line => format!("{words}: {line}"),
        })
    }

    fn secure_erase(&self) -> Result<(String, String), String> {
        let user = ["--user-master", "u"];
        let with = |option| [user[0], user[1], option, PASSWORD];
        let (set, _) = self.call(&with("--security-set-pass"))?;
        match self.call(&with("--security-erase")) {
            Ok((erased, said)) => Ok((format!("{set}; {erased}"), said)),
            Err(why) => {
                let disable = with("--security-disable");
                let left = match self.call(&disable) {
                    Ok(_) => "; its password was removed again".to_owned(),
                    Err(_) => format!(
                        "; the drive is left with the password `{PASSWORD}`: remove it with `{}`",
                        self.words(&disable)
                    ),
                };
                Err(why + &left)
            }
        }
    }

    /// A command line for display.
    fn words(&self, options: &[&str]) -> String {
        let name = self.tool.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{name} {} {}", options.join(" "), self.device.display())
    }

    /// Runs the tool on the device. Returns the command line and its output.
    fn call(&self, options: &[&str]) -> Result<(String, String), String> {
        let words = self.words(options);
        let mut command = program::command(&self.tool);
        command.args(options).arg(&self.device);
        let limits =
            Limits { time: TIME_LIMIT, output_bytes: OUTPUT_LIMIT_BYTES, cancelled: &|| false };
        let said = program::run(command, &limits).map_err(|why| format!("`{words}`: {why}"))?;
        let output = String::from_utf8_lossy(&said.output).into_owned();
        if said.code == 0 { Ok((words, output)) } else { Err(failed(&words, &said)) }
    }
}

/// The error message for a tool that failed.
fn failed(words: &str, said: &Said) -> String {
    let errors = String::from_utf8_lossy(&said.errors).into_owned();
    let line = match last_line(&errors) {
        "" => String::from_utf8_lossy(&said.output).into_owned(),
        _ => errors,
    };
    let line = clean(last_line(&line));
    let colon = if line.is_empty() { "" } else { ": " };
    format!("`{words}` ended with exit code {}{colon}{line}", said.code)
}

fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

/// Checks that the drive's security state allows an erase, by the output of `hdparm -I`.
fn secures(identity: &str) -> Result<(), String> {
    let lines = identity.lines().map(str::trim);
    let section: Vec<String> = lines
        .skip_while(|line| !line.starts_with("Security:"))
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<&str>>().join(" "))
        .collect();
    let has = |words: &str| section.iter().any(|line| line == words);
    if !has("supported") {
        return Err("the drive has no ATA security, and so no secure erase".into());
    }
    if !has("not frozen") {
        return Err("its security is frozen, often by the firmware of the machine: suspend the \
                    machine and wake it, or plug the drive in again"
            .into());
    }
    if !has("not locked") || !has("not enabled") {
        return Err("it is protected by a password: remove that first (hdparm \
                    --security-disable)"
            .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Output of hdparm 9.65 for a drive that can be erased.
    const SECURITY: &str = "Commands/features:\n\t\tsupported\nSecurity: \n\
        \tMaster password revision code = 65534\n\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\
        \tnot\tfrozen\n\tnot\texpired: security count\n\t\tsupported: enhanced erase\n\
        \t2min for SECURITY ERASE UNIT. 2min for ENHANCED SECURITY ERASE UNIT.\n";

    #[test]
    fn the_security_of_a_drive_is_read_before_it_is_changed() {
        secures(SECURITY).unwrap();
        let refused = |old: &str, new: &str| secures(&SECURITY.replace(old, new)).unwrap_err();
        assert!(refused("not\tfrozen", "\tfrozen").contains("frozen"));
        assert!(refused("not\tlocked", "\tlocked").contains("password"));
        assert!(refused("not\tenabled", "\tenabled").contains("password"));
        assert!(refused("Security", "Nothing").contains("no ATA security"));
        assert!(secures("").unwrap_err().contains("no ATA security"));
    }

    #[test]
    fn what_a_tool_printed_last_is_its_reason() {
        let said = |output: &str, errors: &str| Said {
            code: 5,
            output: output.into(),
            errors: errors.into(),
        };
        let of = |output, errors| failed("sg_format x", &said(output, errors));
        assert_eq!(of("a\n", "b\nc\n\n"), "`sg_format x` ended with exit code 5: c");
        assert_eq!(of("a\n", " \n"), "`sg_format x` ended with exit code 5: a");
        assert_eq!(of("", ""), "`sg_format x` ended with exit code 5");
    }
}
