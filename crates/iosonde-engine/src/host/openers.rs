//! Processes that have a device or a file open, or mapped into their memory.
//!
//! The kernel identifies the object behind a descriptor by number. So a block device is recognised
//! through any node, and a file by any name and in any mount namespace. Sources:
//! proc_pid_fd(5), proc_pid_fdinfo(5), proc_pid_map_files(5), proc_pid_maps(5), proc_pid_task(5).

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use iosonde_sys::sharing;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, makedev, openat, statx};
use rustix::io::Errno;

use super::{Root, device, mount};

/// Most that is read of one process's list of mappings, bytes: some 100,000 mappings.
const MAPS_LIMIT_BYTES: u64 = 16 << 20;
/// Maximum number of unexamined processes that are named.
const NAMED: usize = 3;
/// Flag of a kernel thread (`PF_KTHREAD`) in proc_pid_stat(5).
const KERNEL_THREAD: u32 = 0x0020_0000;
/// A descriptor that only names a file (`O_PATH`).
const PATH_ONLY: u32 = 0o10_000_000;
/// The first PID namespace; all processes of the machine are in it or below it.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// `CAP_SYS_PTRACE`, as a bit of `CapEff`.
const PTRACE: u64 = 1 << 19;

/// A file by its numbers in `stat`, independent of its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileId {
    /// Device number of its file system (`st_dev`).
    pub device: u64,
    /// Inode number (`st_ino`).
    pub inode: u64,
}

/// The object behind a descriptor, by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Thing {
    /// A block device.
    Device((u32, u32)),
    /// A character device.
    Character((u32, u32)),
    /// A regular file.
    File(FileId),
}

/// How a process uses a device or file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Open for writing.
    Write,
    /// Open for reading.
    Read,
    /// Mapped into its memory.
    Map,
}

/// A process that has a device or file open or mapped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Opener {
    pub(super) thing: Thing,
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) access: Access,
    /// Whether it is this process.
    pub(super) is_own: bool,
}

/// What could not be examined, so that a process that uses the target may have been missed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unseen {
    /// Processes, by id and name, whose descriptors or mappings are not shown to this user.
    pub processes: Vec<(u32, String)>,
    /// Other reasons why users of the target may be hidden, in words.
    pub others: Vec<String>,
}

impl Unseen {
    /// Whether everything was examined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.others.is_empty()
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.processes.is_empty() {
            let count = self.processes.len();
            let named = self.processes.iter().take(NAMED);
            let mut named: Vec<String> =
                named.map(|(pid, program)| format!("{pid} ({program})")).collect();
            if count > NAMED {
                named.push(format!("{} more", count - NAMED));
            }
            let noun = if count == 1 { "process" } else { "processes" };
            let which = "that this user may not examine";
            parts.push(format!("{count} {noun} {which}: {}", named.join(", ")));
        }
        parts.extend(self.others.iter().cloned());
        f.write_str(&parts.join("; "))
    }
}

/// The devices and files that processes have open or mapped.
#[derive(Clone, Debug, Default)]
pub(super) struct Openers {
    /// Users of any block device, and of the other things that were wanted.
    pub(super) found: Vec<Opener>,
    pub(super) unseen: Unseen,
    /// Processes examined.
    pub(super) processes: u32,
}

impl Openers {
    /// Examines every process, for all block devices and for these things.
    pub(super) fn of(root: &Root, wanted: &[Thing]) -> Openers {
        let own = root.link("/proc/self").and_then(|link| link.to_str()?.parse().ok());
        let mut scan =
            Scan { root, wanted, own, mapped: BTreeMap::new(), openers: Openers::default() };
        let pids = numbers(&root.path("/proc")).unwrap_or_default();
        if own.is_some_and(|own| !pids.contains(&own)) || pids.is_empty() && root.is_system() {
            scan.openers.unseen.others.push("all processes: /proc does not show them".into());
        }
        for pid in pids {
            scan.process(pid);
        }
        let mut openers = scan.openers;
        openers.unseen.others.extend(hidden(root));
        openers
    }
}

/// Reasons why `/proc` may not show all processes, in words.
fn hidden(root: &Root) -> Vec<String> {
    let mut found = Vec::new();
    let namespace = root.link("/proc/self/ns/pid");
    if namespace.is_some_and(|namespace| namespace != Path::new(FIRST_PID_NAMESPACE)) {
        found.push("processes outside this container (PID namespace)".into());
    }
    let status = root.text("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let sees_all = effective.is_some_and(|bits| bits & PTRACE != 0);
    let hides = |option: &String| {
        option.strip_prefix("hidepid=").is_some_and(|how| !matches!(how, "0" | "off"))
    };
    let proc = mount::all(root).into_iter().rfind(|mount| mount.point == Path::new("/proc"));
    if !sees_all && proc.is_some_and(|mount| mount.options.iter().any(hides)) {
        found.push("processes that /proc hides from this user (hidepid)".into());
    }
    found
}

/// One pass over all processes.
struct Scan<'a> {
    root: &'a Root,
    wanted: &'a [Thing],
    own: Option<u32>,
    /// Cache of mapped objects, by the columns device, inode and path: most processes map the same
    /// libraries.
    mapped: BTreeMap<Vec<u8>, Thing>,
    openers: Openers,
}

/// A task or process as its `stat` describes it.
struct Task {
    is_kernel: bool,
    threads: u32,
}

/// Whether the error means that the process has ended.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

impl Scan<'_> {
    fn process(&mut self, pid: u32) {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let task = self.task(&directory);
        if task.as_ref().is_some_and(|task| task.is_kernel) {
            return;
        }
        let found_before = self.openers.found.len();
        match self.everything(&directory, pid, task.map_or(0, |task| task.threads)) {
            Ok(()) => self.openers.processes += 1,
            Err(error) if is_gone(&error) => self.openers.found.truncate(found_before),
            Err(_) => {
                let program = self.program(&directory);
                self.openers.unseen.processes.push((pid, program));
            }
        }
        if self.openers.found.len() > found_before {
            let program = self.program(&directory);
            for opener in &mut self.openers.found[found_before..] {
                opener.program.clone_from(&program);
            }
        }
    }

    fn program(&self, directory: &Path) -> String {
        device::words(&self.root.word(directory.join("comm")).unwrap_or_default())
    }

    /// `12 (a name) S ppid pgrp session tty tpgid flags …`; the name may hold anything.
    fn task(&self, directory: &Path) -> Option<Task> {
        let text = self.root.text(directory.join("stat"))?;
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let flags: u32 = fields.nth(6)?.parse().ok()?;
        let threads = fields.nth(10)?.parse().ok()?;
        Some(Task { is_kernel: flags & KERNEL_THREAD != 0, threads })
    }

    fn everything(&mut self, process: &Path, pid: u32, threads: u32) -> io::Result<()> {
        let tasks = match threads {
            1 => vec![pid],
            _ => numbers(&self.root.path(process.join("task"))).unwrap_or_else(|_| vec![pid]),
        };
        let mut is_mapped = false;
        for task in tasks {
            let directory =
                if task == pid { process.into() } else { process.join(format!("task/{task}")) };
            // The kernel knows nothing about the processes of a recorded tree.
            let is_thread = task != pid && self.root.is_system();
            let shares = is_thread && sharing::share_descriptors(pid, task).unwrap_or(false);
            let seen = if shares { Ok(()) } else { self.descriptors(&directory, pid) };
            // All threads share their memory, but a main thread that has ended shows none of it.
            let seen = seen.and_then(|()| match is_mapped {
                true => Ok(true),
                false => self.mappings(&directory, pid),
            });
            match seen {
                Ok(mapped) => is_mapped = mapped,
                // A thread may end before its process.
                Err(error) if is_gone(&error) && task != pid => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn descriptors(&mut self, task: &Path, pid: u32) -> io::Result<()> {
        let directory = Directory::open(self.root, &task.join("fd"))?;
        for number in directory.numbers()? {
            let thing = directory.leads_to(&number.to_string())?;
            let Some(thing) = thing.filter(|thing| self.matters(*thing)) else { continue };
            match self.flags(&task.join(format!("fdinfo/{number}"))) {
                Some(flags) if flags & PATH_ONLY != 0 => {}
                Some(flags) if flags & 3 == 0 => self.found(thing, pid, Access::Read),
                // Where the flags cannot be read, assume the worst.
                _ => self.found(thing, pid, Access::Write),
            }
        }
        Ok(())
    }

    /// `flags: 0100002`, octal.
    fn flags(&self, info: &Path) -> Option<u32> {
        let info = self.root.text(info)?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    }

    fn matters(&self, thing: Thing) -> bool {
        matches!(thing, Thing::Device(_)) || self.wanted.contains(&thing)
    }

    fn found(&mut self, thing: Thing, pid: u32, access: Access) {
        let is_own = self.own == Some(pid);
        let opener = Opener { thing, pid, program: String::new(), access, is_own };
        // Each descriptor of this process counts: a second one prevents a lease.
        if is_own || !self.openers.found.contains(&opener) {
            self.openers.found.push(opener);
        }
    }

    /// Adds the mapped objects of a task. Returns whether it has any mappings.
    fn mappings(&mut self, task: &Path, pid: u32) -> io::Result<bool> {
        let text = match self.root.read(task.join("maps"), MAPS_LIMIT_BYTES) {
            Ok(text) => text,
            // A recorded tree may have no `maps`.
            Err(error) if is_gone(&error) && !self.root.is_system() => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut directory = None;
        for line in text.split(|byte| *byte == b'\n') {
            let Some(mapping) = Mapping::parse(line) else { continue };
            let thing = match self.mapped.get(mapping.of) {
                Some(known) => Some(*known),
                None => {
                    let open = || Directory::open(self.root, &task.join("map_files")).ok();
                    let thing =
                        self.behind(&mapping, directory.get_or_insert_with(open).as_ref())?;
                    // Subvolumes may share an anonymous device number and a path: not cached.
                    // Nor is `None`: this mapping may just have vanished, in this process only.
                    if let Some(thing) = thing.filter(|_| mapping.device.0 != 0) {
                        self.mapped.insert(mapping.of.to_vec(), thing);
                    }
                    thing
                }
            };
            if let Some(thing) = thing.filter(|thing| self.matters(*thing)) {
                self.found(thing, pid, Access::Map);
            }
        }
        Ok(!text.is_empty())
    }

    /// The object behind a mapping: by its link, or without the needed capability by its columns.
    fn behind(
        &self,
        mapping: &Mapping<'_>,
        directory: Option<&Directory<'_>>,
    ) -> io::Result<Option<Thing>> {
        match directory.map(|directory| directory.leads_to(&mapping.name)) {
            None => {}
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Some(known) => return known,
        }
        let is_it = |thing: &&Thing| {
            let (major, minor) = mapping.device;
            matches!(thing, Thing::File(id) if id.inode == mapping.inode
                && (major == 0 || id.device == makedev(major, minor)))
        };
        let by_path = || {
            let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(mapping.path);
            device::number_of_node(self.root, Path::new(path)).map(Thing::Device)
        };
        Ok(self.wanted.iter().find(is_it).copied().or_else(by_path))
    }
}

/// A line of proc_pid_maps(5) that maps a file or device.
struct Mapping<'a> {
    /// Its name in `map_files`.
    name: String,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
    /// All columns from the device on.
    of: &'a [u8],
}

impl Mapping<'_> {
    /// `7f00-7f01 r--s 00000000 fe:00 1234    /path`, the device in hexadecimal.
    fn parse(line: &[u8]) -> Option<Mapping<'_>> {
        let mut columns = line.splitn(4, |byte| *byte == b' ');
        let range = std::str::from_utf8(columns.next()?).ok()?;
        let of = columns.nth(2)?;
        let rest = std::str::from_utf8(of).unwrap_or_default();
        let (device, rest) = rest.split_once(' ')?;
        let (inode, path) = rest.split_once(' ').unwrap_or((rest, ""));
        let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
        let (major, minor) = device.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let short = |text: &str| match text.trim_start_matches('0') {
            "" => "0".to_owned(),
            short => short.to_owned(),
        };
        Some(Mapping {
            name: format!("{}-{}", short(start), short(end)),
            device: (hex(major)?, hex(minor)?),
            inode,
            path: path.trim_start(),
            of,
        })
    }
}

/// A directory of magic links.
struct Directory<'a> {
    root: &'a Root,
    path: PathBuf,
    file: rustix::fd::OwnedFd,
}

impl<'a> Directory<'a> {
    fn open(root: &'a Root, path: &Path) -> io::Result<Directory<'a>> {
        let path = root.path(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Directory { root, path, file })
    }

    /// Its entries whose names are numbers.
    fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.file)? {
            let entry = entry?;
            found.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(found)
    }

    /// The device or file behind a link; `None` if it is anything else, or closed meanwhile.
    fn leads_to(&self, name: &str) -> io::Result<Option<Thing>> {
        if !self.root.is_system() {
            return Ok(self.recorded(name));
        }
        // Without DONT_SYNC, a file server that does not answer would block this call forever.
        let flags = AtFlags::STATX_DONT_SYNC;
        let seen = match statx(&self.file, name, flags, StatxFlags::TYPE | StatxFlags::INO) {
            Ok(seen) => seen,
            // Closed meanwhile, or on a server that is gone.
            Err(Errno::NOENT | Errno::SRCH | Errno::STALE | Errno::NOTCONN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(match FileType::from_raw_mode(seen.stx_mode.into()) {
            FileType::BlockDevice => {
                Some(Thing::Device((seen.stx_rdev_major, seen.stx_rdev_minor)))
            }
            FileType::CharacterDevice => {
                Some(Thing::Character((seen.stx_rdev_major, seen.stx_rdev_minor)))
            }
            FileType::RegularFile => {
                let device = makedev(seen.stx_dev_major, seen.stx_dev_minor);
                Some(Thing::File(FileId { device, inode: seen.stx_ino }))
            }
            _ => None,
        })
    }

    /// The same in a recorded tree, which has no device nodes: found by the text of the link.
    fn recorded(&self, name: &str) -> Option<Thing> {
        let to = std::fs::read_link(self.path.join(name)).ok()?;
        if let Some(number) = device::number_of_node(self.root, &to) {
            return Some(Thing::Device(number));
        }
        if let Some(number) = self.root.recorded_character(&to) {
            return Some(Thing::Character(number));
        }
        let seen = rustix::fs::stat(self.root.path(to)).ok()?;
        Some(Thing::File(FileId { device: seen.st_dev, inode: seen.st_ino }))
    }
}

/// Entries of a directory whose names are numbers.
fn numbers(directory: &Path) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_line_of_a_mapping() {
        let line = b"00400000-0040b000 r-xp 00000000 fe:00 5382300                    /usr/bin/a b";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(mapping.name, "400000-40b000");
        assert_eq!((mapping.device, mapping.inode), ((0xfe, 0), 5_382_300));
        assert_eq!(mapping.path, "/usr/bin/a b");
        for none in [
            &b""[..],
            b"7ffc1000-7ffc2000 rw-p 00000000 00:00 0          [stack]",
            b"7ffc1000-7ffc2000 rw-p 00000000 00:00 0",
            b"nonsense",
        ] {
            assert!(Mapping::parse(none).is_none());
        }
    }

    #[test]
    fn few_are_named_and_all_are_counted() {
        let process = |pid| (pid, format!("p{pid}"));
        let mut unseen = Unseen { processes: vec![process(1)], others: Vec::new() };
        assert_eq!(unseen.to_string(), "1 process that this user may not examine: 1 (p1)");
        unseen.processes.extend((2..=5).map(process));
        unseen.others.push("what loop3 lies over".into());
        let said = "5 processes that this user may not examine: 1 (p1), 2 (p2), 3 (p3), \
                    2 more; what loop3 lies over";
        assert_eq!(unseen.to_string(), said);
    }
}
