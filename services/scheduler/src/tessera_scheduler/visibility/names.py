"""Which pods an answer may name.

Cards and nodes are named to everybody who may have an explanation. A pod of another namespace is
named to users that the API server lets read that namespace's pods; to others it has no name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.explain.advice import Advice, Barrier
from tessera_core.explain.advice import BlockingPod as InTheWay
from tessera_schema.endpoints import visibility
from tessera_schema.reasons import Reason

HIDDEN: Final = "a pod of another namespace"
_NAMING: Final = frozenset({Reason.NODE_RESERVED.wire, Reason.NODE_STARTING_EQUAL_POD.wire})
"""Reasons whose words name another pod as `namespace/name`."""
_POD: Final = re.compile(r"(?<![\w./-])([a-z0-9][a-z0-9-]*)/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


class MayName(Protocol):
    """Selects the namespaces whose pods may be named."""

    async def __call__(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Of these namespaces those whose pods the caller may read."""
        ...


class DraftAnswer(Struct, frozen=True, kw_only=True):
    """An answer that still names all pods."""

    found: visibility.PodExplanation
    advice: Advice | None = None

    async def redacted(self, may_name: MayName) -> visibility.PodExplanation:
        """The answer with the names of those pods alone that the caller may read."""
        visible = await may_name(dict.fromkeys(self._namespaces()))
        advice = "" if self.advice is None else _advice(self.advice, visible)
        nodes = tuple(_node(node, visible) for node in self.found.nodes)
        preemption = without_names(self.found.preemption, visible)
        return replace(self.found, advice=advice, nodes=nodes, preemption=preemption)

    def _namespaces(self) -> Iterator[str]:
        """Of the pods that it names, those that stand in the way first."""
        if self.advice is not None:
            yield from (holder.namespace for holder in self.advice.holders)
            if self.advice.barrier is Barrier.RESERVED:
                yield from (match[1] for match in _POD.finditer(self.advice.said))
        yield from (match[1] for match in _POD.finditer(self.found.preemption))
        for node in self.found.nodes:
            for reason in node.reasons:
                if reason.reason in _NAMING:
                    yield from (match[1] for match in _POD.finditer(reason.message))
        for node in self.found.nodes:
            yield from (holder.namespace for card in node.cards for holder in card.holders)


def _advice(advice: Advice, visible: Collection[str]) -> str:
    if advice.barrier is Barrier.RESERVED:
        return without_names(advice.sentence(), visible)
    named = [h for h in advice.holders if h.namespace in visible]
    hidden = [h for h in advice.holders if h.namespace not in visible]
    holders = [*named, *(_nameless(h) for h in hidden)]
    return replace(advice, holders=tuple(holders)).sentence()


def _nameless(holder: InTheWay) -> InTheWay:
    return replace(holder, namespace="", name="")


def _node(node: visibility.NodeState, visible: Collection[str]) -> visibility.NodeState:
    return replace(
        node,
        reasons=tuple(_reason(reason, visible) for reason in node.reasons),
        cards=tuple(
            replace(card, holders=tuple(_holder(holder, visible) for holder in card.holders))
            for card in node.cards
        ),
    )


def _reason(reason: visibility.ReasonText, visible: Collection[str]) -> visibility.ReasonText:
    if reason.reason not in _NAMING:
        return reason
    return replace(reason, message=without_names(reason.message, visible))


def without_names(text: str, visible: Collection[str]) -> str:
    """The text without the names of pods that the caller may not read."""

    def named(match: re.Match[str]) -> str:
        return match[0] if match[1] in visible else HIDDEN

    return _POD.sub(named, text)


def _holder(holder: visibility.CardHolder, visible: Collection[str]) -> visibility.CardHolder:
    return holder if holder.namespace in visible else replace(holder, namespace="", name="")
