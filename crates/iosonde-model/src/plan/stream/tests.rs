//! Tests of the operations of a stream.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::spec::{Draw, Sequence, Sizes};

fn job(order: Order, read_percent: u8) -> Job {
    Job {
        role: "test".into(),
        block_bytes: 4096,
        read_percent,
        order,
        region_start: 8192,
        region_bytes: 100 * 4096,
        seed: 7,
        ..Job::default()
    }
}

#[test]
fn lanes_together_cover_each_block_once_per_pass() {
    for lanes in [1u32, 2, 3, 7] {
        for permuted in [true, false] {
            let mut seen = Vec::new();
            for lane in 0..lanes {
                let order = if permuted {
                    Order::Permutation { seed: 7, lane, lanes }
                } else {
                    Order::Sequential { start_block: 37, lane, lanes }
                };
                let mut stream = OpStream::new(&job(order, 100), Stop::AfterOnePass);
                while let Some(op) = stream.next_op() {
                    seen.push(op.offset);
                }
            }
            let distinct: BTreeSet<u64> = seen.iter().copied().collect();
            assert_eq!((seen.len(), distinct.len()), (100, 100), "{lanes} {permuted}");
            assert_eq!(distinct.first(), Some(&8192));
            assert_eq!(distinct.last(), Some(&(8192 + 99 * 4096)));
        }
    }
}

#[test]
fn two_lanes_stay_in_step_over_many_passes() {
    // 100 blocks and 7 lanes: a pass ends in the middle of a round of turns.
    let mut lanes: Vec<OpStream> = (0..7)
        .map(|lane| {
            let order = Order::Permutation { seed: 7, lane, lanes: 7 };
            OpStream::new(&job(order, 100), Stop::AfterNs(1))
        })
        .collect();
    let all: Vec<u64> = (0..700).map(|i| lanes[i % 7].next_op().unwrap().offset).collect();
    for pass in all.chunks(100) {
        assert_eq!(pass.iter().collect::<BTreeSet<_>>().len(), 100);
    }
    assert_ne!(all[..100], all[100..200], "each pass has its own order");
}

#[test]
fn the_mix_is_as_asked_and_offsets_stay_inside() {
    for (percent, order) in [(70, Order::Uniform), (0, Order::Uniform), (100, Order::Uniform)] {
        let mut stream = OpStream::new(&job(order, percent), Stop::AfterNs(1));
        let ops: Vec<Op> = (0..100_000).map(|_| stream.next_op().unwrap()).collect();
        let reads = ops.iter().filter(|op| op.way == IoKind::Read).count() as f64;
        // Five standard deviations of a binomial.
        let p = f64::from(percent) / 100.0;
        let slack = 5.0 * (100_000.0 * p * (1.0 - p)).sqrt();
        assert!((reads - 100_000.0 * p).abs() <= slack, "{percent} %: {reads} reads");
        assert!(ops.iter().all(|op| op.offset >= 8192 && op.offset % 4096 == 0));
        assert!(ops.iter().all(|op| op.offset + 4096 <= 8192 + 100 * 4096));
    }
}

#[test]
fn the_same_seed_gives_the_same_operations() {
    let order = Order::Permutation { seed: 7, lane: 0, lanes: 1 };
    let stream = || OpStream::new(&job(order.clone(), 50), Stop::AfterNs(1));
    let (mut a, mut b) = (stream(), stream());
    let first: Vec<Op> = (0..1000).map(|_| a.next_op().unwrap()).collect();
    let again: Vec<Op> = (0..1000).map(|_| b.next_op().unwrap()).collect();
    assert_eq!(first, again);
    // A golden value detects any change of the generator.
    let head: Vec<u64> = first.iter().take(6).map(|op| op.offset / 4096 - 2).collect();
    assert_eq!(head, GOLDEN_HEAD);
}

fn ops(job: &Job, stop: Stop, count: usize) -> Vec<Op> {
    let mut stream = OpStream::new(job, stop);
    std::iter::from_fn(|| stream.next_op()).take(count).collect()
}

fn offsets(job: &Job, count: usize) -> Vec<u64> {
    ops(job, Stop::AfterNs(1), count).iter().map(|op| op.offset - 8192).collect()
}

const SEQUENTIAL: Order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };

#[test]
fn every_kind_of_load_stays_inside_and_on_its_grid() {
    let zone = |access_percent, size_percent| crate::spec::Zone { access_percent, size_percent };
    let orders = [
        Order::Permutation { seed: 7, lane: 1, lanes: 3 },
        SEQUENTIAL,
        Order::Sequential { start_block: 91, lane: 0, lanes: 1 },
        Order::Uniform,
        Order::RandomMap { seed: 7 },
        Order::Zipf { theta: 1.1 },
        Order::Pareto { h: 0.2 },
        Order::Normal { deviation_percent: 100.0 },
        Order::Zoned { zones: vec![zone(90.0, 10.0), zone(10.0, 90.0)] },
    ];
    let several = Sizes {
        read: Draw::Range { low: 4096, high: 65_536, step: 4096 },
        write: Draw::Split(vec![(4096, 50.0), (12_288, 30.0), (131_072, 20.0)]),
        trim: Draw::Block,
    };
    for order in orders {
        for (sizes, block_bytes) in [(Sizes::default(), 4096), (several.clone(), 131_072)] {
            for stride_bytes in [0, 12_288, -4096] {
                if stride_bytes != 0 && !matches!(order, Order::Sequential { .. }) {
                    continue;
                }
                let sizes = sizes.clone();
                let plain = job(order.clone(), 50);
                let job = Job { sizes, block_bytes, unit_bytes: 4096, stride_bytes, ..plain };
                let all = ops(&job, Stop::AfterNs(1), 20_000);
                for op in &all {
                    let end = op.offset + u64::from(op.bytes);
                    assert!(op.offset >= 8192 && end <= 8192 + 100 * 4096, "{op:?} {job:?}");
                    assert!(op.offset % 4096 == 0 && op.bytes > 0, "{op:?} {job:?}");
                }
                let distinct: BTreeSet<u64> = all.iter().map(|op| op.offset).collect();
                assert!(distinct.len() > 20, "{} {job:?}", distinct.len());
            }
        }
    }
}

#[test]
fn a_sequence_is_repeated_in_place_or_further_on() {
    let blocks = |advances: bool| {
        let order = Order::Sequence(Sequence { blocks: vec![2, 0, 1], advances });
        let job = Job { region_bytes: 8 * 4096, ..job(order, 100) };
        offsets(&job, 10).into_iter().map(|offset| offset / 4096).collect::<Vec<u64>>()
    };
    assert_eq!(blocks(false), [2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    // In a region of 8, the third repetition would need block 8, so it restarts.
    assert_eq!(blocks(true), [2, 0, 1, 5, 3, 4, 2, 0, 1, 5]);
}

#[test]
fn a_sequential_mix_has_a_position_for_each_direction() {
    for (targets, sizes) in [
        (vec![], Sizes::default()),
        (vec![0, 1], Sizes::default()),
        (vec![], Sizes { write: Draw::Fixed(8192), read: Draw::Fixed(4096), ..Sizes::default() }),
    ] {
        let job = Job { targets, sizes, unit_bytes: 4096, ..job(SEQUENTIAL, 60) };
        let all = ops(&job, Stop::AfterNs(1), 60);
        for way in [IoKind::Read, IoKind::Write] {
            for target in [0, 1] {
                let mine = all.iter().filter(|op| op.way == way && op.target == target);
                let mut at = 8192;
                for op in mine {
                    assert_eq!(op.offset, at, "{way:?} {target}");
                    at += u64::from(op.bytes);
                }
            }
        }
    }
}

#[test]
fn each_size_has_its_share_and_each_way_its_sizes() {
    let sizes = Sizes {
        read: Draw::Split(vec![(4096, 10.0), (8192, 60.0), (65_536, 30.0)]),
        write: Draw::Range { low: 8192, high: 32_768, step: 8192 },
        trim: Draw::Block,
    };
    let job = Job { sizes, block_bytes: 65_536, unit_bytes: 4096, ..job(Order::Uniform, 50) };
    // With so many positions, the few at the end where large sizes do not fit are negligible.
    let job = Job { region_bytes: 1 << 30, ..job };
    let all = ops(&job, Stop::AfterNs(1), 200_000);
    let mut seen: BTreeMap<(usize, u32), f64> = BTreeMap::new();
    for op in &all {
        *seen.entry((op.way as usize, op.bytes)).or_default() += 1.0 / 100_000.0;
    }
    let requested = [
        ((0, 4096), 0.1),
        ((0, 8192), 0.6),
        ((0, 65_536), 0.3),
        ((1, 8192), 0.25),
        ((1, 16_384), 0.25),
        ((1, 24_576), 0.25),
        ((1, 32_768), 0.25),
    ];
    assert_eq!(seen.len(), requested.len(), "{seen:?}");
    for (what, share) in requested {
        assert!((seen[&what] - share).abs() < 0.01, "{what:?}: {}", seen[&what]);
    }
}

#[test]
fn strides_go_up_and_down_and_come_round() {
    let strided = |stride_bytes, start_block| {
        let order = Order::Sequential { start_block, lane: 0, lanes: 1 };
        Job { stride_bytes, ..job(order, 100) }
    };
    let blocks = |job: &Job, count| -> Vec<u64> {
        offsets(job, count).iter().map(|offset| offset / 4096).collect()
    };
    // With a hole of two blocks after each: 0, 3, …, 99.
    assert_eq!(blocks(&strided(12_288, 0), 4), [0, 3, 6, 9]);
    assert_eq!(blocks(&strided(12_288, 0), 36)[32..], [96, 99, 0, 3]);
    assert_eq!(blocks(&strided(12_288, 30), 2), [30, 33]);
    assert_eq!(blocks(&strided(-4096, 0), 3), [99, 98, 97]);
    assert_eq!(blocks(&strided(-8192, 0), 52)[49..], [0, 98, 96], "50 places two apart");
    // Overlapping: half a block apart.
    assert_eq!(offsets(&strided(2048, 0), 3), [0, 2048, 4096]);
    assert_eq!(ops(&strided(12_288, 0), Stop::AfterOnePass, 1000).len(), 34);
}

#[test]
fn what_was_written_is_read_again_and_nothing_else() {
    for (order, percent) in [(SEQUENTIAL, 0), (SEQUENTIAL, 60), (Order::Uniform, 30)] {
        let writer = job(order, percent);
        let written = ops(&writer, Stop::AfterOps(500), 500);
        let written = written.into_iter().filter(|op| op.way == IoKind::Write);
        let written: Vec<Op> = written.map(|op| Op { way: IoKind::Read, ..op }).collect();
        let reader = Job { rereads: true, ..writer };
        assert!(reader.reads() && !reader.changes());
        assert_eq!(ops(&reader, Stop::AfterOps(500), 500), written);
    }
}

/// A job with operations of 4 to 16 KiB.
fn several_sizes(order: Order, read_percent: u8) -> Job {
    let range = Draw::Range { low: 4096, high: 16_384, step: 4096 };
    let sizes = Sizes { read: range.clone(), write: range, trim: Draw::Block };
    Job { sizes, block_bytes: 16_384, unit_bytes: 4096, ..job(order, read_percent) }
}

#[test]
fn operations_of_several_sizes_cover_the_region_once() {
    for order in [SEQUENTIAL, Order::RandomMap { seed: 7 }] {
        let all = ops(&several_sizes(order.clone(), 100), Stop::AfterOnePass, 1000);
        let places = |op: &Op| (op.offset..op.offset + u64::from(op.bytes)).step_by(4096);
        let mut used: Vec<u64> = all.iter().flat_map(places).collect();
        used.sort_unstable();
        let each: Vec<u64> = (0..100).map(|place| 8192 + place * 4096).collect();
        assert_eq!(used, each, "{order:?}");
        let longest = all.iter().map(|op| op.bytes).max();
        assert!(all.len() < 70 && longest == Some(16_384), "{order:?}: {}", all.len());
    }
}

#[test]
fn a_drawn_place_has_room_for_the_shortest_length() {
    for order in [Order::Uniform, Order::Normal { deviation_percent: 40.0 }] {
        let mut lengths: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for op in ops(&several_sizes(order.clone(), 60), Stop::AfterNs(1), 50_000) {
            lengths.entry((op.offset - 8192) / 4096).or_default().insert(op.bytes);
        }
        assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        for (place, lengths) in lengths {
            let fitting = (1..=4).map(|blocks| 4096 * blocks);
            let fitting = fitting.filter(|bytes| place + u64::from(bytes / 4096) <= 100);
            assert_eq!(lengths, fitting.collect(), "{order:?} {place}");
        }
    }
}

#[test]
fn what_was_written_in_several_sizes_is_read_in_the_same() {
    for (order, percent) in [(Order::RandomMap { seed: 7 }, 0), (Order::Uniform, 40)] {
        let writer = several_sizes(order, percent);
        let written = ops(&writer, Stop::AfterOps(60), 60);
        let written = written.into_iter().filter(|op| op.way == IoKind::Write);
        let written: Vec<Op> = written.map(|op| Op { way: IoKind::Read, ..op }).collect();
        let reader = Job { rereads: true, ..writer };
        assert_eq!(ops(&reader, Stop::AfterOps(60), 60), written);
    }
}

#[test]
fn zones_are_used_in_part_and_left_for_the_next() {
    let strides = crate::spec::Strides { range_bytes: 8192, zone_bytes: 8192, skip_bytes: 12_288 };
    let job = Job { strides, ..job(SEQUENTIAL, 100) };
    let blocks: Vec<u64> = offsets(&job, 6).iter().map(|offset| offset / 4096).collect();
    assert_eq!(blocks, [0, 1, 5, 6, 10, 11]);
    assert_eq!(ops(&job, Stop::AfterOnePass, 1000).len(), 40);
}

#[test]
fn runs_follow_on_or_repeat() {
    for same in [false, true] {
        let between = Box::new(Order::Permutation { seed: 7, lane: 0, lanes: 1 });
        let job = job(Order::Runs { length: 4, same, between }, 100);
        let all = offsets(&job, 40);
        let step = if same { 0 } else { 4096 };
        for run in all.chunks(4).filter(|run| run[0] + 4 * 4096 <= 100 * 4096) {
            assert_eq!(run, [0, 1, 2, 3].map(|nth| run[0] + nth * step), "{same}");
        }
    }
}

#[test]
fn a_trimmed_block_is_written_next() {
    let job = Job { trims: true, rewrites: true, ..job(SEQUENTIAL, 0) };
    let all = ops(&job, Stop::AfterOps(6), 100);
    let ways: Vec<IoKind> = all.iter().map(|op| op.way).collect();
    assert_eq!(ways, [IoKind::Trim, IoKind::Write].repeat(3));
    assert!(all.chunks(2).all(|pair| pair[0].offset == pair[1].offset));
}

#[test]
fn targets_are_chosen_as_the_service_says() {
    let served = |service| {
        let job = Job { targets: vec![0, 1, 2], service, ..job(SEQUENTIAL, 100) };
        let all = ops(&job, Stop::AfterNs(1), 300);
        all.iter().map(|op| op.target).collect::<Vec<u16>>()
    };
    assert_eq!(served(Service::InTurn(2))[..7], [0, 0, 1, 1, 2, 2, 0]);
    let one_by_one = served(Service::Sequential);
    assert!(one_by_one[..100].iter().all(|target| *target == 0));
    assert!(one_by_one[100..200].iter().all(|target| *target == 1));
    let random = served(Service::Random(1));
    let of_one = random.iter().filter(|target| **target == 1).count();
    assert!((60..140).contains(&of_one), "{of_one}");
}

#[test]
fn blocks_of_several_sizes_adjoin() {
    let read = Draw::Range { low: 4096, high: 16_384, step: 4096 };
    let sizes = Sizes { read, ..Sizes::default() };
    let job = Job { sizes, block_bytes: 16_384, unit_bytes: 4096, ..job(SEQUENTIAL, 100) };
    let all = ops(&job, Stop::AfterNs(1), 10_000);
    let mut wrapped = 0;
    for pair in all.windows(2) {
        let ends = pair[0].offset + u64::from(pair[0].bytes);
        let room = 8192 + 100 * 4096 - ends;
        match pair[1].offset {
            8192 => assert!(u64::from(pair[1].bytes) > room, "{pair:?}"),
            offset => assert_eq!(offset, ends),
        }
        wrapped += usize::from(pair[1].offset == 8192);
    }
    assert!(wrapped > 100);
    let once: u64 = ops(&job, Stop::AfterOnePass, 1000).iter().map(|op| u64::from(op.bytes)).sum();
    assert!((100 * 4096..100 * 4096 + 16_384).contains(&once), "{once}");
}

#[test]
fn one_pass_covers_every_target_whatever_the_lanes() {
    for lanes in [1u32, 2, 3] {
        for permuted in [true, false] {
            let mut seen = Vec::new();
            for lane in 0..lanes {
                let order = match permuted {
                    true => Order::Permutation { seed: 7, lane, lanes },
                    false => Order::Sequential { start_block: 0, lane, lanes },
                };
                let job = Job { targets: vec![2, 0, 5], ..job(order, 100) };
                let own = ops(&job, Stop::AfterOnePass, 10_000);
                let turns: Vec<u16> = own.iter().take(4).map(|op| op.target).collect();
                assert_eq!(turns, [2, 0, 5, 2], "round robin");
                seen.extend(own.iter().map(|op| (op.target, op.offset)));
            }
            let distinct: BTreeSet<(u16, u64)> = seen.iter().copied().collect();
            assert_eq!((seen.len(), distinct.len()), (300, 300), "{lanes} {permuted}");
        }
    }
    let order = Order::Permutation { seed: 7, lane: 0, lanes: 1 };
    let all = ops(&Job { targets: vec![0, 1], ..job(order, 100) }, Stop::AfterNs(1), 40);
    assert!(all.chunks(2).any(|pair| pair[0].offset != pair[1].offset), "orders of their own");
}

#[test]
fn trims_bytes_and_phases() {
    let trims = Job { trims: true, ..job(Order::Uniform, 0) };
    assert!(ops(&trims, Stop::AfterOps(100), 1000).iter().all(|op| op.way == IoKind::Trim));
    let plain = job(Order::Uniform, 100);
    assert_eq!(ops(&plain, Stop::AfterBytes(40_000), 1000).len(), 10, "the tenth ends it");
    assert_eq!(ops(&plain, Stop::AfterBytes(40_960), 1000).len(), 10);
    assert_eq!(ops(&plain, Stop::AfterNsOrBytes(1, 40_960), 1000).len(), 10);
    let mut stream = OpStream::new(&plain, Stop::AfterNs(1));
    assert_eq!(stream.next_op().unwrap().way, IoKind::Read);
    stream.set_read_percent(0);
    assert_eq!(stream.next_op().unwrap().way, IoKind::Write);
}

#[test]
fn a_grid_finer_than_the_block_reaches_every_offset_that_leaves_room() {
    let order = Order::Permutation { seed: 7, lane: 0, lanes: 1 };
    let fine = Job { unit_bytes: 512, region_bytes: 8192, ..job(order, 100) };
    let mut all: Vec<u64> =
        ops(&fine, Stop::AfterOnePass, 100).iter().map(|op| op.offset - 8192).collect();
    all.sort_unstable();
    let requested: Vec<u64> = (0..=8).map(|turn| turn * 512).collect();
    assert_eq!(all, requested);
}

#[test]
fn a_region_of_fifteen_tebibytes_needs_no_table() {
    let orders = [
        Order::Permutation { seed: 7, lane: 0, lanes: 1 },
        Order::Zipf { theta: 0.9 },
        Order::Pareto { h: 0.1 },
    ];
    for order in orders {
        let huge = Job { region_bytes: 15 << 40, ..job(order, 100) };
        let all = offsets(&huge, 10_000);
        assert!(all.iter().any(|offset| *offset > 14 << 40));
        assert!(all.iter().all(|offset| *offset <= (15 << 40) - 4096));
    }
}

#[test]
fn a_share_of_the_offsets_is_drawn_and_the_others_follow_on() {
    let order = Order::Following { drawn_percent: 25.0, between: Box::new(Order::Uniform) };
    let job = Job { region_bytes: 1 << 40, ..job(order, 100) };
    let all = offsets(&job, 100_000);
    let follows = all.windows(2).filter(|pair| pair[1] == pair[0] + 4096).count() as f64;
    // Five standard deviations of a binomial.
    assert!((follows - 75_000.0).abs() < 5.0 * (1e5 * 0.75f64 * 0.25).sqrt(), "{follows}");
}

#[test]
fn what_follows_on_stays_inside_the_region() {
    let order = Order::Following { drawn_percent: 1.0, between: Box::new(Order::Uniform) };
    let all = ops(&job(order.clone(), 50), Stop::AfterNs(1), 20_000);
    assert!(all.iter().all(|op| op.offset >= 8192 && op.offset + 4096 <= 8192 + 100 * 4096));
    let never = Order::Following { drawn_percent: 0.0, between: Box::new(Order::Uniform) };
    let first = offsets(&job(never, 100), 3);
    assert_eq!(first[1..], [first[0] + 4096, first[0] + 8192]);
}

const GOLDEN_HEAD: [u64; 6] = [21, 47, 31, 83, 37, 94];
