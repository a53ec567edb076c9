"""What kubelet was answered for whom, on disk: kubelet says which ids it has chosen, and never says
again whose they are.

Each entry is written before the container's files are made, and once more when they are there; so
whatever an agent leaves behind when it dies is known for what it is. A file that cannot be read is
put aside and told; what it held is found again from kubelet and from the API server
(`recovering`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tessera_agent.containers.hook_files import ContainerKey
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_runtime import atomic_write, logs
from tessera_schema.json_codec import decoder

_log: Final = logs.named("tessera.agent.allocations")
NOT_KNOWN: Final = "what was allocated before is not known yet: see the agent's log"
"""Said to kubelet until `Allocations.known` is set."""
_VERSION: Final = 1


class AllocationStep(StrEnum):
    """How far an allocation got."""

    PREPARING = "preparing"
    """Written before anything is made. One that an agent left so was never answered."""
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


class _Kept(Struct, frozen=True, kw_only=True):
    version: int
    allocations: tuple[RecordedAllocation, ...] = ()


class _Version(Struct, frozen=True):
    version: int


_decode_version = decoder(_Version)
_decode = decoder(_Kept)
_Place = tuple[ContainerKey, str]
"""A container and a resource."""


class Allocations:
    """All of this node's, of one vendor."""

    def __init__(self, folder: Path, vendor: str) -> None:
        """Nothing is known before `load`. Agents of several vendors share the folder."""
        self.known = asyncio.Event()
        """Set once it is known what was allocated before."""
        self._file = folder / f"allocations-{vendor}.json"
        self._all: dict[_Place, RecordedAllocation] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Know what the agent before us wrote. `known` is not set where that cannot be read."""
        try:
            text = await asyncio.to_thread(self._file.read_bytes)
        except FileNotFoundError:
            self.known.set()
            return
        except OSError as e:
            await self._put_aside(str(e))
            return
        try:
            version = _decode_version(text).version
            if version != _VERSION:
                await self._put_aside(f"version {version}, this release reads {_VERSION}")
                return
            kept = _decode(text).allocations
        except msgspec.DecodeError as e:
            await self._put_aside(str(e))
            return
        self._all = {_place(one): one for one in kept if one.step is AllocationStep.ALLOCATED}
        self.known.set()

    def __iter__(self) -> Iterator[RecordedAllocation]:
        """A copy: what happens meanwhile does not matter."""
        return iter(tuple(self._all.values()))

    def get(self, key: ContainerKey, resource: str) -> RecordedAllocation | None:
        """The container's; None where kubelet was not answered."""
        found = self._all.get((key, resource))
        return found if found is not None and found.step is AllocationStep.ALLOCATED else None

    def of(self, resource: str, ids: Collection[str]) -> tuple[RecordedAllocation, ...]:
        """Whose these ids are, in the order of being allocated."""
        wanted = tuple(sorted(ids))
        return tuple(
            one
            for one in self._all.values()
            if one.resource == resource
            and one.ids == wanted
            and one.step is AllocationStep.ALLOCATED
        )

    def taken(self, resource: str) -> frozenset[str]:
        """The ids that somebody has."""
        return frozenset(
            id_ for one in self._all.values() if one.resource == resource for id_ in one.ids
        )

    async def put(self, *more: RecordedAllocation) -> None:
        """From now on. Raises OSError where it cannot be written; it is known all the same."""
        for one in more:
            self._all[_place(one)] = one
        await self._write()

    async def forget(self, gone: Collection[RecordedAllocation]) -> None:
        """They are nobody's. Written with the next entry where it cannot be written now."""
        for one in gone:
            self._all.pop(_place(one), None)
        try:
            await self._write()
        except OSError as e:
            _log.warning("allocations not written", file=str(self._file), why=str(e))

    async def _write(self) -> None:
        async with self._writing:
            kept = _Kept(version=_VERSION, allocations=tuple(self._all.values()))
            text = msgspec.json.encode(kept)
            await asyncio.to_thread(atomic_write.replace, self._file, text, 0o600)

    async def _put_aside(self, why: str) -> None:
        aside = self._file.with_suffix(".unreadable")
        _log.alert("allocations cannot be read", file=str(self._file), kept=str(aside), why=why)
        try:
            await asyncio.to_thread(self._file.replace, aside)
        except OSError as e:
            _log.warning("allocations not put aside", file=str(self._file), why=str(e))


def _place(one: RecordedAllocation) -> _Place:
    return one.key, one.resource
