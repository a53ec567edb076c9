"""The parts of run.sh: what is measured on a card, in which order, and against which budget.

Usage: run.py BUILD OUT [parts]
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import parts
from bench import Bench

ORDER = ("routing", "memory", "cost", "cores", "torch", "nvml", "mps")


def main():
    """Run the parts asked for; 1 when something is wrong."""
    build, out, *wanted = sys.argv[1:]
    if unknown := set(wanted) - set(ORDER):
        sys.exit(f"there is no part {', '.join(sorted(unknown))}; there are: {', '.join(ORDER)}")
    bench = Bench(Path(build), Path(out), quick=os.environ.get("QUICK") == "1")
    for name in wanted or ORDER:
        bench.begin(name, float(os.environ.get("PART_S", "600")))
        begun = time.monotonic()
        getattr(parts, name)(bench)
        bench.end(time.monotonic() - begun)
    report = bench.report()
    Path(out, "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"{report['verdict']}: {report['good']} good, {report['bad']} bad, {report['left_out']} left out; {out}/report.json")
    sys.exit(report["bad"] > 0)


if __name__ == "__main__":
    main()
