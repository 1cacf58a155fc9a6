//! The files that are read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::case::TargetName;
use crate::{BenchError, doing, server};

const UNWRITTEN_BYTES: u64 = 2 << 30;
const WRITTEN_BYTES: u64 = 1 << 30;

/// Both files, made when first asked for.
#[derive(Debug)]
pub(crate) struct Targets {
    dir: PathBuf,
}

impl Targets {
    /// The files below `dir`, which is made.
    pub(crate) fn below(dir: &Path) -> Result<Self, BenchError> {
        fs::create_dir_all(dir).map_err(doing(format!("cannot make {}", dir.display())))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Path and size of one of them.
    pub(crate) fn get(&self, name: TargetName) -> Result<(PathBuf, u64), BenchError> {
        let (file, bytes) = match name {
            TargetName::Unwritten => ("unwritten", UNWRITTEN_BYTES),
            TargetName::Written => ("written", WRITTEN_BYTES),
            TargetName::Served => return Ok((self.dir.join("sock"), server::BYTES)),
        };
        let path = self.dir.join(file);
        let making = format!("cannot make the {file} file of {bytes} bytes");
        match name {
            TargetName::Unwritten => preallocate(&path, bytes),
            TargetName::Written => write_random(&path, bytes),
            TargetName::Served => Ok(()),
        }
        .map_err(doing(making))?;
        Ok((path, bytes))
    }
}

/// Always made anew: a page that somebody wrote would reach the device.
fn preallocate(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = File::create(path)?;
    fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes as i64)?;
    file.sync_all()
}

/// Made once: writing takes a while, and reading does no harm to it.
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
