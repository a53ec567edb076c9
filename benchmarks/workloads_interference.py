"""What containers that are busy on one card at once cost each other: a table of pairs of loads.

A load is what a container's kernels are like: `compute` (arithmetic), `bandwidth` (memory), `small`
(kernels so short that launching them is most of it). An entry says how much of a card is lost while
one of either is busy, in percent; less than 0 says that together they do more than in turn, as with
MPS. More containers lose the mean of their pairs for each one after the first, up to a most.

`GUESS` is a guess. `interference.py` measures a table on a card and writes it as JSON:

    {"measured": true, "device": "...", "mode": "time-slicing", "most_percent": 10,
     "lost_percent": {"compute": {"compute": 1.1, "bandwidth": 2.3, "small": 4.0}, ...}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.workloads_pods import Workload
from tessera_core.fleet.arrays import Bools, Floats, Ints

LOADS: Final = ("compute", "bandwidth", "small")
SWITCH_PERCENT: Final = 2.0
SWITCH_MOST_PERCENT: Final = 10.0
_SHARES: Final[Mapping[str, Sequence[float]]] = {
    "training": (0.5, 0.5, 0.0), "batch": (0.5, 0.5, 0.0),
    "inference": (0.2, 0.4, 0.4), "notebook": (0.3, 0.2, 0.5),
}  # fmt: skip
"""How likely a pod of a kind has each load: a guess as well."""


class BadTable(Exception):
    """A table that cannot be read; the message names file, field and remedy."""


class TableFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    measured: bool
    """False: guesses, and named so wherever the table is used."""
    device: str
    mode: str
    """How the driver shared the card: `time-slicing` or `mps`."""
    most_percent: float
    lost_percent: dict[str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class Interference:
    """The table; rows and columns in the order of `LOADS`."""

    source: str
    """What it is, for who reads figures."""
    percents: Floats
    most: float

    def lost(self, busy: Bools, loads: Ints) -> Floats:
        """Percent of each card lost; both (cards, seats)."""
        if (self.percents == self.percents[0, 0]).all():  # the pairs need not be counted
            others = np.maximum(busy.sum(1) - 1, 0)
            alike: Floats = np.minimum(self.percents[0, 0] * others, self.most)
            return alike
        counts = np.stack([(busy & (loads == load)).sum(1) for load in range(len(LOADS))], 1)
        pairs = np.einsum("ck,kl,cl->c", counts, self.percents, counts)
        pairs -= counts @ self.percents.diagonal()
        found: Floats = np.minimum(pairs / np.maximum(counts.sum(1), 1), self.most)
        return found


GUESS: Final = Interference(
    f"a guess: {SWITCH_PERCENT:g} % of a card for each further busy container, "
    f"{SWITCH_MOST_PERCENT:g} % at most",
    np.full((len(LOADS), len(LOADS)), SWITCH_PERCENT),
    SWITCH_MOST_PERCENT,
)


def read_table(path: Path) -> Interference:
    """A file's table. Raises BadTable."""
    try:
        table = msgspec.json.decode(path.read_bytes(), type=TableFile)
    except (OSError, msgspec.MsgspecError) as e:
        raise BadTable(f"{path}: {e}: write one with benchmarks/interference.py") from e
    rows = [[_percent(path, table, one, other) for other in LOADS] for one in LOADS]
    if not 0 <= table.most_percent < 100:
        raise BadTable(f"{path}: most_percent {table.most_percent:g}: write a number from 0 to 99")
    found = "measured" if table.measured else "guesses, not measured"
    source = f"{path.name}: {found}, {table.device}, {table.mode}"
    return Interference(source, np.array(rows), table.most_percent)


def with_loads(workload: Workload, seed: int) -> Workload:
    """The pods with loads drawn by their kinds; a group has one."""
    rng, found = np.random.default_rng([seed, 2]), []
    of_group: dict[str, str] = {}
    for job in workload.jobs:
        drawn = LOADS[int(rng.choice(len(LOADS), p=_SHARES.get(job.kind, (1.0, 0.0, 0.0))))]
        load = of_group.setdefault(job.group, drawn) if job.group else drawn
        found.append(replace(job, load=load))
    return replace(workload, jobs=tuple(found))


def _percent(path: Path, table: TableFile, one: str, other: str) -> float:
    value = table.lost_percent.get(one, {}).get(other)
    if value is None or not -100 < value < 100:
        where = f"lost_percent.{one}.{other}"
        raise BadTable(f"{path}: {where} {value}: write a number between -100 and 100")
    return value
