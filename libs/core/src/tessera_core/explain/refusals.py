"""What a pod that waits shows in one sentence, after the words of
`tessera_core.explain.node_reasons`: what a limit of its namespace says, or that no card or node of
the cluster could ever do.

It takes some milliseconds, so it is worked out once for each reason that a pod meets, not for each
attempt, and what holds whatever is in use once for all pods of a shape. What only others hold is
left to explanations: their names are not for everybody.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.explain.advice import Advice, Barrier
from tessera_core.explain.reasons import reasons_of_node
from tessera_core.explain.remedies import memory_unit, permanent_barrier
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS, minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

MOST_SENTENCE: Final = 1_024
"""Letters: it quotes limits, models and names."""
_RESERVED: Final = "cards are reserved for a gang that comes before it: tessera explain says more"
_SHAPES: Final = 64
"""Shapes of pods whose sentence is remembered."""


class WaitingPodMessages:
    """Sentences about pods that wait, by the ledger as it is."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        """Both are shared with the rest of the scheduler."""
        self._registry = registry
        self._ledger = ledger
        self._known: dict[object, str] = {}
        """By what of a pod its sentence depends on."""
        self._known_at: tuple[object, bytes] = (None, b"")
        """The nodes by which these are true."""

    def sentence(self, pod: Pod, reason: Reason) -> str:
        """For a pod that most nodes gave this reason."""
        allowed = self._ledger.allowed_in(pod.metadata.namespace or "default")
        admission = admit(self._registry, pod, allowed=allowed)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return f"{reason.wire} on most nodes"
        said = self._permanent(admission.request, pod)
        if not said and reason is Reason.CARD_RESERVED:
            said = _RESERVED
        if not said and reason is Reason.RESOURCE_QUOTA_NOT_FIT:
            said = self._of_quota(admission.request)
        return (said or f"{reason.wire} on most nodes")[:MOST_SENTENCE]

    def _permanent(self, request: PodRequest, pod: Pod) -> str:
        over = self._ledger.allowance(request.namespace).exceeded(minimum_usage(request))
        if over:
            return Advice(barrier=Barrier.QUOTA, said=over).sentence()
        fleet, unit = self._ledger.fleet, memory_unit(self._registry.dialects, pod)
        here = fleet.changes, fleet.blocked.tobytes()
        if here[0] is not self._known_at[0] or here[1] != self._known_at[1]:
            self._known, self._known_at = {}, here
        shape = request.containers, unit
        if shape not in self._known:
            barrier = permanent_barrier(fleet, request, unit=unit)
            self._known[shape] = "" if barrier is None else barrier.sentence()
            if len(self._known) > _SHAPES:
                del self._known[next(iter(self._known))]
        return self._known[shape]

    def _of_quota(self, request: PodRequest) -> str:
        """What the limits say of the first node that has room but for them."""
        fleet, wanted = self._ledger.fleet, units(request)
        placer = Placer(fleet)
        rows = np.flatnonzero(placer.screen(wanted, NO_LIMITS, None))
        if not len(rows):
            return ""
        unfit = placer.fit(int(rows[0]), wanted, self._ledger.allowance(request.namespace))
        whys = reasons_of_node("", unfit) if isinstance(unfit, NoFit) else []
        by_quota = (w.message for w in whys if w.reason is Reason.RESOURCE_QUOTA_NOT_FIT)
        return next(by_quota, "").partition(": ")[2]
