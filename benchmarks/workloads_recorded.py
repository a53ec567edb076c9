"""A workload from a recording: who wanted how much of a card when, and what it had asked for.

A file is CSV with a line of names first, or JSON lines with the same names (`*.jsonl`). A row says
what a pod wants from a time on, until its next row; a row without `cores` ends it.

| name | what |
| --- | --- |
| time_s | seconds since the recording began |
| pod | its name |
| cores | percent of a card wanted from then on; empty = the pod ends |
| memory_mib | memory in use; the first row's counts |
| asks | on the first row: `name=amount name=amount`, as in the pod's limits; in JSON an object |
| annotations | on the first row, written the same way; may be missing |

    time_s,pod,cores,memory_mib,asks
    0,train-1,95,20000,nvidia.com/gpu=1 nvidia.com/gpumem=24000 nvidia.com/gpucores=50
    3600,train-1,,,

A recorded pod is replayed from the moment at which it starts: its curve does not know whether it
had to wait or got less than it wanted, so what it does not get is lost, as with a pod that serves.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads_pods import HOUR_S, STEP_S, Job, Serves, Workload
from tessera_core.fleet.arrays import Floats

Row = tuple[int, Mapping[str, Any]]
"""Line and fields."""


class Malformed(Exception):
    """A recording that cannot be read; the message names file, line, field and remedy."""


def read(path: Path, *, nodes: int, cards: int, memory_mib: int) -> Workload:
    """The workload on so many nodes. Raises Malformed."""
    pods: dict[str, list[tuple[float, float | None]]] = {}
    first: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for line, row in _rows(path):
        name = str(row.get("pod") or "")
        if not name:
            raise _malformed(path, line, "pod", "", "write the pod's name")
        at_s = _number(path, line, row, "time_s")
        cores = None if row.get("cores") in (None, "") else _number(path, line, row, "cores")
        samples = pods.setdefault(name, [])
        if samples and (samples[-1][1] is None or at_s <= samples[-1][0]):
            remedy = "write a pod's rows in order of time, none after its end"
            raise _malformed(path, line, "time_s", at_s, remedy)
        samples.append((at_s, cores))
        first.setdefault(name, (line, row))
    if not pods:
        raise Malformed(f"{path}: no pods: write a line with names, then a row for each change")
    jobs = [_job(path, name, samples, *first[name]) for name, samples in pods.items()]
    last_s = max(samples[-1][0] for samples in pods.values())
    return Workload(
        name=path.stem, nodes=nodes, cards=cards, memory_mib=memory_mib,
        hours=max(last_s / HOUR_S, 1.0), jobs=tuple(sorted(jobs, key=lambda job: job.at_s)),
    )  # fmt: skip


def _rows(path: Path) -> Iterator[Row]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise Malformed(f"{path}: {e}: name a file of rows") from e
    lines = text.splitlines()
    yield from _json(path, lines) if path.suffix == ".jsonl" else _csv(lines)


def _csv(lines: Iterable[str]) -> Iterator[Row]:
    reader = csv.DictReader(lines)
    for row in reader:
        yield reader.line_num, row


def _json(path: Path, lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as e:
            raise _malformed(path, number, "line", line[:40], "write a JSON object") from e
        if not isinstance(row, dict):
            raise _malformed(path, number, "line", line[:40], "write a JSON object")
        yield number, row


def _job(
    path: Path, name: str, samples: list[tuple[float, float | None]], line: int,
    row: Mapping[str, Any],
) -> Job:  # fmt: skip
    asks = _pairs(path, line, row, "asks")
    if not asks:
        raise _malformed(path, line, "asks", "", "write the pod's limits on its first row")
    began, ended = samples[0][0], samples[-1][0] if samples[-1][1] is None else float("inf")
    used = _number(path, line, row, "memory_mib") if row.get("memory_mib") else 0.0
    return Job(
        name=name, kind="recorded", at_s=began, wants=Serves(_curve(samples), from_start=True),
        limits=asks,
        annotations={k: str(v) for k, v in _pairs(path, line, row, "annotations").items()},
        stays_s=ended - began, memory_mib=used,
    )  # fmt: skip


def _curve(samples: list[tuple[float, float | None]]) -> Floats:
    """Means over steps."""
    began, lasts = samples[0][0], max(samples[-1][0] - samples[0][0], 1.0)
    edges = np.arange(int(np.ceil(lasts / STEP_S)) + 1) * STEP_S
    times = np.array([at - began for at, _ in samples])
    values = np.array([cores or 0.0 for _, cores in samples])
    grid = np.unique(np.concatenate([edges, times]))
    wanted = values[np.searchsorted(times, grid[:-1], side="right") - 1]
    steps = np.searchsorted(edges, grid[:-1], side="right") - 1
    sums = np.bincount(steps, wanted * np.diff(grid), len(edges) - 1)
    means: Floats = sums / np.minimum(STEP_S, np.maximum(lasts - edges[:-1], 1e-9))
    return np.append(means, values[-1]) if samples[-1][1] is not None else means


def _pairs(path: Path, line: int, row: Mapping[str, Any], field: str) -> dict[str, int | str]:
    samples = row.get(field) or {}
    if isinstance(samples, str):
        parts = [part.partition("=") for part in samples.split()]
        if any(not name or not value for name, _, value in parts):
            raise _malformed(path, line, field, samples, "write name=amount, with blanks between")
        samples = {name: value for name, _, value in parts}
    if not isinstance(samples, dict):
        raise _malformed(path, line, field, samples, "write an object")
    return {str(name): value for name, value in samples.items()}


def _number(path: Path, line: int, row: Mapping[str, Any], field: str) -> float:
    try:
        number = float(row[field])
    except (KeyError, TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _malformed(path, line, field, row.get(field), "write a number from 0 up")
    return number


def _malformed(path: Path, line: int, field: str, value: object, remedy: str) -> Malformed:
    return Malformed(f"{path}, line {line}: {field} {value!r}: {remedy}")
