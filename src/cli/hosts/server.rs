//! Counters of a server that all hosts share, read around each run by a user's command.

use std::path::Path;
use std::time::Duration;

use iosonde_engine::host::program::{self, Limits};
use iosonde_model::record::hosts::{ServerCell, ServerCounters, ServerRun};

use super::super::words::split;
use crate::cli::exit::{About, Failure};
use crate::cli::output::note;

/// Time limit for the command.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Largest output of the command, bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Sector size of the kernel's counters, bytes.
const SECTOR_BYTES: u64 = 512;

/// A server and its counters.
pub(super) struct Server {
    words: Vec<String>,
    /// The current run, and the counters before it.
    before: Option<(usize, ServerCounters)>,
    read: ServerRun,
}

impl Server {
    /// Reads the counters once, so that a command that does not work fails before anything is
    /// written.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn open(command: &str) -> Result<Server, Failure> {
        let option = "--server-counters";
        let words = split(command).or_wrong(format!("{option}: `{command}`"))?;
        let read = ServerRun { command: command.to_owned(), cells: Vec::new() };
        let server = Server { words, before: None, read };
        server.counters().or_environment(format!("{option}: `{command}`"))?;
        Ok(server)
    }

    /// Reads the counters before a run, when every host is ready.
    pub(super) fn begins(&mut self, cell: usize) {
        self.before = self.counters_or_warning().map(|counters| (cell, counters));
    }

    /// Reads the counters after the current run, if any, when every host has ended it.
    pub(super) fn ends(&mut self) {
        let Some((cell, before)) = self.before.take() else { return };
        if let Some(after) = self.counters_or_warning() {
            self.read.cells.push(ServerCell { cell, before, after });
        }
    }

    /// All counters that were read.
    pub(super) fn into_read(self) -> ServerRun {
        self.read
    }

    fn counters_or_warning(&self) -> Option<ServerCounters> {
        let read = self.counters();
        if let Err(why) = &read {
            note(&format!("warning: --server-counters: {why}; this run goes without them"));
        }
        read.ok()
    }

    fn counters(&self) -> Result<ServerCounters, String> {
        let (program, arguments) = self.words.split_first().ok_or("found nothing")?;
        let path = match program.contains('/') {
            true => Path::new(program).to_path_buf(),
            false => program::find(program).ok_or("there is no such program")?,
        };
        let mut command = std::process::Command::new(path);
        command.args(arguments);
        let limits =
            Limits { time: ANSWERS_WITHIN, output_bytes: MAX_OUTPUT, cancelled: &|| false };
        let said = program::run(command, &limits)?;
        let errors = String::from_utf8_lossy(&said.errors);
        match said.code {
            0 => sum(&String::from_utf8_lossy(&said.output)),
            code => Err(format!("exit code {code}: {}", errors.trim())),
        }
    }
}

/// Sum over the lines, one per disk.
fn sum(output: &str) -> Result<ServerCounters, String> {
    let mut all = ServerCounters::default();
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return Err("it printed nothing".into());
    }
    for line in lines {
        let disk = disk(line).ok_or_else(|| {
            let shown: String = line.chars().take(80).collect();
            format!(
                "found `{shown}`, expected lines of /sys/block/DISK/stat or /proc/diskstats, or \
                 two numbers: bytes read and bytes written"
            )
        })?;
        let sum = |of_all: u64, of_disk| of_all.checked_add(of_disk).ok_or("numbers too large");
        all.read_bytes = sum(all.read_bytes, disk.read_bytes)?;
        all.written_bytes = sum(all.written_bytes, disk.written_bytes)?;
    }
    Ok(all)
}

/// Parses the line of a disk: bytes read and written, or the kernel's counters
/// (Documentation/admin-guide/iostats.rst), preceded in /proc/diskstats by two numbers and a name.
fn disk(line: &str) -> Option<ServerCounters> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_named = fields.get(2).is_some_and(|name| name.parse::<u64>().is_err());
    let numbers = fields.iter().skip(if is_named { 3 } else { 0 });
    let numbers: Option<Vec<u64>> = numbers.map(|field| field.parse().ok()).collect();
    let (read_bytes, written_bytes) = match numbers?.as_slice() {
        [read_bytes, written_bytes] if !is_named => (*read_bytes, *written_bytes),
        all if all.len() >= 11 => {
            (all[2].checked_mul(SECTOR_BYTES)?, all[6].checked_mul(SECTOR_BYTES)?)
        }
        _ => return None,
    };
    Some(ServerCounters { read_bytes, written_bytes })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn disks_are_read_in_each_form_and_summed() {
        let counters = |read_bytes, written_bytes| ServerCounters { read_bytes, written_bytes };
        assert_eq!(sum("10 20\n").unwrap(), counters(10, 20));
        let stat = "  1 0 16 5 2 0 32 6 0 7 8 0 0 0 0 1 1\n";
        assert_eq!(sum(stat).unwrap(), counters(16 * 512, 32 * 512));
        let of_machine = format!(" 253 0 vda {stat}\n 253 16 vdb {stat}");
        assert_eq!(sum(&of_machine).unwrap(), counters(2 * 16 * 512, 2 * 32 * 512));
    }

    #[test]
    fn what_is_no_counter_is_refused_with_what_was_found() {
        for output in ["", "1\n", "1 2 3", "-1 2", "Password:", "8 0 sda 1 2", "1.5 2"] {
            assert!(sum(output).is_err(), "{output}");
        }
        assert!(sum("1 2\nbusy\n").unwrap_err().contains("found `busy`, expected"));
        assert!(sum(&format!("1 0 {} 5 2 0 0 6 0 7 8", u64::MAX)).is_err());
    }

    #[test]
    fn a_command_that_cannot_work_is_refused() {
        let said = |command: &str| Server::open(command).map(|_| ()).unwrap_err();
        assert_eq!(said("'open").exit, Exit::Usage);
        for (command, words) in [
            ("no-such-program-anywhere", "there is no such program"),
            ("sh -c 'echo no route >&2; exit 255'", "exit code 255: no route"),
            ("echo hello", "found `hello`"),
            ("", "found nothing"),
        ] {
            let failure = said(command);
            assert!(failure.message.contains(words), "{}", failure.message);
            assert_eq!(failure.exit, Exit::Environment);
        }
    }

    #[test]
    fn a_run_has_the_counters_on_both_sides_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat");
        std::fs::write(&file, "5 7").unwrap();
        let mut server = Server::open(&format!("cat {}", file.display())).unwrap();
        server.ends();
        server.begins(0);
        std::fs::write(&file, "15 70").unwrap();
        server.ends();
        server.begins(1);
        std::fs::remove_file(&file).unwrap();
        server.ends();
        let read = server.into_read();
        let [only] = read.cells.as_slice() else { panic!("{read:?}") };
        assert_eq!((only.cell, only.before.read_bytes, only.after.written_bytes), (0, 5, 70));
    }
}
