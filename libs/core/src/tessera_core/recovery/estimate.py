"""A bound pod on which nothing says what it holds is counted by what it asks for.

It runs, so its cards must not be free; which ones it really uses is known only on its node. Where
even what it asks cannot be read, its node is closed.
"""

from __future__ import annotations

from msgspec import Struct

from tessera_core.admission.admit import admit
from tessera_core.admission.pod_size import too_many_containers
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.recovery.overcommit import overcommitted_shares
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod


class EstimatedPod(Struct, frozen=True, kw_only=True):
    """How the pod counts. Without a grant it counts nothing, unless it `closes` its node."""

    grant: Grant | None = None
    closes: bool = False
    note: str = ""
    """For the operator; empty when the pod asks for no card."""


def estimate_shares(registry: DialectRegistry, fleet: Fleet, pod: Pod) -> EstimatedPod:
    """The shares that a bound pod's own requests amount to on its node, whether they fit or not."""
    node = pod.spec.node_name
    admission = admit(registry, pod, runs=True)
    if isinstance(admission, Rejected):
        return EstimatedPod(
            closes=True, note=f"nor what it asks: {admission.message}; {node} is closed"
        )
    if admission is None or not admission.request.containers:
        return EstimatedPod()
    request, row = admission.request, fleet.rows.get(node)
    if row is None:
        return EstimatedPod(note=f"not counted, as its node {node} was not given")
    wanted, note = units(request), "it is counted by its own requests"
    shares = None if too_many_containers(pod) else Placer(fleet).fit(row, wanted, NO_LIMITS)
    if shares is None:
        note += ", without looking whether it fits: it has too many containers"
    elif isinstance(shares, NoFit):
        note += f", beyond what is free on {node}"
    if shares is None or isinstance(shares, NoFit):
        shares = overcommitted_shares(fleet, row, wanted)
    grant = Grant(
        uid=request.uid, namespace=request.namespace, name=request.name, node=node, shares=shares
    )
    return EstimatedPod(grant=grant, note=note)
