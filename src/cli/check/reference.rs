//! References for a check: classes of storage, including the user's own, or a stored result.

use std::path::Path;

use crate::cli::config;
use crate::cli::exit::{About, Failure, shown, wrong};
use iosonde_model::record::given;
use iosonde_model::record::summary::{SUMMARY, Summary};
use iosonde_model::spec::reference::{ReferenceClass, built_in, parse};

/// Classes of storage, and a stored result with its name.
pub(super) type References = (Vec<ReferenceClass>, Option<(String, Summary)>);

/// Largest file that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Finds the classes, and the result that the user named.
///
/// # Errors
/// If the named path is neither a file of classes nor a stored check, or if a file of classes is
/// invalid.
pub(super) fn find(named: Option<&Path>) -> Result<References, Failure> {
    let mut classes = built_in().map_err(wrong)?;
    // `~/.config/iosonde/references.toml`.
    let own = config::directory().map(|directory| directory.join("references.toml"));
    if let Some(own) = own.filter(|path| path.exists()) {
        classes.extend(read(&own)?);
    }
    let Some(path) = named else { return Ok((classes, None)) };
    if path.is_dir() {
        let file = path.join(SUMMARY);
        let text = given::bytes(&file, MAX_BYTES).map_err(|error| {
            let path = path.display();
            wrong(format!(
                "--reference: found no finished check in `{path}` ({SUMMARY}: {error}); `iosonde \
                 report` lists what is kept"
            ))
        })?;
        let summary: Summary =
            serde_json::from_slice(&text).or_wrong(format!("--reference: `{}`", file.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((classes, Some((name, summary))));
    }
    // A named file replaces all other classes.
    Ok((read(path)?, None))
}

fn read(path: &Path) -> Result<Vec<ReferenceClass>, Failure> {
    let about = format!("classes of storage in {}", shown(path));
    let text = given::bytes(path, MAX_BYTES).or_wrong(&about)?;
    parse(&String::from_utf8_lossy(&text)).or_wrong(about)
}
