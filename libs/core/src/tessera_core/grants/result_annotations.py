"""What a grant is written as and turned into: annotations of the Binding, and what the agent
gives each container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Placed
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.cards import Card
from tessera_schema.grants import GRANT_KEY, Grant, encode_grant
from tessera_schema.injections import Injection
from tessera_schema.kube import Pod

_NOTHING: Final = Injection()
_NOBODY: Final[frozenset[str]] = frozenset()


def written_annotations(
    registry: DialectRegistry, pod: Pod, grant: Grant, cards: Sequence[Card], now_ns: int,
    given: frozenset[str] = _NOBODY,
) -> dict[str, str]:  # fmt: skip
    """Our grant, and every dialect's own result keys. `given` are the vendors whose cards an agent
    of Tessera's gives on the node."""
    placed = _placed(registry, pod, grant, cards, now_ns, given)
    return _written(registry, grant, placed)


def whole_annotations(
    registry: DialectRegistry, pod: Pod, grant: Grant, cards: Sequence[Card], now_ns: int,
    given: frozenset[str] = _NOBODY,
) -> dict[str, str]:  # fmt: skip
    """The same, of the grant with what the dialects' node side adds to each container
    (`Grant.given`; the vendor's part is the agent's)."""
    placed = tuple(_placed(registry, pod, grant, cards, now_ns, given))
    return _written(registry, replace(grant, given=_added(registry, pod, placed)), placed)


def written_labels(registry: DialectRegistry, pod: Pod, grant: Grant) -> dict[str, str]:
    """The labels that the dialects' own systems would have written on the pod."""
    written: dict[str, str] = {}
    for name in dict.fromkeys(s.dialect for s in grant.shares):
        written |= registry.dialects[name].labels(pod, grant.node)
    return written


def injections(
    registry: DialectRegistry, pod: Pod, grant: Grant, cards: Sequence[Card], now_ns: int
) -> dict[str, Injection]:
    """Container -> what it is given: the vendor's part, and over it the dialect's."""
    given: dict[str, Injection] = {}
    containers = {c.name: c for c in pod.all_containers}
    for name, placed in _placed(registry, pod, grant, cards, now_ns):
        dialect = registry.dialects[name]
        vendor = registry.vendors.get(dialect.vendor)
        for container in dict.fromkeys(s.container for s in placed.shares):
            parts = [given.get(container, Injection())]
            if vendor is not None:
                parts.append(vendor.give(placed.of(container), placed.cards))
            parts.append(dialect.inject(placed, containers[container]))
            given[container] = merge(parts)
    return given


def merge(parts: Sequence[Injection]) -> Injection:
    """Several injections as one; the later wins where both set the same."""
    if len(parts) == 1 and not (parts[0].mounts or parts[0].devices):
        return parts[0]
    env: dict[str, str] = {}
    notes: dict[str, str] = {}
    for part in parts:
        env |= part.env
        notes |= part.annotations
    mounts = {m.destination: m for part in parts for m in part.mounts}
    devices = dict.fromkeys(d for part in parts for d in part.devices)
    return Injection(
        env=env, mounts=tuple(mounts.values()), devices=tuple(devices), annotations=notes
    )


def _written(
    registry: DialectRegistry, grant: Grant, placed: Iterable[tuple[str, Placed]]
) -> dict[str, str]:
    written = {GRANT_KEY: encode_grant(grant)}
    for name, part in placed:
        written |= registry.dialects[name].annotate(part)
    return written


def _added(
    registry: DialectRegistry, pod: Pod, placed: Iterable[tuple[str, Placed]]
) -> dict[str, Injection]:
    """Container -> what its dialects add to it. Those that are given nothing are left out."""
    made: dict[str, Injection] = {}
    containers = {c.name: c for c in pod.all_containers}
    for name, part in placed:
        for container in dict.fromkeys(s.container for s in part.shares):
            added = registry.dialects[name].inject(part, containers[container])
            if added != _NOTHING:
                had = made.get(container)
                made[container] = merge([added] if had is None else [had, added])
    return made


def _placed(
    registry: DialectRegistry, pod: Pod, grant: Grant, cards: Sequence[Card], now_ns: int,
    given: frozenset[str] = _NOBODY,
) -> Iterator[tuple[str, Placed]]:  # fmt: skip
    for name in dict.fromkeys(s.dialect for s in grant.shares):
        vendor = registry.dialects[name].vendor
        of_vendor: Mapping[str, Card] = {c.id: c for c in cards if c.vendor == vendor}
        shares = tuple(s for s in grant.shares if s.dialect == name)
        yield name, Placed(
            pod=pod, node=grant.node, shares=shares, cards=of_vendor, agent_managed=vendor in given,
            now_ns=now_ns,
        )  # fmt: skip
