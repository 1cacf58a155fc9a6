"""Applications recorded, replayed and compared, on loop devices of its own.

    python3 benches/replays.py [BINARY] [--only NAME,...] [--keep FOLDER] [--on FOLDER]

(default: target/release/iosonde). Each application runs once on ext4 under `iosonde profile
--emit`, with an empty page cache. The workload is replayed onto a second loop device of the same
size, also under `iosonde profile`, and both records are compared.

Prints a table of the scores of `iosonde compare`, and the device rates of both sides by the
kernel's counters (/sys/block/*/stat), independent of the profiler. No score is judged.

Needs root, git, sqlite3, PostgreSQL, RocksDB's db_bench and 3 GiB of /dev/shm.
"""

import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from disk import MEMORY, Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Environment variable that is set within the mount namespace of this script.
OWN = "REPLAYS_OWN_MOUNTS"
TOOLS = ("unshare", "git", "sqlite3", "db_bench", "mkfs.ext4", "losetup", "runuser")


def sqlite(mode):
    rows = "insert into t values(abs(random()), hex(randomblob(100)));\n"
    head = f"pragma journal_mode={mode}; pragma synchronous=full;\n"
    return head + "create table t(a primary key, b);\n" + rows * 3000


def server():
    """The folder with the programs of the newest PostgreSQL."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
    return found[-1] if found else None


BIN = server()
PREPARE_POSTGRES = f"""
chown postgres .
runuser -u postgres -- {BIN}/initdb -D data -A trust > initdb.log
echo "shared_buffers = '32MB'" >> data/postgresql.conf
runuser -u postgres -- {BIN}/pg_ctl -D data -w -l log -o "-k /tmp -h ''" start > start.log
runuser -u postgres -- pgbench -h /tmp -i -q -s 20 postgres
runuser -u postgres -- {BIN}/pg_ctl -D data -w stop > stop.log
"""
POSTGRES = f"""
runuser -u postgres -- {BIN}/pg_ctl -D data -w -l log -o "-k /tmp -h ''" start
runuser -u postgres -- pgbench -h /tmp -n -c 4 -j 2 -T 10 postgres
runuser -u postgres -- {BIN}/pg_ctl -D data -w stop
"""
# Unpacks each object into a separate file, as in a repository in daily use.
LOOSE = f"""
git clone -q --bare --no-local {ROOT} s
mv s/objects/pack/*.pack pack
rm -f s/objects/pack/*
git -C s unpack-objects -q < pack
rm pack
"""
ROCKS = "db_bench --db=db --num=20000 --value_size=400 --compression_type=none"
ROCKS += " --write_buffer_size=1048576 --statistics=0"

# Name, title, preparation, command.
CASES = (
    ("sqlite-rollback", "SQLite, rollback journal", "", "sqlite3 app.db < delete.sql"),
    ("sqlite-wal", "SQLite, WAL", "", "sqlite3 app.db < wal.sql"),
    ("pgbench", "PostgreSQL, `pgbench -c 4`", PREPARE_POSTGRES, POSTGRES),
    ("rocksdb", "RocksDB, `db_bench`", "", f"{ROCKS} --benchmarks=fillsync,readrandom"),
    ("git-gc", "`git gc`", LOOSE, "git -C s gc -q"),
    ("tar", "`tar`", "cp -r /usr/include /usr/share/perl .", "tar -cf a.tar include perl"),
)
SYNCED = "\nsync -f ."


# Exit codes of a completed load: success, or a verdict on the measurement.
COMPLETED = (0, 3, 6, 7)


def run(*words, codes=(0,), **options):
    done = subprocess.run([str(word) for word in words], **options)
    if done.returncode not in codes:
        kept = getattr(options.get("stderr"), "name", None)
        said = pathlib.Path(kept).read_text() if kept else ""
        line = " ".join(str(word) for word in words)
        sys.exit(f"exit code {done.returncode}: {line}\n{said}")
    return done


def counted(disk, *words, **options):
    """Runs a command; returns the differences of the device's counters."""
    before = disk.counters()
    run(*words, **options)
    return [after - b for after, b in zip(disk.counters(), before)]


def profiled(binary, disk, results, words, place, more=(), codes=(0,)):
    """Profiles a command; returns the differences of the disk's counters, and the seconds."""
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir()
    profile = [binary, "profile", "-d", disk.name, "--json", "-o", results, *more, "--"]
    with open(results / "output", "w") as output:
        streams = {"stdout": output, "stderr": output}
        deltas = counted(disk, *profile, *words, cwd=place, codes=codes, **streams)
    record = json.loads(next(results.glob("*/01-profile.json")).read_text())
    return deltas, record["measured_ns"] / 1e9


def consent(binary, disk):
    """The options of consent that the refusal to write the device requires."""
    words = [binary, "run", "--rw", "write", "--path", disk.device]
    refused = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return [word for word in refused.stderr.split("repeat with ")[1].split() if word[:2] == "--"]


def case(binary, disks, folder, prepare, command):
    """Counters and seconds of both sides, and the comparison."""
    source, target = disks
    source.format()
    source.mount()
    for mode in ("delete", "wal"):
        (source.place / f"{mode}.sql").write_text(sqlite(mode))
    quiet = subprocess.DEVNULL
    run("sh", "-ec", prepare, cwd=source.place, stdout=quiet, stderr=quiet)
    source.unmount()
    source.mount()
    run("sync", "-f", source.place)
    words = ["sh", "-ec", command.strip() + SYNCED]
    first, second, workload = folder / "recorded", folder / "replayed", folder / "app.toml"
    workload.unlink(missing_ok=True)
    more = ["--emit", workload]
    one, recorded = profiled(binary, source, first, words, source.place, more)
    source.unmount()
    target.erase()
    length = next(
        line.split("--runtime ")[1].strip()
        for line in workload.read_text().splitlines() if "--runtime " in line
    )
    words = [binary, "run", workload, "--path", target.device, "--runtime", length]
    words += ["--results", folder / "runs", *consent(binary, target)]
    two, replayed = profiled(binary, target, second, words, folder, codes=COMPLETED)
    records = [next(folder.glob("*/01-profile.json")) for folder in (first, second)]
    compare = [binary, "compare", *records, "--output-format", "json"]
    done = subprocess.run([str(w) for w in compare], capture_output=True, text=True)
    if done.returncode not in (0, 7):
        sys.exit(done.stderr)
    (folder / "compare.json").write_text(done.stdout)
    return (one, recorded), (two, replayed), json.loads(done.stdout)


def score(compared, code):
    for dimension in compared["dimensions"]:
        if dimension["code"] == code and dimension["score"] is not None:
            return f"{dimension['score']:.2f}"
    return "-"


def scores(rows):
    """Prints the table of the scores."""
    codes = [dimension["code"] for dimension in rows[0][3]["dimensions"]]
    names = [code.replace("_", " ") for code in codes]
    print("| program | " + " | ".join(names) + " | fidelity |")
    print("| --- " * (len(names) + 2) + "|")
    for title, _, _, compared in rows:
        total = compared["fidelity"]
        cells = [score(compared, code) for code in codes]
        cells.append("-" if total is None else f"{total:.2f}")
        print(f"| {title} | " + " | ".join(cells) + " |")


def rates(rows):
    """Prints the table of the rates, by the kernel's counters."""
    print("| program | s | read MB/s | written MB/s | writes/s | flushes/s |")
    print("| --- " * 6 + "|")
    for title, one, two, _ in rows:
        cells = []
        for deltas, seconds in (one, two):
            read, written, writes, flushes = (delta / seconds for delta in deltas)
            each = (seconds, read / 1e6, written / 1e6, writes, flushes)
            cells.append([f"{value:.4g}" for value in each])
        print(f"| {title} | " + " | ".join(" / ".join(pair) for pair in zip(*cells)) + " |")


def own_mounts():
    """Restarts in a mount namespace. A program that copied the mounts into another namespace would
    keep the device in use after it is unmounted."""
    os.environ[OWN] = "1"
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
    os.execvp(words[0], words)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?", default=ROOT / "target/release/iosonde")
    parser.add_argument("--only", help="names of cases, with commas between them")
    parser.add_argument("--keep", help="a folder for profiles, workloads and comparisons")
    parser.add_argument("--on", default=MEMORY, help=f"where the devices' files are ({MEMORY})")
    return parser.parse_args()


def main():
    args = arguments()
    binary = pathlib.Path(args.binary)
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    missing += [] if BIN else ["PostgreSQL below /usr/lib/postgresql"]
    if missing:
        sys.exit(f"not found: {', '.join(missing)}; install them, and run this again")
    if not binary.is_file():
        sys.exit(f"{binary} not found; build it with `cargo build --release`, or name another")
    if os.geteuid() != 0:
        sys.exit("root is needed for the loop devices and mounts; run this with sudo")
    names = args.only.split(",") if args.only else [case[0] for case in CASES]
    unknown = set(names) - {case[0] for case in CASES}
    if unknown:
        known = ", ".join(case[0] for case in CASES)
        sys.exit(f"--only: no case {', '.join(unknown)}; there are {known}")
    if OWN not in os.environ:
        own_mounts()
    rows = []
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as kept,
        Disk(within=args.on) as recorded,
        Disk(within=args.on) as replayed,
    ):
        keep = pathlib.Path(args.keep or kept).resolve()
        for name, title, prepare, command in (case for case in CASES if case[0] in names):
            print(f"{name} ...", file=sys.stderr)
            folder = keep / name
            folder.mkdir(parents=True, exist_ok=True)
            disks = [recorded, replayed]
            rows.append((title, *case(binary.resolve(), disks, folder, prepare, command)))
        print("scores")
        scores(rows)
        print("device, recorded / replayed")
        rates(rows)


if __name__ == "__main__":
    main()
