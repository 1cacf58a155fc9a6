//! Targets that are not the intended storage, each identified in the record.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use iosonde_rig::guard::{FsKind, ImageMount, LoopDevice, LoopOptions, TmpfsMount, ZramDevice};
use iosonde_rig::{ScratchDir, Unavailable, require_root, skip};
use rustix::fs::{FallocateFlags, fallocate, ioctl_ficlone};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::request::{ask, here, lay_out, served, turn};

const MIB: u64 = 1 << 20;
const READS: &str = "run --path {} --rw randread --iodepth 4 --runtime 0.5";

/// Writes and syncs incompressible data.
fn fill(path: &Path, mib: u64) -> File {
    let mut random = File::open("/dev/urandom").unwrap();
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let (file, mut block) = (file.unwrap(), vec![0; MIB as usize]);
    for at in 0..mib {
        random.read_exact(&mut block).unwrap();
        file.write_all_at(&block, at * MIB).unwrap();
    }
    file.sync_all().unwrap();
    file
}

/// A mounted file system without an image, unmounted on drop.
struct Other(ScratchDir);

impl Other {
    fn new(kind: &str, options: &str) -> Result<Self, Unavailable> {
        require_root()?;
        let dir = ScratchDir::new().unwrap();
        let options = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount("rig", dir.path(), kind, MountFlags::NODEV, options.as_c_str())
            .map_err(|error| Unavailable(format!("{kind} cannot be mounted: {error}")))?;
        Ok(Self(dir))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

/// zram with ext4 on it.
pub(crate) struct Zram {
    pub(crate) dir: ScratchDir,
    _device: ZramDevice,
}

impl Zram {
    pub(crate) fn new(bytes: u64) -> Result<Self, Unavailable> {
        let device = ZramDevice::new(bytes)?;
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err(Unavailable("mkfs.ext4 cannot be run".into()));
        }
        let dir = ScratchDir::new().unwrap();
        rustix::mount::mount(device.path(), dir.path(), "ext4", MountFlags::NODEV, c"")
            .map_err(|error| Unavailable(format!("zram cannot be mounted: {error}")))?;
        Ok(Self { dir, _device: device })
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // The rings of a process release their files shortly after its end.
        for _ in 0..50 {
            match rustix::mount::unmount(self.dir.path(), UnmountFlags::empty()) {
                Err(rustix::io::Errno::BUSY) => thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
    }
}

/// `check` refuses the place and names it; with the override it runs, and the verdict is marked.
fn refused_unless_asked_for(path: &Path, name: &str, class: &str, code: &str) {
    let refused = ask("check {} 256M", path).answer().exits(5);
    let message = refused.at("/error/message").as_str().unwrap();
    assert!(message.contains(name), "{message}");
    assert!(refused.at("/error/hint").as_str().unwrap().contains("--allow-fs"));
    let line = format!("check {{}} 256M --only cache --seconds 0.5 --allow-fs {name}");
    let answer = ask(&line, path).answer().exits(0);
    assert_eq!(answer.target("class"), class);
    assert_eq!(answer.target("filesystem"), name);
    answer.finds(code, "proven");
}

/// The image is in memory, so that no test depends on the speed of a disk.
fn image(kind: FsKind, options: &str) -> Option<ImageMount> {
    here(ImageMount::below(Path::new("/dev/shm"), kind, 512 * MIB, options))
}

#[test]
fn memory_is_no_storage() {
    let _turn = turn();
    let Some(tmpfs) = here(TmpfsMount::new(2 << 30)) else { return };
    refused_unless_asked_for(tmpfs.path(), "tmpfs", "memory", "ram_backed");
}

#[test]
fn ramfs_is_no_storage() {
    let _turn = turn();
    let Some(ramfs) = here(Other::new("ramfs", "")) else { return };
    let answer = ask("check {} 256M", ramfs.0.path()).answer();
    // It has no size, so the space may be refused before the kind is.
    assert_ne!(answer.exit, Some(0));
    let file = ramfs.0.path().join("file");
    fill(&file, 8);
    let answer = ask(READS, &file).answer().exits(0);
    assert_eq!(
        (answer.target("filesystem"), answer.target("class")),
        (&"ramfs".into(), &"memory".into())
    );
    answer.finds("ram_backed", "proven");
}

#[test]
fn an_overlay_is_not_the_storage_itself() {
    let _turn = turn();
    let Some(below) = here(ImageMount::below(Path::new("/dev/shm"), FsKind::Ext4, 2 << 30, ""))
    else {
        return;
    };
    let dir = |name: &str| {
        let path = below.path().join(name);
        fs::create_dir(&path).unwrap();
        path.display().to_string()
    };
    let options =
        format!("lowerdir={},upperdir={},workdir={}", dir("lower"), dir("upper"), dir("work"));
    let Some(overlay) = here(Other::new("overlay", &options)) else { return };
    refused_unless_asked_for(overlay.0.path(), "overlay", "stacked", "not_local");
}

#[test]
fn a_served_directory_is_named_and_measured() {
    let _turn = turn();
    let Some(mount) = served(&["read=const:500us"]) else { return };
    let file = mount.path().join("file");
    lay_out(&file, 8);
    let answer = ask(READS, &file).answer().exits(0);
    assert_eq!(answer.target("class"), "user_space");
    answer.finds("not_local", "proven");
}

#[test]
fn each_file_system_on_a_loop_device_is_named() {
    let _turn = turn();
    for kind in FsKind::ALL {
        let Some(mount) = image(kind, "") else { continue };
        let file = mount.path().join("file");
        fill(&file, 8);
        let answer = ask(READS, &file).answer().exits(0);
        assert_eq!(answer.target("filesystem"), kind.name());
        assert_eq!(answer.target("class"), "local");
        assert_eq!(answer.target("device/transport"), "loop");
        assert_eq!(answer.target("direct"), true);
        assert_eq!(answer.target("unwritten_bytes"), 0);
        for code in ["not_local", "ram_backed", "unwritten_reads", "page_cache", "compressed"] {
            answer.finds_no(code);
        }
    }
}

#[test]
fn compression_is_named() {
    let _turn = turn();
    let Some(mount) = image(FsKind::Btrfs, "compress-force=zstd") else { return };
    let file = mount.path().join("file");
    lay_out(&file, 16);
    let answer = ask(READS, &file).answer().exits(0);
    answer.finds("compressed", "proven");
    assert_eq!(answer.target("encoded_bytes"), 16 * MIB);
}

#[test]
fn space_that_was_never_written_is_named() {
    let _turn = turn();
    for kind in FsKind::ALL {
        let Some(mount) = image(kind, "") else { continue };
        let (sparse, reserved) = (mount.path().join("sparse"), mount.path().join("reserved"));
        File::create(&sparse).unwrap().set_len(32 * MIB).unwrap();
        fallocate(File::create(&reserved).unwrap(), FallocateFlags::empty(), 0, 32 * MIB).unwrap();
        for (file, fact) in [(&sparse, "hole_bytes"), (&reserved, "unwritten_bytes")] {
            let answer = ask(READS, file).answer().exits(0);
            answer.finds("unwritten_reads", "proven");
            assert_eq!(answer.target(fact), 32 * MIB, "{kind:?}");
            assert!(answer.at("/verdict/words").as_str().unwrap().starts_with("low confidence"));
        }
    }
}

#[test]
fn extents_that_belong_to_two_files_are_named() {
    let _turn = turn();
    for kind in [FsKind::Xfs, FsKind::Btrfs] {
        let Some(mount) = image(kind, "") else { continue };
        let (first, copy) = (mount.path().join("first"), mount.path().join("copy"));
        lay_out(&first, 16);
        let file = File::options().write(true).create(true).truncate(false).open(&copy).unwrap();
        if let Err(error) = ioctl_ficlone(&file, File::open(&first).unwrap()) {
            skip(format!("{} has no reflinks here: {error}", kind.name()));
            continue;
        }
        file.sync_all().unwrap();
        drop(file);
        let reads = ask(READS, &copy).answer().exits(0);
        assert_eq!(reads.target("shared_bytes"), 16 * MIB, "{kind:?}");
        reads.finds_no("shared_extents");
        // A file with shared extents is written only if consent names it.
        let line = "run --path {} --rw randwrite --iodepth 4 --runtime 0.5 --overwrite-file={}";
        ask(line, &copy).answer().exits(0).finds("shared_extents", "proven");
    }
}

#[test]
fn reads_from_the_page_cache_are_named() {
    let _turn = turn();
    let Some(mount) = image(FsKind::Ext4, "") else { return };
    let file = mount.path().join("file");
    drop(fill(&file, 32));
    // The cache is dropped before the run and fills during it.
    let answer = ask(&format!("{READS} --direct 0"), &file).answer().exits(0);
    assert_eq!(answer.target("cached_samples/0"), 0);
    answer.finds("page_cache", "proven");
    // With direct I/O on the same file there is no such finding.
    ask(READS, &file).answer().exits(0).finds_no("page_cache");
}

#[test]
fn zram_is_memory_and_hands_requests_to_workers() {
    let _turn = turn();
    let Some(zram) = here(Zram::new(512 * MIB)) else { return };
    let file = zram.dir.path().join("file");
    fill(&file, 32);
    let answer = ask(READS, &file).answer().exits(0);
    assert_eq!(answer.target("device/transport"), "zram");
    answer.finds("ram_backed", "proven");
    assert_eq!(answer.target("punted").as_bool(), Some(answer.finding("punted").is_some()));
}

#[test]
fn endless_devices_are_no_storage() {
    let _turn = turn();
    let line = "run --path {} --size 64M --rw read --runtime 0.5";
    for (path, kind) in [("/dev/zero", "character device"), ("/dev/null", "null")] {
        let answer = ask(line, path).answer();
        assert_eq!(answer.target("kind"), kind);
        answer.finds_no("page_cache");
        if path == "/dev/null" {
            // It returns no data: an early end of file, and no rate.
            assert_eq!(answer.exit, Some(1));
        } else {
            answer.exits(0).finds("ram_backed", "proven");
        }
    }
    let line = "run --path {} --size 64M --rw write --runtime 0.5";
    for path in ["/dev/zero", "/dev/null"] {
        ask(line, path).answer().exits(0).finds("ram_backed", "proven");
    }
}

#[test]
fn a_block_device_is_read_and_never_written() {
    let _turn = turn();
    let dir = ScratchDir::below(Path::new("/dev/shm")).unwrap();
    let image = dir.path().join("image");
    fill(&image, 32);
    let before = fs::read(&image).unwrap();
    let Some(device) = here(LoopDevice::over(&image, LoopOptions::default())) else { return };
    let answer = ask(READS, device.path()).answer().exits(0);
    assert_eq!(answer.target("kind"), "block device");
    assert_eq!(answer.target("bytes"), 32 * MIB);
    assert_eq!(answer.target("device/transport"), "loop");
    for rw in ["write", "randwrite", "randrw"] {
        let line = format!("run --path {{}} --rw {rw} --runtime 0.5");
        let refused = ask(&line, device.path()).answer().exits(5);
        assert!(refused.at("/error/message").as_str().unwrap().contains("--destroy-data="));
    }
    assert!(fs::read(&image).unwrap() == before, "nothing was written");
    drop(device);
    let options = LoopOptions { read_only: true, ..LoopOptions::default() };
    let Some(device) = here(LoopDevice::over(&image, options)) else { return };
    ask(READS, device.path()).answer().exits(0);
}

#[test]
fn a_file_that_is_swap_is_not_written() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let file = dir.path().join("swap");
    lay_out(&file, 16);
    let made = Command::new("mkswap").arg("-q").arg(&file).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip("mkswap cannot be run");
    }
    // Not in use: its signature alone counts as foreign data.
    let line = "run --path {} --rw randwrite --runtime 0.5";
    let refused = ask(line, &file).answer().exits(5);
    assert!(refused.at("/error/message").as_str().unwrap().contains("--overwrite-file"));
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let _turn = turn();
    let Some(mount) = here(ImageMount::below(Path::new("/dev/shm"), FsKind::Ext4, 2 << 30, ""))
    else {
        return;
    };
    here(mount.set_read_only(true)).unwrap();
    let answer = ask("check {} 256M --only cache --seconds 0.5", mount.path()).answer();
    assert_eq!(answer.exit, Some(1));
    assert!(answer.at("/error/message").as_str().unwrap().to_lowercase().contains("read-only"));
}
