//! Loads a workload from a file, or a built-in one.

use std::path::Path;

use crate::cli::exit::{About, Failure, wrong};
use iosonde_model::record::given;
use iosonde_model::spec::{Workload, catalogue};

/// Largest workload file, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Loads the workload that an argument names: a .toml file, or without an extension a built-in one.
pub(super) fn workload(path: &Path) -> Result<Workload, Failure> {
    let refuse = |message: String| Err(wrong(message));
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => {
            let text = text_of("FILE", path, MAX_BYTES)?;
            catalogue::parse_workload(&text)
                .or_else(|error| refuse(format!("`{}` is not a workload: {error}", path.display())))
        }
        None => catalogue::workload(&path.to_string_lossy()).or_else(|error| {
            refuse(format!("{error}; or give a workload file, whose name ends with .toml"))
        }),
        Some(ending) => refuse(format!(
            "FILE: found `{}`, expected a workload file, whose name ends with .toml and not with \
             .{ending}, or the name of a built-in workload",
            path.display()
        )),
    }
}

/// Text of a user's file, up to a limit.
pub(super) fn text_of(option: &str, path: &Path, limit_bytes: u64) -> Result<String, Failure> {
    given::text(path, limit_bytes).or_wrong(format!("{option}: `{}`", path.display()))
}
