#!/usr/bin/env bash
# The walk-through of fio-tests, command by command, on a loop device with --preset quick: configure,
# generate, check, dry run, run, ssv, graph. It runs the two demo tests for 0.2 s per cell (70 % reads, 30 %
# writes: over depth with one job, and over jobs at depths from 256 to 4096), and counts the batches that
# reach the kernel.
#
# usage: tests/walkthrough.sh [BINARY]     (default: target/release/iosonde)
#
# Takes a few minutes, needs root for the loop device, and leaves nothing behind; KEEP=DIR copies the
# results to DIR. It is skipped without root or loop devices; without fio or strace, the part that needs
# it is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
iosonde=$(realpath "${1:-target/release/iosonde}")
dir=$(mktemp -d)
loop=
cleanup() {
    [ -z "$loop" ] || losetup --detach "$loop"
    rm -rf "$dir"
}
trap cleanup EXIT
export XDG_STATE_HOME=$dir/state
cd "$dir"

skip() {
    echo "skipped: $1"
    exit 0
}

fail() {
    echo "failed: $1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || skip "the walk-through, for a loop device needs root"
truncate --size 256M image
loop=$(losetup --find --show image 2>losetup.log) ||
    skip "the walk-through, for there is no loop device: $(tail -1 losetup.log)"
single=max-iobatch-single-job-0005-randrw-70-30
jobs=max-iobatch-jobs-0005-randrw-70-30

echo "== make menuconfig: campaign configure"
cat >demo.toml <<END
# The two demo tests.
name = "demo"
[[device]]
name = "loop"
path = "$loop"
destroy-data = "$dir/image"
[[experiment]]
name = "max-iobatch-single-job"
stages = ["$single"]
seconds = "0.2s"
randseed = 1
[[experiment]]
name = "max-iobatch-jobs"
stages = ["$jobs"]
seconds = "0.2s"
repeats = 1
randseed = 2
END
"$iosonde" campaign configure demo.toml --set device.loop.size=64m >configure.log
grep -q '^# The two demo tests' demo.toml || fail "the comment of the file is gone"

echo "== make: campaign export fio"
"$iosonde" campaign export fio demo.toml --preset quick --output jobs | tee export.log
count=$(find jobs -name '*.ini' | wc -l)
[ "$count" -ge 40 ] || fail "$count job files, expected at least 40"
if command -v fio >/dev/null; then
    for file in jobs/*.ini; do
        fio --parse-only "$file" >/dev/null || fail "fio does not accept $file"
    done
    echo "fio accepts all $count"
else
    echo "skipped: fio --parse-only, for there is no fio"
fi

echo "== make check: campaign check"
# Only this script uses the loop device, which it has just made.
accept=()
"$iosonde" campaign check demo.toml --preset quick >check.log 2>&1 || true
if grep -q accept-unseen-processes check.log; then
    accept=(--set "device.loop.accept-unseen-processes=[\"$dir/image\"]")
fi
"$iosonde" campaign check demo.toml --preset quick "${accept[@]}"

echo "== make dryrun: campaign plan"
"$iosonde" campaign plan demo.toml --preset quick "${accept[@]}"

echo "== make run: campaign run"
code=0
"$iosonde" campaign run demo.toml --preset quick --output results "${accept[@]}" >run.log \
    2>run.err || code=$?
# On a busy machine a cell may have no good run (6) or no conclusion (7). A slow one may complete none of
# 262,144 requests within 0.2 s (1).
case $code in
    0 | 6 | 7) ;;
    1) grep -rq "nothing was completed in its window" results || { cat run.err; fail "exit code 1"; } ;;
    *) cat run.err; fail "exit code $code" ;;
esac
tail -5 run.log
"$iosonde" campaign status results

echo "== make ssv: tables"
tables=$(find results/devices -name points.ssv | wc -l)
[ "$tables" = 2 ] || fail "$tables tables, expected 2"
find results/devices \( -name points.csv -o -name points.ssv \) | sort

echo "== make graph: find ./ -name \*.svg"
find results/devices -name '*.svg' | sort | tee svg.log
# Bandwidth, IOPS and completion latency of reads and of writes, for each of the two tests.
[ "$(wc -l <svg.log)" -ge 12 ] || fail "fewer than 12 pictures"
for what in "Bandwidth of reads" "Bandwidth of writes" "IOPS of reads" "IOPS of writes" \
    "latency of reads" "latency of writes"; do
    xargs grep -l "$what" <svg.log >/dev/null || fail "no picture shows: $what"
done

echo "== batches: the arguments of io_uring_enter"
if command -v strace >/dev/null; then
    # Batches of 16 at depth 64: no submission has more than 16 requests.
    strace -f -e trace=io_uring_enter -o trace.log "$iosonde" run --path "$loop" --size 64m \
        --rw randread --bs 4k --iodepth 64 --iodepth-batch 16 --number-ios 4096 >run2.log 2>&1 ||
        fail "the run under strace: $(tail -1 run2.log)"
    sed -n 's/.*io_uring_enter([0-9]*, \([0-9]*\),.*/\1/p' trace.log | sort -n | uniq -c |
        tee batches.log
    most=$(sort -rn batches.log | awk 'NR == 1 { print $2 }')
    handed=$(awk '{ sum += $1 * $2 } END { print sum }' batches.log)
    [ "$handed" -ge 4096 ] || fail "$handed requests were handed over, expected 4096"
    awk '$2 > 16 { exit 1 }' batches.log || fail "a batch is larger than 16"
    echo "most frequent: $most"
else
    echo "skipped: counting batches, for there is no strace"
fi
[ -z "${KEEP:-}" ] || cp -r results "$KEEP"
echo "walk-through complete"
