//! The parameters that an experiment can set and vary: their words and types.

use std::ops::RangeInclusive;

use crate::spec::EngineKind;
use serde::{Deserialize, Serialize};

use crate::units::{bytes, count, duration};

/// A parameter of a cell.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// A workload by name; the other parameters modify it.
    Workload,
    /// Direction and order of all roles.
    Rw,
    /// Size of one operation.
    BlockSize,
    /// Requests in flight per thread.
    Iodepth,
    /// Requests per submission.
    BatchSubmit,
    /// Fewest completions to wait for.
    BatchCompleteMin,
    /// Most completions to process at once.
    BatchCompleteMax,
    /// Threads of each role.
    Numjobs,
    /// Share of reads in a mixed role.
    ReadPercent,
    /// How random offsets are drawn: `permutation`, `uniform`, `zipf:1.2`, `pareto:0.2`.
    Access,
    /// Share of operations whose offset is drawn.
    RandomPercent,
    /// Bytes skipped between two sequential operations.
    Gap,
    /// First byte of the region.
    Offset,
    /// Length of the region.
    Span,
    /// Bytes by which every offset is misaligned to its block.
    Misalign,
    /// Writes per sync; 0 for no syncs.
    SyncEvery,
    /// Durability of each write: `accepted`, `dsync`, `sync`.
    EachWrite,
    /// Open-loop operations per second of each role, over all its threads.
    Rate,
    /// `Rate` for roles that only read; 0 omits them.
    ReadRate,
    /// `Rate` for roles that only write; 0 omits them.
    WriteRate,
    /// Distribution of the due times of an open loop: `constant`, `poisson`.
    Arrivals,
    /// State of the page cache: `direct`, `cold`, `warm`.
    Cache,
    /// I/O engine: `io_uring`, `libaio`, `psync`.
    Engine,
    /// CPUs that the threads are pinned to, such as `0` or `0-1`; `any` for no pinning.
    Cpus,
    /// Compressible share of the written data.
    Compress,
    /// Pause of a thread after each operation.
    Think,
    /// Length of a run, where cells differ in it.
    Runtime,
}

/// The value of a parameter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in the parameter's unit: bytes, operations per second, percent, ns, a count.
    Number(f64),
    Word(String),
}

/// The types of parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    /// Bytes, also as text (`64k`).
    Bytes,
    Count,
    Percent,
    /// Operations per second.
    PerSecond,
    /// Time, ns, also as text (`5ms`).
    Time,
    /// One of these words; a word that ends with a colon is a prefix.
    Word(&'static [&'static str]),
    /// Any word.
    Name,
}

/// Why a parameter cannot have this value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{name}`: found {found}, expected {expected}")]
pub struct ParameterError {
    pub name: String,
    /// The value found.
    pub found: String,
    /// The permitted values.
    pub expected: String,
}

const CACHES: &[&str] = &["direct", "cold", "warm"];
const PROMISES: &[&str] = &["accepted", "dsync", "sync"];
const ARRIVALS: &[&str] = &["constant", "poisson"];
const ACCESSES: &[&str] = &["permutation", "uniform", "zipf:", "pareto:"];

/// Every parameter with its word, its title and its type.
const PARAMETERS: [(Parameter, &str, &str, Quantity); 27] = [
    (Parameter::Workload, "workload", "workload", Quantity::Name),
    (Parameter::Rw, "rw", "pattern", Quantity::Name),
    (Parameter::BlockSize, "block-size", "block size", Quantity::Bytes),
    (Parameter::Iodepth, "iodepth", "iodepth", Quantity::Count),
    (Parameter::BatchSubmit, "batch-submit", "submitted at once", Quantity::Count),
    (Parameter::BatchCompleteMin, "batch-complete-min", "completions, least", Quantity::Count),
    (Parameter::BatchCompleteMax, "batch-complete-max", "completions, most", Quantity::Count),
    (Parameter::Numjobs, "numjobs", "jobs", Quantity::Count),
    (Parameter::ReadPercent, "read-percent", "reads", Quantity::Percent),
    (Parameter::Access, "access", "access", Quantity::Word(ACCESSES)),
    (Parameter::RandomPercent, "random-percent", "random", Quantity::Percent),
    (Parameter::Gap, "gap", "gap", Quantity::Bytes),
    (Parameter::Offset, "offset", "offset", Quantity::Bytes),
    (Parameter::Span, "span", "span", Quantity::Bytes),
    (Parameter::Misalign, "misalign", "misalignment", Quantity::Bytes),
    (Parameter::SyncEvery, "sync-every", "writes per sync", Quantity::Count),
    (Parameter::EachWrite, "each-write", "each write", Quantity::Word(PROMISES)),
    (Parameter::Rate, "rate", "offered load", Quantity::PerSecond),
    (Parameter::ReadRate, "read-rate", "offered reads", Quantity::PerSecond),
    (Parameter::WriteRate, "write-rate", "offered writes", Quantity::PerSecond),
    (Parameter::Arrivals, "arrivals", "arrivals", Quantity::Word(ARRIVALS)),
    (Parameter::Cache, "cache", "cache", Quantity::Word(CACHES)),
    (Parameter::Engine, "engine", "engine", Quantity::Word(EngineKind::OF_FILES)),
    (Parameter::Cpus, "cpus", "CPUs", Quantity::Name),
    (Parameter::Compress, "compress", "compressible", Quantity::Percent),
    (Parameter::Think, "think", "pause", Quantity::Time),
    (Parameter::Runtime, "runtime", "runtime", Quantity::Time),
];

impl Parameter {
    /// The parameter of this word; hyphen and underscore are equivalent.
    ///
    /// # Errors
    /// If no parameter has this word; the error lists all.
    pub fn parse(word: &str) -> Result<Parameter, ParameterError> {
        let plain = word.replace('_', "-");
        let found = PARAMETERS.iter().find(|(_, name, ..)| *name == plain);
        found.map(|(parameter, ..)| *parameter).ok_or_else(|| {
            let words: Vec<&str> = PARAMETERS.iter().map(|(_, name, ..)| *name).collect();
            let meant = count::did_you_mean(&plain, words.iter().copied());
            ParameterError {
                name: word.into(),
                found: "no parameter of this name".into(),
                expected: format!("one of {}{meant}", words.join(", ")),
            }
        })
    }

    fn row(self) -> &'static (Parameter, &'static str, &'static str, Quantity) {
        PARAMETERS.iter().find(|(parameter, ..)| *parameter == self).unwrap_or(&PARAMETERS[0])
    }

    /// The word as typed.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// The name in headings and on axes.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    pub fn quantity(self) -> Quantity {
        self.row().3
    }

    /// Converts a value of a file.
    ///
    /// # Errors
    /// If the value has the wrong type or is out of range.
    pub fn value(self, given: &toml::Value) -> Result<Value, ParameterError> {
        let quantity = self.quantity();
        let range = self.range();
        let fits = |value: f64| {
            quantity.holds(value) && range.as_ref().is_none_or(|(ends, _)| ends.contains(&value))
        };
        let number = |value: f64| fits(value).then_some(Value::Number(value));
        let found = match (quantity, given) {
            (Quantity::Word(_) | Quantity::Name, toml::Value::Integer(value))
                if self == Parameter::Cpus =>
            {
                Some(Value::Word(value.to_string()))
            }
            (Quantity::Word(words), toml::Value::String(text)) => {
                let fits = |word: &str| match word.strip_suffix(':') {
                    Some(_) => text.starts_with(word),
                    None => text == word,
                };
                words.iter().any(|word| fits(word)).then(|| Value::Word(text.clone()))
            }
            (Quantity::Name, toml::Value::String(text)) => Some(Value::Word(text.clone())),
            (Quantity::Word(_) | Quantity::Name, _) => None,
            (_, toml::Value::Integer(value)) => number(*value as f64),
            (_, toml::Value::Float(value)) => number(*value),
            (Quantity::Bytes, toml::Value::String(text)) => {
                bytes::parse(text).ok().and_then(|value| number(value as f64))
            }
            (Quantity::Time, toml::Value::String(text)) => {
                duration::parse(text, 1_000_000_000).ok().and_then(|value| number(value as f64))
            }
            _ => None,
        };
        found.ok_or_else(|| ParameterError {
            name: self.word().into(),
            found: format!("`{}`", plain(given)),
            expected: range.map_or_else(|| quantity.expected(), |(_, words)| words.to_owned()),
        })
    }

    /// The permitted range on any target, with its description; `None` without limits.
    fn range(self) -> Option<(RangeInclusive<f64>, &'static str)> {
        match self {
            Parameter::Iodepth | Parameter::Numjobs => {
                Some((1.0..=MOST_AT_ONCE, "a whole number from 1 to 4096"))
            }
            Parameter::BlockSize => {
                Some((1.0..=MOST_BLOCK, "a size from 1 to 1 GiB, such as 4096 or \"64k\""))
            }
            Parameter::Rate => {
                Some((f64::MIN_POSITIVE..=f64::MAX, "operations per second, above 0"))
            }
            Parameter::Runtime => Some((1.0..=f64::MAX, "a time above 0, such as \"5s\"")),
            _ => None,
        }
    }

    /// A value as printed.
    pub fn formatted(self, value: &Value) -> String {
        match (self.quantity(), value) {
            (_, Value::Word(word)) => word.clone(),
            (Quantity::Bytes, Value::Number(number)) => bytes::exact(*number as u64),
            (Quantity::Percent, Value::Number(number)) => format!("{number} %"),
            (Quantity::PerSecond, Value::Number(number)) => {
                format!("{}/s", count::significant_or_whole(*number))
            }
            (Quantity::Time, Value::Number(number)) => duration::latency(*number),
            (_, Value::Number(number)) => format!("{number}"),
        }
    }
}

/// A value of a file, abbreviated for a message.
pub(crate) fn plain(given: &toml::Value) -> String {
    match given {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(truth) => truth.to_string(),
        other => format!("a {}", other.type_str()),
    }
}

/// Largest `iodepth` and `numjobs`.
const MOST_AT_ONCE: f64 = 4096.0;
/// Largest block, bytes.
const MOST_BLOCK: f64 = (1u64 << 30) as f64;
/// Largest count.
const MOST: f64 = 1e6;

impl Quantity {
    /// Whether the value is valid for this type without rounding or truncation.
    fn holds(self, value: f64) -> bool {
        let is_whole = value.fract() == 0.0;
        value.is_finite()
            && value >= 0.0
            && match self {
                Quantity::Count => is_whole && value <= MOST,
                Quantity::Percent => is_whole && value <= 100.0,
                Quantity::Bytes => is_whole && value <= (1u64 << 53) as f64,
                _ => value <= 1e18,
            }
    }

    fn expected(self) -> String {
        match self {
            Quantity::Bytes => "a size such as 4096 or \"64k\"".into(),
            Quantity::Count => "a whole number of at most 1000000".into(),
            Quantity::Percent => "a whole percentage, 0 to 100".into(),
            Quantity::PerSecond => "operations per second".into(),
            Quantity::Time => "a time in ns, or in words such as \"5ms\"".into(),
            Quantity::Name => "a word".into(),
            Quantity::Word(words) => format!("one of {}", words.join(", ")),
        }
    }
}

impl Value {
    /// The number, unless it is a word.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Word(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_no_target_can_do_is_refused_with_its_range() {
        for (parameter, wrong, right) in [
            (Parameter::Iodepth, 0, 1),
            (Parameter::Iodepth, 4097, 4096),
            (Parameter::Numjobs, 100_000, 4096),
            (Parameter::BlockSize, 2 << 30, 1 << 30),
            (Parameter::Rate, 0, 1),
            (Parameter::Runtime, 0, 1),
        ] {
            assert!(parameter.value(&toml::Value::Integer(right)).is_ok(), "{parameter:?}");
            let error = parameter.value(&toml::Value::Integer(wrong)).unwrap_err().to_string();
            assert!(error.contains(&format!("found `{wrong}`, expected ")), "{error}");
        }
        // Without reads or without syncs is a level too.
        assert!(Parameter::ReadRate.value(&toml::Value::Integer(0)).is_ok());
        assert!(Parameter::SyncEvery.value(&toml::Value::Integer(0)).is_ok());
    }

    #[test]
    fn each_parameter_has_a_row_of_its_own() {
        for (parameter, word, ..) in PARAMETERS {
            assert_eq!(Parameter::parse(word).unwrap(), parameter);
            assert_eq!(parameter.word(), word);
        }
        assert_eq!(Parameter::parse("block_size").unwrap(), Parameter::BlockSize);
        let error = Parameter::parse("iodept").unwrap_err().to_string();
        assert!(error.contains("did you mean `iodepth`"), "{error}");
    }

    #[test]
    fn values_are_of_their_kind_or_refused() {
        let text = |text: &str| toml::Value::String(text.into());
        let set = |parameter: Parameter, given: toml::Value| parameter.value(&given);
        assert_eq!(set(Parameter::BlockSize, text("64k")).unwrap(), Value::Number(65_536.0));
        assert_eq!(set(Parameter::Think, text("5ms")).unwrap(), Value::Number(5e6));
        assert_eq!(
            set(Parameter::Access, text("zipf:1.2")).unwrap(),
            Value::Word("zipf:1.2".into())
        );
        let wrong = [
            (Parameter::Cache, text("hot")),
            (Parameter::Iodepth, text("many")),
            (Parameter::BlockSize, toml::Value::Integer(-1)),
            (Parameter::Rw, toml::Value::Boolean(true)),
        ];
        for (parameter, given) in wrong {
            let error = set(parameter, given).unwrap_err();
            assert_eq!(error.name, parameter.word());
        }
        assert_eq!(Parameter::BlockSize.formatted(&Value::Number(65_536.0)), bytes::exact(65_536));
    }
}
