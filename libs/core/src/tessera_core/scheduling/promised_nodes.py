"""Nodes where a pod would fit, if nothing there were promised to others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tessera_core.fleet.arrays import Bools
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, reasons, withholding
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_schema.requests import PodRequest

_NONE: Mapping[str, str] = {}


def promised_nodes(
    ledger: Ledger, request: PodRequest, priority: int, withheld: Withheld
) -> Mapping[str, str]:
    """The nodes that a pod has to leave to others, from which so much is withheld, with why in
    words. Quotas are left out."""
    if not withheld:
        return _NONE
    nodes = {node for node, _ in withheld}
    free = _fitting(ledger, request, nodes)
    with withholding(ledger.fleet, withheld):
        next_to_it = _fitting(ledger, request, free)
    why = reasons(ledger.promises, (request.uid,), priority)
    return {node: why[node] for node in sorted(free - next_to_it)}


def _fitting(ledger: Ledger, request: PodRequest, nodes: set[str]) -> set[str]:
    """Of these nodes those with room for the pod."""
    fleet, wanted = ledger.fleet, units(request)
    placer = Placer(fleet)
    named: Bools = np.zeros(len(fleet.names), np.bool_)
    named[[fleet.rows[node] for node in nodes if node in fleet.rows]] = True
    rows = np.flatnonzero(placer.screen(wanted, NO_LIMITS, named)).tolist()
    fits = (row for row in rows if not isinstance(placer.fit(row, wanted, NO_LIMITS), NoFit))
    return {fleet.names[row] for row in fits}
