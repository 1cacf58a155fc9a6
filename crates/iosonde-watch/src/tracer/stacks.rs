//! Function names of stacks: of the kernel by its symbol list, of programs by the symbols of their
//! mapped files. A process is read while it runs; functions of one that ends before the next sample
//! are unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::threads;
use blazesym::Pid;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolizer};
use iosonde_bpf::layout::STACK_OF_REQUEST;
use iosonde_bpf::{Collector, StackKey, StackUse};
use iosonde_engine::host::Root;
use iosonde_model::record::profile::Missing;
use iosonde_model::record::stacks::{ENDED, StackKind, StackRun};

/// Largest number of stacks kept per kind; the others are merged into one.
const MOST: usize = 1_000;
/// Prefixes of the innermost kernel frames, which are our own program and its callers.
const OWN: [&str; 4] = ["bpf_", "__bpf_", "__traceiter_", "trace_event_raw_"];

/// Functions of the stacks resolved so far.
pub(super) struct Stacks {
    root: Root,
    /// Start addresses of the kernel's functions, ascending.
    kernel: Vec<(u64, String)>,
    symbolizer: Symbolizer,
    /// Functions by process and stack number, outermost first.
    user: BTreeMap<(u32, i32), Vec<String>>,
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Stacks").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Stacks {
    /// Reads the kernel's symbol list, which requires privileges that are dropped afterwards.
    pub(super) fn new(root: &Root) -> Stacks {
        Stacks {
            root: root.clone(),
            kernel: functions(&root.path("/proc/kallsyms")),
            symbolizer: Symbolizer::new(),
            user: BTreeMap::new(),
        }
    }

    /// Reports missing names of kernel functions, if the kernel hides their addresses.
    pub(super) fn missing(&self) -> Option<Missing> {
        self.kernel.is_empty().then(|| Missing {
            what: "names of the kernel's functions".to_owned(),
            reason: "the kernel does not show their addresses".to_owned(),
            fix: Some("sysctl kernel.kptr_restrict=0, or CAP_SYSLOG".to_owned()),
        })
    }

    /// Resolves the functions of new stacks while their processes run.
    pub(super) fn look(&mut self, collector: &Collector) -> Result<(), String> {
        let blocked = collector.blocked()?.into_iter().map(|blocked| blocked.key);
        let seen = collector.stacks()?.into_iter().map(|(key, _)| key);
        for key in seen.chain(blocked) {
            self.learn(collector, &key);
        }
        Ok(())
    }

    fn learn(&mut self, collector: &Collector, key: &StackKey) {
        let Ok(number) = u32::try_from(key.user) else { return };
        if self.user.contains_key(&(key.tgid, key.user)) {
            return;
        }
        let Ok(addresses) = collector.frames(number) else { return };
        if let Some(frames) = self.functions_of(key.tgid, &addresses) {
            self.user.insert((key.tgid, key.user), frames);
        }
    }

    /// `None` if the process has ended.
    fn functions_of(&self, pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
        let maps = self.root.text(format!("/proc/{pid}/maps")).filter(|maps| !maps.is_empty())?;
        // Opens the files by path, because `map_files` requires CAP_SYS_ADMIN.
        let mut process = Process::new(Pid::from(pid));
        process.map_files = false;
        let source = Source::Process(process);
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).ok();
        let name = |(at, address): (usize, &u64)| {
            let symbol = found.as_ref().and_then(|found| found.get(at)?.as_sym());
            symbol.map_or_else(|| mapped(&maps, *address), |symbol| symbol.name.to_string())
        };
        let mut frames: Vec<String> = addresses.iter().enumerate().map(name).collect();
        frames.reverse();
        Some(frames)
    }

    fn kernel_functions(&self, addresses: &[u64]) -> Vec<String> {
        let name = |address: &u64| {
            let after = self.kernel.partition_point(|(from, _)| from <= address);
            after.checked_sub(1).map_or("[kernel]", |at| self.kernel[at].1.as_str())
        };
        let mut frames: Vec<&str> = addresses.iter().map(name).collect();
        let own = frames.iter().rposition(|name| OWN.iter().any(|own| name.starts_with(own)));
        frames.drain(..own.map_or(0, |at| at + 1));
        frames.into_iter().rev().map(str::to_owned).collect()
    }

    /// All stacks, including those of threads that are still waiting.
    pub(super) fn finish(
        mut self,
        collector: &Collector,
        now_ns: u64,
    ) -> Result<Vec<StackRun>, String> {
        self.look(collector)?;
        let mut uses: BTreeMap<StackKey, StackUse> = collector.stacks()?.into_iter().collect();
        for blocked in collector.blocked()? {
            let used = uses.entry(blocked.key).or_default();
            used.count += 1;
            used.amount += now_ns.saturating_sub(blocked.since_ns);
        }
        let mut merged: BTreeMap<Named, StackUse> = BTreeMap::new();
        for (key, used) in uses {
            let sum = merged.entry(self.named(collector, &key)).or_default();
            sum.count += used.count;
            sum.amount += used.amount;
        }
        Ok(StackKind::ALL.into_iter().flat_map(|kind| heaviest(&merged, kind)).collect())
    }

    fn named(&self, collector: &Collector, key: &StackKey) -> Named {
        let is_request = key.kind == STACK_OF_REQUEST;
        let ended = || if key.user < 0 { Vec::new() } else { vec![ENDED.to_owned()] };
        let kernel = u32::try_from(key.kernel).ok().and_then(|of| collector.frames(of).ok());
        Named {
            kind: if is_request { StackKind::Request } else { StackKind::Wait },
            thread: threads::name(&key.comm),
            user: self.user.get(&(key.tgid, key.user)).cloned().unwrap_or_else(ended),
            kernel: self.kernel_functions(&kernel.unwrap_or_default()),
        }
    }
}

/// A stack by the names of its functions, as [`StackRun`] has them.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
struct Named {
    kind: StackKind,
    thread: String,
    user: Vec<String>,
    kernel: Vec<String>,
}

/// Stacks of this kind with the largest amounts, and one entry for all others.
fn heaviest(merged: &BTreeMap<Named, StackUse>, wanted: StackKind) -> Vec<StackRun> {
    let of_kind = merged.iter().filter(|(named, _)| named.kind == wanted);
    let mut stacks: Vec<StackRun> = of_kind
        .map(|(named, used)| {
            let Named { kind, thread, user, kernel } = named.clone();
            StackRun { kind, thread, user, kernel, count: used.count, amount: used.amount }
        })
        .collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.amount));
    let others = stacks.split_off(stacks.len().min(MOST));
    if !others.is_empty() {
        stacks.push(StackRun {
            kind: wanted,
            thread: "other stacks".into(),
            user: Vec::new(),
            kernel: Vec::new(),
            count: others.iter().map(|stack| stack.count).sum(),
            amount: others.iter().map(|stack| stack.amount).sum(),
        });
    }
    stacks
}

/// Name, in brackets, of the file mapped at an address: proc_pid_maps(5).
fn mapped(maps: &str, address: u64) -> String {
    let line = maps.lines().find(|line| {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        let range = range.and_then(|(low, high)| Some(number(low)?..number(high)?));
        range.is_some_and(|range| range.contains(&address))
    });
    let path = line.and_then(|line| line.split_whitespace().nth(5)).unwrap_or("not a file");
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("[{}]", name.trim_matches(['[', ']']))
}

/// The kernel's functions by start address; empty if the kernel hides them.
fn functions(list: &Path) -> Vec<(u64, String)> {
    let Ok(list) = File::open(list) else { return Vec::new() };
    let lines = BufReader::with_capacity(1 << 16, list).lines().map_while(Result::ok);
    let mut functions: Vec<(u64, String)> = lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = words.next()?.eq_ignore_ascii_case("t");
            (address > 0 && is_function).then(|| Some((address, words.next()?.to_owned())))?
        })
        .collect();
    functions.sort();
    functions
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_function_reaches_to_the_next_and_ours_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let list = place.path().join("kallsyms");
        let lines = "0000000000002000 T submit_bio\n0000000000001000 t vfs_write\n\
                     0000000000001800 D data\n0000000000003000 t bpf_prog_1_stack\t[bpf]\n";
        std::fs::write(&list, lines).unwrap();
        let mut stacks = Stacks::new(&Root::at(place.path()));
        assert!(stacks.missing().is_some());
        stacks.kernel = functions(&list);
        assert_eq!(
            stacks.kernel_functions(&[0x3010, 0x2fff, 0x1900, 0x10]),
            ["[kernel]", "vfs_write", "submit_bio"]
        );
        std::fs::write(&list, "0000000000000000 T submit_bio\n").unwrap();
        assert_eq!(functions(&list), []);
    }

    #[test]
    fn a_frame_without_a_symbol_has_its_file() {
        let maps = "5000-6000 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6\n\
                    7000-8000 rw-p 00000000 00:00 0\n9000-a000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(mapped(maps, 0x5fff), "[libc.so.6]");
        assert_eq!(mapped(maps, 0x7000), "[not a file]");
        assert_eq!(mapped(maps, 0x9000), "[vdso]");
        assert_eq!(mapped(maps, 0x1), "[not a file]");
    }

    #[test]
    fn the_heaviest_are_kept_and_the_others_summed_up() {
        let all = (0..MOST as u64 + 5).map(|at| {
            let (kind, thread) = (StackKind::Wait, "app".to_owned());
            let named = Named { kind, thread, user: vec![format!("f{at}")], kernel: Vec::new() };
            (named, StackUse { count: 1, amount: at + 1 })
        });
        let stacks = heaviest(&all.collect(), StackKind::Wait);
        assert_eq!(stacks.len(), MOST + 1);
        assert_eq!((stacks[0].amount, stacks[MOST].amount), (MOST as u64 + 5, 15));
        assert_eq!(stacks[MOST].count, 5);
    }
}
