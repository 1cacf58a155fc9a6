#!/usr/bin/env bash
# A depth sweep measured by the built binary, drawn by fio-plot from PyPI, and its json+ turned
# into CSV by fio's own converter: what reads fio's results reads ours.
#
# usage: tests/fio_plot.sh [BINARY]     (default: target/release/iosonde)
#
# Everything happens in a temporary directory. Where Python, pip, the network or the converter is
# missing, the part is skipped with the reason. FIO_CLAT2CSV names fio's `fio_jsonplus_clat2csv`
# where it is not on the PATH; KEEP=DIR keeps the pictures there.
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

# A sweep over depths and jobs, read and mixed, each with the logs that fio-plot draws over time.
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

# Draws one chart, and sees that it is a picture.
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
