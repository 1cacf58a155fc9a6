"""How often the findings of a profile are right, on programs whose behaviour is known.

    python3 benches/profile_findings.py [--runs N] [--only TEXT] [--slow DIR] [BINARY]

Each line is N profiles (20) of a program on ext4, on a loop device over memory or over a disk. The program
either does what a finding reports, or is a look-alike that does not. It prints the share of profiles with
the finding, and the other findings. For a look-alike, the finding is in brackets and must not be made.

Needs root, fio, taskset, two CPUs, a version 1 blkio cgroup, 640 MiB of /dev/shm and 192 MiB on a disk that
is slower than memory. Nothing else should run: a program that lacks CPU time behaves differently. Exit code
1 if a line is wrong in more than a tenth of its profiles.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from disk import Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Size of the file that is read, MiB.
SIZE = 64


def fio(words):
    return f"fio --name=f --filename=f --size={SIZE}m --output=/dev/null {words}"


# Random reads, one at a time by one thread.
RANDOM = """python3 -c 'import mmap, os, random
buffer = mmap.mmap(-1, 4096)
file = os.open("f", os.O_RDONLY | os.O_DIRECT)
for _ in range(4000):
    os.preadv(file, [buffer], 4096 * random.randrange(16384))'"""


def synced(size):
    """Writes of this size, each synced."""
    return f"""python3 -c 'import os
file = os.open("h", os.O_WRONLY | os.O_CREAT)
for _ in range(2000):
    os.write(file, bytes({size}))
    os.fsync(file)'"""


READ = fio("--rw=randread --bs=4k --direct=1 --ioengine=psync ")
RING = fio("--rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16 ")
WRITE = fio("--rw=randwrite --bs=4k --direct=1 --ioengine=psync ")


@contextlib.contextmanager
def alone(_):
    yield []


@contextlib.contextmanager
def limited(disk):
    """In a cgroup that may read 300 times per second."""
    group = pathlib.Path("/sys/fs/cgroup/blkio") / f"findings-{os.getpid()}"
    number = pathlib.Path(f"/sys/class/block/{disk.name}/dev").read_text().strip()
    group.mkdir()
    try:
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} 300")
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        group.rmdir()


@contextlib.contextmanager
def beside(words, disk):
    """Beside another program."""
    other = subprocess.Popen(words.split(), cwd=disk.place, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield []
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


def busy(disk):
    return beside("taskset -c 0 python3 -c while(True):pass", disk)


def neighbour(disk):
    return beside("fio --name=n --thread --filename=g --size=64m --rw=randread --bs=4k --direct=1 "
                  "--ioengine=psync --time_based --runtime=60", disk)


# Title, surroundings, command, finding, and whether the finding must be made.
CASES = (
    ("fsync after each write of 4 KiB", alone, synced(4096), "sync_small_writes", True),
    ("one fsync after 64 MiB", alone, "dd if=/dev/zero of=f bs=1M count=64 conv=fsync",
     "sync_small_writes", False),
    ("fsync after each write of 64 KiB", alone, synced(65536), "sync_bound", True),
    ("an fsync per 64 writes with pauses", alone,
     fio("--rw=write --bs=16k --fsync=64 --thinktime=2ms --number_ios=800"), "sync_bound", False),
    ("O_DSYNC", alone, "dd if=/dev/zero of=f bs=4k count=2000 conv=notrunc oflag=direct,dsync",
     "durable_writes", True),
    ("O_DIRECT", alone, "dd if=/dev/zero of=f bs=4k count=2000 conv=notrunc oflag=direct",
     "durable_writes", False),
    ("random reads one at a time", alone, RANDOM, "latency_bound_reads", True),
    ("random reads at depth 16", alone, RING + "--number_ios=50000", "latency_bound_reads", False),
    ("reads with pauses", alone, READ + "--number_ios=1000 --thinktime=2ms", "latency_bound_reads",
     False),
    ("limit of 300 reads/s", limited, "dd if=f of=/dev/null bs=4k count=600 iflag=direct", "throttled",
     True),
    ("own pace of 300 reads/s", alone, READ + "--number_ios=600 --rate_iops=300", "throttled", False),
    ("nice 19 beside a busy loop on its CPU", busy,
     "taskset -c 0 nice -n 19 dd if=f of=/dev/null bs=4k count=300 iflag=direct", "run_delay", True),
    ("the same, and the loop on the other CPU", busy,
     "taskset -c 1 nice -n 19 dd if=f of=/dev/null bs=4k count=16000 iflag=direct", "run_delay", False),
    ("another program reads the disk", neighbour, READ + "--number_ios=20000", "other_traffic", True),
    ("alone", alone, READ + "--number_ios=20000", "other_traffic", False),
    ("200 reads, then a pause of 20 ms", alone,
     READ + "--number_ios=10000 --thinktime=20ms --thinktime_blocks=200", "bursty", True),
    ("Poisson arrivals of 1,000/s", alone,
     RING + "--number_ios=2000 --rate_iops=1000 --rate_process=poisson", "bursty", False),
    ("nine in ten reads in a tenth of the file", alone,
     RING + "--number_ios=50000 --random_distribution=zoned:90/10:10/90", "hot_spot", True),
    ("uniform reads", alone, RING + "--number_ios=50000", "hot_spot", False),
    ("reads of 4 KiB, each 64 KiB further", alone,
     fio("--rw=read:60k --bs=4k --direct=1 --ioengine=psync"), "strided", True),
    ("sequential reads of 4 KiB", alone, fio("--rw=read --bs=4k --direct=1 --ioengine=psync"),
     "strided", False),
    ("random writes, each block eight times", alone,
     fio("--rw=randwrite --bs=4k --direct=1 --ioengine=psync --norandommap --io_size=64m "
         "--size=8m"), "overwrites", True),
    ("random writes, each block once", alone, WRITE, "overwrites", False),
    ("64 MiB are read six times with O_DIRECT", alone,
     fio("--rw=read --bs=64k --direct=1 --ioengine=psync --loops=6"), "fits_in_memory", True),
    ("64 MiB are read once", alone, fio("--rw=read --bs=64k --direct=1 --ioengine=psync"),
     "fits_in_memory", False),
    ("256 MiB are written through the page cache", alone,
     "dd if=/dev/zero of=h bs=1M count=256 conv=fsync", "buffered_stream", True),
    ("256 MiB are written with O_DIRECT", alone,
     "dd if=/dev/zero of=h bs=1M count=256 oflag=direct", "buffered_stream", False),
    ("64 MiB are read once and eleven times from memory", alone,
     "cat f f f f f f f f f f f f > /dev/null", "page_cache", True),
    ("64 MiB are read once from the device", alone, "cat f > /dev/null", "page_cache", False),
    ("32 MiB are written and not synced", alone, "dd if=/dev/zero of=h bs=1M count=32", "dirty_left",
     True),
    ("32 MiB are written and synced", alone, "dd if=/dev/zero of=h bs=1M count=32 conv=fsync",
     "dirty_left", False),
    ("1,000 files of 1 KiB, each synced", alone,
     "sh -c 'for i in $(seq 1000); do head -c 1024 /dev/zero > s$i; sync s$i; done'", "journal", True),
    ("64 MiB in one file", alone, "dd if=/dev/zero of=h bs=1M count=64 conv=fsync", "journal", False),
)
# Over memory, a thread takes as much time as the device.
ON_SLOW = {"random reads one at a time"}


def findings(binary, disk, surroundings, command):
    """Codes of the findings of one profile. It begins with none of the disk in the page cache."""
    subprocess.run("rm -f h s[0-9]*", shell=True, check=True, cwd=disk.place)
    disk.unmount()
    disk.mount()
    with tempfile.TemporaryDirectory(prefix="findings-") as results, surroundings(disk) as within:
        words = [binary, "profile", "-d", disk.name, "--json", "-o", results, "--", *within]
        words += ["sh", "-c", f"exec {command}"]
        ran = subprocess.run(words, capture_output=True, text=True, cwd=disk.place)
        report = next(pathlib.Path(results).glob("*/report.json"), None)
        text = report.read_text() if report else ran.stdout or ran.stderr
    if ran.returncode:
        sys.exit(f"error: {' '.join(words)}: exit code {ran.returncode}: {ran.stderr}")
    return {finding["code"] for finding in json.loads(text[text.index("{"):])["findings"]}


def check_needs():
    tools = ("fio", "taskset", "losetup", "mkfs.ext4")
    needs = {name: shutil.which(name) is not None for name in tools}
    needs["root"] = os.geteuid() == 0
    needs["a second CPU"] = os.cpu_count() > 1
    needs["a version 1 blkio cgroup"] = pathlib.Path("/sys/fs/cgroup/blkio").is_dir()
    missing = [need for need, is_there in needs.items() if not is_there]
    if missing:
        sys.exit(f"error: missing: {', '.join(missing)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--slow", default="/var/tmp", help="folder of a disk slower than memory")
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    check_needs()
    binary = str(pathlib.Path(asked.binary).resolve())
    wrong = 0
    print("| program | finding | made | beside it |")
    print("| --- | --- | ---: | --- |")
    with Disk(640) as memory, Disk(192, within=asked.slow) as slow:
        for disk in (memory, slow):
            disk.format()
            disk.mount()
            subprocess.run("head -c 64M /dev/urandom | tee f > g; sync -f f", shell=True, check=True,
                           cwd=disk.place)
        for name, surroundings, command, code, must in CASES:
            if asked.only not in name:
                continue
            disk = slow if name in ON_SLOW else memory
            others = collections.Counter()
            for _ in range(asked.runs):
                others.update(findings(binary, disk, surroundings, command))
            made = others.pop(code, 0)
            wrong += (asked.runs - made if must else made) > asked.runs / 10
            beside = ", ".join(f"`{other}` {n / asked.runs:.0%}" for other, n in others.most_common())
            shown = f"`{code}`" if must else f"(`{code}`)"
            print(f"| {name} | {shown} | {made / asked.runs:.0%} | {beside} |", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
