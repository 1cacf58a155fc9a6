"""How often detectors are right on real devices, beside what they find on simulated ones.

    python3 benches/detectors.py [--runs N] [--seconds S] [--only TEXT] [BINARY]

Each line is N runs (20) of S seconds (6) of random reads (or of `check --quick`) on a device of known
behaviour: a loop device over memory, alone, with a cgroup limit or with a neighbour; a file of a FUSE
server with scripted latencies; a vhost-user-blk server. It prints the share of runs with the required
finding, the share with high confidence, and the other findings. It leaves out facts that concern no
figure, and the findings that hold for every file of a FUSE server: it is not local, and its requests are
punted.

Needs root, fio, losetup, qemu-storage-daemon and 2.1 GiB of /dev/shm. Nothing else should run, because
disturbances are found, too. BINARY is target/release/iosonde; iosonde-rig must be in its folder or in
target/debug (cargo build -p iosonde-rig).
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from disk import Disk

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = "256M"


@contextlib.contextmanager
def loop():
    """A filled loop device over memory."""
    with Disk(256) as disk:
        disk.fill()
        yield disk.device, []


@contextlib.contextmanager
def limited(per_s):
    """The same in a cgroup with a limit of reads per second."""
    group = pathlib.Path("/sys/fs/cgroup/blkio") / f"detectors-{os.getpid()}"
    with loop() as (device, _):
        number = pathlib.Path(f"/sys/class/block/{pathlib.Path(device).name}/dev").read_text()
        group.mkdir()
        try:
            limit = f"{number.strip()} {per_s}"
            (group / "blkio.throttle.read_iops_device").write_text(limit)
            yield device, ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        finally:
            group.rmdir()


@contextlib.contextmanager
def beside(share):
    """The same with a neighbour whose rate of reads is this share of the run's."""
    with loop() as (device, _):
        words = f"fio --name=n --filename={device} --direct=1 --rw=randread --bs=4k --time_based"
        words += f" --runtime=1h --ioengine=psync --rate_iops={int(PACE * share)}"
        neighbour = subprocess.Popen(words.split(), stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            yield device, []
        finally:
            neighbour.terminate()
            neighbour.wait()


@contextlib.contextmanager
def fuse(*script):
    """A file with scripted latencies. The script restarts with each run."""
    with tempfile.TemporaryDirectory(prefix="detectors-") as place:
        words = [RIG, "fuse", place, "direct_io=on", *script]
        server = subprocess.Popen(words, stdout=subprocess.PIPE)
        if not server.stdout.readline():
            sys.exit(f"error: {' '.join(words)} does not serve")
        try:
            file = f"{place}/f"
            subprocess.run(["truncate", "-s", SIZE, file], check=True)
            yield file, server
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def vhost(*more):
    """A server that discards writes; each of its requests takes 500 us."""
    with tempfile.TemporaryDirectory(prefix="detectors-") as place:
        socket = f"{place}/sock"
        node = {"driver": "null-co", "node-name": "n", "size": 256 << 20, "read-zeroes": True}
        node["latency-ns"] = 500_000
        words = ["qemu-storage-daemon", "--blockdev", json.dumps(node), *more]
        top = "t" if more else "n"
        words += ["--export", f"type=vhost-user-blk,id=e,node-name={top},writable=on,"
                  f"addr.type=unix,addr.path={socket}"]
        server = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(socket):
                time.sleep(0.02)
            yield socket, []
        finally:
            server.terminate()
            server.wait()


def bucket(per_s, burst):
    """A QEMU throttle of operations per second, with a burst of 4 s."""
    group = {"qom-type": "throttle-group", "id": "g",
             "limits": {"iops-total": per_s, "iops-total-max": burst, "iops-total-max-length": 4}}
    node = {"driver": "throttle", "node-name": "t", "throttle-group": "g", "file": "n"}
    return ["--object", json.dumps(group), "--blockdev", json.dumps(node)]


@contextlib.contextmanager
def mounted():
    """An ext4 directory on a loop device over memory."""
    with Disk(2048) as disk:
        disk.format()
        disk.mount()
        yield str(disk.place), []


CHECK = ("check", "--quick")
DEPTH = ("run", "--rw", "randread", "--bs", "4k", "--iodepth", "8")
# Reads per second of the run with a neighbour: well below what the device can do.
PACE = 4000
PACED = (*DEPTH, "--rate-iops", str(PACE))
EXP = "read=exp:1ms"
# Name, device, command, and the codes of which one must be found ("": none).
CASES = (
    ("check --quick on ext4 on a loop device", mounted, CHECK, ""),
    ("loop device", loop, DEPTH, ""),
    ("loop device, 4,000/s", loop, PACED, ""),
    ("cgroup limit of 2,000/s", lambda: limited(2000), DEPTH, "cgroup_limit"),
    ("cgroup limit of 2,000/s, own pace 500/s", lambda: limited(2000),
     (*DEPTH, "--rate-iops", "500"), ""),
    ("FUSE, 1 ms, exponential", lambda: fuse(EXP), DEPTH, ""),
    ("FUSE, 1 % of requests take 5 ms", lambda: fuse("read=bimodal:0.99:1ms/5ms"), DEPTH, ""),
    ("FUSE, frozen for 1 s", lambda: fuse(EXP, "fault=any:stall=1s:time=3s"), DEPTH, "stall"),
    ("FUSE, a third of the rate from 3 s on", lambda: fuse("read=step:1ms/3ms@3s"), DEPTH,
     "level_drop|token_bucket"),
    ("FUSE, three times the rate from 3 s on", lambda: fuse("read=step:3ms/1ms@3s"), DEPTH,
     "level_change"),
    ("vhost-user-blk, 500 us", vhost, DEPTH, ""),
    ("vhost-user-blk, throttled to 1,000/s", lambda: vhost(*bucket(1000, 1000)), DEPTH, ""),
    ("vhost-user-blk, 6,000/s, then 1,000/s", lambda: vhost(*bucket(1000, 6000)), DEPTH,
     "token_bucket|level_drop"),
    ("others read 5 % more", lambda: beside(0.05), PACED, "noisy_neighbour"),
    ("others read 20 % more", lambda: beside(0.2), PACED, "noisy_neighbour"),
    ("others read 50 % more", lambda: beside(0.5), PACED, "noisy_neighbour"),
)


TRUE_OF_FUSE = {"not_local", "punted"}


def findings(binary, target, within, command, seconds):
    """Codes of the findings of one run, and whether its confidence is high."""
    known = set()
    if isinstance(within, subprocess.Popen):
        within.send_signal(signal.SIGHUP)
        within, known = [], TRUE_OF_FUSE
    on = [target, "256M"] if command == CHECK else ["--path", target, "--runtime", str(seconds)]
    words = [*within, binary, *command, *on]
    with tempfile.TemporaryDirectory(prefix="detectors-") as results:
        words += ["--output-format", "json", "--results", results]
        ran = subprocess.run(words, capture_output=True, text=True)
    report = json.loads(ran.stdout)
    rows = report["cells"]
    if ran.returncode not in (0, 3) or not rows:
        sys.exit(f"error: {' '.join(words)}: exit code {ran.returncode}: {ran.stderr}")
    found = [finding for row in rows for finding in row["findings"]]
    codes = {finding["code"] for finding in found if finding["severity"] != "fact"} - known
    return codes, report["verdict"]["confidence"] == "high"


def measure(binary, device, command, must, runs, seconds):
    hits, high, others = 0, 0, collections.Counter()
    wanted = set(must.split("|")) - {""}
    for _ in range(runs):
        # A new device for each run: the previous run has emptied the token bucket.
        with device() as (target, within):
            codes, is_high = findings(binary, target, within, command, seconds)
            hits += bool(codes & wanted)
            high += is_high
            others.update(codes - wanted)
    found = f"{100 * hits / runs:.0f} %" if wanted else ""
    beside = ", ".join(f"`{code}` {100 * n / runs:.0f} %" for code, n in others.most_common())
    names = " or ".join(f"`{code}`" for code in must.split("|")) if wanted else "nothing"
    return f"| {names} | {found} | {100 * high / runs:.0f} % | {beside} |"


def gaps(seconds):
    """Share of a busy loop's time in gaps of 1 ms and more, and the longest gap, ns."""
    lost = longest = 0
    begin = last = time.perf_counter_ns()
    while last - begin < seconds * 1e9:
        now = time.perf_counter_ns()
        if now - last >= 1_000_000:
            lost += now - last
            longest = max(longest, now - last)
        last = now
    return lost / (last - begin), longest


def control(loops, seconds):
    """Prints how often the machine stops busy loops: such stops are not stalls of a device."""
    with multiprocessing.Pool(loops) as pool:
        lost, longest = zip(*pool.map(gaps, [seconds] * loops))
    print(f"Busy CPUs: {loops}. Stopped for 1 ms or more: {max(lost):.1%} of the time, for "
          f"{max(longest) / 1e6:.1f} ms at most.", flush=True)


def main():
    global RIG
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("binary", nargs="?", default=str(ROOT / "target/release/iosonde"))
    asked = parser.parse_args()
    places = (pathlib.Path(asked.binary).parent, ROOT / "target/debug")
    RIG = next((str(p / "iosonde-rig") for p in places if (p / "iosonde-rig").exists()), None)
    if RIG is None:
        sys.exit("error: iosonde-rig is not built: cargo build -p iosonde-rig")
    for loops in sorted({1, os.cpu_count()}):
        control(loops, asked.seconds)
    print()
    print("| device and load | must be found | found | high confidence | beside it |")
    print("| --- | --- | ---: | ---: | --- |")
    for name, device, command, must in CASES:
        if asked.only in name:
            cells = measure(asked.binary, device, command, must, asked.runs, asked.seconds)
            print(f"| {name} {cells}", flush=True)


if __name__ == "__main__":
    main()
