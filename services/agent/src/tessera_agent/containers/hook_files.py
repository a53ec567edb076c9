"""The two files of each container: limits, which the agent writes and the container reads, and
usage, which the container writes and the agent reads without trust (docs/hook.md).

    <folder>/containers/<pod uid>/<container>/limits
    <folder>/containers/<pod uid>/<container>/usage

Only the two files are mounted into the container, never their folder. Every call blocks for as long
as the file system takes: call from a thread. What is read may be torn between two writes of the
hook; numbers are clamped, and the next read is right.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.loan_renewal import NO_RENEWAL
from tessera_agent.containers.slot_locks import SlotLocks
from tessera_agent.containers.written_usage import Parts, ShortUsageFile, laid_out, written_parts
from tessera_core.hook import limits_file, usage_file
from tessera_core.hook.limits_file import (
    BadLimits,
    CardLimit,
    HookLimits,
    decode_limits,
    encode_limits,
)
from tessera_core.hook.records import HEAD
from tessera_core.hook.usage_file import (
    Garbled,
    Spoilt,
    Unbuilt,
    UsageFile,
    UsageFileBounds,
    decode_usage,
)
from tessera_core.node.usage_rates import measured
from tessera_runtime.clock import Clock
from tessera_schema.grants import Grant, encode_grant
from tessera_schema.injections import Mount

_ROOT: Final = "containers"
_LIMITS: Final = "limits"
_USAGE: Final = "usage"
_NEW: Final = "limits.new"
_GRANT: Final = "grant"
_NEW_GRANT: Final = "grant.new"
_MOST_GRANT: Final = 1 << 20
MOST_USAGE_BYTES: Final = 1 << 20
"""Of disk that a usage file may take. The hook never makes it larger than it was made, which is a
quarter of this; what a container adds is not counted as its own storage by kubelet."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_BLOCK: Final = 512
"""Bytes of what stat counts as a block, on every file system."""
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE: Final = _WRITE | os.O_CREAT | os.O_EXCL


class ContainerKey(Struct, frozen=True, order=True, cache_hash=True):
    """A container of a pod."""

    uid: str
    container: str


class _LastRead(NamedTuple):
    """What was read of a usage file last, and what follows from it within these bounds."""

    parts: Parts
    memory_bytes: Mapping[str, int]
    usage: UsageFile | Unbuilt | Garbled


class HookFiles:
    """Makes, finds and removes the files of the node's containers, below one folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """The folder need not exist yet."""
        self._root = folder / _ROOT
        self._clock = clock

    def make(
        self, key: ContainerKey, limits: HookLimits, resized: Grant | None = None
    ) -> ContainerFiles:
        """The container's files, made where they are missing; limits are in force when this
        returns, and its pod's grant is stored where that was `resized`. Raises ValueError for a
        name that is none, BadLimits, OSError."""
        path = self._path(key)
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _opened(path, FOLDER_FLAGS) as folder:
            if resized is not None:
                _store_grant(folder, resized)
            made = _make_usage(folder)
            files = ContainerFiles(path, self._clock, limits, made)
            try:
                files.change(lambda _: limits)
            except FileNotFoundError:
                files.limits = replace(limits, generation=1)
                _make_limits(folder, files.limits, self._clock.time_ns())
        return files

    def adopt(self, key: ContainerKey) -> ContainerFiles:
        """The files that an earlier agent made. Raises OSError where there are none, BadLimits
        where the limits cannot be read (it ended while writing): `make` them again."""
        path = self._path(key)
        with _opened(path, FOLDER_FLAGS) as folder:
            with _opened(_LIMITS, READ_FLAGS, folder) as fd:
                limits = decode_limits(os.pread(fd, limits_file.SIZE + 1, 0))
            made = os.stat(_USAGE, dir_fd=folder, follow_symlinks=False)
        return ContainerFiles(path, self._clock, limits, (made.st_dev, made.st_ino))

    def store_grant(self, key: ContainerKey, grant: Grant) -> None:
        """Store the grant of a container that was resized: the runtime has only the first one.
        Raises OSError."""
        with _opened(self._path(key), FOLDER_FLAGS) as folder:
            _store_grant(folder, grant)

    def stored_grant(self, key: ContainerKey) -> str:
        """The text of the grant that was stored last; empty = none that can be read."""
        with suppress(OSError, ValueError), _opened(self._path(key) / _GRANT, READ_FLAGS) as fd:
            return os.pread(fd, _MOST_GRANT, 0).decode()
        return ""

    def remove(self, key: ContainerKey) -> None:
        """Remove the files of a container. Files that are already gone are no error; raises
        OSError."""
        path = self._path(key)
        for name in (_LIMITS, _NEW, _USAGE, _GRANT, _NEW_GRANT):
            with suppress(FileNotFoundError):
                (path / name).unlink()
        for folder in (path, path.parent):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError as e:
                if folder is path or e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def known(self) -> tuple[ContainerKey, ...]:
        """Every container that has a folder, so that folders without a container can be removed."""
        if not self._root.is_dir():
            return ()
        return tuple(
            sorted(
                ContainerKey(uid=pod.name, container=container.name)
                for pod in self._root.iterdir()
                if pod.is_dir() and not pod.is_symlink()
                for container in pod.iterdir()
                if _NAME.fullmatch(pod.name) and _NAME.fullmatch(container.name)
            )
        )

    def _path(self, key: ContainerKey) -> Path:
        for what, name in (("pod uid", key.uid), ("container", key.container)):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{what} {name!r}: a name has letters, digits, '.', '_' and '-'")
        return self._root / key.uid / key.container


class ContainerFiles:
    """One container's files."""

    def __init__(self, path: Path, clock: Clock, limits: HookLimits, made: tuple[int, int]) -> None:
        """`made`: device and inode of the usage file as the agent made it."""
        self.path = path
        self.limits_path = path / _LIMITS
        """Where the limits are on the node."""
        self.limits = limits
        """As last written."""
        self._limits_text, self._usage_text = str(self.limits_path), str(path / _USAGE)
        """To open a file by its `Path` takes twice as long."""
        self._clock = clock
        self._made = made
        self._changing = threading.Lock()
        self.renewal = NO_RENEWAL
        """Of what is lent to the container; each decision about that sets it."""
        self._sequence: int | None = None
        """Of the limits file, which nobody else writes; None before the first write."""
        self._locks = SlotLocks()
        self._last: _LastRead | None = None

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The mounts of the container: limits to read, usage to write."""
        return (
            Mount(destination=limits_file.PATH, source=str(self.limits_path)),
            Mount(destination=usage_file.PATH, source=self._usage_text, read_only=False),
        )  # fmt: skip

    def change(self, change: Callable[[HookLimits], HookLimits]) -> HookLimits:
        """Put other limits in force, within 20 ms of the next call of a process in the container,
        and return them. Call it from any thread: each change starts from the one before.

        The container may be reading: the sequence number is odd while the body is not whole.
        Raises BadLimits before anything is written, OSError.
        """
        with self._changing:
            new = change(self.limits)
            return self._put(new, counts=_differ_in_more_than_measurement(self.limits, new))

    def change_card(self, uuid: str, change: Callable[[CardLimit], CardLimit]) -> HookLimits:
        """The same for one card. Raises BadLimits where the container does not hold it."""
        return self.change(lambda limits: _with_card(limits, uuid, change))

    def measure(self, uuid: str, busy_ns: int, counted_ns: int, wall_ns: int) -> None:
        """Put a measurement of one card in force: see `measured`. Raises as `change_card` does."""
        with self._changing:
            new = _with_card(
                self.limits, uuid, lambda card: measured(card, busy_ns, counted_ns, wall_ns)
            )
            self._put(new, counts=False)

    def _put(self, limits: HookLimits, *, counts: bool) -> HookLimits:
        """Write the limits with their loans renewed; whether that `counts` as another generation
        if nothing is renewed."""
        now_ns = self._clock.time_ns()
        new = self.renewal.of(limits, now_ns)
        counts = counts or new is not limits
        new = replace(new, generation=self.limits.generation + counts)
        fd = os.open(self._limits_text, _WRITE)
        try:
            if self._sequence is None:
                self._sequence = limits_file.sequence_of(os.pread(fd, HEAD.size, 0))
            writing = self._sequence | 1
            body = encode_limits(new, writing, now_ns)
            _write(fd, limits_file.sequence_bytes(writing), limits_file.SEQUENCE_AT)
            _write(fd, body, 0)
            _write(fd, limits_file.sequence_bytes(writing + 1), limits_file.SEQUENCE_AT)
        finally:
            os.close(fd)
        self._sequence = writing + 1
        self.limits = new
        return new

    def read(self, bounds: UsageFileBounds) -> UsageFile | Unbuilt | Garbled:
        """What the hook says the container uses. Never raises, whatever is there. A file that the
        container made larger is made as small as it was."""
        try:
            with _opened(self._usage_text, READ_FLAGS) as fd:
                spoilt = self._spoilt(os.fstat(fd))
                if spoilt is Spoilt.GROWN:
                    self._shrink()
                if spoilt is not None:
                    return Garbled(spoilt)
                return self._decoded(fd, bounds)
        except ShortUsageFile:
            return Garbled(Spoilt.SIZE)
        except FileNotFoundError:
            return Garbled(Spoilt.MISSING)
        except OSError as e:
            return Garbled(spoilt_by(e))

    def _decoded(self, fd: int, bounds: UsageFileBounds) -> UsageFile | Unbuilt | Garbled:
        """The same object as before where nothing changed: so it is with most containers."""
        parts, last = written_parts(fd), self._last
        if last is not None and parts == last.parts and bounds.memory_bytes == last.memory_bytes:
            slots = last.usage.slots if isinstance(last.usage, UsageFile) else ()
            held = self._locks.alive(fd, [slot.number for slot in slots])
            if all(slot.locked == (slot.number in held) for slot in slots):
                return last.usage
        with laid_out(parts) as data:
            usage = decode_usage(data, bounds, lambda slots: self._locks.alive(fd, slots))
        self._last = _LastRead(parts, bounds.memory_bytes, usage)
        return usage

    def open_usage(self) -> int:
        """A descriptor of the usage file for reading, the caller's to close. Raises OSError, also
        where it is not the file that was made."""
        fd = os.open(self._usage_text, READ_FLAGS)
        spoilt = self._spoilt(os.fstat(fd))
        if spoilt is not None:
            os.close(fd)
            raise OSError(errno.EBADF, f"usage file: {spoilt}")
        return fd

    def _spoilt(self, found: os.stat_result) -> Spoilt | None:
        if not stat.S_ISREG(found.st_mode):
            return Spoilt.NOT_A_FILE
        if (found.st_dev, found.st_ino) != self._made:
            return Spoilt.REPLACED
        if found.st_size > usage_file.SIZE or found.st_blocks * _BLOCK > MOST_USAGE_BYTES:
            return Spoilt.GROWN
        return None if found.st_size == usage_file.SIZE else Spoilt.SIZE

    def _shrink(self) -> None:
        """Processes have no more than its own size mapped. Blocks beyond its end go only where the
        size changes."""
        with _opened(self._usage_text, _WRITE | os.O_NONBLOCK | os.O_NOCTTY) as fd:
            if self._spoilt(os.fstat(fd)) is Spoilt.GROWN:
                os.ftruncate(fd, usage_file.SIZE + 1)
                os.ftruncate(fd, usage_file.SIZE)


def spoilt_by(error: OSError) -> Spoilt:
    """What is wrong with a container's file that cannot be opened or read."""
    odd = error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR)
    return Spoilt.NOT_A_FILE if odd else Spoilt.UNREADABLE


@contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _differ_in_more_than_measurement(old: HookLimits, new: HookLimits) -> bool:
    """What counts as another generation: not the agent's own measurement."""
    if replace(new, cards=old.cards) != old or len(new.cards) != len(old.cards):
        return True
    return any(
        one is not other and _with_measurement_of(one, other) != other
        for one, other in zip(old.cards, new.cards, strict=True)
    )


def _with_card(
    limits: HookLimits, uuid: str, change: Callable[[CardLimit], CardLimit]
) -> HookLimits:
    if uuid not in [card.uuid for card in limits.cards]:
        raise BadLimits(f"card {uuid}: container {limits.container} holds no part of it")
    cards = [change(card) if card.uuid == uuid else card for card in limits.cards]
    return replace(limits, cards=tuple(cards))


def _with_measurement_of(card: CardLimit, other: CardLimit) -> CardLimit:
    return replace(
        card, measured_ns=other.measured_ns, measured_at_ns=other.measured_at_ns,
        measured_usage_ns=other.measured_usage_ns,
    )  # fmt: skip


def _make_usage(folder: int) -> tuple[int, int]:
    """Device and inode of the usage file, whose blocks exist: a full disk is an error here, not in
    the container. A whole one that is there stays: processes may have it mapped."""
    with suppress(FileNotFoundError):
        there = os.stat(_USAGE, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(there.st_mode) or there.st_size != usage_file.SIZE:
            os.unlink(_USAGE, dir_fd=folder)
    with suppress(FileExistsError), _opened(_USAGE, _MAKE, folder) as fd:
        os.posix_fallocate(fd, 0, usage_file.SIZE)
        os.fchmod(fd, 0o666)  # the container's processes may run as anybody
    found = os.stat(_USAGE, dir_fd=folder, follow_symlinks=False)
    return found.st_dev, found.st_ino


def _make_limits(folder: int, limits: HookLimits, now_ns: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_NEW, dir_fd=folder)
    with _opened(_NEW, _MAKE, folder) as fd:
        _write(fd, encode_limits(limits, 2, now_ns), 0)
        os.fchmod(fd, 0o644)
    os.rename(_NEW, _LIMITS, src_dir_fd=folder, dst_dir_fd=folder)


def _store_grant(folder: int, grant: Grant) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_NEW_GRANT, dir_fd=folder)
    with _opened(_NEW_GRANT, _MAKE, folder) as fd:
        _write(fd, encode_grant(grant).encode(), 0)
    os.rename(_NEW_GRANT, _GRANT, src_dir_fd=folder, dst_dir_fd=folder)


def _write(fd: int, data: bytes, at: int) -> None:
    if os.pwrite(fd, data, at) != len(data):
        raise OSError(errno.EIO, "short write to a limits file")
