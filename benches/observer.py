"""What the threads that observe a run cost it, where they share one CPU with the load.

    python3 benches/observer.py [--rounds N] [--seconds S] [BINARY]

The load is random reads of a loop device over memory, with one job on CPU 0. Each round has three runs, in
alternating order. In two of them, observed and control, the other threads (which sleep, sample counters
and wait for signals) share that CPU. In the third, bare, they are moved to another CPU once the run has
begun. This is done with one request in flight and with 32. It prints the medians, and the median and
quartiles of the ratios within a round. If the ratios to the control scatter, as in a virtual machine, the
kernel's accounting of the other threads is the better answer: their share of the CPU, and how often they
ran.

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
RAMP_S = 2


def threads(process):
    """The folders in /proc of all threads except those of the jobs."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in [process.pid, *children]:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if not (task / "comm").read_text().startswith("job"):
                yield task


def bare(process):
    """Moves all other threads away from the CPU of the jobs."""
    time.sleep(1)
    others = list(threads(process))
    assert len(others) >= 3, "the observer has no thread"
    for task in others:
        os.sched_setaffinity(int(task.name), {OTHER_CPU})


def spent(process):
    """CPU time of all threads except the jobs', ns, and how often they got a CPU."""
    rows = [(task / "schedstat").read_text().split() for task in threads(process)]
    return sum(int(row[0]) for row in rows), sum(int(row[2]) for row in rows)


def account(binary, device, depth, seconds):
    """Share of the CPU that the other threads use in the measured window, and runs per second."""
    process = start(binary, device, depth, seconds)
    time.sleep(RAMP_S + 0.5)
    (before_ns, before), since = spent(process), time.monotonic()
    time.sleep(seconds - 1)
    (after_ns, after), length_s = spent(process), time.monotonic() - since
    process.communicate()
    return (after_ns - before_ns) / 1e9 / length_s, (after - before) / length_s


def start(binary, device, depth, seconds):
    """Starts a run on the load's CPU."""
    words = [binary, "run", "--path", device, "--rw", "randread", "--bs", "4k", "--iodepth", str(depth)]
    words += ["--ramp-time", str(RAMP_S), "--runtime", str(seconds), "--output-format", "json"]
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU}),
    )


def measure(binary, device, depth, seconds, is_bare):
    """IOPS and p99 of a run."""
    process = start(binary, device, depth, seconds)
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
    for depth in (1, 32):
        accounts = [account(asked.binary, device, depth, max(asked.seconds, 5)) for _ in range(5)]
        share, per_s = (statistics.median(of) for of in zip(*accounts))
        print(f"depth {depth}: the other threads took {100 * share:.2f} % of the CPU, "
              f"in {per_s:.0f} runs per second (medians of 5)", flush=True)


def ratio(of, other):
    """Median of the ratios within rounds, with the quartiles."""
    ratios = [a / b for a, b in zip(of["observed"], of[other])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
