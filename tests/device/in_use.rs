//! All uses of a target that can be created on one machine: each is refused whatever the consent,
//! and no byte changes. Look-alikes are written.
//!
//! The table in `docs/safety.md` comes from these tests: `IOSONDE_WRITE_DOCS=1` writes it.

use std::any::Any;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use iosonde_rig::guard::{LoopDevice, LoopOptions};
use iosonde_rig::{ScratchDir, Unavailable};

use crate::request::{ask, here, turn};

const MIB: u64 = 1 << 20;
const IMAGE_BYTES: u64 = 16 * MIB;

/// Kind of a target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    File,
    Device,
    Partition,
}

/// A new target: an image of zeros, with a loop device over it unless the image is the target.
struct Target {
    kind: Kind,
    image: PathBuf,
    device: Option<LoopDevice>,
    partition: Option<PathBuf>,
    dir: ScratchDir,
}

type Held = Result<Box<dyn Any>, Unavailable>;

/// A way to use a target.
struct Case {
    who: &'static str,
    kind: Kind,
    /// Part of the refusal; empty if the target counts as free.
    says: &'static str,
    hold: fn(&Target) -> Held,
}

impl Target {
    fn new(kind: Kind) -> Result<Target, Unavailable> {
        let dir = ScratchDir::new().unwrap();
        let image = dir.path().join("image");
        fs::write(&image, vec![0; IMAGE_BYTES as usize]).unwrap();
        let mut target = Target { kind, image, device: None, partition: None, dir };
        if kind != Kind::File {
            let options = LoopOptions { partitions: true, ..LoopOptions::default() };
            let device = LoopDevice::over(&target.image, options)?;
            if kind == Kind::Partition {
                target.partition = Some(device.add_partition(1, 2048, 8192)?);
                device.add_partition(2, 20480, 8192)?;
            }
            target.device = Some(device);
        }
        Ok(target)
    }

    fn path(&self) -> &Path {
        let device = self.device.as_ref().map(LoopDevice::path);
        self.partition.as_deref().or(device).unwrap_or(&self.image)
    }

    fn disk(&self) -> &LoopDevice {
        self.device.as_ref().unwrap()
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// All consents that a user can give.
    fn consents(&self) -> String {
        let image = self.image.display();
        let kinds = ["ext", "swap", "unknown-data"].map(|k| format!("--overwrite-signature={k}"));
        let kinds = kinds.join(" ");
        match self.kind {
            Kind::File => format!("--overwrite-file={image}"),
            Kind::Device => format!("--destroy-data={image} {kinds}"),
            Kind::Partition => format!("--destroy-data={image}-part1 {kinds}"),
        }
    }

    /// The consent that a free target needs.
    fn consent(&self) -> String {
        let all = self.consents();
        if self.kind == Kind::File { String::new() } else { all.split(' ').next().unwrap().into() }
    }

    /// Number of blocks anywhere in the image that a load of iosonde has written.
    fn blocks_of_a_load(&self) -> usize {
        let image = fs::read(&self.image).unwrap();
        image
            .chunks(512)
            .filter(|sector| sector.starts_with(&iosonde_model::content::MAGIC))
            .count()
    }

    fn sum(&self) -> String {
        let output = Command::new("sha256sum").arg(&self.image).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A process that is killed on drop.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // Kills the whole group: a shell and its children.
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts a program that creates the file `$READY` when ready, and then waits.
fn start(target: &Target, mut command: Command) -> Held {
    use std::os::unix::process::CommandExt;
    let ready = target.beside("ready");
    let errors = target.beside("errors");
    command
        .env("READY", &ready)
        .env("IMAGE", &target.image)
        .env("TARGET", target.path())
        .current_dir(target.dir.path())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).unwrap());
    let name = format!("{command:?}");
    let failed = |why: String| Err(Unavailable(format!("{name}: {why}")));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return failed(error.to_string()),
    };
    let started = Instant::now();
    while !ready.exists() {
        if child.try_wait().unwrap().is_some() || started.elapsed() > Duration::from_secs(30) {
            let _ = child.kill();
            return failed(fs::read_to_string(&errors).unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Box::new(Holder(child)))
}

fn shell(target: &Target, script: &str) -> Held {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("set -e; {script}; : > $READY; exec sleep 600")]);
    start(target, command)
}

fn python(target: &Target, script: &str) -> Held {
    let mut command = Command::new("python3");
    let all = format!(
        "import ctypes, fcntl, mmap, os, signal, socket, struct, threading, time\n\
         signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
         target, image = os.environ['TARGET'], os.environ['IMAGE']\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         {script}\n\
         open(os.environ['READY'], 'w').close()\n\
         time.sleep(600)\n"
    );
    command.args(["-c", &all]);
    start(target, command)
}

/// A mount, swap or node that is undone on drop.
struct Undo(&'static str, Vec<PathBuf>);

impl Drop for Undo {
    fn drop(&mut self) {
        let _ = Command::new(self.0).args(&self.1).stderr(Stdio::null()).status();
    }
}

fn tool<'a>(program: &str, args: impl IntoIterator<Item = &'a Path>) -> Result<(), Unavailable> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let reason = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Unavailable(format!("{program}: {reason}")))
}

fn storage_daemon(target: &Target, file: &Path, options: &str) -> Held {
    let mut command = Command::new("qemu-storage-daemon");
    let node = format!("driver={},filename={},node-name=n{options}", driver(file), file.display());
    let ready = target.beside("ready");
    command.args(["--blockdev", &node, "--pidfile"]).arg(ready);
    start(target, command)
}

fn driver(file: &Path) -> &'static str {
    if file.starts_with("/dev") { "host_device" } else { "file" }
}

fn swap_on(path: &Path) -> Held {
    tool("chmod", [Path::new("600"), path])?;
    tool("mkswap", [path])?;
    tool("swapon", [path])?;
    Ok(Box::new(Undo("swapoff", vec![path.into()])))
}

fn mounted(target: &Target, device: &Path) -> Held {
    let point = target.beside("point");
    fs::create_dir(&point).unwrap();
    // Nothing may be written by the file system itself later, which would look like our write.
    let eager = "lazy_itable_init=0,lazy_journal_init=0";
    tool("mkfs.ext4", ["-q", "-F", "-E", eager].map(Path::new).into_iter().chain([device]))?;
    tool("mount", [device, &point])?;
    tool("sync", [Path::new("-f"), &point])?;
    Ok(Box::new(Undo("umount", vec![point])))
}

fn looped(file: &Path) -> Held {
    Ok(Box::new(LoopDevice::over(file, LoopOptions::default())?))
}

/// Another node of the same device.
fn node(target: &Target) -> Result<PathBuf, Unavailable> {
    let node = target.beside("node");
    let (major, minor) = target.disk().number();
    let numbers = [major.to_string(), minor.to_string()];
    let numbers = numbers.iter().map(Path::new);
    tool("mknod", [&node, Path::new("b")].into_iter().chain(numbers))?;
    Ok(node)
}

const OWN_TABLE: &str = "def hold():\n    libc.unshare(0x400)\n    \
     globals()['fd'] = os.open(target, os.O_RDWR)\n    done.set()\n    time.sleep(600)\n\
     done = threading.Event()\nthreading.Thread(target=hold, daemon=True).start()\ndone.wait()";
const MAPPED: &str = "fd = os.open(target, os.O_RDWR)\n\
     kept = mmap.mmap(fd, 4096, mmap.MAP_SHARED)\nos.close(fd)";
const IN_TRANSIT: &str = "fd = os.open(target, os.O_RDWR)\na, b = socket.socketpair()\n\
     socket.send_fds(a, [b'x'], [fd])\nos.close(fd)";
/// A container: a mount namespace with its own /dev, in which it creates its node.
const CONTAINER: &str = "mount -t tmpfs tmpfs /mnt; \
     mknod /mnt/disk b $(stat -c '0x%t 0x%T' $TARGET); exec 9<> /mnt/disk";

const OPEN: &str = "is open for writing in process";
const READ: &str = "is open for reading in process";
const ELSEWHERE: &str = "is open elsewhere";
const LOOPED: &str = "is in use by loop device";
const MAP: &str = "is mapped by process";

macro_rules! case {
    ($kind:ident, $who:literal, $says:expr, $hold:expr) => {
        Case { who: $who, kind: Kind::$kind, says: $says, hold: $hold }
    };
}

fn unshared(target: &Target, flags: &[&str], script: &str) -> Held {
    let mut command = Command::new("unshare");
    let script = format!("set -e; {script}; : > $READY; exec sleep 600");
    command.args(flags).args(["sh", "-c", &script]);
    start(target, command)
}

/// All cases, files first.
fn cases() -> Vec<Case> {
    vec![
        case!(File, "a process has it open for writing", OPEN, |t| shell(t, "exec 9<> $TARGET")),
        case!(File, "a process has it open for appending", OPEN, |t| shell(t, "exec 9>> $TARGET")),
        case!(File, "a process has it open for reading", READ, |t| shell(t, "exec 9< $TARGET")),
        case!(File, "a stopped process has it open", OPEN, |t| {
            shell(t, "exec 9<> $TARGET; (sleep 0.1; kill -STOP $$) & true")
        }),
        case!(File, "opened through a second name, which is gone", OPEN, |t| {
            shell(t, "ln $TARGET other; exec 9<> other; rm other")
        }),
        case!(File, "mapped for writing, and closed", MAP, |t| python(t, MAPPED)),
        case!(File, "mapped privately, and closed", MAP, |t| {
            let script = "fd = os.open(target, os.O_RDONLY)\n\
                 kept = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)\nos.close(fd)";
            python(t, script)
        }),
        case!(File, "open in a thread with a descriptor table of its own", OPEN, |t| {
            python(t, OWN_TABLE)
        }),
        case!(File, "a descriptor on its way through a socket", ELSEWHERE, |t| {
            python(t, IN_TRANSIT)
        }),
        case!(File, "a POSIX lock", OPEN, |t| {
            python(t, "f = open(target, 'r+b')\nfcntl.lockf(f, fcntl.LOCK_EX)")
        }),
        case!(File, "a lock of an open file description", OPEN, |t| {
            let script = "f = open(target, 'r+b')\n\
                 fcntl.fcntl(f, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))";
            python(t, script)
        }),
        case!(File, "a shared flock", READ, |t| {
            python(t, "f = open(target, 'rb')\nfcntl.flock(f, fcntl.LOCK_SH)")
        }),
        case!(File, "a read lease", READ, |t| {
            let script = "fd = os.open(target, os.O_RDONLY)\n\
                 fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)";
            python(t, script)
        }),
        case!(File, "qemu-storage-daemon, writing", OPEN, |t| storage_daemon(t, &t.image, "")),
        case!(File, "qemu-storage-daemon, only reading", READ, |t| {
            storage_daemon(t, &t.image, ",read-only=on")
        }),
        case!(File, "a process of another user", OPEN, |t| {
            tool("chmod", [Path::new("666"), &t.image])?;
            let script = "exec 9<> $TARGET; : > $READY; exec sleep 600";
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--clear-groups", "sh", "-c", script]);
            start(t, command)
        }),
        case!(File, "a process in another PID namespace", OPEN, |t| {
            unshared(t, &["--pid", "--fork"], "exec 9<> $TARGET")
        }),
        case!(File, "through a bind mount of another mount namespace, undone since", OPEN, |t| {
            let script = "mount --bind . /mnt; exec 9<> /mnt/image; umount -l /mnt";
            unshared(t, &["--mount"], script)
        }),
        case!(File, "a loop device over it", LOOPED, |t| looped(&t.image)),
        case!(File, "a loop device over it by a second name, which is gone", LOOPED, |t| {
            let other = t.beside("other");
            fs::hard_link(&t.image, &other).unwrap();
            let held = looped(&other);
            fs::remove_file(&other).unwrap();
            held
        }),
        case!(File, "a loop device over it, renamed since", LOOPED, |t| {
            let other = t.beside("other");
            fs::rename(&t.image, &other).unwrap();
            let held = looped(&other);
            fs::rename(&other, &t.image).unwrap();
            held
        }),
        case!(File, "below a mounted loop device", LOOPED, |t| {
            let device = LoopDevice::over(&t.image, LoopOptions::default())?;
            let mount = mounted(t, device.path())?;
            Ok(Box::new((mount, device)))
        }),
        case!(File, "swap", "is used as swap", |t| swap_on(&t.image)),
        case!(Device, "a process has it open for writing", OPEN, |t| shell(t, "exec 9<> $TARGET")),
        case!(Device, "a process has it open for reading", READ, |t| shell(t, "exec 9< $TARGET")),
        case!(Device, "claimed for reading (O_EXCL)", READ, |t| {
            python(t, "fd = os.open(target, os.O_RDONLY | os.O_EXCL)")
        }),
        case!(Device, "opened through a node elsewhere", OPEN, |t| {
            node(t)?;
            shell(t, "exec 9<> node")
        }),
        case!(Device, "opened through a node that is gone", OPEN, |t| {
            node(t)?;
            shell(t, "exec 9<> node; rm node")
        }),
        case!(Device, "opened through a container's own node (mount namespace)", OPEN, |t| {
            unshared(t, &["--mount"], CONTAINER)
        }),
        case!(Device, "the same in a PID namespace of its own", OPEN, |t| {
            unshared(t, &["--mount", "--pid", "--fork"], CONTAINER)
        }),
        case!(Device, "mapped, and closed", MAP, |t| python(t, MAPPED)),
        case!(Device, "mapped through a node that is gone, and closed", MAP, |t| {
            node(t)?;
            python(t, &format!("target = 'node'\n{MAPPED}\nos.unlink('node')"))
        }),
        case!(Device, "open in a thread with a descriptor table of its own", OPEN, |t| {
            python(t, OWN_TABLE)
        }),
        case!(Device, "qemu-storage-daemon", OPEN, |t| storage_daemon(t, t.path(), "")),
        case!(Device, "mounted", "is mounted at", |t| mounted(t, t.path())),
        case!(Device, "mounted in another mount namespace", "in another mount namespace", |t| {
            tool("mkfs.ext4", ["-q", "-F"].map(Path::new).into_iter().chain([t.path()]))?;
            unshared(t, &["--mount"], "mount $TARGET /mnt; sync -f /mnt")
        }),
        case!(Device, "mounted, taken out of sight (umount -l), and still used", "EBUSY", |t| {
            let held = mounted(t, t.path())?;
            let user = shell(t, "exec 9> point/file")?;
            tool("sync", [Path::new("-f"), &t.beside("point")])?;
            tool("umount", [Path::new("-l"), &t.beside("point")])?;
            Ok(Box::new((user, held)))
        }),
        case!(Device, "swap", "is used as swap", |t| swap_on(t.path())),
        case!(Device, "a loop device over it", LOOPED, |t| looped(t.path())),
        case!(Device, "a loop device over a node elsewhere", LOOPED, |t| looped(&node(t)?)),
        case!(Device, "a second loop device over its file", LOOPED, |t| looped(&t.image)),
        case!(Device, "its file is open in a process", "the file below", |t| {
            shell(t, "exec 9<> $IMAGE")
        }),
        case!(Device, "its file is mapped, and closed", "the file below", |t| {
            python(t, &format!("target = image\n{MAPPED}"))
        }),
        case!(Device, "qemu-storage-daemon has its file", "the file below", |t| {
            storage_daemon(t, &t.image, "")
        }),
        case!(Device, "flock", READ, |t| {
            python(t, "f = open(target, 'rb')\nfcntl.flock(f, fcntl.LOCK_EX)")
        }),
        case!(Partition, "a process has it open for writing", OPEN, |t| {
            shell(t, "exec 9<> $TARGET")
        }),
        case!(Partition, "a process has the whole disk open", OPEN, |t| {
            shell(t, &format!("exec 9<> {}", t.disk().path().display()))
        }),
        case!(Partition, "mounted", "is mounted at", |t| mounted(t, t.path())),
        case!(Partition, "a second loop device over the file of its disk", LOOPED, |t| {
            looped(&t.image)
        }),
        case!(File, "open before, and closed again", "", |t| {
            drop(shell(t, "exec 9<> $TARGET")?);
            Ok(Box::new(()))
        }),
        case!(File, "a file of the same name in another directory is open", "", |t| {
            shell(t, "mkdir d; cp image d/image; exec 9<> d/image")
        }),
        case!(File, "its copy is open under its old name, unlinked", "", |t| {
            shell(t, "cp image new; exec 9<> image; mv new image")
        }),
        case!(File, "a path descriptor (O_PATH) leads to it", "", |t| {
            python(t, "fd = os.open(target, os.O_PATH)")
        }),
        case!(File, "a process works in its directory", "", |t| shell(t, ":")),
        case!(Device, "open before, and closed again", "", |t| {
            drop(shell(t, "exec 9<> $TARGET")?);
            Ok(Box::new(()))
        }),
        case!(Device, "another loop device is open", "", |t| {
            let other = t.beside("other");
            fs::write(&other, vec![0; MIB as usize]).unwrap();
            let other = LoopDevice::over(&other, LoopOptions::default())?;
            let user = shell(t, &format!("exec 9<> {}", other.path().display()))?;
            Ok(Box::new((user, other)))
        }),
        case!(Device, "a path descriptor (O_PATH) leads to it", "", |t| {
            python(t, "fd = os.open(target, os.O_PATH)")
        }),
        case!(Device, "a process works beside its file", "", |t| shell(t, "exec 9> other")),
        case!(Partition, "a process has its sibling open", "", |t| {
            shell(t, &format!("exec 9<> {}p2", t.disk().path().display()))
        }),
    ]
}

/// Runs a case: a target in use is never written, whatever the consent; a free one is.
fn judge(case: &Case) -> Option<()> {
    let target = here(Target::new(case.kind))?;
    let held = here((case.hold)(&target))?;
    let before = target.sum();
    let write = |consents: &str| {
        let line = format!("run --path {{}} --rw randwrite --bs 4k --number-ios 20 {consents}");
        ask(&line, target.path()).answer()
    };
    if case.says.is_empty() {
        write(&target.consent()).exits(0);
        assert_ne!(
            target.blocks_of_a_load(),
            0,
            "{} {:?}: nothing was written",
            case.who,
            case.kind
        );
        drop(held);
        return Some(());
    }
    for consents in [String::new(), target.consents()] {
        let answer = write(&consents).exits(5);
        let said = answer.at("/error/message").as_str().unwrap().to_owned();
        let is_first = consents.is_empty() && case.says == "EBUSY";
        assert!(is_first || said.contains(case.says), "{} {:?}: {said}", case.who, case.kind);
    }
    assert_eq!(target.blocks_of_a_load(), 0, "{} {:?}: it was written", case.who, case.kind);
    // The kernel itself writes to swap when memory is short.
    let is_swap = case.says == "is used as swap";
    assert!(is_swap || target.sum() == before, "{} {:?}: it was changed", case.who, case.kind);
    drop(held);
    Some(())
}

#[test]
fn nothing_in_use_is_written() {
    let _turn = turn();
    // `IOSONDE_CASES=30-` starts at case 30.
    let only = std::env::var("IOSONDE_CASES").unwrap_or_default();
    let skipped: usize = only.trim_end_matches('-').parse().unwrap_or(0);
    let cases = cases();
    // Cases have separate targets: each CPU takes the next one.
    let (next, made) = (AtomicUsize::new(skipped), AtomicUsize::new(0));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            eprintln!("{:?}: {}", case.kind, case.who);
            made.fetch_add(judge(case).is_some().into(), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            // `skip` reports the name of the thread.
            let name = "nothing_in_use_is_written".to_owned();
            std::thread::Builder::new().name(name).spawn_scoped(scope, work).unwrap();
        }
    });
    eprintln!("{} of {} ways could be made here", made.into_inner(), cases.len());
}

#[test]
fn the_table_is_that_of_the_tests() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/safety.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("<!-- in use: begin -->\n").unwrap();
    let (found, tail) = rest.split_once("<!-- in use: end -->").unwrap();
    let cases = cases();
    let refused = cases.iter().filter(|case| !case.says.is_empty()).count();
    assert!(refused >= 30, "{refused}");
    let mut table = format!(
        "{refused} ways of being in use: 0 written. {} that only look like one: all written.\n\n\
         | target | who has it, and how | result |\n| --- | --- | --- |\n",
        cases.len() - refused
    );
    for case in &cases {
        let kind = format!("{:?}", case.kind).to_lowercase();
        let result = if case.says.is_empty() { "written" } else { "refused, exit 5" };
        table += &format!("| {kind} | {} | {result} |\n", case.who);
    }
    if std::env::var_os("IOSONDE_WRITE_DOCS").is_some() {
        let marks = ["<!-- in use: begin -->\n", "<!-- in use: end -->"];
        fs::write(&path, [head, marks[0], &table, marks[1], tail].concat()).unwrap();
        return;
    }
    assert_eq!(found, table, "IOSONDE_WRITE_DOCS=1 writes it again");
}
