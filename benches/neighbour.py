"""Does a quick study beside a loud neighbour recommend what a quiet study contradicts?

    python3 benches/neighbour.py [--pairs N] [--target DIR [--quiet RESULT]] [BINARY]

Each pair is `experiment run study --quick` beside a neighbour and `experiment run study` without one, on
the same device, with the stages whose recommendations are checked (queue depth, jobs, mix).

Without --target the device is simulated, with another seed for each pair. The neighbour sends requests to
it, and its runs differ by noise of 15 %. With --target it is a file in that directory. The neighbour is
then fio with random reads and writes of another file there, which comes and goes every few seconds, and a
busy loop on every CPU. The quiet study is measured once, at the end (20 minutes), or read from the folder
RESULT. Nothing else should run.

Every recommendation of the quick study is compared with the points of the quiet one, and is right or
wrong. Exit code 1 if one is wrong.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICE = "servers=8,read=exp:300us,write=exp:400us"
NOISE = ",run-noise=15,neighbour={}"
# As in docs/advice.md: a knee has 80 % of the largest throughput over latency, and a level with 93 % of
# the largest throughput counts as having 95 %.
KNEE, ENOUGH = 0.80, 0.93
# Rates that differ by less may be ranked in either order.
ALIKE = 0.05
STAGES = {"iodepth": "queue-depth", "numjobs": "jobs"}
MIX = "read-write-mix"


class Study:
    """The sentences of a study's report, and its points."""

    def __init__(self, binary, folder):
        words = [binary, "report", folder, "--output-format", "json"]
        self.report = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        lists = [b["items"] for s in self.report["sections"] for b in s["blocks"] if "items" in b]
        self.sentences = self.report["answer"] + [item for items in lists for item in items]
        table = next(each for each in self.report["data"] if each["name"] == "points")
        self.points = [dict(zip(table["columns"], row)) for row in table["rows"]]

    def recommends(self, pattern):
        """Axis and level of each different recommendation that matches the pattern."""
        return {found for said in self.sentences for found in pattern.findall(said)}

    def levels(self, axis):
        """IOPS and mean latency of each level of the sweep along that axis."""
        column = f"level_{axis}_number"
        own = [point for point in self.points if point["stage_name"] == STAGES[axis]]
        return {int(p[column]): (p["iops_per_s"], p["latency_mean_ns"]) for p in own}

    def sides(self):
        """IOPS with writes only and with reads only."""
        own = [point for point in self.points if point["stage_name"] == MIX]
        shares = {int(p["level_read_percent_percent"]): p["iops_per_s"] for p in own}
        return shares[0], shares[100]


def knee(quiet, axis, level):
    levels = quiet.levels(axis)
    power = {at: iops / latency for at, (iops, latency) in levels.items()}
    return power[level] >= KNEE * max(power.values())


def most(quiet, axis, level):
    levels = quiet.levels(axis)
    return levels[level][0] >= ENOUGH * max(iops for iops, _ in levels.values())


def lowest(quiet, axis, level):
    levels = quiet.levels(axis)
    highest = max(iops for iops, _ in levels.values())
    below = [iops for at, (iops, _) in levels.items() if at < level]
    return most(quiet, axis, level) and max(below, default=0) < (1 - ALIKE / 2) * highest


def reads(quiet, *_):
    writes, reads = quiet.sides()
    return reads > (1 - ALIKE) * writes


def writes(quiet, *_):
    writes, reads = quiet.sides()
    return writes > (1 - ALIKE) * reads


# Each recommendation: its name, its words, and whether the quiet study confirms it.
RULES = (
    ("set the knee", re.compile(r"Set (iodepth|numjobs) (\d+)(?:: more adds| for the most)"), knee),
    ("most at", re.compile(r"most throughput at (iodepth|numjobs) (\d+):"), most),
    ("lowest with 95 %", re.compile(r"(iodepth|numjobs) (\d+) is the lowest with 95 %"), lowest),
    ("reads are faster", re.compile(r"Reads are faster: ()()"), reads),
    ("writes are faster", re.compile(r"Writes are faster: ()()"), writes),
)


def measure(binary, target, more, seed):
    """Runs a study; returns the folder with its results."""
    folder = tempfile.mkdtemp(prefix="neighbour-")
    words = [binary, "experiment", "run", "study", target, "--results", folder, *more]
    words += ["--stages", ",".join([*STAGES.values(), MIX]), "--seed", str(seed)]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"error: {' '.join(words)}: exit code {ran.returncode}: {ran.stderr[-2000:]}")
    return next(pathlib.Path(folder).iterdir())


class Neighbour:
    """fio, which comes and goes, and a busy loop on every CPU."""

    def __init__(self, directory):
        fio = f"fio --name=n --directory={directory} --size=1g --direct=1 --rw=randrw --bs=16k"
        self.words = f"{fio} --iodepth=16 --ioengine=libaio --time_based --runtime=1h".split()
        self.over = threading.Event()
        self.loops = []

    def __enter__(self):
        loop = [sys.executable, "-c", "while True: pass"]
        count = len(os.sched_getaffinity(0))
        self.loops = [subprocess.Popen(loop) for _ in range(count)]
        self.thread = threading.Thread(target=self.come_and_go)
        self.thread.start()

    def come_and_go(self):
        chance = random.Random(1)
        while not self.over.is_set():
            fio = subprocess.Popen(self.words, stdout=subprocess.DEVNULL)
            self.over.wait(chance.uniform(2, 10))
            fio.send_signal(signal.SIGINT)
            fio.wait()
            self.over.wait(chance.uniform(1, 8))

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for loop in self.loops:
            loop.kill()
            loop.wait()


def simulated(binary, pairs):
    """Pairs of folders, loud and quiet."""
    sim = ["--ioengine", "sim"]
    for seed in range(1, pairs + 1):
        neighbour = NOISE.format(random.Random(seed).randrange(2000, 12000))
        loud = measure(binary, DEVICE + neighbour, [*sim, "--quick"], seed)
        yield loud, measure(binary, DEVICE, sim, seed)


def real(binary, pairs, directory, quiet):
    with tempfile.TemporaryDirectory(dir=directory) as place, Neighbour(place):
        loud = [measure(binary, directory, ["--quick"], seed) for seed in range(1, pairs + 1)]
    quiet = quiet or measure(binary, directory, [], 1)
    return [(folder, quiet) for folder in loud]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--target")
    parser.add_argument("--quiet")
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    if asked.target:
        pairs = real(asked.binary, asked.pairs, asked.target, asked.quiet)
    else:
        pairs = simulated(asked.binary, asked.pairs)
    right, wrong = collections.Counter(), collections.Counter()
    of_quiet, count = collections.Counter(), 0
    for loud_folder, quiet_folder in pairs:
        wrong_before = wrong.total()
        loud, quiet = Study(asked.binary, loud_folder), Study(asked.binary, quiet_folder)
        count += 1
        for name, pattern, holds in RULES:
            of_quiet[name] += len(quiet.recommends(pattern))
            for axis, level in loud.recommends(pattern):
                is_right = holds(quiet, axis, int(level or 0))
                (right if is_right else wrong)[name] += 1
                if not is_right:
                    print(f"wrong: {name} {axis} {level}: {loud_folder}", file=sys.stderr)
        # Results of a wrong recommendation are kept for inspection.
        if wrong.total() == wrong_before:
            shutil.rmtree(loud_folder.parent)
        if not asked.target:
            shutil.rmtree(quiet_folder.parent)
    print(f"{count} pairs\n")
    print("| recommendation | quiet study | quick study beside a neighbour | contradicted |")
    print("| --- | ---: | ---: | ---: |")
    for name, _, _ in RULES:
        print(f"| {name} | {of_quiet[name]} | {right[name] + wrong[name]} | {wrong[name]} |")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
