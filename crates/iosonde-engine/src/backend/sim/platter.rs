//! A rotating disk: seeks of one arm, rotational latency, and tracks that hold more at the outside
//! than at the inside.

use super::{Device, Served, Transfer};
use iosonde_model::plan::IoKind;

/// Geometry and timing of a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turning {
    /// Size of the disk, bytes.
    pub bytes: u64,
    /// Time of a revolution, ns.
    pub turn_ns: f64,
    /// Time of a seek over the whole disk, ns; over a part of it, proportional to the square root.
    pub seek_ns: f64,
    /// Bytes of the outermost track, where addresses begin.
    pub track_bytes: f64,
    /// Bytes of the innermost track; in between the size changes linearly with the address.
    pub inner_track_bytes: f64,
}

impl Turning {
    /// Revolutions to read from the start of the disk to an address without a stop.
    fn turns(&self, offset: u64) -> f64 {
        let (outer, offset) = (self.track_bytes, offset as f64);
        let slope = (self.inner_track_bytes - outer) / self.bytes as f64;
        if slope == 0.0 { offset / outer } else { (slope * offset / outer).ln_1p() / slope }
    }

    fn seek(&self, from: u64, to: u64) -> f64 {
        self.seek_ns * (from.abs_diff(to) as f64 / self.bytes as f64).sqrt()
    }
}

/// Serves one request at a time: seek, rotational latency, transfer, then the inner device.
pub struct Platter {
    inner: Box<dyn Device>,
    disk: Turning,
    /// Address at which the heads are.
    head: u64,
    /// When the arm is free again, ns.
    free_ns: f64,
}

impl Platter {
    /// A disk with its heads at its start.
    pub fn new(inner: Box<dyn Device>, disk: Turning) -> Platter {
        Platter { inner, disk, head: 0, free_ns: 0.0 }
    }
}

impl Device for Platter {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        if !matches!(transfer.way, IoKind::Read | IoKind::Write) {
            return self.inner.serve(now_ns.max(self.free_ns as u64), transfer);
        }
        let (disk, start) = (&self.disk, transfer.offset);
        let end = start + u64::from(transfer.bytes);
        let arrived_ns = self.free_ns.max(now_ns as f64) + disk.seek(self.head, start);
        // A place within rounding error of the heads is reached at once.
        let ahead = (disk.turns(start) - arrived_ns / disk.turn_ns + 1e-7).rem_euclid(1.0) - 1e-7;
        let turns = ahead.max(0.0) + disk.turns(end) - disk.turns(start);
        self.free_ns = arrived_ns + turns * disk.turn_ns;
        self.head = end;
        self.inner.serve(self.free_ns.ceil() as u64, transfer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::Model;
    use super::*;

    const DISK: &str = "rpm=6000,seek=8ms,track=1M,inner-track=500k,size=1g,read=1us,write=1us";

    fn serve(device: &mut dyn Device, now_ns: u64, way: IoKind, offset: u64, bytes: u32) -> u64 {
        device.serve(now_ns, &Transfer { way, target: 0, offset, skip: 0, bytes }).done_ns
    }

    #[test]
    fn rewriting_one_sector_takes_a_turn_and_reading_on_takes_no_wait() {
        let mut device = Model::parse(DISK).unwrap().build(1);
        let first = serve(&mut *device, 0, IoKind::Write, 0, 4096);
        let second = serve(&mut *device, first, IoKind::Write, 0, 4096);
        assert!((second - first).abs_diff(10_000_000) < 30_000, "{first} {second}");
        // Each track, requested while the one before it is read, takes one turn.
        let mut device = Model::parse(DISK).unwrap().build(1);
        let all: Vec<u64> =
            (0..4).map(|at| serve(&mut *device, 0, IoKind::Read, at << 20, 1 << 20)).collect();
        let steps: Vec<u64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|ns| ns.abs_diff(10_000_000) < 50_000), "{all:?}");
    }

    #[test]
    fn a_seek_grows_with_the_root_of_the_distance_and_inner_tracks_hold_less() {
        let (bytes, track_bytes) = (1u64 << 30, f64::from(1 << 20));
        let inner_track_bytes = track_bytes / 2.0;
        let disk = Turning { bytes, turn_ns: 1e7, seek_ns: 8e6, track_bytes, inner_track_bytes };
        assert_eq!([disk.seek(0, bytes), disk.seek(bytes, bytes * 3 / 4)], [8e6, 4e6]);
        let track = |offset: u64| 4096.0 / (disk.turns(offset + 4096) - disk.turns(offset));
        for (offset, expected) in [(0, 1.0), (bytes / 2, 0.75), (bytes - 4096, 0.5)] {
            assert!((track(offset) / track_bytes - expected).abs() < 1e-3, "{offset}");
        }
    }

    #[test]
    fn what_only_a_disk_has_is_refused_without_one() {
        for key in ["seek=1ms", "track=1M", "inner-track=1M"] {
            assert!(Model::parse(key).unwrap_err().to_string().contains("rpm"), "{key}");
        }
        assert!(Model::parse("rpm=7200,track=0").is_err());
    }
}
