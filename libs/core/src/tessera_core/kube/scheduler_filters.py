"""What kube-scheduler would refuse for other reasons than cards, so that a plan is no promise that
the cluster breaks.

Respected: what `tessera_core.kube.node_affinity` reads, and cpu, memory, ephemeral storage, huge
pages, the number of pods, and extended resources that belong to no dialect. Not read: host ports,
volumes, affinity between pods and topology spread.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from copy import copy as copy_of
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.node_affinity import NodeAffinity, Refusal
from tessera_core.kube.pod_requests import (
    PODS,
    Amounts,
    is_counted,
    must_be_listed,
    pod_requests,
    read_amount,
)
from tessera_core.kube.quantity import BadQuantity
from tessera_schema.kube import Node, Pod, Quantity
from tessera_schema.reasons import Reason

_SHAPES_KEPT: Final = 64

Refusals = Mapping[str, Refusal]


class _Answer(Struct):
    """The answers to pods of one shape, and how much of the log of changed rows it knows."""

    choice: Refusals
    refusals: dict[str, Refusal]
    known: int


class KubeSchedulerFilters:
    """The nodes as kube-scheduler's filters see them.

    A node is not limited in what it does not list, except huge pages and extended resources:
    hand-written nodes often list nothing. Amounts that cannot be read do not limit and are reported
    in `warnings`.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        bound: Iterable[Pod] = (),
        managed: frozenset[str] = frozenset(),
    ) -> None:
        """Takes in the nodes and what the pods bound to them request. `ours` are the resources of
        dialects, which are not counted here."""
        self._begin(nodes, managed)
        for row, node in enumerate(self._nodes):
            self._list(row, node)
        for pod in bound:
            if not pod.terminal:
                self._bind(pod)

    @classmethod
    def in_slices(
        cls, nodes: Sequence[Node], managed: frozenset[str]
    ) -> Generator[None, None, KubeSchedulerFilters]:
        """Takes in the nodes, which nothing is bound to yet, one in each slice."""
        made = cls((), (), managed)
        made._begin(nodes, managed)
        for row, node in enumerate(made._nodes):
            made._list(row, node)
            yield
        return made

    def _begin(self, nodes: Sequence[Node], managed: frozenset[str]) -> None:
        self.warnings: list[str] = []
        self._managed = managed
        self._nodes = tuple(nodes)
        self._rows = {node.name: row for row, node in enumerate(self._nodes)}
        self._total: dict[str, Floats] = {}
        self._used: dict[str, Floats] = {}
        self._changed: list[int] = []
        self._rows_in: tuple[Mapping[str, int], int, Ints] = ({}, -1, np.zeros(0, np.int64))
        self._nodes_changed()

    def _nodes_changed(self) -> None:
        """Copies go on with what they have: nothing is changed in place."""
        self._barring = [n for n in self._nodes if n.spec.taints or n.spec.unschedulable]
        self._choices: dict[bytes, Refusals] = {}
        self._allowed: dict[bytes, Bools] = {}
        self._labels: dict[str, NDArray[Any]] = {}
        self._answers: dict[tuple[bytes, tuple[tuple[str, int], ...]], _Answer] = {}

    def replace(self, node: Node) -> bool:
        """The node of that name is so from now on; what runs there stays counted. False, and
        nothing is changed, where the node is not known, or lists something that no node did."""
        row, amounts = self._rows.get(node.name), _listed(node)
        known = all(name in self._total for name in amounts if is_counted(name, self._managed))
        if row is None or not known:
            return False
        self._nodes = (*self._nodes[:row], node, *self._nodes[row + 1 :])
        for name, column in self._total.items():
            column[row] = _unlisted(name)
        self._list(row, node)
        self._nodes_changed()
        return True

    def refusals(self, pod: Pod) -> Refusals:
        """Node -> reason and message, for the nodes that cannot take the pod now."""
        shape = _shape_of(pod)
        try:
            asked = pod_requests(pod, self._managed)
        except BadQuantity as e:
            return self._everywhere(str(e))
        key = (shape, tuple(sorted(asked.items())))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._fresh(self._choose(shape, pod), asked)
            if len(self._answers) > _SHAPES_KEPT:
                self._answers.pop(next(iter(self._answers)))
        else:
            self._renew(answer, asked)
        return MappingProxyType(answer.refusals)

    def fitting(self, pod: Pod) -> Bools:
        """Which nodes can take the pod now, in the order of `names`: those that `refusals` leaves.
        Where many nodes are full it costs far less than to say why."""
        try:
            asked = pod_requests(pod, self._managed)
        except BadQuantity:
            return np.zeros(len(self._nodes), np.bool_)
        return self.allowed(pod) & ~self._short(asked)

    def allowed(self, pod: Pod) -> Bools:
        """Which nodes may take the pod once enough has left them; to be read."""
        shape = _shape_of(pod)
        if shape not in self._allowed:
            if len(self._allowed) >= _SHAPES_KEPT:
                self._allowed.pop(next(iter(self._allowed)))
            self._allowed[shape] = self._allowed_by(NodeAffinity(pod.spec))
        return self._allowed[shape]

    def take(self, pod: Pod, node: str) -> None:
        """The pod runs on the node from now on. Unknown nodes are left out."""
        self.count(self.requests(pod), node, 1)

    def release(self, pod: Pod, node: str) -> None:
        """The pod, which was taken, runs there no more."""
        self.count(self.requests(pod), node, -1)

    def requests(self, pod: Pod) -> Amounts:
        """What the pod requests of its node. Raises BadQuantity."""
        return pod_requests(pod, self._managed)

    def count(self, requests: Amounts, node: str, sign: int) -> None:
        """So much runs on the node from now on, or with sign -1 no more. Unknown nodes are left
        out."""
        row = self._rows.get(node)
        if row is None:
            return
        for name, amount in requests.items():
            if name in self._used or must_be_listed(name):
                self._column(name)
                self._used[name][row] += sign * amount
        self._changed.append(row)

    def scratch(self) -> KubeSchedulerFilters:
        """The same nodes with the same pods, to be changed apart."""
        copy = copy_of(self)
        copy._total = {name: column.copy() for name, column in self._total.items()}
        copy._used = {name: column.copy() for name, column in self._used.items()}
        copy._changed, copy._answers = [], {}
        return copy

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes, in the order of `copies`."""
        return tuple(self._rows)

    def rows_in(self, fleet: Fleet) -> Ints:
        """The row of each node in a fleet, -1 where the fleet does not know it, in the same order;
        to be read. It is remembered while the fleet's rows are the same."""
        rows, layout, found = self._rows_in
        if rows is not fleet.rows or layout != fleet.layout:
            found = np.array([fleet.rows.get(name, -1) for name in self._rows], np.int64)
            self._rows_in = fleet.rows, fleet.layout, found
        return found

    def copies(self, pod: Pod, most: int) -> Ints:
        """How many pods like this one each node takes now, at most `most`. Raises BadQuantity."""
        count = np.full(len(self._nodes), most, np.int64)
        for name, amount in pod_requests(pod, self._managed).items():
            if amount and (name in self._total or must_be_listed(name)):
                free = np.minimum(self._column(name) - self._used[name], float(most) * amount)
                count = np.minimum(count, np.maximum(free // amount, 0).astype(np.int64))
        count[~self.allowed(pod)] = 0
        return count

    # -- what nodes have

    def _list(self, row: int, node: Node) -> None:
        for name, quantity in _listed(node).items():
            if not is_counted(name, self._managed):
                continue
            try:
                total = read_amount(name, quantity)
            except BadQuantity as e:
                self.warnings.append(
                    f"node {node.name}: status.allocatable[{name}]: {e}: it does not limit pods"
                )
                continue
            self._column(name)[row] = total

    def _column(self, name: str) -> Floats:
        if name not in self._total:
            self._total[name] = np.full(len(self._nodes), _unlisted(name))
            self._used[name] = np.zeros(len(self._nodes))
        return self._total[name]

    def _bind(self, pod: Pod) -> None:
        try:
            self.take(pod, pod.spec.node_name)
        except BadQuantity as e:
            self.warnings.append(f"pod {pod.name}: {e}: counted as asking nothing of its node")

    # -- the answers to pods

    def _choose(self, shape: bytes, pod: Pod) -> Refusals:
        if shape not in self._choices:
            if len(self._choices) >= _SHAPES_KEPT:
                self._choices.pop(next(iter(self._choices)))
            self._choices[shape] = self._chosen(NodeAffinity(pod.spec))
        return self._choices[shape]

    def _chosen(self, choice: NodeAffinity) -> Refusals:
        if choice.problem:
            return self._everywhere(choice.problem)
        nodes = self._barring if choice.any_label else self._nodes
        found = ((node.name, choice.refusal(node)) for node in nodes)
        return {name: refusal for name, refusal in found if refusal is not None}

    def _everywhere(self, problem: str) -> Refusals:
        return dict.fromkeys(self._rows, (Reason.INVALID_REQUEST, problem))

    def _allowed_by(self, affinity: NodeAffinity) -> Bools:
        allowed: Bools = np.full(len(self._nodes), not affinity.problem, np.bool_)
        for key, value in affinity.selector.items():
            allowed &= self._label(key) == value
        nodes = self._barring if affinity.selector_only else self._nodes
        for node in () if affinity.problem else nodes:
            row = self._rows[node.name]
            allowed[row] = allowed[row] and affinity.refusal(node) is None
        return allowed

    def _label(self, key: str) -> NDArray[Any]:
        """Row -> the node's value of the label, None without it."""
        if key not in self._labels:
            if len(self._labels) >= _SHAPES_KEPT:
                self._labels.pop(next(iter(self._labels)))
            values = [node.metadata.labels.get(key) for node in self._nodes]
            self._labels[key] = np.array(values, object)
        return self._labels[key]

    def _short(self, asked: Amounts) -> Bools:
        """Which nodes have too little left of something."""
        short: Bools = np.zeros(len(self._nodes), np.bool_)
        for name, amount in asked.items():
            if amount and (name in self._total or must_be_listed(name)):
                short |= self._column(name) - self._used[name] < amount
        return short

    def _fresh(self, choice: Refusals, asked: Amounts) -> _Answer:
        refusals = dict(choice)
        for row in np.flatnonzero(self._short(asked)).tolist():
            self._refusal(row, choice, asked, refusals)
        return _Answer(choice, refusals, len(self._changed))

    def _renew(self, answer: _Answer, asked: Amounts) -> None:
        """Only rows that changed are tested again; an answer already given is never altered."""
        changed = set(self._changed[answer.known :])
        answer.known = len(self._changed)
        if changed:
            answer.refusals = dict(answer.refusals)
            for row in changed:
                self._refusal(row, answer.choice, asked, answer.refusals)

    def _refusal(
        self, row: int, choice: Refusals, asked: Amounts, refusals: dict[str, Refusal]
    ) -> None:
        node = self._nodes[row].name
        if node in choice:
            return
        text = "; ".join(
            f"{name}: asks {_text(name, amount)}, "
            f"{_text(name, max(self._total[name][row] - self._used[name][row], 0))} of "
            f"{_text(name, self._total[name][row])} free"
            for name, amount in asked.items()
            if amount
            and name in self._total
            and self._total[name][row] - self._used[name][row] < amount
        )
        if text:
            refusals[node] = (Reason.NODE_INSUFFICIENT_RESOURCE, text)
        else:
            refusals.pop(node, None)


def _listed(node: Node) -> Mapping[str, Quantity]:
    return node.status.allocatable or node.status.capacity


def _unlisted(name: str) -> float:
    """What a node has of something that it does not list."""
    return 0.0 if must_be_listed(name) else math.inf


def _shape_of(pod: Pod) -> bytes:
    """What of a pod decides where it may be at all."""
    spec = pod.spec
    return msgspec.json.encode((spec.node_selector, spec.tolerations, spec.affinity))


def _text(name: str, amount: float) -> str:
    if name == "cpu":
        return f"{amount / 1000:g}"
    if name == PODS or "/" in name:
        return f"{amount:g}"
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if amount >= size:
            return f"{amount / size:.5g} {unit}"
    return f"{amount:g} bytes"
