"""What Volcano's annotations say that a bound pod holds."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.amounts import InvalidField
from tessera_core.dialect import Held
from tessera_core.dialects.volcano import codec, gpushare, keys, vgpu
from tessera_core.dialects.volcano.options import Options
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.kube import Pod
from tessera_schema.requests import Role


def held(pod: Pod, cards: Sequence[Card], options: Options) -> Held | None:
    """The pod's shares, by whichever annotation its requests go with; None where it has none."""
    ours = [c for c in cards if c.vendor == keys.VENDOR]
    index = pod.metadata.annotations.get(keys.GPU_INDEX)
    ids = pod.metadata.annotations.get(keys.VGPU_IDS)
    if index is None and ids is None:
        return None
    try:
        sharing = gpushare.asks(pod, options)
        virtual = vgpu.asks(pod, options)
    except InvalidField as e:
        return Held(problem=e.rejected.message)
    if sharing and index is not None:
        return _by_index(sharing, index, ours, options)
    if virtual and ids is not None:
        return _by_ids(virtual, ids, ours, options)
    return None


def _problem(key: str, text: str, what: str) -> Held:
    return Held(problem=f"metadata.annotations[{key}]: {text[:80]!r}: {what}")


# -- gpushare


def _by_index(
    asks: tuple[gpushare.Ask, ...], text: str, cards: Sequence[Card], options: Options
) -> Held:
    """Every listed card is charged the pod's full amount, as upstream charges it."""
    indices = codec.indices(text)
    if indices is None:
        return _problem(keys.GPU_INDEX, text, "is not a list of card numbers such as 0,1,3")
    by_index = {c.index: c for c in cards}
    unknown = [i for i in indices if i not in by_index]
    if unknown:
        return _problem(keys.GPU_INDEX, text, f"the node has no card {unknown[0]}")
    listed = [by_index[i] for i in indices]
    if asks[0].memory:
        unit = options.gpu_memory_factor * MIB
        return Held(shares=tuple(_share(a, c, a.memory * unit) for a in asks for c in listed))
    return Held(shares=_whole_cards(asks, listed))


def _whole_cards(asks: tuple[gpushare.Ask, ...], listed: Sequence[Card]) -> tuple[Share, ...]:
    """Deal the listed cards to the containers in order; an init container's serve again after it.

    Upstream does not say which container has which card, and gives all of them to each. Cards
    that are left over go to the last container, so that every listed card counts as taken.
    """
    shares: list[Share] = []
    running = 0
    for ask in asks:
        mine = listed[running : running + ask.cards]
        shares += (_share(ask, c, c.memory_bytes, exclusive=True) for c in mine)
        if ask.role is not Role.INIT:
            running += ask.cards
    taken = {s.card for s in shares}
    rest = (c for c in listed if c.id not in taken)
    shares += (_share(asks[-1], c, c.memory_bytes, exclusive=True) for c in rest)
    return tuple(shares)


# -- vgpu


def _by_ids(asks: tuple[vgpu.Ask, ...], text: str, cards: Sequence[Card], options: Options) -> Held:
    """One segment for each container that asks; Volcano has none for init containers."""
    read = codec.devices(text)
    if read.malformed:
        return _problem(keys.VGPU_IDS, text, f"{read.malformed[0]!r} cannot be read")
    apps = tuple(a for a in asks if a.role is Role.APP)
    holders = next((h for h in (asks, apps) if len(h) == len(read.containers)), None)
    if holders is None:
        return _problem(
            keys.VGPU_IDS, text, f"{len(read.containers)} lists for {len(asks)} containers that ask"
        )
    by_id = {c.id: c for c in cards}
    shares = []
    for ask, devices in zip(holders, read.containers, strict=True):
        for device in devices:
            card = by_id.get(device.card)
            if card is None:
                return _problem(keys.VGPU_IDS, text, f"the node has no card {device.card}")
            amount = device.memory * options.vgpu_memory_factor * MIB
            whole = device.cores >= vgpu.WHOLE
            shares.append(_share(ask, card, amount, cores=device.cores, exclusive=whole))
    return Held(shares=tuple(shares)) if shares else _problem(keys.VGPU_IDS, text, "lists no card")


def _share(
    ask: gpushare.Ask | vgpu.Ask,
    card: Card,
    memory_bytes: int,
    *,
    cores: int | None = None,
    exclusive: bool = False,
) -> Share:
    if cores is None:
        cores = vgpu.WHOLE if exclusive else 0
    return Share(
        container=ask.container.name,
        position=ask.position,
        role=ask.role,
        vendor=keys.VENDOR,
        dialect=keys.DIALECT,
        card=card.id,
        index=card.index,
        memory_bytes=memory_bytes,
        cores_percent=cores,
        exclusive=exclusive,
    )
