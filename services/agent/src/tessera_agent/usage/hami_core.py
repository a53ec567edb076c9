"""Containers that HAMi's own plugin gave their cards: measured by the region that HAMi-core keeps.

    <folder>/containers/<pod uid>_<container>/<some>.cache          on the node, made by the plugin

They run on a node that is being migrated, have no grant of Tessera's, and count in usage all the
same. They are found by what the runtime shows of them: the folder that the plugin mounts, and the
variable that names the region in it. A region elsewhere (Koordinator's lies in the container's own
/tmp) is not reached. The region is the container's to write, so it is read as usage files are:
without following links, a regular file of the right size, never mapped, every number clamped; and
only cards of this node count.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from tessera_agent.containers.hook_files import FOLDER_FLAGS, READ_FLAGS, ContainerKey, spoilt_by
from tessera_core.hook.hami_core_region import (
    CACHE_ENV,
    NotARegion,
    Region,
    RegionCard,
    read_region,
)
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import Gap, Spoilt
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import CardUse, ContainerUse

MEASURED_BY: Final = "hami-core"
EVERY_S: Final = 5.0
"""Seconds between two reads of a region, as in HAMi's monitor: it has two megabytes."""
_SUFFIX: Final = ".cache"
_MOST: Final = 1 << 22
"""Bytes that are read of a file that may be a region, at most."""
_MAGIC_BYTES: Final = 4
_FULL: Final = 100


class Regioned(Struct, frozen=True, kw_only=True):
    """A container with a region."""

    key: ContainerKey
    namespace: str
    pod: str
    sandbox: str
    """The pod's sandbox, as the runtime knows it."""
    folder: Path
    """On the node."""
    file: str


def region_of(pod: PodSandbox, container: ContainerInfo) -> Regioned | None:
    """Where the container's region is; None where HAMi's plugin did not give it its cards."""
    path = PurePosixPath(container.env.get(CACHE_ENV, ""))
    if path.suffix != _SUFFIX:
        return None
    for mount in container.mounts:
        folder = Path(mount.source)
        is_plugins = folder.name == f"{pod.uid}_{container.name}"
        if is_plugins and PurePosixPath(mount.destination) == path.parent:
            return Regioned(
                key=ContainerKey(uid=pod.uid, container=container.name), namespace=pod.namespace,
                pod=pod.name, sandbox=pod.id, folder=folder, file=path.name,
            )  # fmt: skip
    return None


class RunningRegions:
    """The containers with regions that run, as the runtime reports them."""

    def __init__(self) -> None:
        self._known: dict[str, Regioned] = {}

    @property
    def all(self) -> tuple[Regioned, ...]:
        """The containers that run at this moment."""
        return tuple(self._known.values())

    def clear(self) -> None:
        """Forget all: the runtime lists again what runs."""
        self._known.clear()

    def started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """A container runs, with a region or not."""
        found = region_of(pod, container)
        if found is not None:
            self._known[container.id] = found

    def ended(self, container: ContainerInfo) -> None:
        """A container does not run any more."""
        self._known.pop(container.id, None)

    def pod_ended(self, pod: PodSandbox) -> None:
        """No container of the pod runs any more."""
        for id_ in [i for i, one in self._known.items() if one.sandbox == pod.id]:
            del self._known[id_]


class _CachedRead(Struct, frozen=True):
    at_s: float
    found: Region | Spoilt


class Regions:
    """Reads regions, and caches them for a while."""

    def __init__(self) -> None:
        self.running = RunningRegions()
        """Filled by the runtime's plugin."""
        self.spoilt: Counter[Spoilt] = Counter()
        """Reads of regions that could not be believed, by what was wrong."""
        self._cache: dict[Regioned, _CachedRead] = {}

    def read_all(
        self, containers: Sequence[Regioned], cards: Sequence[Card], *, at_s: float, now_s: float
    ) -> tuple[ContainerUse, ...]:
        """What they use of these cards; nothing of a container that has not begun to use any.

        `at_s` is of a clock that never jumps, `now_s` Unix time. Blocks: call it from a thread, one
        call at a time. Never raises."""
        known, self._cache = self._cache, {}
        by_key = {uuid_key(card.id): card for card in cards}
        uses = []
        for one in containers:
            cached = known.get(one)
            if cached is None or at_s - cached.at_s >= EVERY_S:
                cached = _CachedRead(at_s, self._read(one))
            self._cache[one] = cached
            use = _use(one, cached.found, by_key, now_s)
            if use is not None:
                uses.append(use)
        return tuple(uses)

    def _read(self, one: Regioned) -> Region | Spoilt:
        found = _region(one)
        if isinstance(found, Spoilt) and found is not Spoilt.MISSING:
            self.spoilt[found] += 1
        return found


def _region(one: Regioned) -> Region | Spoilt:
    try:
        folder = os.open(one.folder, FOLDER_FLAGS)
        try:
            fd = os.open(one.file, READ_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            return _decoded(fd)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return Spoilt.MISSING  # no process of the container has begun
    except OSError as e:
        return spoilt_by(e)
    except ValueError:
        return Spoilt.UNREADABLE  # the pod chose a name that is no file name


def _decoded(fd: int) -> Region | Spoilt:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return Spoilt.NOT_A_FILE
    if found.st_size > _MOST:
        return Spoilt.SIZE
    data = os.pread(fd, _MOST, 0)
    if not any(data[:_MAGIC_BYTES]):
        return Spoilt.MISSING  # a process of the container is setting it up
    try:
        return read_region(data)
    except NotARegion:
        return Spoilt.LAYOUT


def _use(
    one: Regioned, found: Region | Spoilt, cards: Mapping[str, Card], now_s: float
) -> ContainerUse | None:
    uses: dict[str, CardUse] = {}
    gaps: set[Gap] = set()
    if isinstance(found, Region):
        for part in found.cards:
            card = cards.get(uuid_key(part.uuid))
            if card is not None:
                uses[card.id] = use = _card_use(part, card, found, now_s)
                if 0 < use.memory_limit_bytes < use.memory_bytes:
                    gaps.add(Gap.OVER)
    elif found is not Spoilt.MISSING:
        gaps.add(Gap.FILE)
    if not uses and not gaps:
        return None
    return ContainerUse(
        namespace=one.namespace, pod=one.pod, uid=one.key.uid, container=one.key.container,
        cards=tuple(uses.values()), enforced=not gaps, gaps=tuple(sorted(gaps)),
    )  # fmt: skip


def _card_use(part: RegionCard, card: Card, region: Region, now_s: float) -> CardUse:
    """All processes count on each card: the region does not say which of them use it."""
    limited = 0 < part.cores_limit_percent < _FULL
    return CardUse(
        card=card.id, memory_bytes=min(part.used_bytes, card.memory_bytes),
        context_bytes=min(part.context_bytes, card.memory_bytes),
        module_bytes=min(part.module_bytes, card.memory_bytes),
        buffer_bytes=min(part.buffer_bytes, card.memory_bytes),
        memory_limit_bytes=part.limit_bytes, cores_percent=part.cores_percent,
        cores_limit_percent=part.cores_limit_percent if limited else 0,
        processes=len(region.pids), last_active=min(region.last_kernel, now_s),
        measured_by=MEASURED_BY,
    )  # fmt: skip
