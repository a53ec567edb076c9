"""A usage report made again from an agent's metrics (docs/agent.md), as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage

_USE: Final = {
    f"tessera_agent_container_{field}": field
    for field in ("memory_bytes", "cores_percent", "cores_limit_percent", "throttled_percent")
}
_LOAD: Final = {
    "tessera_agent_card_memory_used_bytes": "memory_used_bytes",
    "tessera_agent_card_busy_percent": "cores_percent",
}
_ENFORCED: Final = "tessera_agent_container_enforced"
_BYTES: Final = frozenset({"memory_bytes", "memory_used_bytes"})
T = TypeVar("T", CardUse, CardLoad)
PodUids = Mapping[tuple[str, str], str]
"""Namespace and name -> uid."""


def usage_in(text: str, node: str, vendor: str, uids: PodUids) -> NodeUsage:
    """The report; pods that are not in `uids` are left out. Raises ValueError for what is no text
    of metrics, msgspec.ValidationError for figures that are none."""
    uses: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    loads: dict[str, dict[str, float]] = {}
    open_: set[tuple[str, str, str]] = set()
    for sample in _samples(text):
        labels = sample.labels
        key = labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")
        if sample.name in _USE:
            of_card = uses.setdefault(key, {}).setdefault(labels.get("card", ""), {})
            of_card[_USE[sample.name]] = sample.value
        elif sample.name in _LOAD:
            loads.setdefault(labels.get("card", ""), {})[_LOAD[sample.name]] = sample.value
        elif sample.name == _ENFORCED and not sample.value:
            open_.add(key)
    return NodeUsage(
        node=node, vendor=vendor, at=0, interval_s=0,
        containers=tuple(
            ContainerUse(
                namespace=key[0], pod=key[1], uid=uids[key[:2]], container=key[2],
                cards=tuple(_read(CardUse, card, found) for card, found in cards.items()),
                enforced=key not in open_,
            )
            for key, cards in uses.items()
            if key[:2] in uids
        ),
        cards=tuple(_read(CardLoad, card, found) for card, found in loads.items()),
    )  # fmt: skip


def _samples(text: str) -> Iterable[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples


def _read(type_: type[T], card: str, found: Mapping[str, float]) -> T:
    whole = {n: int(amount) if n in _BYTES else amount for n, amount in found.items()}
    return msgspec.convert({"card": card, **whole}, type_)
