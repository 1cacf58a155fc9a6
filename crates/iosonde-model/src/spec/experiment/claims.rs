//! What a data sheet claims, and under which conditions.

use serde::{Deserialize, Serialize};
use toml::value::Table;

/// A data sheet.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claims {
    /// The device that the sheet is about.
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
    /// As the sheet words it.
    pub name: String,
    /// What is promised, such as `iops>=800k`, `bw>=6900MB/s` or `p99<=90us`.
    pub promise: String,
    /// Parameters under which it is promised; what the sheet does not say has its usual value.
    #[serde(default)]
    pub set: Table,
    /// Conditions that no measurement here can bring about (`after preconditioning`).
    #[serde(default)]
    pub conditions: Vec<String>,
}
