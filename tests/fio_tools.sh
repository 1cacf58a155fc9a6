#!/usr/bin/env bash
# Runs the same command line with fio and with the built binary, and the tools that read fio's results on
# both results: their figures must agree. The load has a rate, so that its figures are known.
#
# usage: tests/fio_tools.sh [BINARY]     (default: target/release/iosonde)
#
# Works in a temporary directory. A missing tool is reported as skipped. FIO_TOOLS names the directory
# with fiologparser.py and the other log tools, FIO_CLAT2CSV the converter.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/release/iosonde}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_STATE_HOME=$dir/state
cd "$dir"

if ! command -v fio >/dev/null; then
    echo "skipped: fio is not installed"
    exit 0
fi
mkdir fio iosonde
words="--name=load --filename=file --size=16m --rw=randrw --rwmixread=50 --bs=4k --time_based \
    --runtime=4 --rate_iops=500,500 --ioengine=libaio --iodepth=4 --log_avg_msec=500 \
    --log_hist_msec=1000 --write_bw_log=load --write_iops_log=load --write_lat_log=load \
    --write_hist_log=load"
truncate -s 16m fio/file iosonde/file
(cd fio && fio $words --output-format=json+ --output=plus.json)
(cd iosonde && "$binary" run $words --output-format=json+ --output=plus.json 2>run.log)

failed=0
# Checks that a figure of fio and ours differ by at most this many percent.
agree() {
    local what=$1 percent=$2 theirs=$3 ours=$4
    if python3 -c "import sys; sys.exit(abs($ours / $theirs - 1) > $percent / 100)"; then
        echo "agrees: $what: $theirs by fio, $ours here"
    else
        echo "DIFFERS: $what: $theirs by fio, $ours here"
        failed=1
    fi
}
# Runs a command in both directories and compares the numbers that it prints.
both() {
    local what=$1 percent=$2
    shift 2
    agree "$what" "$percent" "$(cd fio && "$@")" "$(cd iosonde && "$@")"
}

if command -v jq >/dev/null; then
    for figure in .read.iops .write.iops .read.bw .read.total_ios .write.io_bytes; do
        both "jq .jobs[0]$figure" 5 jq ".jobs[0]$figure" plus.json
    done
    both "jq, keys of a job" 0 jq '[.jobs[0] | paths | map(tostring) | join(".")
        | select(test("job options|bins|percentile|iosonde|slat") | not)] | length' plus.json
else
    echo "skipped: jq is not installed"
fi

shelf=${FIO_TOOLS:-/usr/share/doc/fio}
tool() {
    if [ -r "$shelf/$1.gz" ]; then gzip -dc "$shelf/$1.gz" >"$1"; fi
    if [ -r "$shelf/$1" ]; then cp "$shelf/$1" .; fi
    [ -r "$1" ] || { echo "skipped: $1 is not in $shelf"; return 1; }
}
# fiologparser.py of fio 3.33 reads four columns, and fails on the five that fio 3.33 writes.
mean_of_log() { cut -d, -f1-4 "$1" >four.log; python3 ../fiologparser.py -a four.log |
    awk 'END { print $NF }'; }
if tool fiologparser.py; then
    both "fiologparser.py, bandwidth" 10 mean_of_log load_bw.1.log
    both "fiologparser.py, IOPS" 10 mean_of_log load_iops.1.log
fi
# The histogram tool counts operations of a window twice if it overlaps two intervals, and fio's windows are
# a little late. So its columns are compared, and the counts in the logs. A tenth is allowed, because a
# busy machine keeps a rate less well.
columns_of_log() {
    ../venv/bin/python ../fiologparser_hist.py load_clat_hist.1.log | sed -n 1p | tr , '\n' | wc -l
}
operations_of_log() {
    awk -F', ' '{ for (i = 4; i <= NF; i++) sum += $i } END { print sum / NR }' \
        load_clat_hist.1.log
}
both "histogram log, operations of a line" 10 operations_of_log
if tool fiologparser_hist.py; then
    if python3 -m venv venv >/dev/null 2>&1 &&
        venv/bin/pip install --quiet --disable-pip-version-check numpy pandas >pip.log 2>&1; then
        both "fiologparser_hist.py, columns" 0 columns_of_log
    else
        echo "skipped: fiologparser_hist.py, for numpy and pandas cannot be installed"
    fi
fi
converter=${FIO_CLAT2CSV:-$(command -v fio_jsonplus_clat2csv || true)}
if [ -n "$converter" ]; then
    both "fio_jsonplus_clat2csv, columns" 0 sh -c "python3 $converter plus.json plus.csv \
        >/dev/null && head -1 plus_job0.csv | tr , '\n' | wc -l"
    (cd iosonde && python3 "$converter" plus.json plus.csv --validate >/dev/null) ||
        { echo "DIFFERS: fio_jsonplus_clat2csv --validate refuses our document"; failed=1; }
else
    echo "skipped: fio_jsonplus_clat2csv is not installed"
fi
exit $failed
