"""What can be set of kubelet's device plugin."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.settings import Seconds

MOST_WAIT_S: Final = 15.0
"""Kubelet's calls are cut off a few seconds later."""


class PluginSettings(Struct, frozen=True, kw_only=True):
    """The device plugin, where kubelet asks for cards (TESSERA_GIVING=allocate)."""

    numa: bool = False
    """Whether kubelet is shown which NUMA nodes its devices are of, for its TopologyManager with
    another policy than `none`. Kubelet chooses a NUMA node by what is free, and the scheduler
    chooses the card: one that is elsewhere is reported."""
    wait_s: Seconds = 5.0
    """Seconds for which the pod that kubelet asks for may be unknown here, or two that could be
    meant: kubelet admits no other pod meanwhile, and one that is refused has failed for good."""
    call_s: Seconds = 5.0
    """Seconds in which kubelet says which container has which ids."""
    look_s: Seconds = 2.0
    """Seconds between reconciliations of the containers' states while no event comes."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.wait_s > MOST_WAIT_S:
            raise BadSettings(
                f"plugin.wait_s: {self.wait_s:g}: write {MOST_WAIT_S:g} or less: kubelet admits no "
                "other pod while it waits"
            )
