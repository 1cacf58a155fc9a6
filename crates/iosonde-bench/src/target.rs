//! The files that the tools read and write.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::case::TargetName;
use crate::watched::Loop;
use crate::{BenchError, doing, server};

const UNWRITTEN_BYTES: u64 = 2 << 30;
const WRITTEN_BYTES: u64 = 1 << 30;
const MEMORY_BYTES: u64 = 256 << 20;
const LONG_MEMORY_BYTES: u64 = 1 << 30;
/// Path of the file in memory.
const IN_MEMORY: &str = "/dev/shm/iosonde-bench";

/// Path of the loop device's backing file.
const LOOP_IN_MEMORY: &str = "/dev/shm/iosonde-bench-loop";

/// All files, created at first use. Those in memory are removed on drop.
#[derive(Debug)]
pub(crate) struct Targets {
    dir: PathBuf,
    /// Run time in a job file, seconds.
    seconds: f64,
    loop_device: OnceCell<Loop>,
}

impl Targets {
    /// The files below `dir`, which is created, for runs of `seconds`.
    pub(crate) fn below(dir: &Path, seconds: f64) -> Result<Self, BenchError> {
        fs::create_dir_all(dir).map_err(doing(format!("cannot make {}", dir.display())))?;
        Ok(Self { dir: dir.to_owned(), seconds, loop_device: OnceCell::new() })
    }

    /// Paths of a target, and its size.
    pub(crate) fn get(&self, name: TargetName) -> Result<(Vec<PathBuf>, u64), BenchError> {
        let path = |file: &str| self.dir.join(file);
        let (paths, bytes) = match name {
            TargetName::Unwritten => (vec![path("unwritten")], UNWRITTEN_BYTES),
            TargetName::Pair => {
                let three = ["unwritten", "unwritten-2", "two-jobs.fio"].map(path);
                (three.to_vec(), UNWRITTEN_BYTES)
            }
            TargetName::Written => (vec![path("written")], WRITTEN_BYTES),
            TargetName::Memory => (vec![PathBuf::from(IN_MEMORY)], MEMORY_BYTES),
            TargetName::LongMemory => (vec![PathBuf::from(IN_MEMORY)], LONG_MEMORY_BYTES),
            TargetName::DevNull => return Ok((vec!["/dev/null".into()], UNWRITTEN_BYTES)),
            TargetName::Served => return Ok((vec![path("sock")], server::BYTES)),
            TargetName::Loop => return Ok((vec![self.loop_device()?], MEMORY_BYTES)),
        };
        let making = format!("cannot make the {name:?} target of {bytes} bytes");
        match name {
            TargetName::Unwritten => preallocate(&paths[0], bytes),
            TargetName::Pair => make_pair(&paths, bytes, self.seconds),
            TargetName::Written => write_random(&paths[0], bytes),
            TargetName::Memory | TargetName::LongMemory => preallocate(&paths[0], bytes),
            TargetName::DevNull | TargetName::Served | TargetName::Loop => Ok(()),
        }
        .map_err(doing(making))?;
        Ok((paths, bytes))
    }

    /// The node of the loop device, which is created at first use.
    fn loop_device(&self) -> Result<PathBuf, BenchError> {
        if let Some(device) = self.loop_device.get() {
            return Ok(device.path());
        }
        let file = Path::new(LOOP_IN_MEMORY);
        preallocate(file, MEMORY_BYTES).map_err(doing("cannot make the file of a loop device"))?;
        let device = Loop::over(file)?;
        Ok(self.loop_device.get_or_init(|| device).path())
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = fs::remove_file(IN_MEMORY);
        let _ = fs::remove_file(LOOP_IN_MEMORY);
    }
}

/// Two preallocated files, and a job file with a job for each.
fn make_pair(paths: &[PathBuf], bytes: u64, seconds: f64) -> std::io::Result<()> {
    let [one, other, jobs] = paths else { return Ok(()) };
    preallocate(one, bytes)?;
    preallocate(other, bytes)?;
    let mut text = format!(
        "[global]\nioengine=io_uring\nrw=randread\nbs=4k\niodepth=128\ndirect=1\n\
         runtime={}\ntime_based\n",
        // Whole seconds, as fio requires.
        seconds.ceil()
    );
    for (name, path) in [("one", one), ("other", other)] {
        text.push_str(&format!("[{name}]\nfilename={}\n", path.display()));
    }
    fs::write(jobs, text)
}

/// Always created anew: reads of a page that was written would reach the device.
fn preallocate(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = File::create(path)?;
    fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes as i64)?;
    file.sync_all()
}

/// Created once, because writing it takes long and reading does not change it. Verification leaves
/// data that are as random.
fn write_random(path: &Path, bytes: u64) -> std::io::Result<()> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() == bytes && meta.blocks() * 512 >= bytes) {
        return Ok(());
    }
    let mut random = File::open("/dev/urandom")?;
    let mut file = File::create(path)?;
    let mut chunk = vec![0; 4 << 20];
    for _ in 0..bytes / chunk.len() as u64 {
        random.read_exact(&mut chunk)?;
        file.write_all(&chunk)?;
    }
    file.sync_all()
}
