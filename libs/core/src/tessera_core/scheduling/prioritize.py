"""Pods with preferences about their node: all nodes with room are answered, and scored.

One node is answered for most pods (`tessera_core.scheduling.filter`). A pod with preferred affinity
or a ScheduleAnyway spread leaves the choice to kube-scheduler, which weighs the preferences against
Tessera's scores; its cards are reserved when the Binding is asked for, so another pod may be
faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Codes, Floats, Ints
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import withholding
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.place import fits_of_an_attempt, in_turn
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import nodes
from tessera_core.placement.units import units
from tessera_core.quota.allowance import minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter_bodies import NodeNames
from tessera_core.scheduling.pod_request import card_request
from tessera_core.scheduling.reserve import Unschedulable
from tessera_schema.endpoints.extender import ExtenderArgs, decode_names
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest

TOP_SCORE: Final = 10
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class FeasibleNodes(Struct, frozen=True):
    """Nodes that can take the pod now. Nothing is reserved."""

    names: tuple[str, ...]


def has_placement_preferences(pod: Pod) -> bool:
    """True for a pod whose preferences only kube-scheduler can weigh."""
    spec = pod.spec
    if spec.affinity is None and not spec.topology_spread_constraints:
        return False
    affinity = spec.affinity or {}
    return any(_preferred(affinity.get(kind)) for kind in _AFFINITIES) or any(
        s.when_unsatisfiable == "ScheduleAnyway" for s in spec.topology_spread_constraints
    )


def _preferred(affinity: Any) -> bool:
    return isinstance(affinity, dict) and bool(affinity.get(_PREFERRED))


def feasible_nodes(
    ledger: Ledger, placer: Placer, request: PodRequest, candidates: Bools, attempt: int = 1
) -> FeasibleNodes | Unschedulable:
    """All nodes with room for the pod, the best first. Of those that may take it and not for
    certain, those are fitted card by card that are this attempt's turn
    (`tessera_core.placement.place.in_turn`)."""
    fleet, allowance, wanted = placer.fleet, ledger.allowance(request.namespace), units(request)
    over = allowance.exceeded(minimum_usage(request))
    if over:
        return Unschedulable(wanted, over)
    left, certain = placer.sifted(wanted, allowance, candidates)
    rows = np.flatnonzero(left)
    if not len(rows):
        return Unschedulable(wanted)
    order = nodes.in_order(rows, placer.keys(wanted[0].lead))
    untried: frozenset[int] = frozenset()
    if not certain[rows].all():
        doubtful = [row for row in order if not certain[row]]
        tried = in_turn(doubtful, fits_of_an_attempt(wanted), attempt)
        untried = frozenset(doubtful).difference(tried)
        fitted = ((row, placer.fit(row, wanted, allowance)) for row in tried)
        certain[[row for row, shares in fitted if not isinstance(shares, NoFit)]] = True
        order = [row for row in order if certain[row]]
    if not order:
        return Unschedulable(wanted, untried=untried)
    return FeasibleNodes(tuple(map(fleet.names.__getitem__, order)))


def node_scores(placer: Placer, request: PodRequest, names: Sequence[str]) -> Codes:
    """Each node's score, 0 to 10 by the pod's own policy; nodes that are not known get 0."""
    rows = placer.fleet.rows_of(names)
    known = rows >= 0
    scores = np.zeros(len(rows), np.uint8)
    if known.any():
        wanted = placer.with_pressure(request, units(request))
        *columns, _ = placer.keys(wanted[0].lead)
        rank = _dense_rank([column[rows[known]] for column in columns])
        scores[known] = np.rint(TOP_SCORE * (1 - rank / max(int(rank.max()), 1)))
    return scores


def _dense_rank(columns: Sequence[Floats | Ints]) -> Ints:
    """Each place's number in the order of the columns, from 0, the same for equals."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), np.bool_)
    for column in columns:
        values = column[order]
        new[1:] |= values[1:] != values[:-1]
    rank: Ints = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new)
    return rank


class Prioritizer:
    """Scores nodes for kube-scheduler's prioritize call."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger, placer: Placer) -> None:
        """The placer's fleet is the ledger's."""
        self._registry = registry
        self._ledger = ledger
        self._placer = placer

    def answer(self, args: ExtenderArgs) -> bytes:
        """The answer to a body of `/prioritize`: each name with its score (`scores`). Raises
        msgspec.DecodeError when the node names are none."""
        names = decode_names(args.node_names)
        return NodeNames(names).scored(self.scores(args.pod, names))

    def scores(self, pod: Pod | None, names: Sequence[str]) -> Codes:
        """Each node's score, 0 to 10 by the pod's own policy; that of the node that it is reserved
        on alone, where it is. None at all for a pod that asks for no cards."""
        request = card_request(self._registry, self._ledger, pod)
        if request is None:
            return np.zeros(len(names), np.uint8)
        entry = self._ledger.entry(request.uid)
        if entry is not None:
            return np.array([TOP_SCORE * (name == entry.grant.node) for name in names], np.uint8)
        priority = 0 if pod is None else pod.spec.priority or 0
        with withholding(self._ledger.fleet, self._ledger.withheld_from((request.uid,), priority)):
            return node_scores(self._placer, request, names)
