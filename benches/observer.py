"""What the threads that observe a run cost it, where they share one CPU with the load.

    python3 benches/observer.py [--rounds N] [--seconds S] [BINARY]

Random reads of a loop device over memory, one job on CPU 0. Each round is a run whose other threads
(which sleep, sample counters and wait for signals) share that CPU, and a run whose other threads are
moved to another CPU once it has begun, so that only the bare loop is left there; the order alternates.
Both are done once with one request in flight, and once with 32. Printed are the medians of each, and
the median of the ratios within a round with the quartiles. Two runs of the same kind in each round are
the control.

Needs root, losetup, two CPUs and 300 MiB of /dev/shm. Nothing else should run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

from disk import Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOAD_CPU, OTHER_CPU = 0, 1


def bare(process):
    """Leaves only the jobs' threads on their CPU."""
    time.sleep(1)
    moved = 0
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in [process.pid, *children]:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if not (task / "comm").read_text().startswith("job"):
                os.sched_setaffinity(int(task.name), {OTHER_CPU})
                moved += 1
    assert moved >= 3, "the observer has no thread"


def measure(binary, device, depth, seconds, is_bare):
    """IOPS and p99 of a run."""
    words = [binary, "run", "--path", device, "--rw", "randread", "--bs", "4k", "--iodepth", str(depth)]
    words += ["--ramp-time", "2", "--runtime", str(seconds), "--output-format", "json"]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU}),
    )
    if is_bare:
        bare(process)
    output, _ = process.communicate()
    assert process.returncode == 0, f"exit code {process.returncode}"
    total = json.loads(output)["summary"]["total"]
    return total["iops"], total["latency_ns"]["p99"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    with Disk(256) as disk:
        disk.fill()
        compare(asked, disk.device)


def compare(asked, device):
    kinds = {"observed": False, "control": False, "bare": True}
    print("| depth | figure | observed | bare | observed / bare | observed / control |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for depth in (1, 32):
        seen = {kind: [] for kind in kinds}
        for number in range(asked.rounds):
            for kind in list(kinds)[:: 1 if number % 2 else -1]:
                run = measure(asked.binary, device, depth, asked.seconds, kinds[kind])
                seen[kind].append(run)
        for at, name in enumerate(("IOPS", "p99, ns")):
            of = {kind: [run[at] for run in runs] for kind, runs in seen.items()}
            print(f"| {depth} | {name} | {statistics.median(of['observed']):,.0f} "
                  f"| {statistics.median(of['bare']):,.0f} | {ratio(of, 'bare')} "
                  f"| {ratio(of, 'control')} |", flush=True)


def ratio(of, other):
    """Median of the ratios within rounds, with the quartiles."""
    ratios = [a / b for a, b in zip(of["observed"], of[other])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
