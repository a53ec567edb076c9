"""The vendor's reader, once its cards can be given to containers."""

from __future__ import annotations

from msgspec.structs import replace

from tessera_agent.delivery.injector import DeviceInjector
from tessera_agent.delivery.toolkit import ToolkitGate
from tessera_agent.readers import CardReader, DriverSilent
from tessera_core.dialect_kit.readings import Readings


class GatedReader:
    """A `CardReader` that is silent until the toolkit is ready, and then adds what is wrong with
    the devices that go with the cards."""

    def __init__(self, reader: CardReader, toolkit: ToolkitGate, injector: DeviceInjector) -> None:
        self._reader = reader
        self._toolkit = toolkit
        self._injector = injector

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """See `CardReader.poll`."""
        if not await self._toolkit.check():
            return DriverSilent(why=self._toolkit.problem())
        await self._injector.refresh()
        answer = await self._reader.poll(times_only=times_only)
        if isinstance(answer, DriverSilent):
            if answer.missing:
                self._toolkit.report_missing_driver()
            return answer
        if not self._injector.problems:
            return answer
        return replace(answer, problems=(*answer.problems, *self._injector.problems))
