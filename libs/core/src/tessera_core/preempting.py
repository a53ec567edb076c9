"""Whether evicting pods would make room for another one, card by card.

kube-scheduler proposes nodes by what it counts itself, which is not cards. Quota is left out: who
is evicted may be of another namespace. It promises no eviction that helps in the end: cards that
become free may be taken by a pod that comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tessera_core.fitting import Unfit
from tessera_core.ledger import Ledger
from tessera_core.placement import fit
from tessera_core.quota import NO_LIMITS
from tessera_core.units import units
from tessera_schema.requests import PodRequest


def useful(
    ledger: Ledger, request: PodRequest, victims: Mapping[str, Iterable[str]]
) -> frozenset[str]:
    """The nodes that could take the pod once these pods (node -> uids) have left them."""
    fleet, wanted = ledger.fleet.snapshot(), units(request)
    for node, uids in victims.items():
        for uid in uids:
            entry = ledger.entry(uid)
            if entry is not None and entry.grant.node == node:
                for card, charge in entry.charges.items():
                    fleet.charge(node, card, charge, -1)
    return frozenset(
        node
        for node in victims
        if node in fleet.rows
        and not isinstance(fit(fleet, fleet.rows[node], wanted, NO_LIMITS), Unfit)
    )
