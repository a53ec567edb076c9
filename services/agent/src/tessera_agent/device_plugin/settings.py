"""What can be set of kubelet's device plugin."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_agent.readers.device_handover import HandoverMethod

MOST_WAIT_S: Final = 15.0
"""Kubelet's calls are cut off a few seconds later."""


class PluginSettings(Struct, frozen=True, kw_only=True):
    """The device plugin, where kubelet asks for cards (TESSERA_GIVING=allocate)."""

    cards: HandoverMethod = HandoverMethod.CDI
    """How cards are handed over: `cdi`, `nodes` or `env`. A pod's own variable cannot give it a
    card that comes by name, where the vendor's runtime is not the one that runs it."""
    wait_s: float = 5.0
    """Seconds for which the pod that kubelet asks for may be unknown here, or two that could be
    meant: kubelet admits no other pod meanwhile, and one that is refused has failed for good."""
    call_s: float = 5.0
    """Seconds in which kubelet says which container has which ids."""
    look_s: float = 2.0
    """Seconds between reconciliations of the containers' states while no event comes."""
