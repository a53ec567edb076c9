"""The part of a node's usage that counts: that of containers to which the ledger gives shares of
the vendor's cards on that node, and of these cards, each with no more than a card has.

Containers write what it is made of, so it decides no grant. Whose it is, is what the grant says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from tessera_core.hook.usage_file import TIMES
from tessera_core.reports.doubts import Doubt, Doubts
from tessera_schema.cards import MOST_MEMORY_BYTES, Card
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage

MOST_UNIX_S: Final = 100_000_000_000
"""A moment later than this (the year 5138) is no time."""
MOST_COUNT: Final = 1 << 53
"""Launches, refusals, processes: what JSON carries exactly."""
MOST_PERCENT: Final = 1_000_000
"""Of a card or of an interval. Launches of many threads may wait at the same time, so that much is
left before a figure is odd."""
MOST_KERNEL_US: Final = 1e12
"""No launch runs for longer than eleven days."""
MOST_GAPS: Final = 8
MOST_WORD: Final = 32
"""Characters of a gap, and of what measured."""
WHOLE_PERCENT: Final = 100
"""No container uses more of a card's time."""
GrantOf = Callable[[str], Grant | None]
"""The grant of a bound pod by its uid, as the ledger has it."""


def sensible(usage: NodeUsage) -> bool:
    """Whether the report's own times are times."""
    return 0 <= usage.at <= MOST_UNIX_S and 0 <= usage.interval_s <= MOST_UNIX_S


def counting(
    usage: NodeUsage, cards: Mapping[str, Card], grant_of: GrantOf, doubts: Doubts
) -> NodeUsage:
    """The usage with what counts of it; `cards` are the vendor's on the node, by id."""
    containers = _fitted(tuple(_containers(usage, cards, grant_of, doubts)), cards, doubts)
    return replace(usage, containers=containers, cards=tuple(_loads(usage, cards, doubts)))


def _containers(
    usage: NodeUsage, cards: Mapping[str, Card], grant_of: GrantOf, doubts: Doubts
) -> Iterator[ContainerUse]:
    seen: set[tuple[str, str]] = set()
    for use in usage.containers:
        grant = grant_of(use.uid)
        shares = {} if grant is None else _shares(grant, use.container, usage)
        if grant is None or not shares or (use.uid, use.container) in seen:
            doubts.add(
                Doubt.POD, f"usage of {use.namespace}/{use.pod}, container {use.container!r}"
            )
            continue
        seen.add((use.uid, use.container))
        counted = tuple(_card_uses(use, shares, cards, doubts))
        yield _of_grant(use, grant, counted)


def _of_grant(use: ContainerUse, grant: Grant, counted: tuple[CardUse, ...]) -> ContainerUse:
    """The use as it is where all of it counts, which is the rule: copies take time."""
    gaps = tuple(gap[:MOST_WORD] for gap in use.gaps[:MOST_GAPS])
    same = use.namespace == grant.namespace and use.pod == grant.name
    if same and gaps == use.gaps and counted == use.cards:
        return use
    return replace(use, namespace=grant.namespace, pod=grant.name, cards=counted, gaps=gaps)


def _shares(grant: Grant, container: str, usage: NodeUsage) -> dict[str, Share]:
    """Card -> the container's share of it."""
    if grant.node != usage.node:
        return {}
    return {
        share.card: share
        for share in grant.shares
        if share.container == container and share.vendor == usage.vendor
    }


def _card_uses(
    use: ContainerUse, shares: Mapping[str, Share], cards: Mapping[str, Card], doubts: Doubts
) -> Iterator[CardUse]:
    seen = set()
    for each in use.cards:
        share = shares.get(each.card)
        if share is None or each.card in seen:
            doubts.add(Doubt.CARD, f"usage of card {each.card!r} by {use.namespace}/{use.pod}")
        elif not _credible(each):
            doubts.add(Doubt.NUMBERS, f"usage of card {each.card!r} by {use.namespace}/{use.pod}")
        else:
            seen.add(each.card)
            card = cards.get(each.card)
            most = share.memory_bytes if card is None else card.memory_bytes
            yield _clamped(each, most)


def _clamped(use: CardUse, most_bytes: int) -> CardUse:
    """With no more than a card has."""
    if (
        max(
            use.memory_bytes,
            use.memory_mean_bytes,
            use.memory_peak_bytes,
            use.memory_day_peak_bytes,
        )
        <= most_bytes
        and max(use.cores_percent, use.cores_peak_percent, use.idle_percent) <= WHOLE_PERCENT
        and len(use.measured_by) <= MOST_WORD
    ):
        return use
    return replace(
        use,
        memory_bytes=min(use.memory_bytes, most_bytes),
        memory_mean_bytes=min(use.memory_mean_bytes, most_bytes),
        memory_peak_bytes=min(use.memory_peak_bytes, most_bytes),
        memory_day_peak_bytes=min(use.memory_day_peak_bytes, most_bytes),
        cores_percent=min(use.cores_percent, WHOLE_PERCENT),
        cores_peak_percent=min(use.cores_peak_percent, WHOLE_PERCENT),
        idle_percent=min(use.idle_percent, WHOLE_PERCENT),
        measured_by=use.measured_by[:MOST_WORD],
    )


def _fitted(
    containers: tuple[ContainerUse, ...], cards: Mapping[str, Card], doubts: Doubts
) -> tuple[ContainerUse, ...]:
    """With memory scaled down where all of it together is more than the card has."""
    total: dict[str, int] = {}
    for container in containers:
        for use in container.cards:
            total[use.card] = total.get(use.card, 0) + use.memory_bytes
    most = {id_: cards[id_].memory_bytes for id_ in total if id_ in cards}
    over = {id_: sum_ for id_, sum_ in total.items() if sum_ > most.get(id_, sum_)}
    if not over:
        return containers
    doubts.add(Doubt.EXCESS, f"more memory than there is in use on cards {sorted(over)[:4]}")
    return tuple(
        replace(
            container,
            cards=tuple(
                replace(use, memory_bytes=use.memory_bytes * most[use.card] // over[use.card])
                if use.card in over
                else use
                for use in container.cards
            ),
        )
        for container in containers
    )


def _loads(usage: NodeUsage, cards: Mapping[str, Card], doubts: Doubts) -> Iterator[CardLoad]:
    seen = set()
    for load in usage.cards:
        card = cards.get(load.card)
        if card is None or load.card in seen:
            continue  # its agent sees a card before the node shows it
        if not (
            0 <= load.cores_percent <= MOST_PERCENT
            and 0 <= load.memory_used_bytes <= MOST_MEMORY_BYTES
        ):
            doubts.add(Doubt.NUMBERS, f"the load of card {load.card!r}")
        else:
            seen.add(load.card)
            yield _clamped_load(load, card.memory_bytes)


def _clamped_load(load: CardLoad, most_bytes: int) -> CardLoad:
    """With no more than a card has."""
    if (
        load.cores_percent <= WHOLE_PERCENT
        and load.crowded_percent <= WHOLE_PERCENT
        and load.memory_used_bytes <= most_bytes
    ):
        return load
    return replace(
        load,
        cores_percent=min(load.cores_percent, WHOLE_PERCENT),
        crowded_percent=min(load.crowded_percent, WHOLE_PERCENT),
        memory_used_bytes=min(load.memory_used_bytes, most_bytes),
    )


def _credible(use: CardUse) -> bool:
    return (
        0 <= use.memory_bytes <= MOST_MEMORY_BYTES
        and use.memory_mean_bytes <= MOST_MEMORY_BYTES
        and 0 <= use.memory_peak_bytes <= MOST_MEMORY_BYTES
        and 0 <= use.memory_day_peak_bytes <= MOST_MEMORY_BYTES
        and 0 <= use.allocated_bytes_per_s <= MOST_COUNT
        and _credible_times(use)
        and 0 <= use.memory_limit_bytes <= MOST_MEMORY_BYTES
        and 0 <= use.cores_percent <= MOST_PERCENT
        and 0 <= use.cores_peak_percent <= MOST_PERCENT
        and use.idle_percent <= MOST_PERCENT
        and 0 <= use.cores_limit_percent <= MOST_PERCENT
        and _countable(use)
    )


def _credible_times(use: CardUse) -> bool:
    times = use.kernel_times
    return (
        len(times) <= TIMES
        and (not times or (min(times) >= 0 and max(times) <= MOST_COUNT))
        and 0 <= use.kernel_p50_us <= MOST_KERNEL_US
        and 0 <= use.kernel_p99_us <= MOST_KERNEL_US
    )


def _countable(use: CardUse) -> bool:
    return (
        0 <= use.throttled_percent <= MOST_PERCENT
        and 0 <= use.launches <= MOST_COUNT
        and 0 <= use.denials <= MOST_COUNT
        and 0 <= use.failed_for_others <= MOST_COUNT
        and 0 <= use.processes <= MOST_COUNT
        and 0 <= use.last_active <= MOST_UNIX_S
    )
