"""The openb trace: nodes and pods of a cluster of Alibaba's, as published with FGD (ATC'23).

Reads `openb_node_list_gpu_node.csv` and `openb_pod_list_<name>.csv` from a folder. The data is not
the project's own and stays where it is. A row that makes no sense stops the run, naming file, line
and column.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

CARD = 1000
"""Thousandths of a card: the trace's unit."""
MOST_CARDS = 64
"""Per node; more is taken for a mistake."""


class Malformed(Exception):
    """A file of the trace cannot be read."""


class Host(NamedTuple):
    """A node."""

    name: str
    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""
    cards: int
    model: str


class Shape(NamedTuple):
    """What a pod asks."""

    cpu: int
    memory: int
    cards: int
    milli: int
    """Of each card."""
    models: tuple[str, ...]
    """Allowed; empty = all."""

    @property
    def milli_in_all(self) -> int:
        """Of all its cards."""
        return self.cards * self.milli

    @property
    def kind(self) -> str:
        """How failed pods are distinguished."""
        if not self.cards:
            return "cpu only"
        if self.milli < CARD:
            return "shared"
        return "one card" if self.cards == 1 else "several cards"


@dataclass
class Trace:
    """Nodes, and pods in the order of the file."""

    name: str
    hosts: Sequence[Host]
    pods: Sequence[Shape]

    @cached_property
    def capacity(self) -> int:
        """Thousandths of a card in the cluster."""
        return CARD * sum(host.cards for host in self.hosts)

    @cached_property
    def counts(self) -> Mapping[Shape, int]:
        """How often each shape was asked for."""
        return Counter(self.pods)


def read(folder: Path, name: str) -> Trace:
    """The trace of that name. Raises Malformed."""
    hosts = list(_rows(folder / "openb_node_list_gpu_node.csv", _HOST, _host))
    pods = list(_rows(folder / f"openb_pod_list_{name}.csv", _POD, _pod))
    if not any(pod.cards for pod in pods):
        raise Malformed(f"openb_pod_list_{name}.csv: no pod asks for a card: nothing to place")
    return Trace(name, hosts, pods)


def made_up(trace: Trace, others: float, processor: float) -> Trace:
    """A trace whose hosts are in more demand: pods without cards come `others` times as often, and
    pods with cards ask for `processor` times the processor."""
    with_cards = [pod for pod in trace.pods if pod.cards]
    without = [pod for pod in trace.pods if not pod.cards]
    more = [without[i % len(without)] for i in range(int(others * len(without)))]
    asking = [pod._replace(cpu=round(processor * pod.cpu)) for pod in with_cards]
    name = f"{trace.name}, others x{others:g}, processor x{processor:g}"
    return Trace(name, trace.hosts, [*asking, *more])


_HOST = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
MODELS = "gpu_spec"
"""Column of the allowed models. Some of the published traces lack it: their pods take any."""


class _Row:
    """One line of a file; every complaint names the place."""

    def __init__(self, file: str, line: int, fields: Mapping[str | Any, Any]) -> None:
        self.at, self._fields = f"{file}, line {line}", fields

    def text(self, column: str) -> str:
        value = self._fields.get(column)
        if not isinstance(value, str):
            raise Malformed(f"{self.at}: column {column} is missing: the line is cut short")
        return value.strip()

    def optional_text(self, column: str) -> str:
        """The same; empty where the file has no such column."""
        return self.text(column) if column in self._fields else ""

    def number(self, column: str, most: int | None = None) -> int:
        text = self.text(column)
        try:
            value = int(text)
        except ValueError:
            raise Malformed(f"{self.at}: {column} is {text!r}: write a whole number") from None
        if value < 0 or (most is not None and value > most):
            limit = "0 or more" if most is None else f"0 to {most}"
            raise Malformed(f"{self.at}: {column} is {value}: write {limit}")
        return value

    def check(self) -> None:
        if None in self._fields:
            raise Malformed(f"{self.at}: more values than columns: quote commas inside values")


def _rows(path: Path, columns: Sequence[str], parse: Callable[[_Row], T]) -> Iterator[T]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [c for c in columns if c not in (reader.fieldnames or ())]
            if missing:
                raise Malformed(f"{path.name}: no column {', '.join(missing)} in its first line")
            found = False
            for fields in reader:
                row = _Row(path.name, reader.line_num, fields)
                row.check()
                yield parse(row)
                found = True
    except OSError as e:
        raise Malformed(f"{path}: {e.strerror}: give the folder that holds the trace") from e
    except (UnicodeDecodeError, csv.Error) as e:
        raise Malformed(f"{path.name}: {e}: it is no CSV text in UTF-8") from e
    if not found:
        raise Malformed(f"{path.name}: no line after the first: nothing to read")


def _host(row: _Row) -> Host:
    return Host(
        row.text("sn"), row.number("cpu_milli"), row.number("memory_mib"),
        row.number("gpu", MOST_CARDS), row.text("model"),
    )  # fmt: skip


def _pod(row: _Row) -> Shape:
    cards = row.number("num_gpu", MOST_CARDS)
    milli = row.number("gpu_milli", CARD) if cards else 0
    if cards and not milli:
        raise Malformed(
            f"{row.at}: num_gpu is {cards} and gpu_milli 0: write 1 to {CARD} of each card"
        )
    models = tuple(sorted({m.strip() for m in row.optional_text(MODELS).split("|")} - {""}))
    return Shape(row.number("cpu_milli"), row.number("memory_mib"), cards, milli, models)
