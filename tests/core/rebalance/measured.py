"""What agents would publish of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tessera_core.usage.lending_terms import GrantedShare
from tessera_core.usage.smoothed import Key, SmoothCard
from tessera_core.usage.smoother import Smoother
from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage

NODE = "n0"
AT = 1_795_000_000.0
GIB = 1 << 30


def a_use(name: str, cores: float = 0, *, card: str = "GPU-0", **fields: float) -> ContainerUse:
    """A container of a pod of that name on one card."""
    whole = {key: int(value) for key, value in fields.items() if key.endswith("bytes")}
    rest = {key: value for key, value in fields.items() if key not in whole}
    use = CardUse(card=card, cores_percent=cores, **whole, **rest)  # type: ignore[arg-type]  # (amounts)
    return ContainerUse(
        namespace="default", pod=name, uid=f"uid-{name}", container="c", cards=(use,)
    )


def a_message(
    *containers: ContainerUse,
    at: float = 0,
    interval_s: float = 2,
    loads: Mapping[str, float] | None = None,
    vendor: str = "acme",
    node: str = NODE,
) -> NodeUsage:
    """`at` seconds after the beginning."""
    cards = tuple(CardLoad(card=c, cores_percent=p) for c, p in (loads or {}).items())
    return NodeUsage(
        node=node, vendor=vendor, at=AT + at, interval_s=interval_s, containers=containers,
        cards=cards,
    )  # fmt: skip


def measure(
    smoother: Smoother,
    *containers: ContainerUse,
    since: float = 0,
    for_s: float = 600,
    loads: Mapping[str, float] | None = None,
) -> float:
    """The same again every two seconds; when it was published last."""
    reported = since
    while reported < since + for_s:
        reported += 2
        assert smoother.take(a_message(*containers, at=reported, loads=loads), reported)
    return reported


def card_of(smoother: Smoother, now: float, card: str = "GPU-0", node: str = NODE) -> SmoothCard:
    seen = smoother.node(node, now)
    assert seen is not None
    return next(each for each in seen.cards if each.card == card)


def key(name: str, card: str = "GPU-0") -> Key:
    return f"uid-{name}", "c", card


def granted(**cores: float) -> dict[Key, GrantedShare]:
    """Pods by name, each with cores of the first card and 8 GiB."""
    return {
        key(name): GrantedShare(memory_bytes=8 * GIB, cores_percent=percent)
        for name, percent in cores.items()
    }


def names(cards: Sequence[SmoothCard]) -> list[str]:
    return [each.card for each in cards]
