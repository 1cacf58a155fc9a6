//! Where requests go: positions on the disk, order within files, and owner of the memory.

use std::path::Path;

use iosonde_model::record::profile::FileRun;
use iosonde_rig::guard::{FsKind, ImageMount};

use super::{MEMORY, MIB, disk, has, name, profile, settle};
use crate::request::{here, turn};

#[test]
fn even_access_by_large_requests_has_no_hot_place() {
    let _turn = turn();
    let Some(mount) = disk() else { return };
    // More requests than are recorded singly, however the kernel splits large ones.
    let script = "dd if=/dev/zero of=file bs=1M count=32 conv=fsync status=none; \
                  for pass in $(seq 60); do dd if=/dev/zero of=file bs=64k count=512 oflag=direct \
                  conv=notrunc status=none; done";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    let places = run.places.iter().find(|place| place.device == name(mount.device())).unwrap();
    assert!(places.block_shift > 0, "all requests were looked at: {places:?}");
    let mut counts: Vec<u64> = places.chunks.iter().map(|chunk| chunk.writes).collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let hottest = counts.iter().take(counts.len() / 5).sum::<u64>() as f64;
    let share = hottest / counts.iter().sum::<u64>() as f64;
    assert!(counts.len() >= 30 && share < 0.35, "{share}: {counts:?}");
}

#[test]
fn appends_within_a_page_are_sequential() {
    let _turn = turn();
    let Some(mount) = has("fio").then(disk).flatten() else { return };
    // The blocks of the file are contiguous; otherwise each extent would start a new stream.
    let script = "fio --name=a --filename=log --rw=write --bs=100 --size=50000 --fallocate=keep \
                  --fdatasync=1 --output=/dev/null";
    let Some(run) = profile(mount.device(), mount.path(), script).seen() else { return };
    let FileRun { writes, sequential, .. } = file(&run.files, "log").unwrap();
    assert!(*writes >= 450 && *sequential as f64 >= 0.9 * *writes as f64, "{sequential} {writes}");
}

#[test]
fn a_mapped_file_that_is_the_memory_of_direct_reads_is_not_read() {
    let _turn = turn();
    let mount = ImageMount::below(Path::new(MEMORY), FsKind::Btrfs, 512 * MIB, "");
    let Some(mount) = has("fio").then(|| here(mount)).flatten() else { return };
    std::fs::write(mount.path().join("data"), vec![7; 8 << 20]).unwrap();
    std::fs::write(mount.path().join("memory"), vec![1; 1 << 20]).unwrap();
    settle(&mount);
    let memory = mount.path().join("memory");
    let script = format!(
        "fio --name=r --filename=data --rw=read --bs=64k --size=8m --direct=1 --readonly \
         --iomem=mmapshared:{} --output=/dev/null",
        memory.display()
    );
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let read = |files: &[FileRun]| files.iter().map(|file| file.read_bytes).sum::<u64>();
    assert!(read(&run.files) >= 8 * MIB, "{:?}", run.files);
    let of_memory = file(&run.files, "memory").map_or(0, |file| file.read_bytes);
    assert!(of_memory <= MIB, "{of_memory} bytes: {:?}", run.files);
}

fn file<'a>(files: &'a [FileRun], name: &str) -> Option<&'a FileRun> {
    files.iter().find(|file| file.path.ends_with(&format!("/{name}")))
}
