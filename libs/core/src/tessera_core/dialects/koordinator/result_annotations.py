"""What Koordinator writes on a bound pod, and what one that it bound holds.

The exact bytes are the truth: an annotation's percent is rounded, so a card is charged the
larger of the bytes and of what the percent means, which keeps both promises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tessera_core.dialect_kit import (
    Admitted,
    Card,
    Placed,
    Pod,
    RecordedShares,
    Role,
    Share,
    charges,
    roles,
)
from tessera_core.dialects.koordinator.inventory import invented_id
from tessera_core.dialects.koordinator.names import (
    ALLOCATED,
    BIND_TIME,
    CORE_NODE_LABEL,
    DIALECT,
    GPU_MINORS,
    VENDOR,
    KoordinatorOptions,
    isolated,
)
from tessera_core.dialects.koordinator.recorded_shares import (
    GPU,
    CardAmounts,
    UnreadableAllocation,
    allocation,
    decode,
    encode,
    percent_of,
)
from tessera_core.dialects.koordinator.requests import admit


def requested_percents(options: KoordinatorOptions, pod: Pod) -> Mapping[str, int]:
    """Percent of a card's memory that each container asks for; those who ask in bytes, and pods
    that cannot be read, are left out."""
    admitted = admit(options, pod)
    if not isinstance(admitted, Admitted):
        return {}
    return {
        c.container: int(r.memory_percent)
        for c in admitted.containers
        for r in c.requests
        if r.memory_percent
    }


def percent(share: Share, card: Card, asked: Mapping[str, int]) -> int:
    """The percent that Koordinator would write for a share."""
    return asked.get(share.container) or percent_of(share.memory_bytes, card.memory_bytes)


def labels(options: KoordinatorOptions, pod: Pod, node: str) -> Mapping[str, str]:
    """With the library of HAMi-core, the label by which its monitor finds the pods of a node."""
    if not (options.device_plugin_adaption and isolated(pod.metadata.labels)):
        return {}
    return {CORE_NODE_LABEL: node}


def annotate(options: KoordinatorOptions, placed: Placed) -> Mapping[str, str]:
    """One entry per card, in the order in which the cards were chosen."""
    if not placed.shares:
        return {}
    asked = requested_percents(options, placed.pod)
    held = charges(placed.shares)
    ratios = charges(replace(s, memory_bytes=asked.get(s.container, 0)) for s in placed.shares)
    entries = []
    for card_id in dict.fromkeys(s.card for s in placed.shares):
        card, charge = placed.cards[card_id], held[card_id]
        has = CardAmounts(
            minor=card.device_minor,
            id="" if card_id == invented_id(placed.node, card.index) else card_id,
            cores_percent=int(charge.cores_percent),
            memory_bytes=charge.memory_bytes,
            memory_percent=ratios[card_id].memory_bytes
            or percent_of(charge.memory_bytes, card.memory_bytes),
        )
        entries.append(allocation(has))
    written = {ALLOCATED: encode({GPU: entries})}
    if options.device_plugin_adaption:
        written[BIND_TIME] = str(placed.now_ns)
        written[GPU_MINORS] = ",".join(str(entry.minor) for entry in entries)
    return written


def recorded(options: KoordinatorOptions, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """The cards in the pod's annotation, all with one container: Koordinator gives them to the
    pod as a whole and frees them when it ends."""
    text = pod.metadata.annotations.get(ALLOCATED)
    if text is None:
        return None
    try:
        entries = decode(text)
    except UnreadableAllocation as e:
        return RecordedShares(problem=f"metadata.annotations[{ALLOCATED}]: {e}")
    own = [c for c in cards if c.vendor == VENDOR]
    by_id, by_minor = {c.id: c for c in own}, {c.device_minor: c for c in own}
    container, position = _holder(options, pod)
    shares = []
    for entry in entries:
        card = by_id.get(entry.id) or by_minor.get(entry.minor)
        if card is None:
            return RecordedShares(
                problem=f"metadata.annotations[{ALLOCATED}]: "
                f"the node has no card with minor {entry.minor}"
            )
        share = Share(
            container=container,
            position=position,
            vendor=VENDOR,
            dialect=DIALECT,
            card=card.id,
            index=card.index,
            memory_bytes=max(entry.memory_bytes, entry.memory_percent * card.memory_bytes // 100),
            cores_percent=entry.cores_percent,
            exclusive=entry.memory_percent == 100,
        )
        shares.append(share)
    return RecordedShares(shares=tuple(shares)) if shares else None


def _holder(options: KoordinatorOptions, pod: Pod) -> tuple[str, int]:
    """The first app container that asks, else the first."""
    names = frozenset(options.names.values())
    apps = [(c, i) for i, c, role in roles(pod) if role is Role.APP]
    asking = [(c, i) for c, i in apps if names & {*c.resources.limits, *c.resources.requests}]
    for container, position in (asking or apps)[:1]:
        return container.name, position
    return "", 0
