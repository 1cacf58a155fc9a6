#!/usr/bin/env bash
# Measures a depth sweep with the built binary, draws it with fio-plot from PyPI, and converts json+ to
# CSV with fio's converter: tools that read fio's results must read ours.
#
# usage: tests/fio_plot.sh [BINARY]     (default: target/release/iosonde)
#
# Works in a temporary directory. If Python, pip, the network or the converter is missing, the rest is
# skipped with the reason. FIO_CLAT2CSV names fio's `fio_jsonplus_clat2csv` if it is not on the PATH;
# KEEP=DIR copies the pictures to DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/release/iosonde}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_STATE_HOME=$dir/state
cd "$dir"

skip() {
    echo "skipped: $1"
    exit 0
}

command -v python3 >/dev/null || skip "fio-plot, for there is no python3"
python3 -m venv venv >/dev/null 2>&1 || skip "fio-plot, for python3 has no venv"
venv/bin/pip install --quiet --disable-pip-version-check fio-plot six >pip.log 2>&1 ||
    skip "fio-plot, for pip cannot install it: $(tail -1 pip.log)"

# A sweep over depths and jobs, for reads and a mix, with the logs that fio-plot draws over time.
mkdir json
truncate -s 64M file
for rw in randread randrw; do
    for depth in 1 2 4 8 16; do
        for jobs in 1 2; do
            run=$rw-iodepth-$depth-numjobs-$jobs
            "$binary" run --path file --rw $rw --bs 4k --iodepth $depth --numjobs $jobs \
                --runtime 2 --eta-interval 0 --output-format fio-json --log_avg_msec=500 \
                --write_bw_log="json/$run" --write_iops_log="json/$run" \
                --write_lat_log="json/$run" >"json/$run.json" 2>>run.log
        done
    done
done

# Draws a chart and checks that it is a PNG file.
draw() {
    local name=$1
    shift
    venv/bin/fio-plot -i json -T "iosonde: $name" -o "$name.png" "$@" >plot.log 2>&1 || {
        cat plot.log
        echo "FAILED: $name"
        exit 1
    }
    head -c 4 "$name.png" | grep -q PNG || { echo "FAILED: $name is no picture"; exit 1; }
    echo "drawn: $name ($(stat -c %s "$name.png") bytes)"
}

depths="-d 1 2 4 8 16"
draw bars-by-depth -l -r randread $depths -n 1
draw bars-by-jobs -N -r randread -d 8 -n 1 2
draw bars-of-mixed-writes -l -r randrw -f write $depths -n 1
draw surface-iops -L -t iops -r randread $depths -n 1 2
draw surface-latency -L -t lat -r randread $depths -n 1 2
draw histogram -H -r randread -d 8 -n 1
draw lines-iops-latency -g -t iops lat -r randread $depths -n 1
draw lines-bandwidth -g -t bw -r randrw $depths -n 2

if [ -n "${KEEP:-}" ]; then
    cp ./*.png "$KEEP"
fi

converter=${FIO_CLAT2CSV:-$(command -v fio_jsonplus_clat2csv || true)}
[ -n "$converter" ] || skip "fio_jsonplus_clat2csv, for it is not installed"
"$binary" run --path file --rw randrw --iodepth 4 --numjobs 2 --runtime 1 --eta-interval 0 \
    --output-format json+ >plus.json 2>>run.log
venv/bin/python "$converter" plus.json plus.csv
venv/bin/python "$converter" plus.json plus.csv --validate
echo "converted: $(cat plus_job0.csv plus_job1.csv | wc -l) lines"

# fio's log tools, from the package of the distribution. Their results must agree with the JSON of the
# same run: bandwidth, number of operations, lowest and highest latency.
shelf=${FIO_TOOLS:-/usr/share/doc/fio}
for tool in fiologparser.py fiologparser_hist.py fio-histo-log-pctiles.py; do
    if [ -r "$shelf/$tool.gz" ]; then gzip -dc "$shelf/$tool.gz" >$tool; fi
    if [ -r "$shelf/$tool" ]; then cp "$shelf/$tool" .; fi
    [ -r $tool ] || skip "$tool, for it is not in $shelf"
done
"$binary" run --name=log --filename=file --rw=randread --bs=4k --time_based --runtime=4 \
    --rate_iops=2000 --ioengine=libaio --iodepth=4 --log_avg_msec=500 --log_hist_msec=500 \
    --write_bw_log=log --write_hist_log=log --output-format=json >log.json 2>>run.log
# fiologparser.py of fio 3.33 reads four columns, and fails on the five that fio 3.33 writes.
if ! venv/bin/python fiologparser.py -a log_bw.1.log >bw.txt 2>tool.log; then
    cut -d, -f1-4 log_bw.1.log >four.log
    venv/bin/python fiologparser.py -a four.log >bw.txt
fi
venv/bin/pip install --quiet --disable-pip-version-check numpy pandas >pip.log 2>&1 ||
    skip "fiologparser_hist.py, for pip cannot install pandas: $(tail -1 pip.log)"
venv/bin/python fiologparser_hist.py log_clat_hist.1.log >hist.txt
venv/bin/python fio-histo-log-pctiles.py log_clat_hist.1.log >pctiles.txt
venv/bin/python - <<'CHECK'
import json

read = json.load(open("log.json"))["jobs"][0]["read"]
bandwidth = float(open("bw.txt").read().split()[-1])
assert abs(bandwidth / read["bw"] - 1) < 0.02, (bandwidth, read["bw"])
lines = [line.split(", ") for line in open("log_clat_hist.1.log")]
counted = sum(int(count) for line in lines for count in line[3:])
assert counted == read["total_ios"], (counted, read["total_ios"])
rows = [line.split(", ") for line in open("hist.txt").read().splitlines()[1:]]
lowest = min(float(row[2]) for row in rows)
highest = max(float(row[-1]) for row in rows)
clat = read["clat_ns"]
# A bin is 1.6 % wide. The tool reports the highest latency as the end of the bin after the next.
assert abs(lowest / clat["min"] - 1) < 0.03, (lowest, clat["min"])
assert 1 <= highest / clat["max"] < 1.05, (highest, clat["max"])
print(f"read by fio's tools: {bandwidth:.0f} KiB/s, {counted} operations, "
      f"{lowest:.0f} to {highest:.0f} ns")
CHECK
