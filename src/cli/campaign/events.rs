//! The event log of a campaign: `action|device|epoch|details`, one line each, in the order in which
//! things happened, and the same as JSON lines in `log.jsonl`.

use serde_json::json;

use crate::cli::keep::Keeper;
use iosonde_report::clean::clean;

/// Name of the log in the folder of the campaign.
pub(super) const EVENTS: &str = "events.log";

/// The log, and the folder that it stands in.
pub(super) struct Events {
    keeper: Keeper,
    lines: String,
}

impl Events {
    /// Goes on with the lines that are there.
    pub(super) fn new(keeper: Keeper, lines: String) -> Events {
        Events { keeper, lines }
    }

    /// Adds a line, and stores it at once.
    pub(super) fn add(&mut self, action: &str, device: &str, details: &str) {
        let epoch = iosonde_sys::clock::realtime_ns() / 1_000_000_000;
        let details = clean(details).replace('|', "/");
        self.lines.push_str(&format!("{action}|{device}|{epoch}|{details}\n"));
        self.keeper.keep_text(EVENTS, &self.lines);
        self.keeper.log(&json!({
            "action": action, "device": device, "epoch_s": epoch, "details": details,
        }));
    }

    /// Whether the log can no longer be written.
    pub(super) fn is_lost(&self) -> bool {
        self.keeper.is_lost()
    }

    /// The folder, to close it.
    pub(super) fn into_keeper(self) -> Keeper {
        self.keeper
    }
}
