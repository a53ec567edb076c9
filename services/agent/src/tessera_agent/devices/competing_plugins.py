"""Other device plugins and DRA drivers on the node that would hand out the same cards, found by
their sockets below kubelet's folder. They are never touched."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tessera_agent.devices.cards import CardsState
from tessera_agent.devices.settings import InventorySettings
from tessera_core.dialect_kit.monitoring import CompetingPlugin

PREFIX: Final = "tessera"
"""How the names of the sockets of Tessera's own plugin begin."""
_CONNECT_S: Final = 0.2
"""A socket of this machine answers at once or not at all."""


class CompetingPlugins:
    """Those of one vendor that run on the node, checked again every `verify_s`."""

    def __init__(self, known: Sequence[CompetingPlugin], settings: InventorySettings) -> None:
        self._known = known
        self._settings = settings
        self._running: tuple[str, ...] = ()
        self._checked_at = float("-inf")

    @property
    def have_cards(self) -> bool:
        """Whether the cards are left to such a plugin, so that no container is kept from them."""
        return bool(self._running) and self._settings.leave_to_others

    async def refresh(self) -> None:
        """Check again, if that is due."""
        now = asyncio.get_running_loop().time()
        if self._known and now >= self._checked_at + self._settings.verify_s:
            self._checked_at = now
            self._running = await asyncio.to_thread(
                competing_plugins_on, self._settings.kubelet_folder, self._known
            )

    def applied_to(self, state: CardsState) -> CardsState:
        """The state with the plugins that run as a problem, and the cards closed if they are left
        to them."""
        if not self._running:
            return state
        others = ", ".join(self._running)
        if not self._settings.leave_to_others:
            return replace(state, problems=(*state.problems, f"{others} runs on this node as well"))
        return replace(
            state,
            cards=tuple(replace(card, cordoned=True) for card in state.cards),
            problems=(
                *state.problems, f"{others} runs on this node: its cards are left to it; remove it "
                "to share them",
            ),
        )  # fmt: skip


def competing_plugins_on(kubelet_folder: str, known: Sequence[CompetingPlugin]) -> tuple[str, ...]:
    """Names of those that run. A socket whose process is gone does not count, nor does that of
    Tessera's own plugin. Blocks: call it from a thread. A missing folder has no plugins."""
    root = Path(kubelet_folder)
    return tuple(
        plugin.name
        for plugin in known
        if any(_answers(path) for path in sorted(root.glob(plugin.socket)) if not _is_own(path))
    )  # fmt: skip


def _is_own(path: Path) -> bool:
    return path.name.startswith(f"{PREFIX}-")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_S)
        try:
            client.connect(str(path))
        except PermissionError:
            return True
        except OSError:
            return False
    return True
