//! I/O priorities of single requests, which override that of their thread.

use serde::{Deserialize, Serialize};

use crate::units;

/// I/O priorities of reads and writes; other requests have the priority of their thread.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Priorities {
    pub read: Vec<Priority>,
    pub write: Vec<Priority>,
}

impl Priorities {
    /// Whether no request has a priority of its own.
    pub fn is_none(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Priority> {
        self.read.iter().chain(&self.write)
    }
}

/// A priority and the requests that have it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Priority {
    /// Share of the requests of its direction and size that have it, percent.
    pub percent: u8,
    /// Size of the requests that may have it, bytes; 0 for any size.
    #[serde(default, deserialize_with = "units::bytes::deserialize")]
    pub bytes: u64,
    /// Class of ioprio_set(2): 1 is real-time, 2 best effort, 3 idle.
    pub class: u8,
    /// Level within the class, 0 (highest) to 7.
    pub level: u8,
    /// Hint for the device, such as the index of a command duration limit; 0 is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hint: u16,
}

fn is_zero(hint: &u16) -> bool {
    *hint == 0
}

const CLASS_SHIFT: u32 = 13;
const HINT_SHIFT: u32 = 3;
pub const HINT_MOST: u16 = 1023;

impl Priority {
    /// The kernel's I/O priority value of class, hint and level.
    pub fn number(&self) -> u16 {
        u16::from(self.class) << CLASS_SHIFT | self.hint << HINT_SHIFT | u16::from(self.level)
    }

    /// Class, level and hint of the kernel's I/O priority value.
    pub fn parts(number: u16) -> (u8, u8, u16) {
        let hint = number >> HINT_SHIFT & HINT_MOST;
        ((number >> CLASS_SHIFT) as u8, (number & 7) as u8, hint)
    }

    /// Whether a request of this size may have it.
    pub fn suits(&self, bytes: u64) -> bool {
        self.bytes == 0 || self.bytes == bytes
    }

    /// Description of an invalid field.
    fn fault(&self) -> Option<String> {
        let Priority { percent, class, level, hint, .. } = self;
        let sound = (1..=100).contains(percent)
            && (1..=3).contains(class)
            && *level <= 7
            && *hint <= HINT_MOST;
        (!sound).then(|| {
            format!(
                "an I/O priority of class {class}, level {level} and hint {hint} for {percent} % \
                 of the requests, expected class 1 to 3, level 0 to 7, hint 0 to {HINT_MOST} and \
                 1 to 100 %"
            )
        })
    }
}

impl Priorities {
    /// Description of an invalid priority, or of shares above 100 %.
    pub fn fault(&self) -> Option<String> {
        if let Some(fault) = self.all().find_map(Priority::fault) {
            return Some(fault);
        }
        let of = |list: &[Priority], bytes: u64| -> u32 {
            let suitable = list.iter().filter(|priority| priority.suits(bytes));
            suitable.map(|priority| u32::from(priority.percent)).sum()
        };
        let too_many = |list: &[Priority]| {
            let sizes = list.iter().map(|priority| priority.bytes);
            sizes.map(|bytes| of(list, bytes)).find(|sum| *sum > 100)
        };
        [&self.read, &self.write].into_iter().find_map(|list| too_many(list)).map(|sum| {
            format!("the shares of its I/O priorities add up to {sum} %, expected 100 % at most")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_a_size() {
        let of = |percent, bytes| Priority { percent, bytes, class: 1, level: 0, hint: 0 };
        let read = |read: Vec<Priority>| Priorities { read, ..Priorities::default() }.fault();
        assert_eq!(read(vec![of(60, 4096), of(60, 8192)]), None);
        assert!(read(vec![of(60, 4096), of(60, 4096)]).is_some_and(|what| what.contains("120 %")));
        assert!(read(vec![of(60, 0), of(60, 4096)]).is_some_and(|what| what.contains("120 %")));
        assert!(read(vec![of(0, 0)]).is_some());
        assert!(read(vec![Priority { class: 0, ..of(1, 0) }]).is_some());
        assert!(read(vec![Priority { level: 8, ..of(1, 0) }]).is_some());
    }

    #[test]
    fn the_number_is_the_kernels() {
        let priority = Priority { percent: 1, bytes: 0, class: 2, level: 7, hint: 3 };
        assert_eq!(priority.number(), 0x401f);
        assert_eq!(Priority::parts(0x401f), (2, 7, 3));
    }
}
