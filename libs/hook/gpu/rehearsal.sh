#!/bin/sh
# Runs every part of run.sh on the simulated driver of build folder $1, short, and looks at the report: each part is there, no process
# failed, checks are right. PyTorch's networks need a real card: that part is only begun. Budgets of time are not asserted: simulated kernels on a busy machine say nothing.
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
for part in routing memory cost cores torch nvml mps; do
    if [ $part = torch ] && (cd / && python3 -c 'import torch' 2>/dev/null); then echo "skip torch: its networks need a real card"; continue; fi
    words="cards=1 memory=16g cuda=13020"
    [ "$part" != mps ] || words="$words mps=1"
    OUT=$dir/$part BUILD=$1 QUICK=1 PART_S=${PART_S:-120} TESSERA_SIM_STATE=$dir/$part.machine TESSERA_SIM_CONFIG="$words" \
        LD_LIBRARY_PATH=$1/sim timeout 600 "$here/run.sh" "$part" >"$dir/$part.out" 2>&1
    python3 - "$dir/$part/report.json" "$part" <<'PYTHON' || { failed=1; cat "$dir/$part.out"; tail -n 20 "$dir/$part/log.txt"; }
import json, sys
report = json.load(open(sys.argv[1]))
rows = report["parts"][sys.argv[2]]["rows"]
wrong = [row for row in rows if row["verdict"] == "wrong"]
left = [row for row in rows if row["verdict"] == "left out" and sys.argv[2] != "torch"]  # simulated cards run no networks
print(f"{'FAIL' if wrong or left or not rows else 'ok  '} {sys.argv[2]}: {len(rows)} rows, {report['parts'][sys.argv[2]]['seconds']} s")
for row in wrong + left:
    print("    ", row)
sys.exit(bool(wrong or left or not rows))
PYTHON
done
exit $failed
