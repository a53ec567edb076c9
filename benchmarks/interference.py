"""What loads on one card cost each other: measures the table of `workloads_interference`.

    python benchmarks/interference.py [--mode time-slicing] [--seconds 5] > table.json
    python benchmarks/workloads.py --interference table.json

Each load runs alone, then in pairs, then with two and three others (`interference_worker`); what
each gets of its own rate, summed up, is what the card still does, and the rest is lost. Start the
MPS daemon first to measure `--mode mps`. It needs a card that nobody else uses, and about two
minutes. With the simulated driver it runs as well; the table then says that it is not measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from benchmarks.workloads_interference import LOADS, TableFile

WORKER: Final = Path(__file__).with_name("interference_worker.py")
LARGER: Final = (
    *((load,) * count for count in (3, 4) for load in LOADS), LOADS, (*LOADS, "compute"),
)  # fmt: skip
"""Companies of more than two, for the most that is lost."""
SETTLE_S: Final = 0.5
Company = tuple[str, ...]
"""Loads that run at once, in the order of `LOADS`."""


class MeasurementFailed(Exception):
    """A worker ended; the message says why."""


class Measured(NamedTuple):
    """One company."""

    device: str
    simulated: bool
    rates: tuple[float, ...]
    """Launches a second of each."""


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 2 where a card cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--mode", choices=("time-slicing", "mps"), default="time-slicing")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    args = parser.parse_args(argv)
    if args.seconds <= 0:
        parser.error(f"--seconds {args.seconds:g}: write more than 0")
    try:
        found = {company: measure(company, args.seconds) for company in companies()}
    except MeasurementFailed as e:
        print(f"{e}: run it where a card and its driver are", file=sys.stderr)
        return 2
    table = msgspec.json.encode(table_of(found, args.mode))
    print(msgspec.json.format(table, indent=2).decode())
    return 0


def companies() -> Sequence[Company]:
    """Everything that is measured: alone, pairs, more."""
    return (*((load,) for load in LOADS), *combinations_with_replacement(LOADS, 2), *LARGER)


def measure(company: Company, seconds: float, environ: Mapping[str, str] | None = None) -> Measured:
    """Run them at once for so long, in this environment or in the own one. Raises
    MeasurementFailed."""
    workers = [_started(load, environ) for load in company]
    try:
        ready = [json.loads(_line(worker)) for worker in workers]
        begins = time.monotonic() + SETTLE_S
        for worker in workers:
            _say(worker, f"{begins} {begins + seconds}")
        rates = tuple(float(_line(worker)) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return Measured(ready[0]["device"], any(one["simulated"] for one in ready), rates)


def lost_percent(rates: Sequence[float], alone: Sequence[float]) -> float:
    """Percent of a card that these lose together; less than 0 where they gain."""
    return 100 * (1 - sum(rate / full for rate, full in zip(rates, alone, strict=True)))


def table_of(found: Mapping[Company, Measured], mode: str) -> TableFile:
    """The table, from all `companies`."""
    alone = {load: found[load,].rates[0] for load in LOADS}
    lost = {
        company: lost_percent(measured.rates, [alone[load] for load in company])
        for company, measured in found.items()
    }
    any_one = found[LOADS[0],]
    return TableFile(
        measured=not any_one.simulated,
        device=f"{any_one.device}{', simulated' if any_one.simulated else ''}",
        mode=mode,
        most_percent=round(max(0.0, *(lost[company] for company in LARGER)), 2),
        lost_percent={
            one: {other: round(lost[_pair(one, other)], 2) for other in LOADS} for one in LOADS
        },
    )


def _pair(one: str, other: str) -> Company:
    return tuple(sorted((one, other), key=LOADS.index))


def _started(load: str, environ: Mapping[str, str] | None) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  (this interpreter, and one of LOADS)
        [sys.executable, str(WORKER), load], env=environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _say(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None  # noqa: S101  (it is a pipe)
    worker.stdin.write(f"{line}\n")
    worker.stdin.flush()


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None and worker.stderr is not None  # noqa: S101, PT018  (pipes)
    line = worker.stdout.readline()
    if not line:
        raise MeasurementFailed(worker.stderr.read().strip() or "a worker ended")
    return line


if __name__ == "__main__":
    sys.exit(main())
