"""What the demo has seen so far: pods as the API server shows them, and messages from the bus."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_cli.event_lines import as_line
from tessera_demo.scenario import name_of
from tessera_kubelet.background import open_tasks
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, Message
from tessera_runtime.informers.cluster_feed import ClusterFeed, NodeFeed, PodFeed
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.messages.device_reports import ContainerUse, decode_usage
from tessera_schema.subjects import ROOT

log = logs.named("tessera.demo")

Json = Mapping[str, Any]
LAST_EVENTS: Final = 5
"""Events of the bus that are remembered as lines."""
_MANY: Final = frozenset({"usage", "hint"})
"""Messages that come all the time, and say little."""
_CLOCK: Final = 10
"""Characters of a line before its words: the time of the day."""


class ObservedUse(Struct):
    """What a container was seen to use, over all of its cards."""

    memory_mib: float = 0
    """The most at one time."""
    cores: tuple[float, ...] = ()
    """Percent of a card, one number for each interval in which it was active throughout."""
    enforced: bool = True
    gaps: tuple[str, ...] = ()
    by: str = "hook"

    @property
    def cores_percent(self) -> float:
        """The mean of the later half: what is measured first shows a container without a limit
        next to others by its own event times, until the agent's measurement has corrected them."""
        later = self.cores[len(self.cores) // 2 :]
        return sum(later) / len(later) if later else 0


class ObservedMessage(Struct, frozen=True):
    """One message of the bus."""

    subject: str
    type: str
    data: bytes


class Observations:
    """Everything, and a bell that rings when there is more."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self.pods: dict[str, Json] = {}
        """`namespace/name` -> the pod."""
        self.refused: dict[str, str] = {}
        """Pods that the API server did not take -> its words."""
        self.measured: dict[tuple[str, str], ObservedUse] = {}
        """(pod's uid, container) -> use."""
        self.messages: list[ObservedMessage] = []
        self.events: deque[str] = deque(maxlen=LAST_EVENTS)
        """The last events of the bus, a line each."""
        self.warnings: list[str] = []
        self._more = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, looking whenever there is more."""
        while not holds():
            self._more.clear()
            await self._more.wait()

    def ring(self) -> None:
        """Something was seen."""
        self._more.set()

    # -- pods

    def on_list(self, items: list[Json], started: float, now: float) -> None:
        """All pods."""
        del started, now
        self.pods = {name_of(pod): pod for pod in items}
        self.ring()

    def on_event(self, change: WatchEventType, item: Json, now: float) -> None:
        """One pod."""
        del now
        if change is WatchEventType.DELETED:
            self.pods.pop(name_of(item), None)
        else:
            self.pods[name_of(item)] = item
        self.ring()

    # -- messages

    def on_message(self, subject: str, type_: str, data: bytes) -> None:
        """One message."""
        self.messages.append(ObservedMessage(subject, type_, data))
        if subject.split(".")[3] == "usage":
            for use in decode_usage(data).containers:
                self._measure(use)
        self.ring()

    def remember(self, message: Message) -> None:
        """Remember it as a line, unless such messages come all the time."""
        if message.subject.split(".")[3] not in _MANY:
            self.events.append(as_line(message)[_CLOCK:])

    def steps(self, uid: str) -> list[str]:
        """The steps of a pod's allocation that were published, in order, each once."""
        mine = (t for t in self.messages if f".{uid}." in t.subject)
        return list(dict.fromkeys(t.subject.rpartition(".")[2] for t in mine))

    def trace_of(self, name: str) -> str:
        """The id of a pod's trace, of the W3C trace context that it was given; empty = it has
        none."""
        notes = self.pods.get(name, {}).get("metadata", {}).get("annotations", {})
        return str([*notes.get(TRACE_KEY, "").split("-"), ""][1])

    def _measure(self, use: ContainerUse) -> None:
        measured = self.measured.setdefault((use.uid, use.container), ObservedUse())
        memory = sum(card.memory_bytes for card in use.cards) / (1 << 20)
        measured.memory_mib = max(measured.memory_mib, memory)
        measured.enforced, measured.gaps = use.enforced, use.gaps
        measured.by = next((card.measured_by for card in use.cards), measured.by)
        cores = sum(card.cores_percent for card in use.cards)
        if cores:
            measured.cores = (*measured.cores, cores)


async def follow_pods(kube: Kube, kubeconfig: str, seen: Observations) -> NoReturn:
    """Keep `seen` up to date with the API server."""
    watched: ListWatch[Json] = ListWatch(paths.PODS, msgspec.json.Decoder(dict[str, Any]).decode)
    settings = KubeSettings(kubeconfig=kubeconfig, retry_most_s=1)
    await Reflector(kube, watched, seen, settings=settings).run()


async def follow_cards(kube: Kube, kubeconfig: str, feed: ClusterFeed) -> None:
    """Keep the feed up to date with the nodes and pods of the API server."""
    settings = KubeSettings(kubeconfig=kubeconfig, retry_most_s=1)
    nodes = Reflector(kube, ListWatch(paths.NODES, feed.node), NodeFeed(feed), settings=settings)
    pods = Reflector(kube, ListWatch(paths.PODS, feed.pod), PodFeed(feed), settings=settings)
    async with open_tasks() as tasks:
        tasks.create_task(nodes.run(), name="nodes")
        await nodes.synced.wait()
        await pods.run()


async def follow_messages(bus: Bus, cluster: str, seen: Observations, feed: ClusterFeed) -> None:
    """Keep `seen` and the feed up to date with the bus."""
    now = asyncio.get_running_loop().time
    feed.serves(cluster)
    async with bus.subscribe(f"{ROOT}.{cluster}.>") as messages:
        async for message in messages:
            try:
                seen.on_message(message.subject, message.envelope.type, message.data)
                seen.remember(message)
            except msgspec.DecodeError as e:
                log.warning("message not readable", subject=message.subject, why=str(e))
            if message.subject.split(".")[3] == "usage":
                feed.take_usage(message, now())
