"""containerd on this node: asked for its configuration, restarted, and whether it answers.

Commands run where the node's containerd runs: in the mounts of the process `target`.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from tessera_agent.containerd.node_files import below
from tessera_core.node.containerd_config import ConfigPaths, ContainerdRefused, Toml
from tessera_kubelet.errors import NodeError
from tessera_kubelet.grpc_channel import open_channel

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMAND_S: Final = 60.0
"""Seconds that a command on the node may take, a restart among them."""
_CALL_S: Final = 5.0
_MESSAGE_BYTES: Final = 1 << 20
_WORDS: Final = 600
"""Characters of what a failed command printed, at most."""
_STAGED: Final = 'mount --bind "$0" "$1" && shift && exec "$@"'
"""In mounts of its own: nobody else sees the copy."""


class CommandFailed(Exception):
    """A command on the node failed; the message has its last words."""


class ContainerdUnit(Protocol):
    """What runs containerd on a node."""

    async def main_pid(self) -> int:
        """The process, as this one sees it. Raises ContainerdRefused where it does not run."""
        ...

    async def restart(self) -> None:
        """End it and start it again. Raises CommandFailed."""
        ...


class SystemdUnit:
    """The node's systemd, called as a program on the node."""

    def __init__(self, name: str, target: int = 1) -> None:
        """`target` is a process of the node."""
        self._name = name
        self._target = target

    async def main_pid(self) -> int:
        """See `ContainerdUnit`."""
        try:
            printed = await self._call("show", "--property=MainPID", "--value", self._name)
            pid = int(printed or "0")
        except (CommandFailed, ValueError) as e:
            raise ContainerdRefused(f"{self._name}: systemd does not say how it is: {e}") from e
        if not pid:
            raise ContainerdRefused(
                f"{self._name}: it does not run on this node: set TESSERA_UNIT to the unit that "
                "runs containerd; where k3s, RKE2 or MicroK8s run their own, configure the node "
                "by their template (docs/node.md)"
            )
        return pid

    async def restart(self) -> None:
        """See `ContainerdUnit`."""
        # Or a unit that failed often is not started again, not even with its former files.
        with suppress(CommandFailed):
            await self._call("reset-failed", self._name)
        await self._call("restart", self._name)

    async def _call(self, *words: str) -> str:
        return await on_node(self._target, "systemctl", *words)


class ContainerdHost:
    """containerd on one node."""

    def __init__(self, unit: ContainerdUnit, root: Path, config: str, target: int = 1) -> None:
        """`root` is the node's root as this process sees it, `config` the file that containerd
        has to be started with."""
        self._unit = unit
        self._root = root
        self._config = config
        self._target = target
        self._program = ""

    async def program(self) -> str:
        """The program that runs, or ran, on the node. Raises ContainerdRefused."""
        try:
            pid = await self._unit.main_pid()
        except ContainerdRefused:
            if self._program:
                return self._program
            raise
        words = await asyncio.to_thread(_command_line, pid)
        for named in _named_configs(words) or [ConfigPaths().config]:
            if named != self._config:
                raise ContainerdRefused(
                    f"{named}: containerd is started with this configuration, not with "
                    f"{self._config}: set TESSERA_CONFIG and TESSERA_FOLDER to it and its drop-ins"
                )
        link = await asyncio.to_thread(Path(f"/proc/{pid}/exe").readlink)
        self._program = str(link).removesuffix(" (deleted)")  # replaced by an upgrade
        return self._program

    async def version(self) -> str:
        """What `containerd --version` prints. Raises ContainerdRefused, CommandFailed."""
        return await on_node(self._target, await self.program(), "--version")

    async def dump(self, staged: str = "") -> Toml:
        """What it reads of its files, or of the copy of their folder at `staged`. Raises
        ContainerdRefused, CommandFailed where it cannot read them."""
        words = [await self.program(), "--config", self._config, "config", "dump"]
        if staged:
            real = str(Path(self._config).parent)
            await asyncio.to_thread(_make_folder, self._root, real)
            words = ["unshare", "--mount", "sh", "-c", _STAGED, staged, real, *words]
        printed = await on_node(self._target, *words, what="containerd config dump")
        try:
            return tomllib.loads(printed)
        except tomllib.TOMLDecodeError as e:
            raise CommandFailed(f"containerd config dump: not TOML: {e}") from e

    async def restart(self) -> None:
        """End it and start it again. Raises CommandFailed."""
        await self._unit.restart()

    async def problem(self, dump: Toml) -> str:
        """Why containers cannot be created by the containerd of this configuration now; empty when
        they can."""
        address = dump.get("grpc", {}).get("address", "")
        socket = await asyncio.to_thread(below, self._root, address)
        async with open_channel(socket, message_bytes=_MESSAGE_BYTES) as channel:
            try:
                await channel.call("/runtime.v1.RuntimeService/Version", b"", within_s=_CALL_S)
            except NodeError as e:
                return f"containerd does not answer kubelet's calls at {address}: {e}"
        return ""


async def on_node(target: int, *words: str, what: str = "") -> str:
    """What a command prints on the node; `what` it is called in errors, if not by its words.
    Raises CommandFailed."""
    name = what or " ".join(words)
    process = await asyncio.create_subprocess_exec(
        "nsenter", f"--target={target}", "--mount", "--", *words,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={"PATH": PATH},
    )  # fmt: skip
    try:
        async with asyncio.timeout(COMMAND_S):
            printed, complaints = await process.communicate()
    except TimeoutError as e:
        raise CommandFailed(f"{name}: no end after {COMMAND_S:g} s") from e
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = complaints.decode(errors="replace").strip()[-_WORDS:]
        raise CommandFailed(f"{name}: status {process.returncode}: {said}")
    return printed.decode(errors="replace").strip()


def _make_folder(root: Path, path: str) -> None:
    below(root, path).mkdir(parents=True, exist_ok=True)


def _command_line(pid: int) -> Sequence[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def _named_configs(words: Sequence[str]) -> list[str]:
    """The configurations that a command line names."""
    found = [word.partition("=")[2] for word in words if word.startswith(("--config=", "-c="))]
    return found + [after for word, after in pairwise(words) if word in {"--config", "-c"}]
