//! Findings about the target, and about layers between it and the storage.

use iosonde_model::plan::{Engine, EngineKind, Order};
use iosonde_model::record::facts::FilesystemClass;

use super::{Line, Seen, between, finds, one_of, silent, whole};

/// A device faster than any real one.
const MEMORY: &str = "read=3us";

/// Buffered I/O, as requested.
fn buffered(seen: &mut Seen) {
    seen.run.target.direct = false;
    seen.run.plan.targets[0].direct = false;
}

/// A share of the tested range, in bytes.
fn part_of_range(seen: &Seen, part: f64) -> Option<u64> {
    Some((seen.run.plan.targets[0].bytes as f64 * part) as u64)
}

/// Of 64 sampled blocks `cached` were in the page cache, and the device has no counters.
fn only_samples(seen: &mut Seen, cached: u64) {
    seen.run.target.cached_samples = Some((cached as u32, 64));
    seen.run.device = None;
}

fn character_device(seen: &mut Seen) {
    seen.run.target.kind = "character device".into();
    seen.run.target.path = "/dev/zero".into();
    seen.run.target.direct = false;
    seen.run.target.direct_refused = Some("EINVAL".into());
    seen.run.target.device = None;
    seen.run.device = None;
}

/// The disk is provided by a hypervisor or another layer, over this transport.
fn virtual_disk(seen: &mut Seen, transport: &str) {
    seen.device().transport = Some(transport.into());
    seen.device().is_virtual = Some(true);
}

pub(super) fn lines() -> Vec<Line> {
    vec![
        finds("buffered", "O_DIRECT refused by open(2)", |seen, _| {
            seen.run.target.direct = false;
            seen.run.target.direct_refused = Some("EINVAL".into());
        }),
        finds("buffered", "direct I/O not requested", |seen, _| buffered(seen)),
        silent("buffered", "/dev/zero, which refuses O_DIRECT", |seen, _| character_device(seen))
            .and("ram_backed"),
        finds("page_cache", "buffered, the device read 5 to 85 % of it", |seen, chance| {
            buffered(seen);
            seen.device_read(between(chance, 0.05, 0.85));
        })
        .note("buffered"),
        finds(
            "page_cache",
            "buffered, 7 to 100 % of blocks cached, no counters",
            |seen, chance| {
                buffered(seen);
                only_samples(seen, whole(chance, 5, 64));
            },
        )
        .note("buffered"),
        finds("page_cache", "buffered, reads of 3 us, no counters, no samples", |seen, _| {
            buffered(seen);
            only_samples(seen, 0);
            seen.run.target.cached_samples = None;
        })
        .note("buffered")
        .on(MEMORY)
        .depth(1)
        .seconds(1),
        silent("page_cache", "buffered, 2 to 5 % of blocks cached, no counters", |seen, chance| {
            buffered(seen);
            only_samples(seen, whole(chance, 1, 3));
        })
        .note("buffered"),
        silent("page_cache", "buffered, 10 to 50 % cached, the device read all", |seen, chance| {
            buffered(seen);
            seen.run.target.cached_samples = Some((whole(chance, 7, 32) as u32, 64));
            seen.device_read(between(chance, 0.95, 1.0));
        })
        .note("buffered"),
        silent("page_cache", "buffered, read ahead: 10 to 50 % more was read", |seen, chance| {
            buffered(seen);
            seen.device_read(between(chance, 1.1, 1.5));
        })
        .note("buffered"),
        finds("odirect_ignored", "direct, the device read 5 to 85 % of it", |seen, chance| {
            seen.device_read(between(chance, 0.05, 0.85));
        }),
        finds(
            "odirect_ignored",
            "direct, 10 to 100 % of blocks cached, no counters",
            |seen, chance| only_samples(seen, whole(chance, 7, 64)),
        ),
        finds(
            "odirect_ignored",
            "direct, the kernel names no alignment, no counters",
            |seen, _| {
                only_samples(seen, 0);
                seen.run.target.dio_mem_align = Some(0);
            },
        ),
        silent("odirect_ignored", "direct, the device read 92 to 100 % of it", |seen, chance| {
            seen.device_read(between(chance, 0.92, 1.0));
        }),
        silent(
            "odirect_ignored",
            "direct, 2 to 5 % of blocks cached, no counters",
            |seen, chance| only_samples(seen, whole(chance, 1, 3)),
        ),
        silent(
            "odirect_ignored",
            "direct, 10 to 100 % cached, the device read all",
            |seen, chance| {
                seen.run.target.cached_samples = Some((whole(chance, 7, 64) as u32, 64));
            },
        ),
        silent("odirect_ignored", "btrfs on two devices, this one read a half", |seen, chance| {
            seen.run.target.filesystem = Some("btrfs".into());
            seen.device_read(between(chance, 0.4, 0.6));
        }),
        finds("unwritten_reads", "2 to 80 % of the file are holes", |seen, chance| {
            let part = between(chance, 0.02, 0.8);
            seen.run.target.hole_bytes = part_of_range(seen, part);
            seen.device_read(1.0 - part);
        }),
        finds("unwritten_reads", "5 to 100 % preallocated, never written", |seen, chance| {
            let part = between(chance, 0.05, 1.0);
            seen.run.target.unwritten_bytes = part_of_range(seen, part);
            seen.device_read(1.0 - part);
        }),
        silent("unwritten_reads", "0.1 to 0.9 % of the file are holes", |seen, chance| {
            let part = between(chance, 0.001, 0.009);
            seen.run.target.hole_bytes = part_of_range(seen, part);
            seen.device_read(1.0 - part);
        }),
        silent("unwritten_reads", "writes into preallocated space", |seen, _| {
            seen.run.target.unwritten_bytes = part_of_range(seen, 1.0);
        })
        .writes(),
        finds("ram_backed", "tmpfs", |seen, _| {
            seen.run.target.class = FilesystemClass::Memory;
            seen.run.target.filesystem = Some("tmpfs".into());
            (seen.run.target.device, seen.run.device) = (None, None);
        }),
        finds("ram_backed", "zram, reads of 20 us", |seen, _| {
            virtual_disk(seen, "zram");
        })
        .on("read=20us")
        .depth(1)
        .seconds(2),
        finds("ram_backed", "/dev/zero", |seen, _| character_device(seen)),
        silent("ram_backed", "loop device", |seen, _| {
            virtual_disk(seen, "loop");
        }),
        silent("ram_backed", "persistent memory, reads of 5 us", |seen, _| {
            seen.device().transport = Some("pmem".into());
            seen.device().is_virtual = None;
        })
        .on("read=5us")
        .depth(1)
        .seconds(1),
        finds(
            "not_local",
            "file system over a network, of the host, of a program",
            |seen, chance| {
                let (name, class) = [
                    ("nfs", FilesystemClass::Network),
                    ("virtiofs", FilesystemClass::HostShare),
                    ("fuse", FilesystemClass::UserSpace),
                    ("overlay", FilesystemClass::Stacked),
                ][chance.index(4)];
                seen.run.target.filesystem = Some(name.into());
                seen.run.target.class = class;
                (seen.run.target.device, seen.run.device) = (None, None);
            },
        ),
        finds("not_local", "ext4 on iSCSI, NBD, RBD or NVMe over TCP", |seen, chance| {
            let transport = one_of(chance, &["iscsi", "nbd", "rbd", "nvme-tcp"]);
            seen.device().transport = Some(transport.into());
        }),
        silent(
            "not_local",
            "xfs, btrfs or a file system without a name, on a disk",
            |seen, chance| {
                let (name, class) = [
                    ("xfs", FilesystemClass::Local),
                    ("btrfs", FilesystemClass::Local),
                    ("unknown (0x1234)", FilesystemClass::Unknown),
                ][chance.index(3)];
                seen.run.target.filesystem = Some(name.into());
                seen.run.target.class = class;
            },
        ),
        silent("not_local", "NVMe over the loop of this machine", |seen, _| {
            seen.device().transport = Some("nvme-loop".into());
        }),
        finds("compressed", "10 to 100 % of the extents are compressed", |seen, chance| {
            let part = between(chance, 0.1, 1.0);
            seen.run.target.filesystem = Some("btrfs".into());
            seen.run.target.encoded_bytes = part_of_range(seen, part);
            seen.device_read(1.0 - part / 2.0);
        }),
        finds("compressed", "mounted with compress, nothing compressed yet", |seen, chance| {
            let options = ["compress", "compress=zstd:3", "compress-force=lzo"];
            seen.run.target.filesystem = Some("btrfs".into());
            seen.run.target.mount_options.push(one_of(chance, &options).into());
        })
        .writes(),
        silent("compressed", "mounted with compress=no or compression=none", |seen, chance| {
            let options = ["compress=no", "compress=none", "compression=none"];
            seen.run.target.filesystem = Some("btrfs".into());
            seen.run.target.mount_options.push(one_of(chance, &options).into());
        })
        .writes(),
        silent("compressed", "f2fs that compresses files that ask for it", |seen, _| {
            seen.run.target.filesystem = Some("f2fs".into());
            for option in ["compress_algorithm=lz4", "compress_log_size=2", "compress_mode=fs"] {
                seen.run.target.mount_options.push(option.into());
            }
        })
        .writes(),
        finds("shared_extents", "writes, 1 to 100 % shared", |seen, chance| {
            let part = between(chance, 0.01, 1.0);
            seen.run.target.shared_bytes = part_of_range(seen, part);
        })
        .writes(),
        silent("shared_extents", "reads, 1 to 100 % shared", |seen, chance| {
            let part = between(chance, 0.01, 1.0);
            seen.run.target.shared_bytes = part_of_range(seen, part);
        }),
        silent("shared_extents", "writes on btrfs, nothing shared", |seen, _| {
            seen.run.target.filesystem = Some("btrfs".into());
        })
        .writes(),
        finds("punted", "io_uring, each request that would block is refused", |seen, _| {
            seen.run.target.punted = Some(true);
        }),
        silent("punted", "psync, each request that would block is refused", |seen, _| {
            seen.run.target.punted = Some(true);
            seen.run.plan.engine = Engine::of(EngineKind::Psync);
        })
        .depth(1),
        silent("punted", "io_uring, one request of 20 is sent again", |_, _| {})
            .on("servers=4,read=exp:1ms,error-every=20,errno=11"),
        finds("host_cache", "virtual disk, reads of 10 to 25 us", |seen, chance| {
            virtual_disk(seen, one_of(chance, &["virtio", "xen", "hyperv"]));
        })
        .on("read=bimodal:0.5:10us:25us")
        .depth(1)
        .seconds(2),
        finds("host_cache", "virtual disk, 15 % of the reads of 20 us", |seen, _| {
            virtual_disk(seen, "virtio");
        })
        .on("read=bimodal:0.15:20us:120us")
        .depth(1),
        finds("host_cache", "loop device, reads of 10 to 25 us", |seen, _| {
            virtual_disk(seen, "loop");
        })
        .on("read=bimodal:0.5:10us:25us")
        .depth(1)
        .seconds(2),
        silent("host_cache", "virtual disk, reads of 45 to 90 us", |seen, _| {
            virtual_disk(seen, "virtio");
        })
        .on("read=bimodal:0.5:45us:90us")
        .depth(1),
        silent("host_cache", "virtual disk, 5 % of the reads of 20 us", |seen, _| {
            virtual_disk(seen, "virtio");
        })
        .on("read=bimodal:0.05:20us:120us")
        .depth(1),
        silent("host_cache", "drive of 10 to 25 us", |_, _| {})
            .on("read=bimodal:0.5:10us:25us")
            .depth(1)
            .seconds(2),
        silent("host_cache", "virtual disk, sequential reads of 10 to 25 us", |seen, _| {
            virtual_disk(seen, "virtio");
        })
        .on("read=bimodal:0.5:10us:25us")
        .asks(|plan| {
            plan.jobs[0].order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
        })
        .depth(1)
        .seconds(2),
    ]
}
