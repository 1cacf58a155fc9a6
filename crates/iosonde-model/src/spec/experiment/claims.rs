//! The claims of a data sheet and their conditions.

use serde::{Deserialize, Serialize};
use toml::value::Table;

/// A data sheet.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claims {
    /// The device that the sheet describes.
    pub device: String,
    /// Where the sheet can be found.
    #[serde(default)]
    pub source: String,
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// The claim in the words of the sheet.
    pub name: String,
    /// The promised figure, such as `iops>=800k`, `bw>=6900MB/s` or `p99<=90us`.
    pub promise: String,
    /// Parameters of the claim; those that the sheet does not state have their defaults.
    #[serde(default)]
    pub set: Table,
    /// Conditions that a measurement here cannot establish (`after preconditioning`).
    #[serde(default)]
    pub conditions: Vec<String>,
}
