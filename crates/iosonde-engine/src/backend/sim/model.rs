//! Description of a simulated device: `servers=4,read=100us,write=exp:1ms,rate=5000,burst=100`.

use std::collections::BTreeMap;

use super::Device;
use super::bucket::Bucket;
use super::cache::WriteCache;
use super::errors::{Fault, Faulty};
use super::flash::{Flash, Geometry, PAGE_BYTES, SharedFlash};
use super::neighbour::Neighbour;
use super::pace::{Paced, Runs};
use super::platter::{Platter, Turning};
use super::servers::{Latency, Servers};
use super::slow::Slow;
use super::stall::Stalling;
use iosonde_model::units::{UnitError, bytes, count, duration};

/// A description from which any number of equal devices can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    words: BTreeMap<String, String>,
    /// Size of the device, bytes.
    pub bytes: u64,
    flash: SharedFlash,
    runs: Runs,
}

/// Why a description is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A part without `=`.
    #[error("found `{0}` in the simulated device, expected key=value, such as read=100us")]
    NotAPair(String),
    /// An unknown key.
    #[error("found the key `{found}` in the simulated device, expected one of {accepted}{hint}")]
    Key {
        found: String,
        accepted: String,
        /// The closest known key.
        hint: String,
    },
    /// A key given twice.
    #[error("found the key `{0}` twice in the simulated device, expected it once")]
    Twice(String),
    /// A key that has no effect without another.
    #[error(
        "found `{found}` without `{needs}` in the simulated device: it has no effect; add {needs}=…"
    )]
    Ineffective {
        found: &'static str,
        /// The key that it needs.
        needs: &'static str,
    },
    /// A value that is not understood.
    #[error("simulated device, {key}: {error}")]
    Value { key: &'static str, error: UnitError },
}

/// Every key, with its default.
const KEYS: [(&str, &str); 30] = [
    ("servers", "1"),
    ("read", "100us"),
    ("write", "100us"),
    ("size", "1g"),
    ("rate", "0"),
    ("burst", "1"),
    ("cache", "0"),
    ("cache-latency", "10us"),
    ("flash", "0"),
    ("flash-block", "1M"),
    ("program", "5us"),
    ("slc", "0"),
    ("slc-program", "1us"),
    ("rpm", "0"),
    ("seek", "8ms"),
    ("track", "1M"),
    ("inner-track", "0"),
    ("error-every", "0"),
    ("error-after", "0"),
    ("errno", "5"),
    ("short-every", "0"),
    ("slow-every", "0"),
    ("slow-for", "0"),
    ("slow-by", "10"),
    ("stall-every", "0"),
    ("stall-for", "0"),
    ("neighbour", "0"),
    ("run-noise", "0"),
    ("run-drift", "0"),
    ("steal", "0"),
];

/// Period of the simulated CPU steal, ns.
const STEAL_EVERY_NS: u64 = 10_000_000;

/// Largest device whose flash is modelled, bytes.
const LARGEST_FLASH_BYTES: u64 = 64 << 30;

/// Keys that have an effect only together with one of the listed keys.
const NEEDS: &[(&str, &[&str])] = &[
    ("burst", &["rate"]),
    ("cache-latency", &["cache"]),
    ("errno", &["error-every"]),
    ("error-after", &["error-every", "short-every"]),
    ("slow-by", &["slow-every"]),
    ("slow-every", &["slow-for"]),
    ("slow-for", &["slow-every"]),
    ("stall-every", &["stall-for"]),
    ("stall-for", &["stall-every"]),
    ("seek", &["rpm"]),
    ("track", &["rpm"]),
    ("inner-track", &["rpm"]),
    ("flash-block", &["flash"]),
    ("program", &["flash"]),
    ("slc", &["flash"]),
    ("slc-program", &["slc"]),
];

/// Longest service time of a request.
const MAX_SERVICE_NS: u64 = 24 * 3_600_000_000_000;

impl Model {
    /// Reads a description; absent keys have their defaults.
    ///
    /// # Errors
    /// On an unknown key or a value that is not understood.
    pub fn parse(text: &str) -> Result<Model, ModelError> {
        let mut words: BTreeMap<String, String> =
            KEYS.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let mut given: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| ModelError::NotAPair(part.into()))?;
            let keys = KEYS.iter().map(|(key, _)| *key);
            match words.get_mut(key.trim()) {
                Some(_) if given.iter().any(|known| known == key.trim()) => {
                    return Err(ModelError::Twice(key.trim().into()));
                }
                Some(slot) => {
                    *slot = value.trim().into();
                    given.push(key.trim().into());
                }
                None => {
                    return Err(ModelError::Key {
                        found: key.into(),
                        accepted: keys.clone().collect::<Vec<_>>().join(", "),
                        hint: count::did_you_mean(key, keys),
                    });
                }
            }
        }
        let mut model =
            Model { words, bytes: 0, flash: SharedFlash::default(), runs: Runs::default() };
        model.bytes = model.size("size")?;
        // Reads everything once, so that `build` cannot fail on a bad value later.
        model.try_build(0, 0)?;
        model.is_effective(&given)?;
        Ok(model)
    }

    /// Checks that each given key has an effect.
    fn is_effective(&self, given: &[String]) -> Result<(), ModelError> {
        for (found, needs) in NEEDS.iter().filter(|(key, _)| given.iter().any(|one| one == key)) {
            let is_zero = |key: &&str| !self.word(key).contains(|c: char| ('1'..='9').contains(&c));
            // A key that is itself 0 needs nothing.
            if !is_zero(found) && needs.iter().all(is_zero) {
                return Err(ModelError::Ineffective { found, needs: needs[0] });
            }
        }
        Ok(())
    }

    /// A new device; the seed fixes its draws.
    pub fn build(&self, seed: u64) -> Box<dyn Device> {
        match self.try_build(seed, self.runs.next()) {
            Ok(device) => device,
            Err(error) => unreachable!("checked by parse: {error}"),
        }
    }

    /// Builds the models, innermost first; a new model adds its lines here.
    fn try_build(&self, seed: u64, run: u64) -> Result<Box<dyn Device>, ModelError> {
        let servers = self.between("servers", 1, 65_536, "a number from 1 to 65,536")? as u32;
        let (read, write) = (self.latency("read")?, self.latency("write")?);
        let mut device: Box<dyn Device> = Box::new(Servers::new(servers, read, write, seed));
        if let Some(disk) = self.turning()? {
            device = Box::new(Platter::new(device, disk));
        }
        let cache_bytes = self.size("cache")?;
        let cache_ns = self.some_time("cache-latency", self.word("cache-latency"))?;
        if cache_bytes > 0 {
            device = Box::new(WriteCache::new(device, cache_bytes, cache_ns));
        }
        if let Some(geometry) = self.geometry()? {
            device = Box::new(Flash::new(device, geometry, self.flash.clone()));
        }
        let most = 1_000_000_000;
        let neighbour = self.between("neighbour", 0, most, "at most 1,000,000,000 per second")?;
        if neighbour > 0 {
            device = Box::new(Neighbour::new(device, neighbour, seed));
        }
        let rate = self.between("rate", 0, most, "at most 1,000,000,000 per second")?;
        let burst = self.between("burst", 1, u64::MAX, "a number from 1")?;
        if rate > 0 {
            device = Box::new(Bucket::new(device, rate, burst));
        }
        let (every_ns, for_ns) = self.period(("slow-every", "slow-for"))?;
        let factor = self.between("slow-by", 2, 1_000_000, "a factor from 2 to 1,000,000")?;
        if every_ns > 0 {
            device = Box::new(Slow::new(device, every_ns, for_ns, factor));
        }
        let (every_ns, for_ns) = self.period(("stall-every", "stall-for"))?;
        if every_ns > 0 {
            device = Box::new(Stalling::new(device, every_ns, for_ns));
        }
        let noise = self.between("run-noise", 0, 100, "a percentage from 0 to 100")?;
        let drift = self.between("run-drift", 0, 99, "a percentage from 0 to 99")?;
        if noise > 0 || drift > 0 {
            device = Box::new(Paced::new(device, (noise, drift), run, seed));
        }
        let steal = self.between("steal", 0, 99, "a percentage from 0 to 99")?;
        if steal > 0 {
            let stolen_ns = STEAL_EVERY_NS / 100 * steal;
            device = Box::new(Stalling::new(device, STEAL_EVERY_NS, stolen_ns));
        }
        let (errno, after) = (self.errno()?, self.number("error-after")?);
        for (key, fault) in [("error-every", Fault::Errno(errno)), ("short-every", Fault::Short)] {
            let key: &'static str = key;
            let every = self.number(key)?;
            if every > 0 {
                device = Box::new(Faulty::new(device, fault, every, after));
            }
        }
        Ok(device)
    }

    /// The flash that all devices of this description share.
    pub fn flash(&self) -> &SharedFlash {
        &self.flash
    }

    /// Whether earlier writes affect later ones.
    pub fn has_flash(&self) -> bool {
        self.word("flash") != "0"
    }

    /// Whether the device is a rotating disk.
    pub fn turns(&self) -> bool {
        self.word("rpm") != "0"
    }

    /// Makes the device new.
    pub fn forget(&self) {
        self.flash.forget();
        self.runs.forget();
    }

    /// Lets idle time pass.
    pub fn rest(&self, ns: u64) {
        self.flash.rest(ns);
    }

    fn geometry(&self) -> Result<Option<Geometry>, ModelError> {
        let spare_percent = self.number("flash")?;
        if spare_percent == 0 {
            return Ok(None);
        }
        let wrong = |key, expected| Err(self.wrong(key, expected));
        if spare_percent > 1000 {
            return wrong("flash", "spare flash of 1 to 1000 percent");
        }
        let (bytes, block_bytes) = (self.size("size")?, self.size("flash-block")?);
        if bytes > LARGEST_FLASH_BYTES {
            return wrong("size", "at most 64 GiB with flash");
        }
        let pages = block_bytes / PAGE_BYTES;
        if !(2..=65_536).contains(&pages) || block_bytes % PAGE_BYTES != 0 {
            let expected = "a multiple of 4 KiB from 8 KiB to 256 MiB";
            return wrong("flash-block", expected);
        }
        Ok(Some(Geometry {
            bytes,
            spare_percent,
            block_pages: pages as u32,
            program_ns: self.some_time("program", self.word("program"))?,
            slc_bytes: self.size("slc")?,
            slc_program_ns: self.some_time("slc-program", self.word("slc-program"))?,
        }))
    }

    fn turning(&self) -> Result<Option<Turning>, ModelError> {
        let rpm = self.between("rpm", 0, 100_000, "at most 100,000 turns per minute")?;
        if rpm == 0 {
            return Ok(None);
        }
        let track = self.track("track")?;
        let inner = match self.word("inner-track") {
            "0" => track,
            _ => self.track("inner-track")?,
        };
        Ok(Some(Turning {
            bytes: self.size("size")?,
            turn_ns: 60e9 / rpm as f64,
            seek_ns: self.time("seek")? as f64,
            track_bytes: track as f64,
            inner_track_bytes: inner as f64,
        }))
    }

    fn word(&self, key: &str) -> &str {
        self.words.get(key).map_or("", String::as_str)
    }

    fn wrong(&self, key: &'static str, expected: &'static str) -> ModelError {
        let found = self.word(key).into();
        ModelError::Value { key, error: UnitError::Malformed { found, expected } }
    }

    fn number(&self, key: &'static str) -> Result<u64, ModelError> {
        self.word(key).parse().map_err(|_error| self.wrong(key, "a whole number without a unit"))
    }

    fn between(
        &self,
        key: &'static str,
        least: u64,
        most: u64,
        expected: &'static str,
    ) -> Result<u64, ModelError> {
        let number = self.number(key)?;
        if (least..=most).contains(&number) { Ok(number) } else { Err(self.wrong(key, expected)) }
    }

    fn size(&self, key: &'static str) -> Result<u64, ModelError> {
        bytes::parse(self.word(key)).map_err(|error| ModelError::Value { key, error })
    }

    /// Period and length of a recurring event, ns. The length is at most the period; 0 is never.
    fn period(
        &self,
        (every, lasts): (&'static str, &'static str),
    ) -> Result<(u64, u64), ModelError> {
        let (every_ns, for_ns) = (self.time(every)?, self.time(lasts)?);
        if every_ns > 0 && for_ns > every_ns {
            return Err(self.wrong(lasts, "no more time than from one beginning to the next"));
        }
        Ok((every_ns, for_ns))
    }

    fn track(&self, key: &'static str) -> Result<u64, ModelError> {
        match self.size(key)? {
            bytes @ 4096..=0x4000_0000 => Ok(bytes),
            _ => Err(self.wrong(key, "a track of 4 KiB to 1 GiB")),
        }
    }

    fn time(&self, key: &'static str) -> Result<u64, ModelError> {
        duration::parse(self.word(key), 1).map_err(|error| ModelError::Value { key, error })
    }

    /// A service time. With 0, virtual time would stand still and a run would never end.
    fn some_time(&self, key: &'static str, text: &str) -> Result<u64, ModelError> {
        let fail = |error| ModelError::Value { key, error };
        match duration::parse(text, 1).map_err(fail)? {
            ns @ 1..=MAX_SERVICE_NS => Ok(ns),
            _ => Err(fail(UnitError::Malformed {
                found: text.into(),
                expected: "a service time from 1 ns to 24 h",
            })),
        }
    }

    /// The kernel's numbers end at 4095.
    fn errno(&self) -> Result<i32, ModelError> {
        match self.number("errno")? {
            errno @ 1..=4095 => Ok(errno as i32),
            _ => Err(ModelError::Value {
                key: "errno",
                error: UnitError::Malformed {
                    found: self.word("errno").into(),
                    expected: "an error number from 1 to 4095",
                },
            }),
        }
    }

    /// `100us`, `exp:100us`, or `bimodal:0.995:300us:5ms`.
    fn latency(&self, key: &'static str) -> Result<Latency, ModelError> {
        let fail = |error| ModelError::Value { key, error };
        let time = |text: &str| self.some_time(key, text);
        let parts: Vec<&str> = self.word(key).split(':').collect();
        match parts.as_slice() {
            [constant] => Ok(Latency::Constant(time(constant)?)),
            ["exp", mean] => Ok(Latency::Exponential(time(mean)?)),
            ["bimodal", share, fast, slow] => match share.parse::<f64>() {
                Ok(value) if (0.0..=1.0).contains(&value) => {
                    Ok(Latency::Bimodal(value, time(fast)?, time(slow)?))
                }
                _ => Err(fail(UnitError::Malformed {
                    found: share.to_string(),
                    expected: "a share from 0 to 1",
                })),
            },
            _ => Err(fail(UnitError::Malformed {
                found: self.word(key).into(),
                expected: "a time, exp:TIME, or bimodal:SHARE:TIME:TIME",
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::backend::Transfer;
    use iosonde_model::plan::IoKind;

    fn read(bytes: u32) -> Transfer {
        Transfer { way: IoKind::Read, target: 0, offset: 0, skip: 0, bytes }
    }

    #[test]
    fn descriptions_are_strict() {
        assert!(Model::parse("").is_ok());
        assert!(Model::parse("servers=4, read=exp:100us").is_ok());
        for text in ["nonsense", "sever=4", "read=fast", "read=bimodal:2:1us:2us", "rate=-1"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
        // Virtual time would stand still, or run over.
        for text in ["read=0", "write=exp:0ns", "read=bimodal:0.5:0:1us", "read=25h", "errno=0"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
        assert!(Model::parse("cache=1g,cache-latency=0").is_err());
        for text in ["servers=0", "rate=10,burst=0", "slow-every=1s,slow-for=1s,slow-by=0"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
        for text in ["rate=2.7", "run-noise=0.9", "servers=1.9", "error-every=0.4", "cache=0.5"] {
            assert!(Model::parse(text).is_err(), "{text}: nothing is rounded in silence");
        }
        for text in ["rate=5k", "slow-every=1s,slow-for=2s", "stall-every=1s,stall-for=2s"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
        assert!(Model::parse("slow-every=1s,slow-for=1s").is_ok());
        let error = Model::parse("sever=4").unwrap_err().to_string();
        assert!(error.contains("`servers`"), "{error}");
    }

    #[test]
    fn keys_without_effect_are_refused() {
        for text in
            ["burst=5", "errno=5", "stall-every=1s", "slow-for=1s", "slc=64M", "program=5us"]
        {
            let error = Model::parse(text).unwrap_err().to_string();
            assert!(error.contains("has no effect"), "{text}: {error}");
        }
        assert!(Model::parse("rate=0,burst=5").is_err());
        assert!(Model::parse("stall-every=0,short-every=3,error-after=1").is_ok());
        assert!(Model::parse("read=1ms,read=2ms").is_err());
    }

    #[test]
    fn a_full_bucket_bursts_and_then_drips() {
        let mut device = Model::parse("read=1ns,servers=1000,rate=1000,burst=10").unwrap().build(1);
        let done: Vec<u64> = (0..20).map(|_| device.serve(0, &read(512)).done_ns).collect();
        assert_eq!(done[..10], [1; 10]);
        assert_eq!(done[10], 1_000_001);
        assert_eq!(done[19], 10_000_001);
    }

    #[test]
    fn servers_queue_first_come_first_served() {
        let mut device = Model::parse("read=1ms,servers=2").unwrap().build(1);
        let done: Vec<u64> = (0..4).map(|_| device.serve(0, &read(512)).done_ns).collect();
        assert_eq!(done, [1_000_000, 1_000_000, 2_000_000, 2_000_000]);
    }

    #[test]
    fn chosen_requests_fail() {
        let mut device = Model::parse("error-every=3,error-after=2,errno=5").unwrap().build(1);
        let results: Vec<i32> = (0..8).map(|_| device.serve(0, &read(512)).result).collect();
        assert_eq!(results, [512, 512, 512, 512, -5, 512, 512, -5]);
    }
}
