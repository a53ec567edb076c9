"""What a pod that waits shows in one sentence, after the words of
`tessera_core.explain.node_reasons`: what a limit of its namespace says, or that no card or node of
the cluster could ever do.

It takes some milliseconds, so it is worked out once for each reason that a pod meets, not for each
attempt. What only others hold is left to explanations: their names are not for everybody.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.explain.advice import Barrier
from tessera_core.explain.reasons import reasons_of_node
from tessera_core.explain.remedies import advise, memory_unit
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

MOST_SENTENCE: Final = 1_024
"""Letters: it quotes limits, models and names."""
_RESERVED: Final = "cards are reserved for a gang that comes before it: tessera explain says more"
_LASTING: Final = frozenset(
    {Barrier.NO_CARDS, Barrier.NOT_ALLOWED, Barrier.TOO_LARGE, Barrier.TOO_MANY, Barrier.QUOTA}
)


class WaitingPodMessages:
    """Sentences about pods that wait, by the ledger as it is."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        """Both are shared with the rest of the scheduler."""
        self._registry = registry
        self._ledger = ledger

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
        ledger, unit = self._ledger, memory_unit(self._registry.dialects, pod)
        allowance = ledger.allowance(request.namespace)
        advice = advise(ledger.fleet, ledger.on, request, allowance, unit=unit)
        return advice.sentence() if advice.barrier in _LASTING else ""

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
