"""The daemon of one machine: a socket on which processes ask for shares, and what it answers.

One line comes in and one goes out on each connection. Who asks is what the kernel says of it.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_agent.local.card_devices import CardDevices, card_devices
from tessera_agent.local.machine_ledger import NoRoom
from tessera_agent.local.processes import LocalProcess, PeerGone, peer_of
from tessera_agent.local.shares import LIMITS, GivenShare, LocalShares
from tessera_agent.readers.one_machine import VENDOR
from tessera_core.hook import limits_file, usage_file
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD
from tessera_runtime import logs
from tessera_schema.local_shares import (
    MOST_LINE,
    LocalAnswer,
    LocalRequest,
    ShareFreed,
    ShareGiven,
    ShareRefused,
    SharesWanted,
    ShareUnwanted,
    ShareWanted,
)

_log: Final = logs.named("tessera.local")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LINE_S: Final = 10.0
"""Seconds that a process has to write its line."""
_DRIVER: Final = "/usr/local/tessera/simulated/driver"
_MACHINE: Final = "/usr/local/tessera/simulated/machine"
"""Where a container has the simulated driver and machine."""
_MOST_CARDS: Final = 16
_decoder: Final[msgspec.json.Decoder[LocalRequest]] = msgspec.json.Decoder(LocalRequest)


class LocalPaths(Struct, frozen=True, kw_only=True):
    """What processes with shares are started with."""

    hook: Path
    """The hook's library."""
    driver: Path | None = None
    """Folder of the simulated driver; None = the machine's own driver is used."""
    machine: Path | None = None
    """The simulated machine."""
    preload: Path
    """A file that names the hook's library, as a container has it."""
    root: Path | None = None
    """The root below which device nodes are looked for; None = the cards have none."""

    def paths(self) -> Mapping[str, str]:
        """Variables that are lists of paths -> what comes first in them."""
        found = {"LD_PRELOAD": str(self.hook)}
        return found if self.driver is None else {**found, "LD_LIBRARY_PATH": str(self.driver)}

    def env(self) -> Mapping[str, str]:
        """Variables of every process."""
        return {} if self.machine is None else {"TESSERA_SIM_STATE": str(self.machine)}

    def container_env(self) -> Mapping[str, str]:
        """Variables of every container."""
        if self.machine is None:
            return {}
        return {
            "TESSERA_SIM_STATE": f"{_MACHINE}/{self.machine.name}", "LD_LIBRARY_PATH": _DRIVER,
        }  # fmt: skip

    def files(self) -> Mapping[str, str]:
        """Path in every container -> path here, of what it reads."""
        files = {HOOK_LIBRARY: str(self.hook), PRELOAD: str(self.preload)}
        return files if self.driver is None else {**files, _DRIVER: str(self.driver)}

    def written(self) -> Mapping[str, str]:
        """The same, of what it writes."""
        return {} if self.machine is None else {_MACHINE: str(self.machine.parent)}


class LocalDaemon:
    """Answers."""

    def __init__(self, shares: LocalShares, paths: LocalPaths) -> None:
        self._shares = shares
        self._paths = paths
        self._open = 0
        self.answered = 0
        """Connections so far."""
        self.problem = ""
        """Why there are no cards; empty = there are."""

    @property
    def idle(self) -> bool:
        """Whether nobody holds anything or asks."""
        return not self._open and not len(self._shares)

    async def serve(self, listening: socket.socket, tasks: asyncio.TaskGroup) -> NoReturn:
        """Answer every connection, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listening)
            connection.setblocking(False)  # noqa: FBT003  (socket has it so)
            self._open += 1
            self.answered += 1
            tasks.create_task(self._serve(connection), name="connection")

    async def _serve(self, connection: socket.socket) -> None:
        try:
            peer = peer_of(connection)
            reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MOST_LINE)
            try:
                async with asyncio.timeout(_LINE_S):
                    line = await reader.readuntil(b"\n")
                answer = await self._answer(peer, line)
                writer.write(msgspec.json.encode(answer) + b"\n")
                async with asyncio.timeout(_LINE_S):
                    await writer.drain()
            finally:
                writer.close()
        except (PeerGone, OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as e:
            _log.debug("connection ended", why=str(e))
            connection.close()
        finally:
            self._open -= 1

    async def _answer(self, peer: LocalProcess, line: bytes) -> LocalAnswer:
        try:
            request: LocalRequest = _decoder.decode(line)
        except msgspec.DecodeError as e:
            return ShareRefused(f"the request cannot be read: {e}: use the same release of tessera")
        match request:
            case SharesWanted():
                return await self._shares.listed(peer.uid)
            case ShareUnwanted(name=name):
                why = await self._shares.remove(name, peer.uid)
                return ShareRefused(why) if why else ShareFreed(name)
            case ShareWanted():
                return await self._give(peer, request)

    async def _give(self, peer: LocalProcess, wanted: ShareWanted) -> LocalAnswer:
        if problem := _problem(wanted) or (not self._shares.ledger.cards and self.problem):
            return ShareRefused(problem)
        given = await self._shares.give(peer, wanted)
        if isinstance(given, NoRoom):
            return ShareRefused(given.why)
        return self._given(given, await self._devices(given))

    async def _devices(self, given: GivenShare) -> CardDevices:
        """Of containers; a process opens the machine's own."""
        root = self._paths.root
        if root is None or not given.stored.reserved:
            return CardDevices()
        held = {share.card for share in given.stored.grant.shares}
        cards = [card for card in self._shares.ledger.cards if card.id in held]
        return await asyncio.to_thread(card_devices, VENDOR, root, cards)

    def _given(self, given: GivenShare, devices: CardDevices) -> ShareGiven:
        limits, usage = (mount.source for mount in given.files.mounts)
        cards = tuple(share.card for share in given.stored.grant.shares)
        env = {
            **self._paths.env(), LIMITS: limits, "TESSERA_USAGE": usage,
            "CUDA_VISIBLE_DEVICES": ",".join(cards),
        }  # fmt: skip
        in_container = {
            "CUDA_VISIBLE_DEVICES": ",".join(cards), **devices.env, **self._paths.container_env(),
        }  # fmt: skip
        return ShareGiven(
            name=given.stored.name, cards=cards, env=env, paths=self._paths.paths(),
            container_env=in_container,
            files={limits_file.PATH: limits, **self._paths.files()},
            written={usage_file.PATH: usage, **self._paths.written()}, devices=devices.nodes,
        )  # fmt: skip


def _problem(wanted: ShareWanted) -> str:
    """What of a request makes no sense; empty = nothing."""
    if wanted.name and not _NAME.fullmatch(wanted.name):
        return f"name {wanted.name!r}: write lower-case letters, digits and -, at most 63"
    if not 0 <= wanted.cores_percent <= 100:
        return f"cores {wanted.cores_percent:g}: write 0 to 100, percent of each card"
    if not 1 <= wanted.count <= _MOST_CARDS:
        return f"cards {wanted.count}: write 1 to {_MOST_CARDS}"
    if wanted.memory_bytes < 0:
        return f"memory {wanted.memory_bytes}: write an amount such as 8Gi"
    if wanted.wait_s is not None and wanted.wait_s < 0:
        return f"wait {wanted.wait_s:g}: write a number of seconds"
    return ""
