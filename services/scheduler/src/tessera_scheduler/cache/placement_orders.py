"""Which order a pod is placed by: policy `pack`, or the order of the dialect that it speaks."""

from __future__ import annotations

from typing import Final

from tessera_core.admission.admit import claims_on
from tessera_core.dialect_kit.hami_format.policies import CARD_POLICY, NODE_POLICY
from tessera_core.placement.packing.packer import Packer
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import ORDER_KEY, ORDERS
from tessera_schema.kube import Pod

POLICIES: Final = (NODE_POLICY, CARD_POLICY)
"""A dialect's annotations by which a pod names an order of nodes or of cards."""
PACK: Final = ORDERS[0]
DIALECT: Final = ORDERS[1]


class PlacementOrders:
    """Gives the packer the orders that pods name."""

    def __init__(self, registry: DialectRegistry, packer: Packer) -> None:
        """`packer` places the pods that name no order as it is configured."""
        self._registry = registry
        self._packer = packer

    def observe(self, pod: Pod) -> None:
        """Take the order of a pod that is about to be placed."""
        order = self._order(pod)
        if order:
            self._packer.named(pod.metadata.uid, pack=order == PACK)
        else:
            self._packer.forget(pod.metadata.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""
        self._packer.forget(uid)

    def _order(self, pod: Pod) -> str:
        """The order that the pod, or the options of a dialect that it speaks, names; empty where
        neither does. What the pod itself says counts first."""
        notes = pod.metadata.annotations
        own = notes.get(ORDER_KEY, "")
        if own:
            return own
        for key in POLICIES:
            if notes.get(key, "").strip():
                return DIALECT
        ordered = self._registry.ordered
        if ordered and not ordered.isdisjoint(claims_on(self._registry, pod)):
            return DIALECT
        return ""
