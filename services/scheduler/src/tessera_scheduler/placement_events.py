"""Kubernetes Events about placement, as HAMi's users look for them: where a pod fits, with the
scores of the nodes, and why a Binding failed.

kube-scheduler writes Events of its own (`Scheduled`, `FailedScheduling`). Scores cost each filter
call a second look at all nodes, so they are computed where an operator asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter import FilterAnswer
from tessera_core.scheduling.pod_request import card_request
from tessera_core.scheduling.prioritize import FeasibleNodes, feasible_nodes, node_scores
from tessera_runtime.kube.events import EventRecorder, ObjectRef
from tessera_schema.endpoints.extender import ExtenderArgs, ExtenderBindingArgs, decode_names
from tessera_schema.verdicts import Verdict

FITS: Final = "FilteringSucceed"
NOT_BOUND: Final = "BindingFailed"
_NAMED: Final = 20
"""Nodes that an Event names."""


class PlacementEventSettings(Struct, frozen=True, kw_only=True):
    """Events about placement, besides kube-scheduler's."""

    scores: bool = False
    """Write `FilteringSucceed` with the scores of the nodes with room, 0 to 10, the best first."""


class PlacementEvents:
    """Writes them."""

    def __init__(
        self, settings: PlacementEventSettings, recorder: EventRecorder,
        registry: DialectRegistry, ledger: Ledger, placer: Placer,
    ) -> None:  # fmt: skip
        """The placer's fleet is the ledger's."""
        self._settings = settings
        self._recorder = recorder
        self._registry = registry
        self._ledger = ledger
        self._placer = placer

    def scores(self, args: ExtenderArgs) -> Mapping[str, int]:
        """The nodes with room for the pod, the best first, with their scores; empty where nobody
        asks for them. Before the pod is placed: afterwards it takes the room itself. Raises
        msgspec.DecodeError."""
        if not self._settings.scores:
            return {}
        request = card_request(self._registry, self._ledger, args.pod)
        if request is None:
            return {}
        rows = self._ledger.fleet.rows
        offered = np.zeros(len(self._ledger.fleet.names), np.bool_)
        offered[[rows[name] for name in decode_names(args.node_names) if name in rows]] = True
        found = feasible_nodes(self._ledger, self._placer, request, offered)
        if not isinstance(found, FeasibleNodes):
            return {}
        scores = node_scores(self._placer, request, found.names)
        return dict(zip(found.names, scores.tolist(), strict=True))

    def answered(self, answer: FilterAnswer, scores: Mapping[str, int], offered: int) -> None:
        """Report where a pod was placed, one of so many nodes that were offered."""
        if answer.verdict is not Verdict.PLACED or answer.grant is None or not scores:
            return
        grant = answer.grant
        named = [f"{node}:{score}" for node, score in list(scores.items())[:_NAMED]]
        more = ",\u2026" if len(scores) > _NAMED else ""
        self._recorder.record(
            ObjectRef("Pod", grant.name, grant.namespace, grant.uid), FITS,
            f"find fit node({grant.node}), {max(offered - len(scores), 0)} nodes not fit, "
            f"{len(scores)} nodes fit({','.join(named)}{more})",
        )  # fmt: skip

    def not_bound(self, args: ExtenderBindingArgs, problem: str) -> None:
        """Report why a pod was not bound."""
        self._recorder.record(
            ObjectRef("Pod", args.pod_name, args.pod_namespace, args.pod_uid), NOT_BOUND,
            f"node {args.node}: {problem}", warning=True,
        )  # fmt: skip
