"""What-if calls of an autoscaler: would the pod have room on nodes like these, were they new?

kube-scheduler sends names of nodes (`nodeCacheCapable`); a simulation sends whole nodes, usually
templates of nodes that do not exist. Their cards are those that are written on them: annotations,
custom resources excepted, and capacities. Nothing runs there. The namespace's quota counts as it
stands. Nothing is reserved, recorded or published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.explain.node_reasons import node_reasons
from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import units
from tessera_core.quota.allowance import Allowance, minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.prioritize import FeasibleNodes, feasible_nodes
from tessera_schema.endpoints.extender import (
    ExtenderArgs,
    ExtenderSimulationResult,
    NodeList,
    decode_nodes,
    encode_result,
)
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

_NULL: Final = b"null"
_node = decoder(Node)


class _Template(Struct, frozen=True):
    node: Node
    raw: msgspec.Raw


def is_simulation(args: ExtenderArgs) -> bool:
    """Whether the call sends whole nodes, and no names."""
    return bytes(args.nodes) != _NULL and bytes(args.node_names) == _NULL


class ScaleUpSimulation:
    """Answers filter calls that send whole nodes."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        """`ledger` is the scheduler's: what namespaces may use. It is not changed."""
        self._registry = registry
        self._ledger = ledger

    def answer(self, args: ExtenderArgs) -> bytes:
        """The nodes on which the pod would have room, and why not of the others. Raises
        msgspec.DecodeError where the nodes are none."""
        templates = {one.node.name: one for one in map(_template, decode_nodes(args.nodes))}
        if args.pod is None:
            return encode_result(
                ExtenderSimulationResult(error="Pod: missing: send the pod to filter")
            )
        allowed = self._ledger.allowed_in(args.pod.metadata.namespace)
        admission = admit(self._registry, args.pod, allowed=allowed)
        if isinstance(admission, Rejected):
            return _result(templates, dict.fromkeys(templates, admission.reason.wire))
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return _result(templates, {})
        return _result(templates, self._failed(templates, admission.request))

    def _failed(self, templates: Mapping[str, _Template], request: PodRequest) -> dict[str, str]:
        """Node -> why the pod would have no room there."""
        allowance = self._ledger.allowance(request.namespace)
        if allowance.exceeded(minimum_usage(request)):
            return dict.fromkeys(templates, Reason.RESOURCE_QUOTA_NOT_FIT.wire)
        imagined = Ledger()
        for name, template in templates.items():
            cards = node_cards_with_allocations(self._registry, template.node, {}, labelled=True)
            imagined.fleet.missing[name] = cards.missing
            imagined.put_node(name, cards.cards)
        return _without_room(imagined, request, allowance)


def _without_room(imagined: Ledger, request: PodRequest, allowance: Allowance) -> dict[str, str]:
    fleet = imagined.fleet
    placer = Placer(fleet, ScreenCache())
    # One by one: a call about many nodes tries no more of them card by card than its turn allows.
    words = node_reasons(fleet, units(request), allowance)
    failed = {}
    for name, row in fleet.rows.items():
        only = np.zeros(len(fleet.names), np.bool_)
        only[row] = True
        if not isinstance(feasible_nodes(imagined, placer, request, only), FeasibleNodes):
            failed[name] = words[row]
    return failed


def _template(raw: msgspec.Raw) -> _Template:
    return _Template(_node(bytes(raw)), raw)


def _result(templates: Mapping[str, _Template], failed: Mapping[str, str]) -> bytes:
    fitting = tuple(one.raw for name, one in templates.items() if name not in failed)
    nodes = NodeList(items=fitting) if fitting else None
    return encode_result(ExtenderSimulationResult(nodes=nodes, failed_nodes=dict(failed)))
