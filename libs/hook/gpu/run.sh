#!/bin/bash
# Measures the hook on a real GPU, and writes one report. Needs: driver, gcc, make, python3; PyTorch if it is there; no network.
#
#   run.sh                     every part, the most telling first
#   run.sh routing memory      these only: routing | memory | cost | cores | torch | nvml | mps
#
# A part ends within PART_S (600) seconds, whatever happens in it: what is not done by then is noted as left out. The report is
# $OUT/report.json (OUT: a temporary folder), its lines are printed as they come. QUICK=1: everything once and short, to see that it runs.
# Ends with 1 when a check is wrong or a budget is not kept.
set -u
here=$(cd "$(dirname "$0")" && pwd)
hook=$(dirname "$here")
OUT=${OUT:-$(mktemp -d)}
mkdir -p "$OUT"
build=${BUILD:-$OUT/build}
if ! make -s -C "$hook" -j4 B="$build" "$build/libtessera.so" "$build/tessera-limits" "$build/tessera-hook-info" >"$OUT/log.txt" 2>&1 ||
    ! gcc -O2 -std=gnu11 -I"$hook/abi" -I"$hook/src" -I"$here" "$here"/probe*.c -o "$OUT/probe" -ldl 2>>"$OUT/log.txt"; then
    tail -n 20 "$OUT/log.txt" >&2
    exit 1
fi
exec python3 "$here/run.py" "$build" "$OUT" "$@"
