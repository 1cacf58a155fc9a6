//! This machine: its memory file system, its disk, and file systems made for the tests.
#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use iosonde_engine::host::telemetry::Sampler;
use iosonde_engine::host::{self, Root};
use iosonde_engine::target::truth;
use iosonde_model::record::TargetFacts;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_rig::skip;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ioctl_ficlone, open};

const MIB: u64 = 1 << 20;

/// A directory below `place`, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn in_directory(place: &Path, name: &str) -> Self {
        let path = place.join(format!("iosonde-live-{}-{name}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A directory below the build directory, which is on the disk.
    fn on_disk(name: &str) -> Self {
        Self::in_directory(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file system of 320 MiB on a loop device, unmounted and removed on drop.
struct Mounted {
    point: PathBuf,
    _scratch: Scratch,
}

impl Mounted {
    fn new(kind: &str, options: &str) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting needs root".to_owned());
        }
        let scratch = Scratch::on_disk(kind);
        let image = scratch.0.join("image");
        File::create(&image).unwrap().set_len(320 * MIB).unwrap();
        run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))?;
        let point = scratch.0.join("mount");
        fs::create_dir(&point).unwrap();
        let options = format!("loop,{options}");
        run(Command::new("mount").args(["-o", &options]).args([&image, &point]))?;
        Ok(Self { point, _scratch: scratch })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // mount created the loop device, and umount removes it.
        let _ = Command::new("umount").arg(&self.point).status();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}")) }
}

fn skipped(reason: &str) {
    skip(reason);
}

/// Writes and syncs `bytes` of incompressible data.
fn fill(file: &File, bytes: u64) {
    let mut random = File::open("/dev/urandom").unwrap();
    let mut block = vec![0; MIB as usize];
    for at in 0..bytes / MIB {
        random.read_exact(&mut block).unwrap();
        file.write_all_at(&block, at * MIB).unwrap();
    }
    file.sync_all().unwrap();
}

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
}

fn describe(path: &Path, file: impl AsFd, range_bytes: u64) -> TargetFacts {
    truth::describe(&Root::system(), path, file.as_fd(), range_bytes)
}

#[test]
fn this_machine() {
    let facts = host::facts(&Root::system());
    assert!(facts.kernel.is_some());
    assert!(facts.cpus_allowed.is_some_and(|allowed| allowed >= 1));
    assert!(facts.cpus_allowed <= facts.cpus_online.or(facts.cpus_allowed));
    let total = facts.memory_bytes.unwrap();
    assert!(facts.memory_available_bytes.unwrap() <= total);
    assert!(facts.memlock_bytes.is_some());
    let mount = host::mount_of(&Root::system(), Path::new("/proc/self")).unwrap();
    assert_eq!((mount.filesystem.as_str(), mount.point.as_path()), ("proc", Path::new("/proc")));
}

#[test]
fn ticks_of_this_machine_go_forward() {
    let mut sampler = Sampler::new(&Root::system(), None);
    let (first, second) = (sampler.sample(), sampler.sample());
    let sum = |ticks: [u64; 5]| ticks.iter().sum::<u64>();
    assert!(sum(first.cpu_ticks.unwrap()) <= sum(second.cpu_ticks.unwrap()));
}

#[test]
fn a_file_in_memory() {
    let place = Path::new("/dev/shm");
    if !place.is_dir() {
        return skipped("there is no /dev/shm");
    }
    let scratch = Scratch::in_directory(place, "memory");
    let path = scratch.0.join("file");
    let file = create(&path);
    fill(&file, MIB);
    file.set_len(4 * MIB).unwrap();
    let facts = describe(&path, &file, 4 * MIB);
    assert_eq!(facts.kind, "file");
    assert_eq!(facts.filesystem.as_deref(), Some("tmpfs"));
    assert_eq!(facts.class, FilesystemClass::Memory);
    assert_eq!(facts.mount_point.as_deref(), Some("/dev/shm"));
    assert_eq!((facts.bytes, facts.device), (Some(4 * MIB), None));
    assert_eq!((facts.extents, facts.hole_bytes), (None, Some(3 * MIB)));
    assert!(facts.free_bytes.is_some());
    let (cached, sampled) = facts.cached_samples.unwrap();
    assert_eq!(sampled, 64);
    // A quarter of the blocks are cached; the samples are spread evenly.
    assert!((8..=24).contains(&cached), "{cached}");
    assert_ne!(facts.punted, Some(false));
}

#[test]
fn an_unnamed_file_on_disk() {
    let scratch = Scratch::on_disk("unnamed");
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let unnamed: OwnedFd = match open(&scratch.0, flags, Mode::RUSR | Mode::WUSR) {
        Ok(unnamed) => unnamed,
        Err(error) => return skipped(&format!("no unnamed files here: {error}")),
    };
    let file = File::from(unnamed);
    fill(&file, 2 * MIB);
    let facts = describe(&scratch.0, &file, 2 * MIB);
    assert_eq!((facts.kind.as_str(), facts.bytes), ("file", Some(2 * MIB)));
    assert!(!facts.direct);
    assert!(facts.mount_point.is_some());
    if facts.class != FilesystemClass::Local {
        return skipped("the build directory is not on a local file system");
    }
    assert_eq!(facts.hole_bytes, Some(0));
    assert_eq!(facts.unwritten_bytes, Some(0));
    assert!(facts.extents.is_some_and(|extents| extents > 0));
    assert_eq!(facts.cached_samples, Some((64, 64)), "written just now, and buffered");
    let mount = facts.mount_source.as_deref().unwrap();
    if mount.starts_with("/dev/") && mount != "/dev/root" {
        assert!(facts.device.is_some(), "{mount}");
    }
}

#[test]
fn holes_unwritten_space_and_direct_io() {
    let scratch = Scratch::on_disk("holes");
    let path = scratch.0.join("file");
    let file = create(&path);
    // 2 MiB written, 2 MiB preallocated, 4 MiB hole.
    if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, 4 * MIB) {
        return skipped(&format!("no preallocation here: {error}"));
    }
    fill(&file, 2 * MIB);
    file.set_len(8 * MIB).unwrap();
    file.sync_all().unwrap();
    let facts = describe(&path, &file, 8 * MIB);
    if facts.extents.is_none() {
        return skipped("the file system does not tell of extents");
    }
    assert_eq!(facts.hole_bytes, Some(4 * MIB));
    assert_eq!(facts.unwritten_bytes, Some(2 * MIB));
    assert_eq!((facts.shared_bytes, facts.encoded_bytes), (Some(0), Some(0)));
    // Only the range to be used counts.
    let first = describe(&path, &file, MIB);
    assert_eq!((first.hole_bytes, first.unwritten_bytes), (Some(0), Some(0)));

    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::DIRECT | OFlags::NOATIME).bits().cast_signed())
        .open(&path);
    let Ok(direct) = direct else { return skipped("no direct I/O here") };
    let facts = describe(&path, &direct, 2 * MIB);
    assert!(facts.direct && facts.noatime);
    assert_eq!(facts.cached_samples.map(|(_, sampled)| sampled), Some(64));
    assert_eq!(facts.cached_samples, Some((0, 64)), "dropped from the cache, and synced before");
    // Examining a file brings nothing into the cache.
    assert_eq!(describe(&path, &direct, 2 * MIB).cached_samples, Some((0, 64)));
}

#[test]
fn devices_and_directories() {
    let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let facts = describe(Path::new("/dev/null"), &null, MIB);
    assert_eq!((facts.kind.as_str(), facts.bytes, facts.punted), ("null", None, None));
    let zero = File::open("/dev/zero").unwrap();
    assert_eq!(describe(Path::new("/dev/zero"), &zero, MIB).kind, "character device");
    let directory = File::open("/proc").unwrap();
    let facts = describe(Path::new("/proc"), &directory, MIB);
    assert_eq!((facts.kind.as_str(), facts.class), ("directory", FilesystemClass::Virtual));
    let scratch = Scratch::on_disk("empty");
    let path = scratch.0.join("file");
    let facts = describe(&path, create(&path), MIB);
    assert_eq!((facts.bytes, facts.cached_samples, facts.extents), (Some(0), None, None));
    // Open for writing only: whether reads are punted is unknown.
    let path = scratch.0.join("other");
    let file = create(&path);
    fill(&file, MIB);
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(describe(&path, &writer, MIB).punted, None);
}

#[test]
fn xfs_on_a_loop_device() {
    let mounted = match Mounted::new("xfs", "noatime") {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(&reason),
    };
    let path = mounted.point.join("file");
    let file = create(&path);
    fill(&file, 4 * MIB);
    let facts = describe(&path, &file, 4 * MIB);
    assert_eq!((facts.filesystem.as_deref(), facts.class), (Some("xfs"), FilesystemClass::Local));
    assert_eq!(facts.mount_point.as_deref(), mounted.point.to_str());
    assert!(facts.mount_options.iter().any(|option| option == "noatime"));
    let device = facts.device.unwrap();
    assert_eq!((device.transport.as_deref(), device.is_virtual), (Some("loop"), Some(true)));
    assert!(device.slaves[0].ends_with("/image"), "{:?}", device.slaves);
    assert_eq!(device.bytes, Some(320 * MIB));
    assert_eq!(facts.shared_bytes, Some(0));

    let copy = create(&mounted.point.join("copy"));
    if ioctl_ficlone(&copy, &file).is_err() {
        return skipped("this xfs has no reflinks");
    }
    copy.sync_all().unwrap();
    assert_eq!(describe(&path, &file, 4 * MIB).shared_bytes, Some(4 * MIB));

    // The loop device itself, read-only.
    let node = facts.mount_source.unwrap();
    let block = File::open(&node).unwrap();
    let facts = describe(Path::new(&node), &block, 320 * MIB);
    assert_eq!((facts.kind.as_str(), facts.bytes), ("block device", Some(320 * MIB)));
    assert_eq!(facts.device.unwrap().transport.as_deref(), Some("loop"));
    assert_eq!(facts.cached_samples.map(|(_, sampled)| sampled), Some(64));
}

#[test]
fn btrfs_hides_its_device_number_and_compresses() {
    let mounted = match Mounted::new("btrfs", "compress-force=zstd") {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(&reason),
    };
    let path = mounted.point.join("file");
    let mut file = create(&path);
    file.write_all(&vec![7; 4 * MIB as usize]).unwrap();
    file.sync_all().unwrap();
    let facts = describe(&path, &file, 4 * MIB);
    assert_eq!(facts.filesystem.as_deref(), Some("btrfs"));
    assert_eq!(facts.encoded_bytes, Some(4 * MIB));
    assert!(facts.mount_options.iter().any(|option| option.starts_with("compress-force")));
    assert_eq!(facts.device.unwrap().transport.as_deref(), Some("loop"));
}
