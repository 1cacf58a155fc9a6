//! Replay speed of a load.

use super::{Pace, Rate, Role, Think, Workload};

/// Speed relative to the workload's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This factor: rates are multiplied, and pauses, phases and recorded arrival times divided.
    Times(f64),
    /// As fast as the storage completes: a closed loop at each role's depth, without pauses.
    Max,
}

/// Smallest and largest factor.
const FACTORS: (f64, f64) = (0.001, 1000.0);

/// Why a speed was not understood, or does not apply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpeedError {
    /// The text is not a speed.
    #[error("found `{found}`, expected a factor from 0.001x to 1000x such as 2x or 0.5x, or max")]
    Malformed { found: String },
    /// Nothing in the workload depends on time.
    #[error(
        "has no effect: no role of `{workload}` has a rate, recorded arrivals, a pause or phases, \
         so it already runs as fast as possible; give its roles a rate, or omit the option"
    )]
    NoPace { workload: String },
}

impl Speed {
    /// Parses `2x`, `0.5x`, `10` or `max`.
    ///
    /// # Errors
    /// If the text is not a speed, or the factor is out of range.
    pub fn parse(text: &str) -> Result<Speed, SpeedError> {
        let malformed = || SpeedError::Malformed { found: text.into() };
        let word = text.trim();
        if word.eq_ignore_ascii_case("max") {
            return Ok(Speed::Max);
        }
        let digits = word.strip_suffix(['x', 'X']).unwrap_or(word);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let factor: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(malformed)?;
        if (FACTORS.0..=FACTORS.1).contains(&factor) {
            Ok(Speed::Times(factor))
        } else {
            Err(malformed())
        }
    }

    /// Description for the plan.
    pub fn words(self) -> String {
        match self {
            Speed::Times(factor) => {
                format!("replayed at {factor}x the workload's rates")
            }
            Speed::Max => "replayed as fast as possible: rates, pauses and idle phases \
                           of the workload are left out"
                .into(),
        }
    }
}

impl Workload {
    /// The same load at another speed.
    ///
    /// # Errors
    /// If nothing in the load depends on time.
    pub fn at_speed(mut self, speed: Speed) -> Result<Workload, SpeedError> {
        if !self.roles.iter().any(goes_by_a_clock) {
            return Err(SpeedError::NoPace { workload: self.name });
        }
        for role in &mut self.roles {
            match speed {
                Speed::Times(factor) => scale(role, factor),
                Speed::Max => release(role),
            }
        }
        Ok(self)
    }
}

fn goes_by_a_clock(role: &Role) -> bool {
    role.pace != Pace::Closed || role.think.ns > 0 || !role.phases.is_empty()
}

fn scale(role: &mut Role, factor: f64) {
    // A time above 0 stays above 0.
    let divided = |ns: u64| ((ns as f64 / factor).round() as u64).max(u64::from(ns > 0));
    match &mut role.pace {
        Pace::Closed => {}
        Pace::Rate { rate: Rate::Ops(rate) | Rate::Bytes(rate), .. } => *rate *= factor,
        Pace::Each { read, other, .. } => {
            for Rate::Ops(rate) | Rate::Bytes(rate) in [read, other] {
                *rate *= factor;
            }
        }
        Pace::Recorded(times) => times.iter_mut().for_each(|ns| *ns = divided(*ns)),
    }
    role.think.ns = divided(role.think.ns);
    role.phases.iter_mut().for_each(|phase| phase.ns = divided(phase.ns));
}

/// Removes all pacing. Of a phase, only its mix and its length remain.
fn release(role: &mut Role) {
    role.set_pace(Pace::Closed);
    role.think = Think::default();
    role.phases.retain(|phase| phase.rate_percent > 0.0);
    role.phases.iter_mut().for_each(|phase| phase.rate_percent = 100.0);
    if role.phases.iter().all(|phase| phase.read_percent.is_none()) {
        role.phases.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::spec::{Arrivals, Bursts, Phase, Rw, Sync, catalogue};

    #[test]
    fn without_a_clock_the_syncs_of_bursts_are_as_many_per_write() {
        let bursts = Bursts {
            requests: vec![(1, 75.0), (21, 25.0)],
            within: vec![(2_000, 100.0)],
            between: vec![(10_000_000, 100.0)],
        };
        let every_writes = |arrivals: Arrivals, every_writes: u64| {
            let pace = Pace::Rate { rate: Rate::Ops(100.0), arrivals };
            let sync = Sync { every_writes, ..Sync::default() };
            let mut role = Role { pace, sync, ..Role::new("log", Rw::RandWrite) };
            release(&mut role);
            role.sync.every_writes
        };
        // Six writes in a burst on average.
        assert_eq!(every_writes(Arrivals::Bursts(bursts.clone()), 2), 12);
        assert_eq!(every_writes(Arrivals::Bursts(bursts), 0), 0);
        assert_eq!(every_writes(Arrivals::Poisson, 2), 2);
    }

    #[test]
    fn factors_and_the_word_are_understood() {
        for (text, speed) in [
            ("2x", Speed::Times(2.0)),
            ("0.5X", Speed::Times(0.5)),
            ("10", Speed::Times(10.0)),
            ("max", Speed::Max),
        ] {
            assert_eq!(Speed::parse(text), Ok(speed));
        }
        for text in ["", "x", "0x", "-1x", "2y", "1e3", "10000x", "inf", "fast", "0.0001"] {
            assert!(Speed::parse(text).is_err(), "{text}");
        }
    }

    fn paced() -> Workload {
        let phase = |ns, rate_percent| Phase { ns, rate_percent, ..Phase::default() };
        let mut workload = catalogue::workload("kv-store").unwrap();
        workload.roles[0].pace = Pace::Rate { rate: Rate::Ops(100.0), arrivals: Arrivals::Poisson };
        workload.roles[0].phases = vec![phase(4_000, 150.0), phase(2_000, 0.0)];
        let thinks = Think { ns: 500, every_ops: 3, ..Think::default() };
        workload.roles.push(Role { think: thinks, ..Role::new("thinks", Rw::RandRead) });
        let recorded = Pace::Recorded(vec![0, 100, 1]);
        workload.roles.push(Role { pace: recorded, ..Role::new("recorded", Rw::Write) });
        workload
    }

    #[test]
    fn twice_the_speed_is_twice_the_rate_and_half_the_time() {
        let fast = paced().at_speed(Speed::Times(2.0)).unwrap();
        let rate = Pace::Rate { rate: Rate::Ops(200.0), arrivals: Arrivals::Poisson };
        assert_eq!(fast.roles[0].pace, rate);
        let phases: Vec<(u64, f64)> =
            fast.roles[0].phases.iter().map(|phase| (phase.ns, phase.rate_percent)).collect();
        assert_eq!(phases, [(2_000, 150.0), (1_000, 0.0)]);
        assert_eq!(fast.roles[1], paced().roles[1], "a closed loop has no clock");
        assert_eq!(fast.roles[2].think, Think { ns: 250, every_ops: 3, ..Think::default() });
        assert_eq!(fast.roles[3].pace, Pace::Recorded(vec![0, 50, 1]));
        assert_eq!(paced().at_speed(Speed::Times(1.0)).unwrap(), paced());
    }

    #[test]
    fn at_most_there_is_no_clock_left() {
        let free = paced().at_speed(Speed::Max).unwrap();
        assert!(!free.roles.iter().any(goes_by_a_clock));
        let mut mixed = paced();
        mixed.roles[0].phases[0].read_percent = Some(30);
        let phases = mixed.at_speed(Speed::Max).unwrap().roles[0].phases.clone();
        assert_eq!(
            phases,
            [Phase { ns: 4_000, rate_percent: 100.0, read_percent: Some(30), ..Phase::default() }]
        );
    }

    #[test]
    fn a_speed_without_effect_is_refused() {
        let closed = catalogue::workload("database").unwrap();
        for speed in [Speed::Times(2.0), Speed::Max] {
            let error = closed.clone().at_speed(speed).unwrap_err().to_string();
            assert!(error.contains("`database`") && error.contains("no effect"), "{error}");
        }
    }
}
