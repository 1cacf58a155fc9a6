//! A virtual machine for a test: Debian's kernel in QEMU, with devices that the host lacks.
//!
//! It has NVMe and SCSI disks, device mapper, md, swap, cgroup version 2 and a power switch. A
//! [`Machine`] is the configuration, [`Machine::boot`] starts it, and [`Guest::run`] runs shell
//! scripts in it one after another, so that one boot serves many checks. QEMU emulates the CPU
//! (TCG): it needs no virtualisation on the host, and is some ten times slower than the host.
//!
//! Nothing outlives the test: QEMU is killed when the [`Guest`] is dropped, when its time limit
//! expires, and when the process that started it dies.

mod initramfs;
mod kernel;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::{ScratchDir, Unavailable};
use kernel::Kernel;

const QEMU: &str = "qemu-system-x86_64";
/// File with the console output of the guest's kernel.
const CONSOLE: &str = "console";
/// Modules that every guest needs for its control port.
const OWN_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Configuration of a guest.
#[derive(Clone, Debug)]
pub struct Machine {
    kernel: Kernel,
    programs: Vec<PathBuf>,
    modules: Vec<String>,
    options: Vec<String>,
    ports: Vec<String>,
    memory_mib: u32,
    limit: Duration,
}

/// A running machine. Its power is cut on drop.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    ports: Vec<(String, UnixListener)>,
    dir: ScratchDir,
}

/// Result of a script run in the guest.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit code of the script; 128 plus the signal number after a signal.
    pub exit: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Finds a program on PATH or in the sbin directories.
fn program(name: &str) -> Result<PathBuf, Unavailable> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = places.map(|place| place.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| Unavailable::new(format!("`{name}` is not installed")))
}

impl Machine {
    /// A machine without disks, killed after `limit`.
    ///
    /// # Errors
    /// If QEMU, busybox, cpio, kmod or the kernel is missing here.
    pub fn new(limit: Duration) -> Result<Self, Unavailable> {
        for name in [QEMU, "cpio", "setpriv", "timeout", "ldd"] {
            program(name)?;
        }
        Ok(Self {
            kernel: Kernel::find()?,
            programs: vec![program("busybox")?],
            modules: OWN_MODULES.map(str::to_owned).to_vec(),
            options: Vec::new(),
            ports: Vec::new(),
            memory_mib: 768,
            limit,
        })
    }

    /// Copies a program of the host and its libraries into the guest: a path, or a name on PATH.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn program(mut self, name: impl AsRef<Path>) -> Result<Self, Unavailable> {
        let name = name.as_ref();
        let found = match name.to_str() {
            Some(word) if !word.contains('/') => program(word)?,
            _ => name.to_owned(),
        };
        self.programs.push(found);
        Ok(self)
    }

    /// Loads these kernel modules, in this order.
    #[must_use]
    pub fn modules(mut self, names: &[&str]) -> Self {
        self.modules.extend(names.iter().map(ToString::to_string));
        self
    }

    /// Options of QEMU: `-device nvme,…`.
    #[must_use]
    pub fn options(mut self, words: &[&str]) -> Self {
        self.options.extend(words.iter().map(ToString::to_string));
        self
    }

    /// A raw image as drive `name`, for a device of [`options`](Machine::options). `more` holds
    /// more properties of the drive, such as `cache=unsafe`.
    #[must_use]
    pub fn drive(self, name: &str, image: &Path, more: &str) -> Self {
        let more = if more.is_empty() { String::new() } else { format!(",{more}") };
        let words = format!("file={},if=none,id={name},format=raw{more}", image.display());
        self.options(&["-drive", &words])
    }

    /// A port of the guest, `/run/port/NAME`, connected to a socket on the host.
    #[must_use]
    pub fn port(mut self, name: &str) -> Self {
        self.ports.push(name.to_owned());
        self
    }

    /// Starts the machine and waits until it accepts scripts.
    ///
    /// # Errors
    /// If its initramfs cannot be built, or it does not start.
    pub fn boot(&self) -> io::Result<Guest> {
        let dir = ScratchDir::new()?;
        let initramfs = dir.path().join("initramfs");
        initramfs::build(&initramfs, &self.kernel, &self.programs, &self.modules)?;
        let listen = |name: &String| {
            let listener = UnixListener::bind(dir.path().join(name))?;
            Ok::<_, io::Error>((name.clone(), listener))
        };
        let ports = self.ports.iter().map(listen).collect::<io::Result<Vec<_>>>()?;
        let mut qemu = self.command(dir.path(), &initramfs).spawn()?;
        let (Some(orders), Some(answers)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(io::Error::other("QEMU has no pipes"));
        };
        let mut guest = Guest { qemu, orders, answers: BufReader::new(answers), ports, dir };
        match guest.line()?.as_str() {
            "ready" => Ok(guest),
            found => Err(guest.failed(&format!("found `{found}`, expected `ready`"))),
        }
    }

    /// The QEMU command, with a time limit and killed when its parent dies.
    fn command(&self, dir: &Path, initramfs: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--signal=KILL", &self.limit.as_secs().to_string()]);
        command.args(["setpriv", "--pdeathsig=KILL", QEMU]);
        // Never KVM: if the host is itself a guest, nested virtualisation may hang.
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-no-reboot"]);
        command.args(["-display", "none", "-m", &self.memory_mib.to_string()]);
        command.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(initramfs);
        command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
        command.arg("-serial").arg(format!("file:{}", dir.join(CONSOLE).display()));
        command.args(["-device", "virtio-serial-pci,max_ports=8"]);
        command.args(["-chardev", "stdio,id=control,signal=off"]);
        command.args(["-device", "virtserialport,chardev=control,name=control"]);
        for name in &self.ports {
            let socket = dir.join(name);
            let chardev = format!("socket,id=port-{name},path={}", socket.display());
            command.args(["-chardev", &chardev, "-device"]);
            command.arg(format!("virtserialport,chardev=port-{name},name={name}"));
        }
        command.args(&self.options).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::inherit());
        command
    }
}

impl Guest {
    /// Runs a script in busybox's shell and waits for its end.
    ///
    /// # Errors
    /// If the guest has ended (its time limit included), or its kernel has panicked.
    pub fn run(&mut self, script: &str) -> io::Result<Ran> {
        let sent = writeln!(self.orders, "{}", script.len())
            .and_then(|()| self.orders.write_all(script.as_bytes()))
            .and_then(|()| self.orders.flush());
        sent.map_err(|error| self.failed(&error.to_string()))?;
        let answer = self.line()?;
        let numbers: Vec<usize> = answer.split(' ').flat_map(str::parse).collect();
        let &[exit, stdout, stderr] = &numbers[..] else {
            return Err(self.failed(&format!("found `{answer}` after a script")));
        };
        Ok(Ran { exit: exit as i32, stdout: self.text(stdout)?, stderr: self.text(stderr)? })
    }

    /// The host's end of a [`port`](Machine::port). It can be taken once.
    ///
    /// # Errors
    /// If there is no such port, or it is already taken.
    pub fn take_port(&mut self, name: &str) -> io::Result<UnixStream> {
        let place = self.ports.iter().position(|(port, _)| port == name);
        let place = place.ok_or_else(|| io::Error::other(format!("no port `{name}`")))?;
        Ok(self.ports.remove(place).1.accept()?.0)
    }

    /// Cuts the power: kills QEMU, and returns when it has ended.
    pub fn cut(mut self) -> io::Result<()> {
        self.kill();
        // The pipe reaches end-of-file when its last writer has closed it.
        io::copy(&mut self.answers, &mut io::sink()).map(drop)
    }

    fn kill(&mut self) {
        // Both calls fail only for a child that was already waited for.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err(self.failed("it has gone")),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn text(&mut self, bytes: usize) -> io::Result<String> {
        let mut text = vec![0; bytes];
        let read = self.answers.read_exact(&mut text);
        read.map_err(|error| self.failed(&error.to_string()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// An error with the last lines of the guest's console.
    fn failed(&self, what: &str) -> io::Error {
        let console = fs::read(self.dir.path().join(CONSOLE)).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let end = lines[lines.len().saturating_sub(40)..].join("\n");
        io::Error::other(format!("the guest: {what}; the end of its console:\n{end}"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}
