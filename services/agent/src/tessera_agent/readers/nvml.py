"""NVML, the management library of NVIDIA's driver (and of those that imitate it), call by call.

Blocking, of one thread. A session lives from one opening of the driver to the next; what cannot
change in between (names, buses, links) is read once. A function that the library or the card does
not have is called once and then left out: only the id, the memory and the index are required.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Any, Final, TypeVar

import pynvml as nvml  # type: ignore[import-untyped]  # it publishes no types
from msgspec.structs import replace

from tessera_agent.readers.nvml_facts import NvmlFacts, facts_of, memory_of
from tessera_agent.readers.nvml_lists import NvmlLists
from tessera_agent.readers.nvml_samples import CardTimeLimit, sampled_time
from tessera_core.dialect_kit.readings import CardReading, Fault, ProcessReading, Readings
from tessera_runtime.clock import Clock

T = TypeVar("T")
MOST_EVENTS: Final = 256
"""Faults taken in one poll; the rest waits for the next."""
_ABSENT: Final = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
_LOST: Final = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
_RECOVERY: Final = {
    1: "a reset of the card", 2: "a reboot of the node", 3: "its peers' work to be drained",
    4: "its work to be drained, then a reset", 5: "its NVLink domain to be recovered",
    6: "a reset of its bus", 7: "a reboot of the system",
}  # fmt: skip


def _opened(index: int) -> Any:
    """The card's handle; None where it does not even answer with its id."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        nvml.nvmlDeviceGetUUID(handle)
        nvml.nvmlDeviceGetName(handle)
        memory_of(handle)
    except nvml.NVMLError:
        return None
    return handle


class NvmlSession:
    """The driver, opened once."""

    def __init__(self, library: str, system_folder: str, clock: Clock, number: int) -> None:
        """Open it. Raises pynvml.NVMLError, OSError for a library that cannot be loaded."""
        if library and nvml.nvmlLib is None:
            nvml.nvmlLib = ctypes.CDLL(library)
        nvml.nvmlInit()
        self.number = number
        self.delivered = True
        """Whether the last poll reached its caller: the faults of one that did not are returned
        again."""
        self._lists = NvmlLists()
        self._owed: dict[str, tuple[Fault, ...]] = {}
        self._absent: set[tuple[int, str]] = set()
        self._last: dict[int, CardReading] = {}
        """Each card as the last whole poll had it, without the times of processes."""
        self._sampled_us: dict[int, int] = {}
        self._busy_ns: dict[int, dict[int, int]] = {}
        self._time_limits: dict[int, CardTimeLimit] = {}
        self._served: set[int] = set()
        self._opened_us = clock.time_ns() // 1000
        try:
            self._count = int(nvml.nvmlDeviceGetCount())
            opened = {i: _opened(i) for i in range(self._count)}
            self._shut = [i for i, handle in opened.items() if handle is None]
            present = {i: handle for i, handle in opened.items() if handle is not None}
            self._handles = list(present.values())
            self.driver = str(nvml.nvmlSystemGetDriverVersion())
            self.api = self._api()
            self._facts: Sequence[NvmlFacts] = facts_of(present, system_folder)
            self._events = self._register_events()
        except nvml.NVMLError:
            self.close()
            raise

    def close(self) -> None:
        """Close the driver, whatever state it is in."""
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()

    def poll(self, *, times_only: bool = False) -> Readings:
        """Every card that answers; with `times_only` a card is as it was, but for its faults and
        the times of processes. Raises pynvml.NVMLError when the driver itself does not."""
        back = [i for i in self._shut if _opened(i) is not None]
        if back or nvml.nvmlDeviceGetCount() != self._count:
            raise nvml.NVMLError(nvml.NVML_ERROR_UNINITIALIZED)
        faults = self._faults()
        cards = []
        for number, facts in enumerate(self._facts):
            own = faults.get(facts.id, ())
            try:
                before = self._last.pop(number, None)
                card = before if before and times_only else self._card(number, facts)
                cards.append(self._with_times(number, card, own))
                self._last[number] = card
            except nvml.NVMLError as e:
                if e.value in _LOST or own:
                    standing = (Fault(what=str(e).lower()),)
                    cards.append(facts.reading(faults=own, standing=standing))
        return Readings(
            cards=tuple(cards), driver=self.driver, api=self.api, session=self.number,
            problems=tuple(f"card {i} has not answered since the start" for i in self._shut),
        )  # fmt: skip

    def _card(self, number: int, facts: NvmlFacts) -> CardReading:
        """The card, with the memory of its processes and without their times."""
        handle = self._handles[number]
        memory, used = memory_of(handle)
        rates = self._query(number, nvml.nvmlDeviceGetUtilizationRates)
        return facts.reading(
            memory_bytes=memory, memory_used_bytes=used,
            busy_percent=float(rates.gpu) if rates else -1,
            memory_busy_percent=float(rates.memory) if rates else -1,
            standing=self._standing(number), processes=self._processes(number),
            mode=self._mode(number),
        )  # fmt: skip

    def _with_times(self, number: int, card: CardReading, faults: tuple[Fault, ...]) -> CardReading:
        """The card with the times of its processes so far."""
        memory = {process.pid: process.memory_bytes for process in card.processes}
        busy = self._busy(number, memory.keys())
        processes = tuple(
            ProcessReading(
                pid=pid, memory_bytes=memory.get(pid, 0),
                busy_ns=busy.get(pid, 0 if number in self._sampled_us else -1),
            )
            for pid in sorted(memory.keys() | busy.keys())
        )  # fmt: skip
        sampled_us = self._sampled_us.get(number, 0)
        return replace(card, faults=faults, processes=processes, sampled_us=sampled_us)

    def _query(self, number: int, call: Callable[..., T], *more: Any, name: str = "") -> T | None:
        """The card's answer, None where it has none. Raises NVMLError for a card that is lost.
        `name` is the function's, where it is not the call's."""
        function = number, name or call.__name__
        if function in self._absent:
            return None
        try:
            return call(self._handles[number], *more)
        except nvml.NVMLError as e:
            if e.value in _LOST:
                raise
            if e.value in _ABSENT:
                self._absent.add(function)
            return None

    def _api(self) -> str:
        try:
            version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        except nvml.NVMLError:
            return ""
        return f"{version // 1000}.{version % 1000 // 10}"

    def _mode(self, number: int) -> str:
        split = self._query(number, nvml.nvmlDeviceGetMigMode)
        if split is not None and split[0]:
            return "mig"
        if self._running(number, "MPSCompute"):
            self._served.add(number)
        return "mps" if number in self._served else ""

    def _standing(self, number: int) -> tuple[Fault, ...]:
        found = []
        rows = self._query(number, nvml.nvmlDeviceGetRemappedRows)
        if rows is not None and rows[2]:
            found.append(Fault(what="a row of its memory waits for a reset to be remapped"))
        if rows is not None and rows[3]:
            found.append(Fault(what="a row of its memory could not be remapped"))
        needed = _RECOVERY.get(self._recovery(number))
        if needed:
            found.append(Fault(what=f"its driver asks for {needed}"))
        return tuple(found)

    def _recovery(self, number: int) -> int:
        field = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values = self._query(number, nvml.nvmlDeviceGetFieldValues, [field])
        if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
            return 0
        return int(values[0].value.uiVal)

    def _running(self, number: int, kind: str) -> Sequence[tuple[int, int]]:
        """Processes of a kind and their memory, by the newest version of the function that the
        library has."""
        for version in (3, 2):
            function = f"nvmlDeviceGet{kind}RunningProcesses_v{version}"
            found = self._query(number, self._lists.processes, function, name=function)
            if found is not None:
                return found
        return ()

    def _processes(self, number: int) -> tuple[ProcessReading, ...]:
        memory: dict[int, int] = {}
        for kind in ("Compute", "Graphics"):
            for pid, held in self._running(number, kind):
                memory[pid] = max(memory.get(pid, 0), held)
        return tuple([ProcessReading(pid=pid, memory_bytes=held) for pid, held in memory.items()])

    def _busy(self, number: int, listed: Set[int]) -> dict[int, int]:
        """Nanoseconds by process, brought up to the newest samples; those that are neither listed
        nor sampled any more are gone."""
        busy = self._busy_ns.setdefault(number, {})
        since = self._sampled_us.get(number, self._opened_us)
        fresh = sampled_time(self._query(number, self._lists.process_samples, since) or (), since)
        card_ns = 0
        if fresh.window_ns:
            own_percent = self._own_percent(number, since, fresh.newest_us)
            card_ns = int(fresh.window_ns * own_percent) // 100
        limit = self._time_limits.setdefault(number, CardTimeLimit())
        # Clients of an MPS daemon run side by side: together they may have more than the card.
        gained = fresh.busy_ns if number in self._served else limit.within(fresh.busy_ns, card_ns)
        for pid, ns in gained.items():
            busy[pid] = busy.get(pid, 0) + ns
        if fresh.newest_us:
            self._sampled_us[number] = fresh.newest_us
        for pid in busy.keys() - listed - gained.keys():
            del busy[pid]
        return busy

    def _own_percent(self, number: int, since_us: int, until_us: int) -> float:
        """How busy the card was between two stamps; 100 where it has no samples of its own."""
        samples = self._query(number, self._lists.busy_samples, number, since_us) or ()
        own = [percent for stamp, percent in samples if since_us < stamp <= until_us]
        return sum(own) / len(own) if own else 100

    def _register_events(self) -> Any:
        """A set of events about faults of all cards that offer them; None where none does."""
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        for handle in self._handles:
            with suppress(nvml.NVMLError):
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _faults(self) -> dict[str, tuple[Fault, ...]]:
        """By card's id; a fault of no known card counts for every card."""
        found = {} if self.delivered else self._owed
        self._owed, self.delivered = found, False
        for _ in range(MOST_EVENTS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:
                break
            fault = Fault(code=int(event.eventData), what=f"XID {event.eventData}")
            about = self._named(event.device)
            for id_ in [about] if about else [facts.id for facts in self._facts]:
                found[id_] = (*found.get(id_, ()), fault)
        return found

    def _named(self, handle: Any) -> str:
        try:
            id_ = str(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError:
            return ""
        return id_ if id_ in {facts.id for facts in self._facts} else ""
