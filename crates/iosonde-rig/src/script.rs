//! The script of a device: `key=value` pairs, on a command line or in a TOML file.

use std::path::{Path, PathBuf};

use crate::fault::{Effect, Fault, Op};
use crate::latency::Latency;
use crate::quantity::bytes;

/// Why a script is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("script {0} cannot be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// The file is not valid TOML.
    #[error("script is no valid TOML: {0}")]
    Toml(#[from] toml::de::Error),
    /// The key does not exist.
    #[error("`{0}` is no key of a script; keys are {KEYS}")]
    UnknownKey(String),
    /// The value does not fit its key.
    #[error("{key}: {problem}")]
    BadValue {
        key: String,
        /// What was found and what was expected.
        problem: String,
    },
}

const KEYS: &str = "read, write, sync, servers, seed, direct_io, async_dio, fallocate, \
                    capacity, sample, truth, fault";

/// Behaviour of a device. Built with [`Script::with`], from `key=value` words or from TOML, which
/// has the same keys at top level and `fault` as a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// `read`, `write`, `sync`: service time by [`Op`].
    pub latency: [Latency; 3],
    /// `servers`: requests served at once; the others queue. 0 means no limit.
    pub servers: usize,
    /// `seed` of all random numbers.
    pub seed: u64,
    /// `direct_io`: open files with FOPEN_DIRECT_IO, so that all I/O bypasses the page cache.
    pub direct_io: bool,
    /// `async_dio`: handle direct requests asynchronously. If off, the submission of a request
    /// waits for its completion, also with io_uring.
    pub async_dio: bool,
    /// `fallocate`: whether the call is supported.
    pub fallocate: bool,
    /// `capacity`: size in bytes reported by statfs; not enforced.
    pub capacity_bytes: u64,
    /// `sample`: number of times per operation that are kept exactly.
    pub sample: usize,
    /// `truth`: where the truth is written on exit and on SIGUSR2.
    pub truth: Option<PathBuf>,
    /// `fault`: the faults; the first that strikes a request decides.
    pub faults: Vec<Fault>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            latency: [Latency::None; 3],
            servers: 0,
            seed: 1,
            direct_io: false,
            async_dio: true,
            fallocate: true,
            capacity_bytes: 1 << 40,
            sample: 1_000_000,
            truth: None,
            faults: Vec::new(),
        }
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(format!("`{value}` is neither on nor off")),
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is not a number"))
}

impl Script {
    /// The script with one more key set.
    pub fn with(mut self, key: &str, value: &str) -> Result<Self, ScriptError> {
        self.set(key, value)?;
        Ok(self)
    }

    /// Sets one key; `fault` adds to the list.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScriptError> {
        let applied = match key {
            "read" => value.parse().map(|model| self.latency[Op::Read as usize] = model),
            "write" => value.parse().map(|model| self.latency[Op::Write as usize] = model),
            "sync" => value.parse().map(|model| self.latency[Op::Sync as usize] = model),
            "servers" => number(value).map(|n| self.servers = n),
            "seed" => number(value).map(|n| self.seed = n),
            "direct_io" => switch(value).map(|on| self.direct_io = on),
            "async_dio" => switch(value).map(|on| self.async_dio = on),
            "fallocate" => switch(value).map(|on| self.fallocate = on),
            "capacity" => bytes(value).map(|n| self.capacity_bytes = n),
            "sample" => number(value).map(|n| self.sample = n),
            "truth" => {
                self.truth = Some(PathBuf::from(value));
                Ok(())
            }
            "fault" => value.parse().map(|fault| self.faults.push(fault)),
            _ => return Err(ScriptError::UnknownKey(key.to_owned())),
        };
        applied.map_err(|problem| ScriptError::BadValue { key: key.to_owned(), problem })
    }

    /// Sets the key of one `key=value` word.
    pub fn set_word(&mut self, word: &str) -> Result<(), ScriptError> {
        match word.split_once('=') {
            Some((key, value)) => self.set(key, value),
            None => Err(ScriptError::UnknownKey(word.to_owned())),
        }
    }

    /// Returns the script if every fault in it can take effect.
    pub fn checked(self) -> Result<Self, ScriptError> {
        let short = self.faults.iter().find(|fault| fault.effect == Effect::Short);
        match short {
            Some(fault) if !self.direct_io => Err(ScriptError::BadValue {
                key: "fault".to_owned(),
                problem: format!(
                    "`{}` needs direct_io=on: else the kernel reads the missing part itself",
                    fault.text
                ),
            }),
            _ => Ok(self),
        }
    }

    /// A script from words like `read=const:300us` and `fault=write:eio:every=100`.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for word in words {
            script.set_word(word)?;
        }
        script.checked()
    }

    /// A script from TOML text; values may be strings, integers or booleans, `fault` a list.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for (key, value) in text.parse::<toml::Table>()? {
            let values = match value {
                toml::Value::Array(values) if key == "fault" => values,
                value => vec![value],
            };
            for value in values {
                let word = match value {
                    toml::Value::String(text) => text,
                    toml::Value::Integer(n) => n.to_string(),
                    toml::Value::Boolean(on) => on.to_string(),
                    other => {
                        let problem = format!("a {} was not expected", other.type_str());
                        return Err(ScriptError::BadValue { key, problem });
                    }
                };
                script.set(&key, &word)?;
            }
        }
        script.checked()
    }

    /// A script from a TOML file.
    pub fn from_file(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ScriptError::Unreadable(path.to_owned(), error))?;
        Self::from_toml(&text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn toml_and_words_say_the_same() {
        let toml = r#"
            read = "bimodal:0.995:300us/5ms"
            write = "exp:1ms"
            servers = 8
            direct_io = true
            capacity = "1G"
            fault = ["write:enospc:bytes=64M", "any:stall=500ms:time=2s"]
        "#;
        let words = Script::from_words([
            "read=bimodal:0.995:300us/5ms",
            "write=exp:1ms",
            "servers=8",
            "direct_io=on",
            "capacity=1G",
            "fault=write:enospc:bytes=64M",
            "fault=any:stall=500ms:time=2s",
        ]);
        assert_eq!(Script::from_toml(toml).unwrap(), words.unwrap());
    }

    #[test]
    fn unknown_keys_and_bad_values_are_named() {
        let said = |word: &str| Script::from_words([word]).unwrap_err().to_string();
        assert!(said("raed=const:1ms").contains("raed"));
        assert!(said("servers=many").starts_with("servers: "));
        assert!(said("fault=read:boom").contains("boom"));
        assert!(said("oops").contains("oops"));
        assert!(said("fault=read:short").contains("direct_io"));
        assert!(Script::from_words(["fault=read:short", "direct_io=on"]).is_ok());
        assert!(Script::from_toml("read = [1]").is_err());
        assert!(Script::from_toml("read = 1.5").is_err());
        assert!(Script::from_toml("= 1").is_err());
    }
}
