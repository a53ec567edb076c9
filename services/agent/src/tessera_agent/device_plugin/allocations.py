"""What kubelet was answered for which container, on disk: kubelet says which ids it has chosen, and
never says again whose they are.

Each entry is written before the container's files are made, and once more when they are there; so
whatever an agent leaves behind when it dies is recognized. A file that cannot be read is moved away
and reported; what it held is found again from kubelet and from the API server (`recovery`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerKey
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_runtime import atomic_write, logs
from tessera_runtime.clock import Clock
from tessera_schema.json_codec import decoder

_log: Final = logs.named("tessera.agent.allocations")
NOT_KNOWN: Final = "what was allocated before is not known yet: see the agent's log"
"""Kubelet's answer until `Allocations.known` is set."""
_VERSION: Final = 1


class AllocationStep(StrEnum):
    """How far an allocation got."""

    PREPARING = "preparing"
    """Written before anything is made. An entry that an agent left so was never answered."""
    ALLOCATED = "allocated"
    """Kubelet was answered, or is about to be."""


class RecordedAllocation(Struct, frozen=True, kw_only=True):
    """One answer: ids of a resource, for a container."""

    resource: str
    ids: tuple[str, ...]
    """Sorted. Containers of one pod that do not run at once may have the same."""
    step: AllocationStep = AllocationStep.PREPARING
    uid: str
    namespace: str
    pod: str
    container: str
    notes: Mapping[str, str] = {}
    """The pod's annotations, as far as they matter later."""
    env: Mapping[str, str] = {}
    """Its own variables, likewise."""
    started_at: float = 0.0
    """Unix time at which it was allowed to start last, in seconds; 0 = never."""

    @property
    def key(self) -> ContainerKey:
        """The container."""
        return ContainerKey(uid=self.uid, container=self.container)

    @property
    def sandbox(self) -> PodSandbox:
        """Its pod, in the runtime's words."""
        return PodSandbox(
            id=self.uid, name=self.pod, uid=self.uid, namespace=self.namespace,
            annotations=self.notes,
        )  # fmt: skip

    @property
    def info(self) -> ContainerInfo:
        """The container, in the runtime's words: not created yet."""
        return ContainerInfo(id="", sandbox_id=self.uid, name=self.container, env=self.env)


class _File(Struct, frozen=True, kw_only=True):
    version: int
    allocations: tuple[RecordedAllocation, ...] = ()


class _Version(Struct, frozen=True):
    version: int


_decode_version = decoder(_Version)
_decode = decoder(_File)
_Entry = tuple[ContainerKey, str]
"""A container and a resource."""


class Allocations:
    """All allocations of one vendor on this node."""

    def __init__(self, folder: Path, vendor: str, clock: Clock) -> None:
        """Empty before `load`. Agents of several vendors share the folder."""
        self._clock = clock
        self.known = asyncio.Event()
        """Set once it is known what was allocated before."""
        self._file = folder / f"allocations-{vendor}.json"
        self._all: dict[_Entry, RecordedAllocation] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Load what an earlier agent wrote. `known` is not set where that cannot be read."""
        try:
            text = await asyncio.to_thread(self._file.read_bytes)
        except FileNotFoundError:
            self.known.set()
            return
        except OSError as e:
            await self._move_away(str(e))
            return
        try:
            version = _decode_version(text).version
            if version != _VERSION:
                await self._move_away(f"version {version}, this release reads {_VERSION}")
                return
            stored = _decode(text).allocations
        except msgspec.DecodeError as e:
            await self._move_away(str(e))
            return
        self._all = {_entry(one): one for one in stored if one.step is AllocationStep.ALLOCATED}
        self.known.set()

    def __iter__(self) -> Iterator[RecordedAllocation]:
        """A copy: what happens meanwhile does not matter."""
        return iter(tuple(self._all.values()))

    def get(self, key: ContainerKey, resource: str) -> RecordedAllocation | None:
        """The container's allocation; None where kubelet was not answered."""
        found = self._all.get((key, resource))
        return found if found is not None and found.step is AllocationStep.ALLOCATED else None

    def of(self, resource: str, ids: Collection[str]) -> tuple[RecordedAllocation, ...]:
        """The allocations of these ids, in the order in which they were made."""
        wanted = tuple(sorted(ids))
        return tuple(
            one
            for one in self._all.values()
            if one.resource == resource
            and one.ids == wanted
            and one.step is AllocationStep.ALLOCATED
        )

    def taken(self, resource: str) -> frozenset[str]:
        """The ids that a container has."""
        return frozenset(
            id_ for one in self._all.values() if one.resource == resource for id_ in one.ids
        )

    async def put(self, *more: RecordedAllocation) -> None:
        """Add or replace. Raises OSError where it cannot be written; it is known all the same."""
        for one in more:
            self._all[_entry(one)] = one
        await self._write()

    async def mark_started(self, one: RecordedAllocation) -> None:
        """Record that the container may start now. Raises as `put`."""
        await self.put(replace(one, started_at=self._clock.time()))

    async def forget(self, gone: Collection[RecordedAllocation]) -> None:
        """Remove. Written with the next entry where it cannot be written now."""
        for one in gone:
            self._all.pop(_entry(one), None)
        try:
            await self._write()
        except OSError as e:
            _log.warning("allocations not written", file=str(self._file), why=str(e))

    async def _write(self) -> None:
        async with self._writing:
            file = _File(version=_VERSION, allocations=tuple(self._all.values()))
            text = msgspec.json.encode(file)
            await asyncio.to_thread(atomic_write.replace, self._file, text, 0o600)

    async def _move_away(self, why: str) -> None:
        target = self._file.with_suffix(".unreadable")
        _log.alert("allocations cannot be read", file=str(self._file), kept=str(target), why=why)
        try:
            await asyncio.to_thread(self._file.replace, target)
        except OSError as e:
            _log.warning("allocations not put aside", file=str(self._file), why=str(e))


def _entry(one: RecordedAllocation) -> _Entry:
    return one.key, one.resource
