//! Event log of a campaign: lines `action|device|epoch|details` in order of time, also as JSON
//! lines in `log.jsonl`. The lines of each device are also in a separate log.

use serde_json::json;

use crate::cli::keep::Keeper;
use iosonde_report::clean::clean;

/// Name of the log in the campaign folder.
pub(super) const EVENTS: &str = "events.log";

/// Device name of an event that concerns all devices.
pub(super) const ALL: &str = "-";

/// The log, and the keeper of its folder.
pub(super) struct Events {
    keeper: Keeper,
    lines: String,
}

impl Events {
    /// Continues after the given lines.
    pub(super) fn new(keeper: Keeper, lines: String) -> Events {
        Events { keeper, lines }
    }

    /// Adds a line and stores it at once.
    pub(super) fn add(&mut self, action: &str, device: &str, details: &str) {
        let epoch = iosonde_sys::clock::realtime_ns() / 1_000_000_000;
        let details = plain(details);
        self.lines.push_str(&format!("{action}|{device}|{epoch}|{details}\n"));
        self.keeper.keep_bytes(EVENTS, &self.lines);
        if device != ALL {
            self.keeper.keep_bytes(&format!("device-{device}.log"), of(&self.lines, device));
        }
        self.keeper.log(&json!({
            "action": action, "device": device, "epoch_s": epoch, "details": details,
        }));
    }

    /// Number of log lines for this event of a device.
    pub(super) fn count(&self, action: &str, device: &str, details: &str) -> usize {
        let details = plain(details);
        let is_it = |line: &&str| {
            let mut parts = line.splitn(4, '|');
            let is_action = parts.next() == Some(action) && parts.next() == Some(device);
            is_action && parts.nth(1) == Some(&details)
        };
        self.lines.lines().filter(is_it).count()
    }

    /// Whether the log can no longer be written.
    pub(super) fn is_lost(&self) -> bool {
        self.keeper.is_lost()
    }

    /// Returns the keeper, to close the folder.
    pub(super) fn into_keeper(self) -> Keeper {
        self.keeper
    }
}

/// Details as written in a line.
fn plain(details: &str) -> String {
    clean(details).replace('|', "/")
}

/// The lines that concern a device.
fn of(lines: &str, device: &str) -> String {
    let own = lines.split_inclusive('\n').filter(|line| line.split('|').nth(1) == Some(device));
    own.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_device_has_its_lines_alone() {
        let lines = "begin|-|1|campaign c\nbegin|a|1|/dev/a\nbegin|ab|1|/dev/b\nend|a|2|a\n";
        assert_eq!(of(lines, "a"), "begin|a|1|/dev/a\nend|a|2|a\n");
        assert_eq!(of(lines, "b"), "");
    }
}
