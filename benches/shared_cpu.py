"""What a profile costs a program that shares one CPU with its device.

    python3 benches/shared_cpu.py [--rounds N] [--seconds S] [--beside NAME=BINARY]... [BINARY]

fio reads a loop device over memory at depth 32, all the time. fio and the kernel's unbound workers, which do
the device's work, are pinned to CPU 0, so that all work for a request delays the next one. The watchers take
turns: BINARY, others (`--beside`), and the bench's bpftrace script, if bpftrace is installed. Each round has
four windows: without the watcher, with it, with it while the kernel times its programs, and without it
again. The rates are from the kernel's counters of the device. It prints medians over the rounds: the loss
with its quartiles; the difference of the two windows without a watcher (the control); the additional time of
a request; and the time of the programs, less the cost of timing them. That cost is the mean time of the
shortest program of all watchers, so only figures of one run are comparable.

Needs root, fio, losetup, two CPUs and 300 MiB of /dev/shm. Nothing else should run. At the end it restores
the CPUs of the unbound workers and `kernel.bpf_stats_enabled`.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from disk import Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = pathlib.Path("/sys/devices/virtual/workqueue/cpumask")
COUNTING = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
BPFTRACE = "bpftrace"
TRACEFS = pathlib.Path("/sys/kernel/tracing")
LOAD_CPU = 0


def fio(device, size):
    words = f"fio --name=a --rw=randread --bs={size} --direct=1 --time_based --runtime=3600 --thread=1 "
    words += f"--ioengine=io_uring --norandommap=1 --iodepth=32 --filename={device}"
    pin = lambda: os.sched_setaffinity(0, {LOAD_CPU})
    return subprocess.Popen(words.split(), stdout=subprocess.DEVNULL, preexec_fn=pin)


def reads(disk):
    return int(pathlib.Path("/sys/block", disk.name, "stat").read_text().split()[0])


def rate(disk, seconds):
    """Reads per second from now on."""
    before, since = reads(disk), time.monotonic()
    time.sleep(seconds)
    return (reads(disk) - before) / (time.monotonic() - since)


class Watcher:
    """`iosonde profile` or bpftrace; it is stopped when the `with` block ends."""

    def __init__(self, binary, pid, seconds):
        self.folder = tempfile.TemporaryDirectory()
        words = [binary, "profile", "-p", str(pid), "--for", str(seconds), "-o", self.folder.name]
        if binary == BPFTRACE:
            words = [binary, str(ROOT / "benches/profile.bt")]
        silent = subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdout=silent, stderr=silent)

    def __enter__(self):
        # bpftrace compiles its script first.
        attached = -1
        while attached != len(self.counts()) or not attached:
            assert self.process.poll() is None, f"{self.process.args} ended too early"
            attached = len(self.counts())
            time.sleep(1)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            # bpftrace prints its tables first.
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.folder.cleanup()

    def counts(self):
        """Number of runs and their time, ns, of each kernel program, as the kernel counts them."""
        programs = {}
        for file in pathlib.Path("/proc", str(self.process.pid), "fdinfo").iterdir():
            try:
                fields = dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)
            except FileNotFoundError:
                continue
            if "run_time_ns" in fields:
                programs[fields["prog_id"]] = (int(fields["run_cnt"]), int(fields["run_time_ns"]))
        return programs


def programs_of(watcher, disk, seconds):
    """Runs per request and ns per run, of each kernel program with a run per 4 requests or more."""
    before, requests = watcher.counts(), reads(disk)
    time.sleep(seconds)
    after, requests = watcher.counts(), reads(disk) - requests
    ran = [[now - then for now, then in zip(counts, before[id])] for id, counts in after.items()]
    return [(runs / requests, ns / runs) for runs, ns in ran if runs > requests / 4]


def net_ns(programs, least):
    """Time of the programs per request, without the cost of timing them, ns."""
    return sum(runs * (ns - least) for runs, ns in programs)


def measure(asked, disk, size, watchers):
    program = fio(disk.device, size)
    rounds = {name: [] for name in watchers}
    try:
        time.sleep(2)
        for _ in range(asked.rounds):
            for name, binary in watchers.items():
                before = rate(disk, asked.seconds)
                with Watcher(binary, program.pid, 4 * asked.seconds + 30) as watcher:
                    during = rate(disk, asked.seconds)
                    COUNTING.write_text("1")
                    programs = programs_of(watcher, disk, asked.seconds)
                    COUNTING.write_text("0")
                after = rate(disk, asked.seconds)
                without = statistics.mean((before, after))
                rounds[name].append((without, during, abs(before / after - 1), programs))
    finally:
        program.kill()
        program.wait()
    least = min(ns for of in rounds.values() for *_, programs in of for _, ns in programs)
    for name, of in rounds.items():
        of = [(*rates, net_ns(programs, least)) for *rates, programs in of]
        without, during, control, programs_ns = (statistics.median(one) for one in zip(*of))
        losses = [100 * (1 - during / without) for without, during, *_ in of]
        low, loss, high = statistics.quantiles(losses, n=4)
        more_ns = statistics.median(1e9 / during - 1e9 / without for without, during, *_ in of)
        print(f"| {size} | {name} | {without:,.0f} | {during:,.0f} | {loss:.1f} ({low:.1f} to {high:.1f}) "
              f"| {100 * control:.1f} | {more_ns:.0f} | {programs_ns:.0f} |", flush=True)


@contextlib.contextmanager
def kept(path):
    """Restores the content of this kernel file at the end."""
    before = path.read_text()
    try:
        yield
    finally:
        path.write_text(before)


@contextlib.contextmanager
def tracefs():
    """Mounts tracefs, which bpftrace needs, if it is not mounted."""
    own = not any(TRACEFS.iterdir())
    if own:
        subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
    try:
        yield
    finally:
        if own:
            subprocess.run(["umount", TRACEFS], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="two at least")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=BINARY")
    parser.add_argument("--sizes", default="4k,8k,16k")
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    if asked.rounds < 2 or not all("=" in other for other in asked.beside):
        parser.error("two rounds at least, and NAME=BINARY for --beside")
    watchers = {"iosonde": asked.binary} | dict(other.split("=", 1) for other in asked.beside)
    with contextlib.ExitStack() as stack:
        if shutil.which(BPFTRACE):
            watchers[BPFTRACE] = BPFTRACE
            stack.enter_context(tracefs())
        disk = stack.enter_context(Disk(256))
        disk.fill()
        # The device reads the file in memory by direct I/O, without the page cache above it.
        subprocess.run(["losetup", "--direct-io=on", disk.device], check=True)
        stack.enter_context(kept(WORKERS))
        stack.enter_context(kept(COUNTING))
        WORKERS.write_text(f"{1 << LOAD_CPU:x}")
        COUNTING.write_text("0")
        print("| size | watched by | IOPS without | with | lost, % (quartiles) | control, % "
              "| ns per request | programs, ns |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for size in asked.sizes.split(","):
            measure(asked, disk, size, watchers)


if __name__ == "__main__":
    main()
