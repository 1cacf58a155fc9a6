//! The minimal loop of a vhost-user-blk client: 4 KiB random reads directly on the crate below, one
//! queue, no clock per request, only a count. `make bench` compares iosonde's own loop with it.
//!
//! `bare SOCKET DEPTH SECONDS`
#![allow(clippy::print_stdout, reason = "its one line is its result")]

use std::error::Error;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use virtio_driver::{
    VhostUser, VirtioBlkConfig, VirtioBlkFeatureFlags, VirtioBlkQueue, VirtioBlkReqBuf,
    VirtioFeatureFlags, VirtioTransport,
};

const BLOCK: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, depth, seconds] = &words[..] else { return Err("SOCKET DEPTH SECONDS".into()) };
    let (depth, seconds): (usize, f64) = (depth.parse()?, seconds.parse()?);

    let features = VirtioFeatureFlags::VERSION_1 | VirtioFeatureFlags::RING_EVENT_IDX;
    let features = features.bits() | VirtioBlkFeatureFlags::MQ.bits();
    let mut transport = VhostUser::<VirtioBlkConfig, VirtioBlkReqBuf>::new(socket, features)?;
    let blocks = u64::from(transport.get_config()?.capacity) * 512 / BLOCK as u64;
    let descriptors = (depth * 3).next_power_of_two().max(8) as u16;
    let mut queue = VirtioBlkQueue::<usize>::setup_queues(&mut transport, 1, descriptors)?
        .pop()
        .ok_or("no queue")?;
    let file: File = memfd_create("bare", MemfdFlags::CLOEXEC)?.into();
    file.set_len((depth * BLOCK) as u64)?;
    let memory = memmap2::MmapOptions::new().len(depth * BLOCK).map_raw(&file)?;
    let base = memory.as_mut_ptr();
    transport.map_mem_region(base as usize, memory.len(), file.as_raw_fd(), 0)?;
    let bell = transport.get_submission_notifier(0);
    queue.set_used_notif_enabled(false);

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut offset = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % blocks) * BLOCK as u64
    };
    let mut free: Vec<usize> = (0..depth).collect();
    let (started, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let (mut ops, mut turns) = (0_u64, 0_u32);
    loop {
        if !free.is_empty() {
            while let Some(slot) = free.pop() {
                // SAFETY: a slot is free or in flight, never both, and lies within the mapping. The
                // mapping outlives the queue's last request: the process ends with both.
                unsafe { queue.read_raw(offset(), base.add(slot * BLOCK), BLOCK, slot)? };
            }
            if queue.avail_notif_needed() {
                bell.notify()?;
            }
        }
        for done in queue.completions() {
            assert_eq!(done.ret, 0, "a read failed");
            free.push(done.context);
            ops += 1;
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) && started.elapsed() >= limit {
            break;
        }
    }
    println!("IOPS={:.0}, ops={ops}", ops as f64 / started.elapsed().as_secs_f64());
    Ok(())
}
