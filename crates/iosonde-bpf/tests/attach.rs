//! The programs in the running kernel: each is taken, and they count what a child does.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;
use std::time::Instant;

use iosonde_bpf::{AttachError, Collector, Options, SlotKey, layout};
use iosonde_rig::{require_root, skip};

fn collector(layers: bool) -> Option<Collector> {
    let options = Options { layers, waits: true, page_bytes: 4096, ..Options::default() };
    if let Err(error) = require_root() {
        skip(error);
        return None;
    }
    match Collector::attach(&options) {
        Ok(collector) => Some(collector),
        Err(AttachError::NoTypes(reason)) => {
            skip(format!("kernel programs cannot be loaded here: {reason}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_program_is_taken_by_this_kernel() {
    for layers in [false, true] {
        let Some(collector) = collector(layers) else { return };
        for program in collector.programs() {
            assert_eq!(program.refused, None, "{}", program.tracepoint);
        }
        assert!(collector.programs().len() >= 12);
    }
}

#[test]
fn a_child_is_followed_and_counted() {
    let Some(mut collector) = collector(false) else { return };
    collector.follow(std::process::id()).unwrap();
    collector.begin().unwrap();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let to = format!("of={}", place.path().join("data").display());
    let words = ["if=/dev/zero", &to, "bs=64k", "count=64", "oflag=direct", "conv=fsync"];
    let began = Instant::now();
    let ended = Command::new("dd").args(words).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    collector.pause().unwrap();

    let sum = |wanted: &dyn Fn(&SlotKey) -> bool| {
        let slots = collector.slots().unwrap();
        let places = slots.iter().filter(|(key, _)| wanted(key)).map(|(_, place)| *place);
        let each = places.flat_map(|place| collector.slot(place).unwrap());
        each.fold((0, 0, 0), |sum, slot| {
            (sum.0 + slot.requests, sum.1 + slot.bytes, sum.2 + slot.direct_bytes)
        })
    };
    let (requests, bytes, direct) = sum(&|key| (key.op, key.class) == (1, 0));
    // The file system may write its own metadata in the same thread.
    assert!(bytes >= direct, "{bytes} B");
    assert_eq!(direct, 64 << 16);
    assert!(requests >= 64, "{requests}");
    assert_eq!(sum(&|key| key.op == layout::SYNC).0, 1, "one fsync");
    let threads = collector.threads().unwrap();
    let dd = threads.iter().find(|thread| thread.comm.starts_with(b"dd\0")).unwrap();
    assert_eq!((dd.write_bytes, dd.syncs, dd.of_program), (bytes, 1, 1));
    assert!(dd.sequential > dd.writes / 2, "{dd:?}");
    let files = collector.files().unwrap();
    let places = files.iter().map(|(_, place)| collector.file(place.place).unwrap());
    let data = places.into_iter().find(|file| file.name[0].starts_with(b"data\0"));
    let data = data.unwrap_or_else(|| panic!("{files:?}"));
    assert_eq!((data.written(), data.direct()), (64 << 16, 64 << 16));
    let counts = collector.counts().unwrap();
    assert_eq!((counts.open_direct, counts.lost_flights, counts.lost_slots), (1, 0, 0));
    assert!(counts.calls_write >= 64, "{counts:?}");
    // Each direct write is waited for, by one thread.
    let most_ns = began.elapsed().as_nanos();
    assert!(counts.io_delay_ns > 0 && u128::from(counts.io_delay_ns) < most_ns, "{counts:?}");
}
