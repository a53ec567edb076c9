"""What Volcano's annotations say that a bound pod holds.

Volcano runs pods that are refused here (a percentage beyond 100, cores without a card next to
another container). Their cards are taken all the same, so amounts are read as Volcano reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.dialect_kit import MIB, Card, Container, Pod, RecordedShares, Role, Share
from tessera_core.dialects.volcano import codec, gpushare, names, vgpu
from tessera_core.dialects.volcano.options import VolcanoOptions


def recorded(pod: Pod, cards: Sequence[Card], options: VolcanoOptions) -> RecordedShares | None:
    """The pod's shares, by whichever annotation its requests go with; None where it has none."""
    own = [c for c in cards if c.vendor == names.VENDOR]
    index = pod.metadata.annotations.get(names.GPU_INDEX)
    ids = pod.metadata.annotations.get(names.VGPU_IDS)
    if index is None and ids is None:
        return None
    sharing = gpushare.given(pod, options)
    virtual = vgpu.holders(pod, options)
    if sharing and index is not None:
        return _by_index(sharing, index, own, options)
    if virtual and ids is not None:
        return _by_ids(virtual, ids, own, options)
    return None


def _problem(key: str, text: str, what: str) -> RecordedShares:
    return RecordedShares(problem=f"metadata.annotations[{key}]: {text[:80]!r}: {what}")


# -- gpushare


def _by_index(
    asks: tuple[gpushare.GpushareContainerRequest, ...],
    text: str,
    cards: Sequence[Card],
    options: VolcanoOptions,
) -> RecordedShares:
    """Every listed card is charged the pod's full amount, as upstream charges it."""
    indices = codec.indices(text)
    if indices is None:
        return _problem(names.GPU_INDEX, text, "is not a list of card numbers such as 0,1,3")
    by_index = {c.index: c for c in cards}
    unknown = [i for i in indices if i not in by_index]
    if unknown:
        return _problem(names.GPU_INDEX, text, f"the node has no card {unknown[0]}")
    listed = [by_index[i] for i in indices]
    if asks[0].memory:
        unit = options.gpu_memory_factor * MIB
        return RecordedShares(
            shares=tuple(_part(a, c, a.memory * unit) for a in asks for c in listed)
        )
    return RecordedShares(shares=_whole_cards(asks, listed))


def _whole_cards(
    asks: tuple[gpushare.GpushareContainerRequest, ...], listed: Sequence[Card]
) -> tuple[Share, ...]:
    """Deal the listed cards to the containers in order; an init container's serve again after it.

    Upstream does not say which container has which card, and gives all of them to each. Cards
    that are left over go to the last container, so that every listed card counts as taken.
    """
    shares: list[Share] = []
    running = 0
    for ask in asks:
        mine = listed[running : running + ask.cards]
        shares += (_whole(ask, c) for c in mine)
        if ask.role is not Role.INIT:
            running += ask.cards
    taken = {s.card for s in shares}
    rest = (c for c in listed if c.id not in taken)
    shares += (_whole(asks[-1], c) for c in rest)
    return tuple(shares)


def _part(ask: gpushare.GpushareContainerRequest, card: Card, memory_bytes: int) -> Share:
    holder = (ask.container, ask.position, ask.role)
    return _share(*holder, card, memory_bytes, cores=0, exclusive=False)


def _whole(ask: gpushare.GpushareContainerRequest, card: Card) -> Share:
    holder = (ask.container, ask.position, ask.role)
    return _share(*holder, card, card.memory_bytes, cores=gpushare.WHOLE, exclusive=True)


# -- vgpu


def _by_ids(
    asking: Sequence[vgpu.Holder], text: str, cards: Sequence[Card], options: VolcanoOptions
) -> RecordedShares:
    """One segment for each container that asks; Volcano has none for init containers."""
    read = codec.devices(text)
    if read.malformed:
        return _problem(names.VGPU_IDS, text, f"{read.malformed[0]!r} cannot be read")
    apps = [holder for holder in asking if holder[2] is Role.APP]
    holders = next((h for h in (asking, apps) if len(h) == len(read.containers)), None)
    if holders is None:
        many, few = len(read.containers), len(asking)
        return _problem(names.VGPU_IDS, text, f"{many} lists for {few} containers that ask")
    by_id = {c.id: c for c in cards}
    shares = []
    for (position, container, role), devices in zip(holders, read.containers, strict=True):
        for device in devices:
            card = by_id.get(device.card)
            if card is None:
                return _problem(names.VGPU_IDS, text, f"the node has no card {device.card}")
            amount = device.memory * options.vgpu_memory_factor * MIB
            shares.append(
                _share(
                    container, position, role, card, amount,
                    cores=device.cores, exclusive=device.cores >= vgpu.WHOLE,
                )
            )  # fmt: skip
    return (
        RecordedShares(shares=tuple(shares))
        if shares
        else _problem(names.VGPU_IDS, text, "lists no card")
    )


def _share(
    container: Container,
    position: int,
    role: Role,
    card: Card,
    memory_bytes: int,
    *,
    cores: int,
    exclusive: bool,
) -> Share:
    return Share(
        container=container.name,
        position=position,
        role=role,
        vendor=names.VENDOR,
        dialect=names.DIALECT,
        card=card.id,
        index=card.index,
        memory_bytes=memory_bytes,
        cores_percent=cores,
        exclusive=exclusive,
    )
