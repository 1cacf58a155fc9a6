//! The drive's own health report, through `smartctl` where it is installed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A drive that does not answer within this time is left alone.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Most output that is read, bytes.
const OUTPUT_LIMIT_BYTES: u64 = 1 << 20;

/// Where administrators' programs live even if an ordinary user's PATH lacks it.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// `smartctl --json=c -a /dev/NAME` as JSON, for a whole disk by its kernel name.
///
/// # Errors
///
/// The reason in words: not root, not installed, no answer within 5 s, no SMART on this device, or
/// output that is not JSON.
pub fn smart(name: &str) -> Result<Value, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '!');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(plain) {
        return Err(format!("{name:?} is not a kernel device name"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err("smart needs root".to_owned());
    }
    let program = find("smartctl").ok_or("smartctl is not installed (package smartmontools)")?;
    let mut command = Command::new(program);
    command.args(["--json=c", "-a"]).arg(Path::new("/dev").join(name.replace('!', "/")));
    let (status, output) = run(command, TIME_LIMIT)?;
    let report: Value = serde_json::from_slice(&output)
        .map_err(|error| format!("smartctl printed no JSON: {error}"))?;
    // smartctl(8), "EXIT STATUS": bits 0 and 1 mean that nothing was read; the rest is health.
    if status & 0b11 != 0 {
        let message = report["smartctl"]["messages"][0]["string"].as_str();
        return Err(message.unwrap_or("smartctl could not read the device").to_owned());
    }
    Ok(report)
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Exit code and standard output, or why there is none. The program never outlives the call.
fn run(mut command: Command, limit: Duration) -> Result<(i32, Vec<u8>), String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start the program: {error}"))?;
    let finished = collect(&mut child, limit);
    if finished.is_err() {
        // It may have ended meanwhile, which is as good.
        let _ = child.kill();
        let _ = child.wait();
    }
    finished
}

fn collect(child: &mut Child, limit: Duration) -> Result<(i32, Vec<u8>), String> {
    let deadline = Instant::now() + limit;
    let late = || format!("no answer within {} s", limit.as_secs_f64());
    let pipe = child.stdout.take().ok_or("the program has no output")?;
    let (sender, receiver) = mpsc::channel();
    // A read of the pipe cannot be given a time limit, a channel can. If the limit passes, the
    // killed program closes the pipe and the thread ends by itself.
    std::thread::spawn(move || {
        let mut output = Vec::new();
        let read = pipe.take(OUTPUT_LIMIT_BYTES).read_to_end(&mut output);
        let _ = sender.send(read.map(|_| output));
    });
    let output = receiver
        .recv_timeout(limit)
        .map_err(|_| late())?
        .map_err(|error| format!("cannot read the output: {error}"))?;
    loop {
        match child.try_wait().map_err(|error| format!("cannot wait for it: {error}"))? {
            Some(status) => {
                let code = status.code().ok_or("the program was killed")?;
                return Ok((code, output));
            }
            None if Instant::now() >= deadline => return Err(late()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let reason = run(shell("exec sleep 600"), Duration::from_millis(50)).unwrap_err();
        assert!(reason.contains("no answer within"), "{reason}");
    }

    #[test]
    fn output_is_bounded() {
        let endless = "exec head -c 9000000 /dev/zero";
        if let Ok((_, output)) = run(shell(endless), Duration::from_secs(5)) {
            assert!(output.len() <= 1 << 20);
        }
    }

    #[test]
    fn exit_code_and_output_arrive() {
        assert_eq!(run(shell("printf x; exit 4"), TIME_LIMIT).unwrap(), (4, b"x".to_vec()));
    }

    #[test]
    fn names_that_could_be_options_or_paths_are_refused() {
        for name in ["", "-a", "../sda", "sda/..", "s da"] {
            assert!(smart(name).unwrap_err().contains("not a kernel device name"), "{name}");
        }
    }
}
