"""What a profile costs a program that shares one CPU with its device.

    python3 benches/shared_cpu.py [--rounds N] [--seconds S] [BINARY]

fio reads a loop device over memory at depth 32, all the time. fio and the kernel's unbound workers, which
do the device's work, are kept on CPU 0, so that whatever is done for a request is lost to the next one. Each round
is a window without a profile, one under `iosonde profile`, and one without again; the rates are those of
the kernel's counters of the device. Printed are the medians over the rounds, of the loss with the
quartiles, and how far the two windows without a profile are apart (the control).

Needs root, fio, losetup, two CPUs and 300 MiB of /dev/shm. Nothing else should run. The CPUs of the unbound
workers are those from before when it ends.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from disk import Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = pathlib.Path("/sys/devices/virtual/workqueue/cpumask")
LOAD_CPU = 0
SIZES = ("4k", "8k", "16k")


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


def profiled(binary, pid, disk, seconds):
    """The same under a profile that has begun."""
    begin_s, end_s = 1, 0.5
    with tempfile.TemporaryDirectory() as folder:
        words = [binary, "profile", "-p", str(pid), "--for", str(seconds + begin_s + end_s), "-o", folder]
        profile = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(begin_s)
        seen = rate(disk, seconds)
        assert profile.poll() is None, "the profile ended too early"
        assert profile.wait() == 0, f"the profile failed: exit code {profile.returncode}"
    return seen


def measure(asked, disk, size):
    program = fio(disk.device, size)
    try:
        time.sleep(2)
        rounds = []
        for _ in range(asked.rounds):
            before = rate(disk, asked.seconds)
            during = profiled(asked.binary, program.pid, disk, asked.seconds)
            after = rate(disk, asked.seconds)
            rounds.append((statistics.mean((before, after)), during, abs(before / after - 1)))
    finally:
        program.kill()
        program.wait()
    without, during, control = (statistics.median(of) for of in zip(*rounds))
    losses = [100 * (1 - during / without) for without, during, _ in rounds]
    low, loss, high = statistics.quantiles(losses, n=4)
    more_ns = statistics.median(1e9 / during - 1e9 / without for without, during, _ in rounds)
    print(f"| {size} | {without:,.0f} | {during:,.0f} | {loss:.1f} ({low:.1f} to {high:.1f}) "
          f"| {more_ns:.0f} | {100 * control:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    allowed = WORKERS.read_text()
    with Disk(256) as disk:
        disk.fill()
        # The device reads the file in memory itself, past the page cache above it.
        subprocess.run(["losetup", "--direct-io=on", disk.device], check=True)
        try:
            WORKERS.write_text(f"{1 << LOAD_CPU:x}")
            print("| size | IOPS without | under a profile | lost, % (quartiles) | ns per request | control, % |")
            print("| --- | ---: | ---: | ---: | ---: | ---: |")
            for size in SIZES:
                measure(asked, disk, size)
        finally:
            WORKERS.write_text(allowed)


if __name__ == "__main__":
    main()
