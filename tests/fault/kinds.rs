//! The effect of each kind of fault on the stored bytes, over every queue.

use iosonde_engine::backend::Queue;
use iosonde_engine::backend::fault::{Fault, Injected, Injection, When};

use crate::bench::{
    BLOCK, BLOCKS, Bench, Expected, SECTOR, STRUCK, Scenario, WRITTEN, content, over_all,
};

/// Writes that are acknowledged and not stored, or stored in part.
struct Missing;

impl Scenario for Missing {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let start = (STRUCK * BLOCK) as u64;
        let mut bench = open("drop:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        let harm =
            Injected { kind: Fault::Drop, offset: start, bytes: BLOCK as u64, elsewhere: None };
        assert_eq!(bench.injected(), [harm]);

        for (fault, sectors) in [("tear=1", 1), ("tear=3", 3), ("tear=7", 7), ("tear", 0)] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [Injected { kind: Fault::Tear(Some(reported)), offset, bytes, elsewhere: None }] =
                bench.injected()[..]
            else {
                panic!("{:?}", bench.injected())
            };
            assert!(sectors == 0 && (1..8).contains(&reported) || sectors == reported);
            let done = reported as usize * SECTOR;
            assert_eq!((offset, bytes), (start + done as u64, (BLOCK - done) as u64));
            let mut torn = content(STRUCK, 1);
            torn[done..].fill(0);
            bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &torn));
        }

        for (fault, result, done) in
            [("write-eio", -5, 0), ("enospc", -28, 0), ("short", 2048, 2048)]
        {
            let mut bench = open(&format!("{fault}:every=3"));
            let results: Vec<i32> = (0..5).map(|block| bench.write(block, 1)).collect();
            let whole = BLOCK as i32;
            assert_eq!(results, [whole, whole, result, whole, whole]);
            let mut expected = Expected::new();
            for block in [0, 1, 3, 4] {
                expected.put(block, &content(block, 1));
            }
            expected.put(STRUCK, &content(STRUCK, 1)[..done]);
            bench.assert_stored(&expected);
            let Injected { offset, bytes, .. } = bench.injected()[0];
            assert_eq!((offset, bytes), (start + done as u64, (BLOCK - done) as u64));
        }
    }
}

/// Writes stored with other data.
struct Changed;

impl Scenario for Changed {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let kinds = ["flip", "flip=2", "flip=8", "byte", "zero", "corrupt", "phantom"].into_iter();
        for fault in kinds {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [harm] = bench.injected()[..] else { panic!("{:?}", bench.injected()) };
            let from = harm.offset as usize - STRUCK * BLOCK;
            let range = from..from + harm.bytes as usize;
            assert_eq!(harm.elsewhere, None);
            let stored = (bench.stored)();
            let found = stored[STRUCK * BLOCK..][range.clone()].to_vec();
            let mut block = content(STRUCK, 1);
            let xor = block[range.clone()].iter().zip(&found).map(|(a, b)| a ^ b);
            let bits: u32 = xor.map(u8::count_ones).sum();
            match harm.kind {
                Fault::Flip(expected) => assert_eq!(bits, u32::from(expected)),
                Fault::Byte => assert!(range.len() == 1 && bits > 0),
                Fault::Zero => assert!(range.len() == SECTOR && found == [0; SECTOR]),
                Fault::Corrupt => assert!((32..=256).contains(&range.len()) && bits > 8),
                Fault::Phantom => {
                    block.reverse();
                    assert!(range.len() == BLOCK && found == block);
                }
                kind => panic!("{kind}"),
            }
            block[range].copy_from_slice(&found);
            bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &block));
        }
    }
}

/// Writes stored at other offsets.
struct Displaced;

impl Scenario for Displaced {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for (fault, also_right) in [("misdirect", false), ("duplicate", true)] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let [Injected { offset, bytes, elsewhere: Some(elsewhere), .. }] = bench.injected()[..]
            else {
                panic!("{:?}", bench.injected())
            };
            assert_eq!((offset, bytes), ((STRUCK * BLOCK) as u64, BLOCK as u64));
            let other = elsewhere as usize / BLOCK;
            assert!(elsewhere.is_multiple_of(BLOCK as u64) && other != STRUCK && other < BLOCKS);
            let mut expected = Expected::new();
            for block in 0..WRITTEN {
                if block != STRUCK || also_right {
                    expected.put(block, &content(block, 1));
                }
                if block == STRUCK {
                    expected.put(other, &content(block, 1));
                }
            }
            bench.assert_stored(&expected);
        }

        let mut bench = open("swap:nth=3");
        bench.write_all(1);
        let (one, other) = (STRUCK, STRUCK + 1);
        let mut expected = Expected::new();
        expected.put_all(1).put(one, &content(other, 1)).put(other, &content(one, 1));
        bench.assert_stored(&expected);
        let places: Vec<_> =
            bench.injected().iter().map(|harm| (harm.offset, harm.elsewhere)).collect();
        let [one, other] = [one, other].map(|block| (block * BLOCK) as u64);
        assert_eq!(places, [(other, Some(one)), (one, Some(other))]);
    }
}

/// Writes stored too late, or again.
struct Belated;

impl Scenario for Belated {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        let mut bench = open("stale:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1));
        assert_eq!(bench.log.count(), 0, "nothing is wrong yet");
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2).put(STRUCK, &content(STRUCK, 1)));
        assert_eq!(bench.log.count(), 1);
        bench.write_all(3);
        bench.assert_stored(Expected::new().put_all(3));
        assert_eq!(bench.log.count(), 1);

        let mut bench = open("stale:all");
        for generation in 1..5 {
            bench.write_all(generation);
            bench.assert_stored(Expected::new().put_all(generation.max(2) - 1));
        }

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
        assert_eq!(bench.sync(), 0);
        // Neither a request before the sync nor the sync itself releases it.
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        for _ in 0..2 {
            assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
            assert_eq!(bench.read(STRUCK), (BLOCK as i32, vec![0; BLOCK]));
        }
        bench.assert_stored(Expected::new().put_all(1));
        assert_eq!(bench.read(STRUCK), (BLOCK as i32, content(STRUCK, 1)));
        assert_eq!(bench.log.count(), 1);

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.sync(), 0);
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2).put(STRUCK, &content(STRUCK, 1)));

        let mut bench = open("delay:nth=3");
        bench.write_all(1);
        assert_eq!(bench.sync(), 0);
        for _ in 0..1023 {
            assert_eq!(bench.read(5), (BLOCK as i32, content(5, 1)));
        }
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        bench.read(5);
        bench.assert_stored(Expected::new().put_all(1));

        let mut bench = open("reorder:nth=3");
        bench.write_all(1);
        bench.assert_stored(Expected::new().put_all(1).put(STRUCK, &[0; BLOCK]));
        bench.write_all(2);
        bench.assert_stored(Expected::new().put_all(2));
        assert_eq!(bench.sync(), 0);
        bench.assert_stored(Expected::new().put_all(2));
        bench.write_all(3);
        bench.assert_stored(Expected::new().put_all(3).put(STRUCK, &content(STRUCK, 1)));
        bench.write_all(4);
        bench.assert_stored(Expected::new().put_all(4));
        assert_eq!(bench.log.count(), 1);
    }
}

/// Reads that return other data than stored.
struct Misread;

impl Scenario for Misread {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for fault in ["read-misdirect", "read-flip", "read-eio"] {
            let mut bench = open(&format!("{fault}:nth=3"));
            bench.write_all(1);
            let first: Vec<_> = (0..WRITTEN).map(|block| bench.read(block)).collect();
            for (block, first) in first.iter().enumerate() {
                let good = (BLOCK as i32, content(block, 1));
                assert_eq!(*first == good, block != STRUCK, "{fault}: {block}");
                assert_eq!(bench.read(block), good);
            }
            bench.assert_stored(Expected::new().put_all(1));
            let [harm] = bench.injected()[..] else { panic!("{:?}", bench.injected()) };
            let (result, read) = &first[STRUCK];
            if harm.kind == Fault::ReadEio {
                assert_eq!(*result, -5);
            } else if let Some(elsewhere) = harm.elsewhere {
                assert_eq!(*read, (bench.stored)()[elsewhere as usize..][..BLOCK]);
            } else {
                let content = content(STRUCK, 1);
                let wrong: Vec<usize> = (0..BLOCK).filter(|at| read[*at] != content[*at]).collect();
                assert_eq!(wrong, [harm.offset as usize - STRUCK * BLOCK]);
                assert_eq!((read[wrong[0]] ^ content[wrong[0]]).count_ones(), 1);
            }
        }
    }
}

/// A fault that never triggers changes nothing.
struct Spared;

impl Scenario for Spared {
    fn play<Q: Queue>(&self, open: impl Fn(&str) -> Bench<Q>) {
        for fault in Fault::ALL {
            let injection = Injection { fault, when: When::Nth(1000) };
            let mut bench = open(&injection.to_string());
            let named = format!("fault injected: {injection}");
            assert!(bench.queue.facts().features.contains(&named));
            for generation in 1..4 {
                bench.write_all(generation);
                assert_eq!(bench.sync(), 0);
                for block in 0..WRITTEN {
                    assert_eq!(bench.read(block), (BLOCK as i32, content(block, generation)));
                }
            }
            bench.assert_stored(Expected::new().put_all(3));
            assert_eq!((bench.log.count(), bench.injected()), (0, Vec::new()));
        }
    }
}

#[test]
fn a_write_that_is_missing_is_missing_alone() {
    over_all(&Missing);
}

#[test]
fn a_write_that_is_changed_is_changed_as_asked() {
    over_all(&Changed);
}

#[test]
fn a_write_that_is_displaced_stands_where_the_log_says() {
    over_all(&Displaced);
}

#[test]
fn a_write_that_is_late_wins_when_it_comes() {
    over_all(&Belated);
}

#[test]
fn a_read_that_is_wrong_is_right_the_next_time() {
    over_all(&Misread);
}

#[test]
fn who_is_not_struck_notices_nothing() {
    over_all(&Spared);
}
