"""NVIDIA's cards: given by the NVIDIA runtime, which reads one variable; limited by the hook.

The runtime adds device nodes and driver files for the cards that `NVIDIA_VISIBLE_DEVICES` names,
so none are given here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tessera_core.dialect import Vendor
from tessera_core.hookpaths import HOOK_LIBRARY, HOOK_LIBRARY_HOST, PRELOAD, PRELOAD_HOST
from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tessera_schema.injections import Injection, Mount

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
NONE_VISIBLE: Final = "void"
"""The runtime then leaves the container alone: no card, no driver."""

_HOOK: Final = (
    Mount(destination=HOOK_LIBRARY, source=HOOK_LIBRARY_HOST),
    Mount(destination=PRELOAD, source=PRELOAD_HOST),
)

_PCIE: Final = {
    "CrossCPU": 10,
    "SameCPU": 20,
    "HostBridge": 30,
    "MultiSwitch": 40,
    "SingleSwitch": 50,
    "SameBoard": 60,
}
_NVLINK: Final = "NVLink"
_NVLINK_EACH: Final = 100


def pair_closeness(there: Sequence[str], back: Sequence[str]) -> int | None:
    """How close two cards are by their links as each of them sees them: `SameCPU`, `NVLink4`.

    The PCIe class plus 100 for each NVLink, on HAMi's scale. None where the two disagree on the
    number of links: a sign of a broken one, to be told and counted as 0. Raises ValueError for
    an unknown kind of link.
    """
    if len(there) != len(back):
        return None
    return min(sum(map(_worth, there)), sum(map(_worth, back)))


def _worth(link: str) -> int:
    if link in _PCIE:
        return _PCIE[link]
    number = link.removeprefix(_NVLINK)
    if number == link or not number.isdecimal():
        raise ValueError(f"unknown kind of link {link!r}")
    return _NVLINK_EACH * int(number)


def made_up_id(node: str, index: int) -> str:
    """The id of a card whose UUID nobody published: the node's capacity tells only how many."""
    return f"{node}-nvidia-{index}"


def visible(shares: Sequence[Share]) -> str:
    """Value of NVIDIA_VISIBLE_DEVICES: UUIDs in order of selection, each once; the index of a
    card without one, which the runtime understands too."""
    named = (str(s.index) if s.card.endswith(made_up_id("", s.index)) else s.card for s in shares)
    return ",".join(dict.fromkeys(named))


def _give(shares: Sequence[Share], _cards: Mapping[str, Card]) -> Injection:
    if not shares:
        return Injection(env={VISIBLE: NONE_VISIBLE})
    return Injection(env={VISIBLE: visible(shares)}, mounts=_HOOK)


VENDOR: Final = Vendor(name="nvidia", give=_give, deny={VISIBLE: NONE_VISIBLE})
