//! The hot loop executes `syscall` inline, as a check of the release binary shows.
//!
//! A `ret` after a system call is mispredicted on many processors and costs up to 250 ns. So
//! neither the C library nor a function of our own may stand between the loop and the kernel. The
//! line tables of the binary list the calls through which each instruction was inlined.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests; a skipped one says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use iosonde_rig::skip;

/// The release binary next to the directory of this test binary, `target/debug/deps`.
fn release_binary() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let binary = own.ancestors().nth(3)?.join("release/iosonde");
    binary.exists().then_some(binary)
}

/// Output of a program of binutils; `None` if it is not installed.
fn ask(program: &str, arguments: &[&str], binary: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(binary).output().ok()?;
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Addresses of `syscall` instructions in a disassembly.
fn syscalls(disassembly: &str) -> Vec<String> {
    let at = |line: &str| {
        let (address, instruction) = line.trim_start().split_once(':')?;
        (instruction.trim() == "syscall").then(|| format!("0x{address}"))
    };
    disassembly.lines().filter_map(at).collect()
}

/// For each `syscall` instruction, the source files through which it was inlined, innermost first.
fn chains(binary: &Path) -> Option<Vec<String>> {
    let disassembly = ask("objdump", &["-d", "--no-show-raw-insn"], binary)?;
    let addresses = syscalls(&disassembly);
    let mut arguments = vec!["--addresses", "--inlines"];
    arguments.extend(addresses.iter().map(String::as_str));
    arguments.push("--exe");
    let lines = ask("addr2line", &arguments, binary)?;
    Some(lines.split("0x").skip(1).map(String::from).collect())
}

/// Source files of the synchronous engines, whose call must be inlined into the loop.
fn blocking() -> Vec<String> {
    let is_call = |path: &PathBuf| {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("\nimpl Call for "))
    };
    let files = std::fs::read_dir("crates/iosonde-engine/src/backend").unwrap();
    let files = files.map(|file| file.unwrap().path()).filter(is_call);
    let names: Vec<String> =
        files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name == "psync.rs"), "{names:?}");
    names
}

#[test]
fn the_loop_reaches_the_kernel_inline() {
    if !cfg!(target_arch = "x86_64") {
        skip("only x86-64 has its system call inline");
        return;
    }
    let Some(binary) = release_binary() else {
        skip("the release binary is not built; `cargo build --release` first");
        return;
    };
    let Some(chains) = chains(&binary) else {
        skip("objdump or addr2line is missing (package binutils)");
        return;
    };
    let rings = ["uring.rs", "uring_cmd.rs", "libaio.rs"].map(String::from);
    for name in rings.into_iter().chain(blocking()) {
        let seam = format!("src/backend/{name}");
        let inline =
            chains.iter().any(|chain| chain.contains(&seam) && chain.contains("src/engine/job.rs"));
        assert!(inline, "no `syscall` of {seam} stands in the loop of a job:\n{chains:#?}");
    }
}

#[test]
fn a_disassembly_is_read_right() {
    let text = "0000000000001000 <main>:\n    1000:\tmov    $0x11,%eax\n    1005:\tsyscall\n\
                    1007:\tcall   2000 <syscall>\n    100c:\tsyscall \n";
    assert_eq!(syscalls(text), ["0x1005", "0x100c"]);
}
