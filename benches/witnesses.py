"""The profiler beside second witnesses, on a loop device of its own.

    python3 benches/witnesses.py [BINARY]     (default: target/release/iosonde)

Each case runs once under `iosonde profile`, with strace inside, and is compared with
- the kernel's counters of the device (/sys/block/*/stat): bytes read and written, all classes;
- the sync calls that strace saw;
- the bytes per file that strace saw (-yy), renames followed.
The first two must agree, and each case names a file that must be among the three with most bytes.
Bytes per file are printed side by side and not judged: the device gets whole pages, it gets a page
that is written twice before a sync only once, and writes through a mapping are no calls.

Needs root, strace, git, sqlite3, fio and 1 GiB of /dev/shm. Exit code 1 if anything disagrees.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from disk import Disk, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Environment variable that is set within the mount namespace of this script.
OWN = "WITNESSES_OWN_MOUNTS"
TOOLS = ("unshare", "strace", "git", "sqlite3", "fio", "mkfs.ext4", "losetup")
SYNCS = ("fsync", "fdatasync", "syncfs", "sync")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile")
NAMES = ("rename", "renameat", "renameat2", "link", "linkat")
ROWS = "".join(f"insert into t values({i}, hex(randomblob(50)));" for i in range(300))
SQL = "pragma journal_mode={};create table t(a,b);{}"
FILL = "dd if=/dev/urandom of=f bs=1M count=32"
CLONE = "git clone -q --bare --no-local"
FIO = "fio --name=f --filename=f --size=16m --bs=4k --output=/dev/null "


def sqlite(mode):
    # Keeps the log when the database is closed, so that it is not listed as a deleted file.
    return f"printf %s '.filectrl persist_wal 1\n{SQL.format(mode, ROWS)}' | sqlite3 app.db"


# Name, preparation, command, and the end of a path that must be among the three with most bytes.
CASES = (
    ("dd, direct writes", "true", "dd if=/dev/zero of=f bs=1M count=32 oflag=direct", "f"),
    ("dd, direct reads", FILL, "dd if=f of=/dev/null bs=64k iflag=direct", "f"),
    ("cp", FILL, "cp f g", "g"),
    ("SQLite, rollback journal", "true", sqlite("delete"), "app.db"),
    ("SQLite, WAL", "true", sqlite("wal"), "app.db-wal"),
    ("git clone", f"{CLONE} {ROOT} s", f"{CLONE} s c", ".pack"),
    ("git gc", f"{CLONE} {ROOT} s", "git -C s gc -q --aggressive", ".pack"),
    ("tar", "true", "tar -cf a.tar -C /usr include && tar -xf a.tar", "a.tar"),
    ("1,500 forks", "true", "for i in $(seq 1500); do (echo $i >> f); done", "f"),
    ("io_uring", "true", FIO + "--rw=randwrite --direct=1 --ioengine=io_uring --iodepth=8", "f"),
    ("mmap", "true", FIO + "--rw=write --ioengine=mmap", "f"),
)


def calls(log):
    """Each finished call of strace's log: name, arguments and result."""
    begun = {}
    for line in log.read_text(errors="replace").splitlines():
        pid, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text = begun.pop(pid, "") + resumed[1]
        call = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", text)
        if call:
            yield call[1], call[2], int(call[3])


def traced(log):
    """Sync calls by kind, and bytes written by path. A rename within a directory is followed."""
    syncs, written = {}, {}
    for name, arguments, result in calls(log):
        if name in SYNCS:
            syncs[name] = syncs.get(name, 0) + 1
        elif name in NAMES and result == 0:
            rename(written, *re.findall(r'"([^"]*)"', arguments)[-2:])
        elif name in WRITES and result > 0:
            files = re.findall(r"\d+<(/[^>]*)>", arguments)
            # Of a copy between two files, the second is written; sendfile has it first.
            path = files[-1 if name == "copy_file_range" else 0] if files else "-"
            written[path] = written.get(path, 0) + result
    return syncs, written


def rename(written, old, new):
    """Moves the bytes of a renamed file. The names are relative to a directory not in the log."""
    for path in [p for p in written if p.endswith(f"/{pathlib.Path(old).name}")]:
        renamed = str(pathlib.Path(path).with_name(pathlib.Path(new).name))
        written[renamed] = written.get(renamed, 0) + written.pop(path)


def profiled(binary, disk, command, results):
    """The report of the command under strace, and the log of strace."""
    log = results / "strace"
    trace = ",".join(SYNCS + WRITES + NAMES)
    strace = f"strace -f --seccomp-bpf -s 0 -yy -o {log} -e trace={trace}".split()
    name = disk.name
    words = [binary, "profile", "-d", name, "--json", "-o", results, "--", *strace]
    with open(results / "output", "w") as output:
        run(*words, "sh", "-ec", command, cwd=disk.place, stdout=output, stderr=output)
    return json.loads((results / "report.json").read_text()), log


def by_path(report, place):
    """Bytes read and written of each file of the file system, most bytes first. A file that was
    deleted and created again counts as one."""
    files = {}
    for file in report["files"]:
        path = file["path"].removesuffix(" (deleted or moved)")
        if path.startswith(f"{place}/"):
            read, write = files.get(path, (0, 0))
            files[path] = (read + file["read_bytes"], write + file["write_bytes"])
    return dict(sorted(files.items(), key=lambda item: -sum(item[1])))


def case(binary, disk, results, prepare, command, expected):
    """The names of the figures that disagree, and the rows to print."""
    disk.format()
    disk.mount()
    run("sh", "-ec", prepare, cwd=disk.place, stderr=subprocess.DEVNULL)
    disk.unmount()
    disk.mount()
    run("sync", "-f", disk.place)
    before = disk.counters()
    report, log = profiled(binary, disk, f"{command}; sync -f .", results)
    counted = [after - b for after, b in zip(disk.counters()[:2], before)]
    disk.unmount()
    syncs, written = traced(log)
    files = by_path(report, disk.place)
    wrong = compare(report, counted, syncs)
    if not any(path.endswith(expected) for path in list(files)[:3]):
        wrong.append("files")
    return wrong, rows(report, counted, syncs) + file_rows(files, written, disk.place)


def totals(report):
    return [sum(c[key] for c in report["classes"]) for key in ("read_bytes", "write_bytes")]


def sync_calls(report):
    kinds = report["syncs"]["kinds"]
    return {kind: kinds[kind]["calls"] for kind in kinds if kinds[kind]["calls"]}


def compare(report, counted, syncs):
    """The names of the figures that differ."""
    wrong = [] if totals(report) == counted else ["bytes"]
    return wrong if sync_calls(report) == syncs else wrong + ["syncs"]


def rows(report, counted, syncs):
    seen = sync_calls(report)
    names = ("bytes read", "bytes written")
    pairs = list(zip(names, totals(report), counted))
    return pairs + [(kind, seen.get(kind, 0), syncs.get(kind, 0)) for kind in {**seen, **syncs}]


def file_rows(files, written, place):
    """Bytes written, of the three files with most bytes and of all together."""
    paths = list(files)[:3]
    pairs = [(p.removeprefix(f"{place}/"), files[p][1], written.get(p, 0)) for p in paths]
    calls = sum(b for path, b in written.items() if path.startswith(f"{place}/"))
    return pairs + [("all files listed", sum(write for _, write in files.values()), calls)]


def own_mounts():
    """Restarts in a mount namespace. A program that copied the mounts into another namespace would
    keep the device in use after it is unmounted."""
    os.environ[OWN] = "1"
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
    os.execvp(words[0], words)


def main():
    binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/iosonde")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        sys.exit(f"not found: {', '.join(missing)}; install them, and run this again")
    if not binary.is_file():
        sys.exit(f"{binary} not found; build it with `cargo build --release`, or name another")
    if os.geteuid() != 0:
        sys.exit("root is needed for the loop device and its mount; run this with sudo")
    if OWN not in os.environ:
        own_mounts()
    failed = False
    with Disk() as disk:
        print("each pair: the profile, the witness")
        for name, prepare, command, expected in CASES:
            with tempfile.TemporaryDirectory() as results:
                place = pathlib.Path(results)
                wrong, pairs = case(binary.resolve(), disk, place, prepare, command, expected)
            failed |= bool(wrong)
            verdict = "differs: " + ", ".join(wrong) if wrong else "the same"
            print(f"{name}: {verdict}")
            for what, seen, witness in pairs:
                print(f"  {what}: {seen:,} {witness:,}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
