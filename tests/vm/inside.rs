//! Shared by the tests: the built program, on the host and in a guest, and its answer.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use iosonde_rig::guest::{Guest, Machine, Ran};
use iosonde_rig::{Unavailable, skip};
use serde_json::Value;

pub(crate) const MIB: u64 = 1 << 20;
/// Time limit of a guest. A boot takes some 3 s of CPU time and a check tenths of a second; on a
/// busy machine a guest may get a tenth of a CPU.
const LIMIT: Duration = Duration::from_secs(500);

/// The rig, or `None` after reporting why the test cannot run on this machine.
pub(crate) fn here<T>(thing: Result<T, Unavailable>) -> Option<T> {
    thing.map_err(skip).ok()
}

/// The program under test: the build that `IOSONDE_PROGRAM` names, or else that of the tests.
pub(crate) fn program() -> PathBuf {
    iosonde_fixtures::program!().path().into()
}

/// A machine with the program under test and these other programs.
pub(crate) fn machine(others: &[&str]) -> Option<Machine> {
    let machine = here(Machine::new(LIMIT).and_then(|machine| machine.program(program())))?;
    others.iter().try_fold(machine, |machine, other| here(machine.program(other)))
}

/// Starts a guest's witness on port `witness`: a host process, whose log outlives the guest.
pub(crate) fn witness(guest: &mut Guest, log: &Path) -> Child {
    let port = OwnedFd::from(guest.take_port("witness").unwrap());
    Command::new(program())
        .args(["verify", "witness", "--log"])
        .arg(log)
        .stdin(port.try_clone().unwrap())
        .stdout(port)
        .spawn()
        .unwrap()
}

/// Writes a script for `--witness` into the guest, which relays lines to the witness on the host.
/// `more` is run before each answer, with the line in `$line` and its number in `$number`.
pub(crate) fn pass_on(guest: &mut Guest, more: &str) {
    let script = format!(
        r#"cat >/tmp/witness <<'END'
exec 4<>/run/port/witness
number=0
while read -r line; do
    number=$((number + 1))
    printf '%s\n' "$line" >&4
    read -r answer <&4
    {more}
    echo "$answer"
done
END"#
    );
    sh(guest, &script);
}

/// A new image filled with zeros.
pub(crate) fn image(directory: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = directory.join(name);
    fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    path
}

/// Result of the program.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) exit: i32,
    /// The document on stdout; null if it is not JSON.
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Answer {
    fn new(exit: i32, stdout: &str, stderr: String) -> Answer {
        Answer { exit, json: serde_json::from_str(stdout).unwrap_or(Value::Null), stderr }
    }

    /// Result of the program in a guest.
    pub(crate) fn of(ran: &Ran) -> Answer {
        Answer::new(ran.exit, &ran.stdout, ran.stderr.clone())
    }

    /// Expects an exit code; `what` describes the check in a failure.
    #[track_caller]
    pub(crate) fn exits(self, code: i32, what: &str) -> Answer {
        let error = &self.json["error"];
        assert_eq!(self.exit, code, "{what}: {}{} {error}", self.stderr, self.json["verdict"]);
        self
    }

    /// Its error message.
    pub(crate) fn message(&self) -> &str {
        self.json["error"]["message"].as_str().unwrap_or_default()
    }
}

/// Runs the program in a guest.
pub(crate) fn inside(guest: &mut Guest, line: &str) -> Answer {
    let script = format!("iosonde {line} --output-format json --eta-interval 0");
    Answer::of(&guest.run(&script).unwrap())
}

/// Boots a machine and waits for these nodes: the kernel may find disks after scripts start.
pub(crate) fn boot(machine: &Machine, nodes: &[&str]) -> Guest {
    let mut guest = machine.boot().unwrap();
    for node in nodes {
        sh(&mut guest, &format!("until [ -b {node} ]; do sleep 0.1; done"));
    }
    guest
}

/// A guest with an empty NVMe disk `/dev/nvme0n1` of 32 MiB, serial SN; its image is in `folder`.
pub(crate) fn boot_with_nvme(folder: &Path) -> Option<Guest> {
    let disk = image(folder, "disk", 32 * MIB);
    let machine = machine(&[])?.modules(&["nvme"]).drive("disk", &disk, "");
    let machine = machine.options(&["-device", "nvme,drive=disk,serial=SN"]);
    Some(boot(&machine, &["/dev/nvme0n1"]))
}

/// Runs a script in a guest, which must succeed. Returns its trimmed output.
#[track_caller]
pub(crate) fn sh(guest: &mut Guest, script: &str) -> String {
    let ran = guest.run(script).unwrap();
    assert_eq!(ran.exit, 0, "{script}\n{}{}", ran.stdout, ran.stderr);
    ran.stdout.trim().to_owned()
}

/// Runs the program on the host and stores results in `directory`.
pub(crate) fn outside(line: &str, directory: &Path) -> Answer {
    let output = Command::new(program())
        .args(line.split_whitespace())
        .args(["--output-format", "json", "--eta-interval", "0", "--results"])
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Answer::new(output.status.code().unwrap(), &text(&output.stdout), text(&output.stderr))
}
