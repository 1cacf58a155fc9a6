//! The file system that the kernel sees: one flat directory of regular files.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::device::Device;
use crate::fault::{Effect, Op};
use crate::files::{self, Directory, File, FileRef, ROOT, lock};
use crate::schedule::Schedule;
use crate::script::Script;
use crate::store::{Content, PAGE_BYTES};
use crate::truth::Truth;

/// Names and attributes change only through the kernel, except by a power cut.
const TTL: Duration = Duration::from_secs(1);
const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// State shared by all requests.
pub(crate) struct Core {
    clock: Instant,
    device: Mutex<Device>,
    truth: Mutex<Truth>,
    directory: Mutex<Directory>,
    script: Script,
    created: SystemTime,
}

impl Core {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            clock: Instant::now(),
            device: Mutex::new(Device::new(script.clone())),
            truth: Mutex::new(Truth::new(script.sample)),
            directory: Mutex::new(Directory { last_ino: ROOT, ..Directory::default() }),
            created: SystemTime::now(),
            script,
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    pub(crate) fn truth(&self) -> Truth {
        let fired = lock(&self.device).fired();
        lock(&self.truth).closed(fired)
    }

    pub(crate) fn restart(&self) {
        lock(&self.device).restart();
        *lock(&self.truth) = Truth::new(self.script.sample);
    }

    /// Drops unsynced data, except pages for which `is_kept` returns true. Returns the inodes whose
    /// pages in the kernel's cache are now stale.
    pub(crate) fn power_cut(&self, mut is_kept: impl FnMut() -> bool) -> Vec<u64> {
        let directory = lock(&self.directory);
        for file in directory.files.values() {
            let mut file = lock(file);
            file.content.power_cut(|_| is_kept());
            file.changed = SystemTime::now();
        }
        directory.files.keys().copied().collect()
    }

    fn file(&self, ino: INodeNo) -> Result<FileRef, Errno> {
        lock(&self.directory).files.get(&ino.0).cloned().ok_or(Errno::ENOENT)
    }

    fn root_attr(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo(ROOT),
            size: 0,
            blocks: 0,
            atime: self.created,
            mtime: self.created,
            ctime: self.created,
            crtime: self.created,
            kind: FileType::Directory,
            perm: 0o1777,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE_BYTES as u32,
            flags: 0,
        }
    }

    fn attr(&self, ino: INodeNo) -> Result<FileAttr, Errno> {
        if ino.0 == ROOT {
            return Ok(self.root_attr());
        }
        let file = self.file(ino)?;
        let attr = lock(&file).attr(ino.0);
        Ok(attr)
    }

    fn open_flags(&self) -> FopenFlags {
        if self.script.direct_io {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::empty()
        }
    }
}

/// The FUSE handlers: turn requests into tickets and answer them when they are due.
pub(crate) struct Server {
    core: Arc<Core>,
    schedule: Schedule,
}

impl Server {
    pub(crate) fn new(core: Arc<Core>, schedule: Schedule) -> Self {
        Self { core, schedule }
    }

    /// Admits a request. When it is due, runs `work`, records the answer and sends it. `work`
    /// returns the bytes acknowledged and the data of the answer.
    fn serve<T: Send + 'static>(
        &self,
        (op, offset, length): (Op, u64, u64),
        work: impl FnOnce(Option<Effect>) -> Result<(u64, T), Errno> + Send + 'static,
        reply: impl FnOnce(Result<(u64, T), Errno>) + Send + 'static,
    ) {
        let core = Arc::clone(&self.core);
        let ticket = {
            let mut device = lock(&core.device);
            device.admit(core.now_ns(), op, offset, length)
        };
        let due = core.clock + Duration::from_nanos(ticket.due_ns);
        let answer = move || {
            let result = match ticket.effect {
                Some(Effect::Errno(errno)) => Err(Errno::from_i32(errno)),
                effect => work(effect),
            };
            let bytes = result.as_ref().ok().map(|(bytes, _)| *bytes);
            // Recorded before it is sent, so that a client that has its answer finds it recorded.
            lock(&core.truth).answered(&ticket, core.now_ns(), bytes);
            reply(result);
        };
        if ticket.due_ns == ticket.arrived_ns {
            answer();
        } else {
            self.schedule.at(due, Box::new(answer));
        }
    }

    fn create_file(&self, req: &Request, name: &OsStr, perm: u16) -> Result<FileAttr, Errno> {
        let mut directory = lock(&self.core.directory);
        if directory.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        directory.last_ino += 1;
        let ino = directory.last_ino;
        let file = File {
            content: Content::default(),
            perm,
            uid: req.uid(),
            gid: req.gid(),
            changed: SystemTime::now(),
            linked: true,
            lookups: 1,
        };
        let attr = file.attr(ino);
        directory.names.insert(name.to_owned(), ino);
        directory.files.insert(ino, Arc::new(Mutex::new(file)));
        Ok(attr)
    }

    fn look_up(&self, name: &OsStr) -> Result<FileAttr, Errno> {
        let directory = lock(&self.core.directory);
        let ino = *directory.names.get(name).ok_or(Errno::ENOENT)?;
        let mut file = lock(directory.files.get(&ino).ok_or(Errno::ENOENT)?);
        file.lookups += 1;
        Ok(file.attr(ino))
    }
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        if self.core.script.async_dio {
            config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| {
                std::io::Error::other("this kernel's FUSE has no asynchronous direct I/O")
            })?;
        }
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        // Direct requests are background ones: the default of 16 would cap the depth.
        let _ = config.set_max_background(4096);
        let _ = config.set_congestion_threshold(4096);
        Ok(())
    }

    fn lookup(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(name) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, lookups: u64) {
        lock(&self.core.directory).forget(ino.0, lookups);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.core.attr(ino) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if ino.0 == ROOT {
            return reply.attr(&TTL, &self.core.root_attr());
        }
        let file = match self.core.file(ino) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let mut file = lock(&file);
        file.perm = mode.map_or(file.perm, |mode| (mode & 0o7777) as u16);
        file.uid = uid.unwrap_or(file.uid);
        file.gid = gid.unwrap_or(file.gid);
        if let Some(size) = size {
            file.content.truncate(size);
        }
        file.changed = SystemTime::now();
        reply.attr(&TTL, &file.attr(ino.0));
    }

    fn mknod(
        &self,
        req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        const TYPE: u32 = 0o170_000;
        const REGULAR: u32 = 0o100_000;
        if mode & TYPE != REGULAR {
            return reply.error(Errno::EPERM);
        }
        match self.create_file(req, name, (mode & 0o7777) as u16) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(req, name, (mode & 0o7777) as u16) {
            Ok(attr) => {
                let flags = self.core.open_flags();
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), self.core.open_flags());
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match lock(&self.core.directory).unlink(name) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let mut directory = lock(&self.core.directory);
        let Some(ino) = directory.names.get(name).copied() else {
            return reply.error(Errno::ENOENT);
        };
        if name != newname {
            let _ = directory.unlink(newname);
            directory.names.remove(name);
            directory.names.insert(newname.to_owned(), ino);
        }
        reply.ok();
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.core.file(ino);
        let length = u64::from(size);
        self.serve(
            (Op::Read, offset, length),
            move |effect| {
                let file = file?;
                let data = files::read(&lock(&file), offset, length, effect);
                Ok((data.len() as u64, data))
            },
            move |result| match result {
                Ok((_, data)) => reply.data(&data),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = self.core.file(ino);
        let data = data.to_vec();
        self.serve(
            (Op::Write, offset, data.len() as u64),
            move |effect| {
                let file = file?;
                files::store(&mut lock(&file), offset, &data, effect);
                Ok((data.len() as u64, ()))
            },
            move |result| match result {
                Ok((bytes, ())) => reply.written(bytes as u32),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let file = self.core.file(ino);
        self.serve(
            (Op::Sync, 0, 0),
            move |effect| {
                let file = file?;
                if effect != Some(Effect::Lie) {
                    lock(&file).content.sync();
                }
                Ok((0, ()))
            },
            move |result| match result {
                Ok(_) => reply.ok(),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        // Names are durable at once.
        reply.ok();
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 1;
        const PUNCH_HOLE: i32 = 2;
        const ZERO_RANGE: i32 = 16;
        if !self.core.script.fallocate || mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let file = match self.core.file(ino) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let mut file = lock(&file);
        if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 {
            file.content.zero(offset, length);
        }
        if mode & KEEP_SIZE == 0 {
            file.content.grow(offset.saturating_add(length));
        }
        file.changed = SystemTime::now();
        reply.ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let directory = lock(&self.core.directory);
        let dots = [OsStr::new("."), OsStr::new("..")].map(|dot| (ROOT, FileType::Directory, dot));
        let files = directory.names.iter();
        let files = files.map(|(name, &ino)| (ino, FileType::RegularFile, name.as_os_str()));
        let entries = dots.into_iter().chain(files).zip(1_u64..).skip(offset as usize);
        for ((ino, kind, name), next) in entries {
            if reply.add(INodeNo(ino), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let directory = lock(&self.core.directory);
        let stored: u64 =
            directory.files.values().map(|file| lock(file).content.stored_bytes()).sum();
        let blocks = self.core.script.capacity_bytes / PAGE_BYTES;
        let free = blocks.saturating_sub(stored / PAGE_BYTES);
        let inodes = 1 << 20;
        let free_inodes = inodes - directory.files.len() as u64;
        let block = PAGE_BYTES as u32;
        reply.statfs(blocks, free, free, inodes, free_inodes, block, 255, block);
    }
}
