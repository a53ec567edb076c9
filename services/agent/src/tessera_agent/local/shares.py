"""The shares of one machine: given, held by a process until it ends, and freed.

A share is in the ledger before its files are made, and in the stored list before anybody is given
it: a daemon that is killed at any point, and started again, finds every share that a process has.
Its process's end is seen by a descriptor of that process. What that started counts too, by its
environment and by the slots of the usage file: the share stays until the last one has ended.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey, HookFiles
from tessera_agent.containers.limits import limits_of
from tessera_agent.local.listed_shares import WaitingProcess, share_rows, waiting_row
from tessera_agent.local.machine_ledger import PROCESS, LocalLedger, NoRoom
from tessera_agent.local.processes import (
    LocalProcess,
    ended,
    opened,
    runs,
    started_with,
    user_name,
)
from tessera_agent.local.stored_shares import StoredShare, read_shares, write_shares
from tessera_core.dialect_kit.lending_terms import LendingTerms
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import CardRecord, UsageFile, UsageFileBounds
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_schema.grants import Grant
from tessera_schema.local_shares import SharesListed, ShareWanted

_log: Final = logs.named("tessera.local.shares")
LIMITS: Final = "TESSERA_LIMITS"
"""The variable by which the hook finds a limits file that is not mounted."""
_LEFT_S: Final = 0.2
"""Seconds between looks for processes that outlive the one that holds a share."""
_OWN: Final = 0o600
_FOLDER_MODE: Final = 0o755
_ANY: Final = 0o666
_CLOSED: Final = 0o700
"""Of root's reserved shares: a container's processes may run as anybody, and get there by a mount
alone."""


class GivenShare(Struct, frozen=True, kw_only=True):
    """A share with its files."""

    stored: StoredShare
    files: ContainerFiles


class LocalShares:
    """All shares of the machine."""

    def __init__(self, folder: Path, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self.ledger = LocalLedger()
        self.holdings = ContainerRegistry()
        """The same shares, as lending knows them."""
        self._folder = folder
        self._clock = clock
        self._tasks = tasks
        self._files = HookFiles(folder, clock)
        self._held: dict[str, GivenShare] = {}
        self._writing = asyncio.Lock()
        self._waiting: dict[asyncio.Event, WaitingProcess] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._held)

    async def recover(self) -> None:
        """Take over what an earlier daemon gave: what nobody holds any more is freed."""
        try:
            stored = await asyncio.to_thread(read_shares, self._folder)
        except msgspec.DecodeError as e:
            _log.alert("the list of shares cannot be read: files without one are removed", exc=e)
            stored = []
        for one in stored:
            files = await asyncio.to_thread(self._adopted, one)
            self.ledger.restore(one.grant, one.since)
            self._hold(GivenShare(stored=one, files=files))
        for key in await asyncio.to_thread(self._files.known):
            if key.uid not in self._held:
                await asyncio.to_thread(self._remove_files, key)

    # -- giving

    async def give(self, process: LocalProcess, wanted: ShareWanted) -> GivenShare | NoRoom:
        """A share for the process, as soon as there is room, within the time that it waits."""
        if (known := self._known(process, wanted)) is not None:
            return known
        room = asyncio.Event()
        self._waiting[room] = WaitingProcess(process, wanted, self._clock.time())
        descriptor = opened(process)
        if descriptor is None:
            del self._waiting[room]
            return NoRoom("the process has ended", ever=False)
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, room.set)
        try:
            return await self._given_in_time(process, wanted, room)
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._waiting.pop(room, None)

    def room_may_have_come(self) -> None:
        """Let those that wait try again, in the order in which they came."""
        for room in self._waiting:
            room.set()

    def _known(self, process: LocalProcess, wanted: ShareWanted) -> GivenShare | NoRoom | None:
        """What the process, or the name, has already."""
        for one in self._held.values():
            stored = one.stored
            if wanted.name and stored.name == wanted.name:
                return NoRoom(f"share {wanted.name!r} is there already: remove it", ever=False)
            if not wanted.name and not stored.reserved and stored.owner == process:
                return one if stored.wanted == wanted else NoRoom(
                    f"this process holds share {stored.name} already", ever=False
                )  # fmt: skip
        return None

    async def _given_in_time(
        self, process: LocalProcess, wanted: ShareWanted, room: asyncio.Event
    ) -> GivenShare | NoRoom:
        answer: StoredShare | NoRoom = NoRoom("nothing was tried")
        with suppress(TimeoutError):
            async with asyncio.timeout(wanted.wait_s):
                while isinstance(answer := self._reserved(process, wanted), NoRoom):
                    if not answer.ever or wanted.wait_s == 0:
                        return answer
                    self._waiting[room].why = answer.why
                    room.clear()
                    await room.wait()
                    if not runs(process):
                        return NoRoom("the process has ended", ever=False)
        if isinstance(answer, NoRoom):
            return answer
        return await self._made(answer)

    def _reserved(self, process: LocalProcess, wanted: ShareWanted) -> StoredShare | NoRoom:
        name = wanted.name or uuid.uuid4().hex[:8]
        if name in self._held:
            return NoRoom(f"share {name!r} is there already: remove it", ever=False)
        now = self._clock.time()
        grant = self.ledger.take(name, user_name(process.uid), wanted, now)
        if isinstance(grant, NoRoom):
            return grant
        return StoredShare(grant=grant, wanted=wanted, owner=process, since=now)

    async def _made(self, stored: StoredShare) -> GivenShare | NoRoom:
        try:
            files = await asyncio.to_thread(self._make_files, stored)
            given = GivenShare(stored=stored, files=files)
            self._held[stored.name] = given
            await self._store()
        except (OSError, ValueError) as e:
            self._held.pop(stored.name, None)
            self.ledger.release(stored.name)
            self.room_may_have_come()
            return NoRoom(f"its files cannot be made: {e}: see {self._folder}", ever=False)
        self._hold(given)
        return given

    def _hold(self, given: GivenShare) -> None:
        stored = given.stored
        self._held[stored.name] = given
        self.holdings.put(
            Holding(
                key=_key(stored.name), id=stored.name, pod=_pod(stored.grant),
                shares=stored.grant.shares, limits=given.files.limits, files=given.files,
                since=asyncio.get_running_loop().time(), stage=ContainerStage.RUNNING,
                terms=LendingTerms(), pid=0 if stored.reserved else stored.owner.pid,
            )
        )  # fmt: skip
        if not stored.reserved:
            self._tasks.create_task(self._until_ended(given), name=f"share {stored.name}")

    # -- freeing

    async def remove(self, name: str, uid: int) -> str:
        """Free a reserved share for its owner, or for root; why not, or nothing."""
        given = self._held.get(name)
        if given is None or not given.stored.reserved:
            return f"share {name!r}: there is no reserved share of that name"
        if uid not in (0, os.getuid(), given.stored.owner.uid):
            return f"share {name!r} is {user_name(given.stored.owner.uid)}'s"
        if alive := await asyncio.to_thread(self._alive, given):
            return f"share {name!r}: {alive} processes use it: end them first"
        await self._free(given)
        return ""

    async def _until_ended(self, given: GivenShare) -> None:
        await ended(given.stored.owner)
        while await asyncio.to_thread(self._alive, given):  # noqa: ASYNC110  (other processes)
            await asyncio.sleep(_LEFT_S)
        await self._free(given)

    async def _free(self, given: GivenShare) -> None:
        name = given.stored.name
        if self._held.pop(name, None) is None:
            return
        self.holdings.forget(_key(name), 0)
        await asyncio.to_thread(self._remove_files, _key(name))
        self.ledger.release(name)
        self.room_may_have_come()
        try:
            await self._store()
        except OSError as e:
            _log.warning("the list of shares is not written", why=str(e))

    async def _store(self) -> None:
        async with self._writing:
            stored = [one.stored for one in self._held.values()]
            await asyncio.to_thread(write_shares, self._folder, stored)

    # -- in a thread

    def _make_files(self, stored: StoredShare) -> ContainerFiles:
        """Its files: limits that nobody but the daemon may write, use that its owner may."""
        grant = stored.grant
        limits = limits_of(_pod(grant), PROCESS, grant.shares, LendingTerms(), ())
        files = self._files.make(_key(stored.name), limits)
        usage = files.path / "usage"
        if os.getuid() == 0:
            os.chown(usage, stored.owner.uid, stored.owner.gid, follow_symlinks=False)
        for_containers = stored.reserved and stored.owner.uid == 0
        usage.chmod(_ANY if for_containers else _OWN)
        files.path.chmod(_CLOSED if for_containers else _FOLDER_MODE)
        return files

    def _adopted(self, stored: StoredShare) -> ContainerFiles:
        try:
            return self._files.adopt(_key(stored.name))
        except (OSError, ValueError) as e:
            _log.warning("files made again", share=stored.name, why=str(e))
            return self._make_files(stored)

    def _remove_files(self, key: ContainerKey) -> None:
        try:
            self._files.remove(key)
        except OSError as e:
            _log.warning("files not removed", share=key.uid, why=str(e))

    def _alive(self, given: GivenShare) -> int:
        """How many processes have the share: they use its cards, or were started with it."""
        used = self._used(given)
        known = {slot.pid for slot in used.slots if slot.locked} if used else set()
        return len(known | started_with(LIMITS, str(given.files.limits_path)))

    def _used(self, given: GivenShare) -> UsageFile | None:
        memory = {uuid_key(s.card): s.memory_bytes for s in given.stored.grant.shares}
        read = given.files.read(UsageFileBounds(memory_bytes=memory, now_ns=self._clock.time_ns()))
        return read if isinstance(read, UsageFile) else None

    # -- listing

    async def listed(self, viewer: int) -> SharesListed:
        """Everything, for this user: commands are shown to their owners and to root."""
        held = list(self._held.values())
        used = await asyncio.to_thread(lambda: [self._records(one) for one in held])
        now_ns = self._clock.time_ns()
        shares = [
            row for one, records in zip(held, used, strict=True)
            for row in share_rows(one.stored, one.files, records, viewer, now_ns)
        ]  # fmt: skip
        return SharesListed(
            cards=self.ledger.listed(), shares=tuple(shares), waiting=len(self._waiting),
            at_s=asyncio.get_running_loop().time(),
            queue=tuple(waiting_row(one, viewer) for one in self._waiting.values()),
        )  # fmt: skip

    def _records(self, given: GivenShare) -> Mapping[str, CardRecord]:
        used = self._used(given)
        return {uuid_key(c.uuid): c for c in used.cards} if used else {}


def _key(name: str) -> ContainerKey:
    return ContainerKey(uid=name, container=PROCESS)


def _pod(grant: Grant) -> PodSandbox:
    return PodSandbox(id=grant.uid, name=grant.name, uid=grant.uid, namespace=grant.namespace)
