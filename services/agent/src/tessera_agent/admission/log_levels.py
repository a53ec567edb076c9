"""What the hook logs in running containers, as settings of the node say: changed while they run. A
container that says it itself is left alone."""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles
from tessera_agent.devices.node_settings import NodeCardSettings
from tessera_core.hook.limits_file import HookLimits
from tessera_runtime import logs
from tessera_runtime.shared_wakeups import sleep_until_multiple

_log: Final = logs.named("tessera.agent.settings")
_COMPARE_S: Final = 1.0
"""Seconds between comparisons, which cost nothing."""


class LogLevelReconciler:
    """Keeps the log level in limits files in line with the settings."""

    def __init__(self, settings: NodeCardSettings, holdings: ContainerRegistry) -> None:
        self._settings = settings
        self._holdings = holdings

    async def run(self) -> NoReturn:
        """Compare, and change what differs, for ever."""
        while True:
            await self.reconcile()
            await sleep_until_multiple(_COMPARE_S)

    async def reconcile(self) -> None:
        """Compare once."""
        of_node = self._settings.log_level
        for held in self._holdings:
            files, wanted = held.files, held.log_level or of_node
            if (
                held.stage is ContainerStage.RUNNING
                and files is not None
                and files.limits.log_level != wanted
            ):
                await self._change(held, files, wanted)

    async def _change(self, held: Holding, files: ContainerFiles, wanted: int) -> None:
        def changed(limits: HookLimits) -> HookLimits:
            return replace(limits, log_level=wanted)

        try:
            await asyncio.to_thread(files.change, changed)
        except (OSError, ValueError) as e:
            _log.warning(
                "log level not changed", uid=held.key.uid, container=held.key.container, why=str(e)
            )
