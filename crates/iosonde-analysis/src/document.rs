//! How figures stand in JSON documents: rounded where a fraction says nothing, percentiles by name.

use serde::Serializer;

/// `p99`, `p99.9`: the name of a quantile, `0..1`.
pub(crate) fn name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

/// A time in ns or a rate in bytes per second without its fraction.
pub(crate) fn whole<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(value.round() as u64)
}
