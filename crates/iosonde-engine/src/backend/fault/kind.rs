//! The kinds of faults, when they strike, and their syntax.

use std::fmt;
use std::str::FromStr;

use iosonde_model::plan::IoKind;
use iosonde_model::plan::chance::Chance;
use iosonde_model::units::count;

iosonde_model::words! {
    /// A kind of fault.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Fault {
        /// A write is acknowledged and not done.
        Drop => "drop",
        /// A write is acknowledged and done only after the next sync: once its place has been read
        /// twice or written again, or after 1024 completions.
        Delay => "delay",
        /// Only the first sectors of a write are done: this many, or a number drawn from the seed.
        Tear(Option<u32> = None) => "tear",
        /// This many bits, 1 to 8, of one block of a write are flipped.
        Flip(u8 = 1) => "flip",
        /// One byte of a write is changed.
        Byte => "byte",
        /// One sector of a write arrives as zeros.
        Zero => "zero",
        /// One aligned run of 32 to 256 bytes of a write arrives as garbage.
        Corrupt => "corrupt",
        /// A later write to the same place stores what an earlier one wrote.
        Stale => "stale",
        /// A write goes to another place.
        Misdirect => "misdirect",
        /// A write is done at its place, and at another one too.
        Duplicate => "duplicate",
        /// Two writes of equal length exchange their places.
        Swap => "swap",
        /// Two sectors of one write exchange their places.
        SwapSectors => "swap-sectors",
        /// One sector of a write also overwrites another sector of it.
        CopySector => "copy-sector",
        /// Each sector of a write arrives at the place of the next; the first also stays.
        ShiftSectors => "shift-sectors",
        /// A write is acknowledged, and done only after a sync and a later write to the same place:
        /// the older data wins.
        Reorder => "reorder",
        /// A write stores a valid-looking block that was never written.
        Phantom => "phantom",
        /// A read returns the bytes of another place.
        ReadMisdirect => "read-misdirect",
        /// A read returns one flipped bit; the stored data is correct.
        ReadFlip => "read-flip",
        /// A sync fails with EIO, and is not done.
        SyncEio => "sync-eio",
        /// A sync is acknowledged, and not done.
        SyncLie => "sync-lie",
        /// A write fails with EIO, and is not done.
        WriteEio => "write-eio",
        /// A read fails with EIO.
        ReadEio => "read-eio",
        /// Half of a write is done, and reported as a short write.
        Short => "short",
        /// A write fails with ENOSPC, and is not done.
        Enospc => "enospc",
    }
}

impl Fault {
    /// Kind of requests that it strikes.
    pub fn way(self) -> IoKind {
        match self {
            Fault::ReadMisdirect | Fault::ReadFlip | Fault::ReadEio => IoKind::Read,
            Fault::SyncEio | Fault::SyncLie => IoKind::Sync,
            _ => IoKind::Write,
        }
    }

    /// The same kind with a value parsed from text.
    fn with_value(self, found: &str) -> Result<Fault, FaultError> {
        let fail =
            |expected| FaultError::Value { word: self.word(), found: found.into(), expected };
        match self {
            Fault::Tear(_) => match found.parse() {
                Ok(sectors) if sectors >= 1 => Ok(Fault::Tear(Some(sectors))),
                _ => Err(fail("a number of sectors from 1")),
            },
            Fault::Flip(_) => match found.parse() {
                Ok(bits @ 1..=8) => Ok(Fault::Flip(bits)),
                _ => Err(fail("a number of bits from 1 to 8")),
            },
            _ => Err(fail("no value")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Fault::Tear(Some(sectors)) => write!(f, "={sectors}"),
            Fault::Flip(bits) => write!(f, "={bits}"),
            _ => Ok(()),
        }
    }
}

/// Which of the eligible requests a fault strikes, counted from 1 in each queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum When {
    /// One of the first eight, drawn from the seed.
    Drawn,
    /// Only this one.
    Nth(u64),
    /// Every n-th; n is at least 1.
    Every(u64),
    All,
    /// All but the first n.
    After(u64),
}

/// Last request that a drawn strike can fall on.
const DRAWN_MAX: u64 = 8;

impl When {
    /// Replaces [`When::Drawn`] by a drawn number.
    pub(super) fn drawn(self, chance: &mut Chance) -> When {
        match self {
            When::Drawn => When::Nth(1 + chance.below(DRAWN_MAX)),
            given => given,
        }
    }

    /// Whether the request of this number is struck.
    #[inline(always)]
    pub(super) fn strikes(self, number: u64) -> bool {
        match self {
            When::Drawn => false,
            When::Nth(only) => number == only,
            When::Every(every) => number.is_multiple_of(every),
            When::All => true,
            When::After(first) => number > first,
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Drawn => Ok(()),
            When::Nth(number) => write!(f, ":nth={number}"),
            When::Every(number) => write!(f, ":every={number}"),
            When::All => f.write_str(":all"),
            When::After(number) => write!(f, ":after={number}"),
        }
    }
}

/// One fault and when it strikes: `KIND[=VALUE][:WHEN]`, such as `tear=3:nth=5`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Injection {
    pub fault: Fault,
    pub when: When,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.fault, self.when)
    }
}

/// Why the description of a fault is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// An unknown kind.
    #[error("found the fault `{found}`, expected one of {accepted}{}", meant(*nearest))]
    Kind {
        found: String,
        accepted: String,
        /// The closest known word.
        nearest: Option<&'static str>,
    },
    /// A value that the kind does not take.
    #[error("the fault `{word}`: found the value `{found}`, expected {expected}")]
    Value { word: &'static str, found: String, expected: &'static str },
    /// An invalid part after the colon.
    #[error(
        "found `{found}` after the fault's colon, expected nth=N, every=N, after=N (N from 1) or \
         all{}", meant(*nearest)
    )]
    When {
        found: String,
        /// The closest known word.
        nearest: Option<&'static str>,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (text, None),
        };
        let words = || Fault::ALL.iter().map(|fault| fault.word());
        let Some(fault) = Fault::parse(word) else {
            return Err(FaultError::Kind {
                found: word.into(),
                accepted: words().collect::<Vec<_>>().join(", "),
                nearest: count::nearest(word, words()),
            });
        };
        value.map_or(Ok(fault), |value| fault.with_value(value))
    }
}

impl FromStr for When {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<When, FaultError> {
        let (word, number) = match text.split_once('=') {
            Some((word, number)) => (word, number.parse().ok().filter(|number| *number >= 1)),
            None => (text, None),
        };
        match (word, number) {
            ("nth", Some(number)) => Ok(When::Nth(number)),
            ("every", Some(number)) => Ok(When::Every(number)),
            ("after", Some(number)) => Ok(When::After(number)),
            ("all", None) if text == "all" => Ok(When::All),
            _ => {
                let known = ["nth", "every", "after", "all"];
                let nearest = count::nearest(word, known).filter(|near| *near != word);
                Err(FaultError::When { found: text.into(), nearest })
            }
        }
    }
}

impl FromStr for Injection {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Injection, FaultError> {
        let (fault, when) = match text.split_once(':') {
            Some((fault, when)) => (fault, when.parse()?),
            None => (text, When::Drawn),
        };
        Ok(Injection { fault: fault.parse()?, when })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_said_is_understood_again() {
        let whens = [When::Drawn, When::Nth(3), When::Every(7), When::All, When::After(9)];
        let more = [Fault::Tear(Some(5)), Fault::Flip(8)];
        for fault in Fault::ALL.into_iter().chain(more) {
            for when in whens {
                let injection = Injection { fault, when };
                assert_eq!(injection.to_string().parse(), Ok(injection), "{injection}");
            }
            assert_eq!(fault.word().parse::<Injection>().unwrap().fault.word(), fault.word());
        }
        let typed: Injection = "tear=3:nth=5".parse().unwrap();
        assert_eq!(typed, Injection { fault: Fault::Tear(Some(3)), when: When::Nth(5) });
        assert_eq!("flip".parse(), Ok(Fault::Flip(1)));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is() {
        let refused = |text: &str| text.parse::<Injection>().unwrap_err().to_string();
        assert!(refused("dorp").contains("did you mean `drop`?"), "{}", refused("dorp"));
        assert!(refused("read-mis").contains("read-misdirect, read-flip"));
        assert!(refused("drop:nht=3").contains("did you mean `nth`?"));
        assert!(refused("flip=9").contains("from 1 to 8"));
        for text in [
            "",
            ":all",
            "Drop",
            " drop",
            "drop=1",
            "drop=",
            "flip=0",
            "flip=",
            "flip=-1",
            "tear=0",
            "tear=x",
            "drop:",
            "drop:nth",
            "drop:nth=",
            "drop:nth=0",
            "drop:nth=-1",
            "drop:every=0",
            "drop:all=1",
            "drop:all=",
            "drop:after=0",
            "drop:all:all",
            "drop:nth=1:all",
        ] {
            assert!(text.parse::<Injection>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_strike_falls_where_it_was_asked() {
        let struck = |when: When| (1..=9).filter(|n| when.strikes(*n)).collect::<Vec<u64>>();
        assert_eq!(struck(When::Nth(3)), [3]);
        assert_eq!(struck(When::Every(4)), [4, 8]);
        assert_eq!(struck(When::After(7)), [8, 9]);
        assert_eq!(struck(When::All).len(), 9);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let When::Nth(number) = When::Drawn.drawn(&mut Chance::new(seed)) else { panic!() };
            seen.insert(number);
        }
        assert_eq!(seen, (1..=DRAWN_MAX).collect());
    }
}
