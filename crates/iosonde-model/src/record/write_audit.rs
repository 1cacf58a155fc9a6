//! Checks of a target before it was opened for writing.

use serde::{Deserialize, Serialize};

/// Result of the safety checks of one target that is written: enough to judge later whether the
/// write was permitted.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteAudit {
    /// Path as given.
    pub path: String,
    /// Identity that `--destroy-data` has to name; empty for a file.
    pub identity: String,
    /// Serial number of the disk, if it reports one.
    pub serial: Option<String>,
    /// The kernel's sequence number of this disk instance (`diskseq`).
    pub disk_sequence: Option<u64>,
    /// Each check and its result, in their order.
    pub checks: Vec<WriteCheck>,
    /// Places that could not be examined, where a user of the target may be hidden.
    pub unseen: Vec<String>,
    /// The consents that were needed, as they were typed.
    pub consents: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteCheck {
    /// What was checked.
    pub check: String,
    pub result: String,
}

impl WriteAudit {
    /// Adds a check and its result.
    pub fn note(&mut self, check: &str, result: impl Into<String>) {
        self.checks.push(WriteCheck { check: check.into(), result: result.into() });
    }

    /// Whether this consent, as typed, applies to this target and is needed. The processes that can
    /// be examined change from minute to minute. Accepting those that cannot is therefore always
    /// right if the consent names the target.
    #[must_use]
    pub fn needed(&self, option: &str) -> bool {
        // What can be inspected in the time limit changes too.
        let unseen = ["--accept-unseen-processes=", "--accept-unseen="];
        let names =
            |name: &str| unseen.iter().any(|unseen| option.strip_prefix(unseen) == Some(name));
        self.consents.iter().any(|consent| consent == option)
            || names(if self.is_of_device() { &self.identity } else { &self.path })
    }

    /// Lines of the report, each with a name and a value.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
        if self.is_of_device() {
            let sequence = self.disk_sequence.map(|number| format!(", disk sequence {number}"));
            let sequence = sequence.unwrap_or_default();
            line("written device", format!("{} ({}{sequence})", self.path, self.identity));
        } else {
            line("written file", self.path.clone());
        }
        for each in &self.checks {
            line(&format!("checked: {}", each.check), each.result.clone());
        }
        if !self.unseen.is_empty() {
            line("could not be examined", self.unseen.join("; "));
        }
        if !self.consents.is_empty() {
            line("consent", self.consents.join(" "));
        }
        lines
    }

    /// Whether the target is a block device.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        !self.identity.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_is_needed_where_it_names_the_target() {
        let device = WriteAudit {
            path: "/dev/sdz".into(),
            identity: "S1".into(),
            consents: vec!["--destroy-data=S1".into()],
            disk_sequence: Some(9),
            ..WriteAudit::default()
        };
        assert!(device.needed("--destroy-data=S1"));
        assert!(!device.needed("--destroy-data=S2"));
        assert!(device.needed("--accept-unseen-processes=S1"));
        assert!(!device.needed("--accept-unseen-processes=/dev/sdz"));
        let file = WriteAudit { path: "a.img".into(), ..WriteAudit::default() };
        assert!(file.needed("--accept-unseen-processes=a.img"));
        assert!(!file.needed("--overwrite-file=a.img"));
        let lines = device.lines();
        assert_eq!(lines[0].1, "/dev/sdz (S1, disk sequence 9)");
        assert_eq!(lines[1], ("consent".into(), "--destroy-data=S1".into()));
    }
}
