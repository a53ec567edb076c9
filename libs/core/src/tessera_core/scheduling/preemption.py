"""Whether evicting pods would make room for another one, card by card.

kube-scheduler proposes nodes by what it counts itself, which is not cards. Quota is left out: a
victim may be of another namespace. It promises no eviction that helps in the end: cards that
become free may be taken by a pod that comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import withholding
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.place import fits_of_an_attempt
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.node_reservations import NodeReservations
from tessera_core.scheduling.pod_request import card_request
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest

Veto = Callable[[Pod, Sequence[str]], str]
"""Why the pods of these uids may not all go for the pod; empty when they may."""


class PreemptionCheck:
    """Checks the nodes on which kube-scheduler proposes to evict pods."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        reservations: NodeReservations,
        veto: Veto | None = None,
    ) -> None:
        """All are shared with the filter; without `veto` any pod may go."""
        self._registry = registry
        self._ledger = ledger
        self._reservations = reservations
        self._veto = veto

    def nodes(
        self, pod: Pod | None, victims: Mapping[str, Iterable[str]], now: float
    ) -> frozenset[str]:
        """Of these nodes (node -> uids) those where evicting would make room for the pod's cards,
        and that are not reserved for another pod. All, for a pod that asks for no cards, but for
        those where a pod may not go."""
        request = card_request(self._registry, self._ledger, pod)
        if pod is not None and self._veto is not None:
            refused = self._veto
            victims = {
                node: uids for node, uids in victims.items() if not refused(pod, tuple(uids))
            }
        if pod is None or request is None:
            return frozenset(victims)
        priority = pod.spec.priority or 0
        closed = self._reservations.closed_to(request, priority, now)
        with withholding(self._ledger.fleet, self._ledger.withheld_from((request.uid,), priority)):
            return nodes_made_feasible(self._ledger, request, victims) - closed.keys()


def nodes_made_feasible(
    ledger: Ledger, request: PodRequest, victims: Mapping[str, Iterable[str]]
) -> frozenset[str]:
    """The nodes that could take the pod once these pods (node -> uids) have left them. Of those
    that may take it and not for certain, as many are tried as in one attempt to place the pod."""
    fleet, wanted = ledger.fleet.snapshot(), units(request)
    for node, uids in victims.items():
        for uid in uids:
            entry = ledger.entry(uid)
            if entry is not None and entry.grant.node == node:
                for card, charge in entry.charges.items():
                    fleet.charge(node, card, charge, -1)
    named = np.zeros(len(fleet.names), np.bool_)
    named[[fleet.rows[node] for node in victims if node in fleet.rows]] = True
    placer = Placer(fleet)
    left, takes = placer.sifted(wanted, NO_LIMITS, named)
    tried = np.flatnonzero(left & ~takes)[: fits_of_an_attempt(wanted)].tolist()
    fitted = ((row, placer.fit(row, wanted, NO_LIMITS)) for row in tried)
    takes[[row for row, shares in fitted if not isinstance(shares, NoFit)]] = True
    return frozenset(fleet.names[row] for row in np.flatnonzero(takes).tolist())
