"""All agents of a cluster in one process, as far as they talk to the bus.

    python benchmarks/scale_agents.py URL CLUSTER COUNTS

CLUSTER says who runs where (`scale_cluster.Layout`). Every node publishes its cards once, and its
usage every ten seconds, as a digest, evenly spread, signed as agents do. NATS is not waited for, as
for usage it need not be. COUNTS gets a line of JSON a second: how many were sent, and how late the
last one was.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale_cluster import (
    CLUSTER,
    SPEAKER,
    VENDOR,
    Layout,
    PlacedPod,
    cards_of,
    read_layout,
)
from tessera_runtime.bus.client import NatsBus, open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_schema import subjects
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    DeviceState,
    NodeUsage,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import DEVICE_STATE, USAGE_MEASURED
from tessera_schema.subjects import DEVICES_BUCKET, token

INTERVAL_S: Final = 10.0
CONTENDED_EACH: Final = 100
"""Of so many nodes one has a contended card."""


class Sent(Struct):
    """In one second."""

    at: float
    messages: int = 0
    late_s: float = 0
    """Beyond its time, the latest."""


class Agents:
    """The agents of all nodes."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._epoch = int(time.time() * 1000)
        self._sequence = 0

    async def introduce(self, bus: NatsBus) -> None:
        """Publish every node's cards."""
        for node in self._layout.nodes:
            state = DeviceState(node=node, vendor=VENDOR, cards=tuple(cards_of(node)))
            data, key = encode(state), f"{token(node)}.{VENDOR}"
            envelope = self.envelope(node, DEVICE_STATE, data)
            await bus.put(DEVICES_BUCKET, key, envelope, data)

    async def publish(self, bus: NatsBus, counts: Path) -> None:
        """Publish usage for ever."""
        link, names = await bus.linked(), list(self._layout.nodes)
        each_s, start = INTERVAL_S / len(names), time.time()
        sent, number = Sent(start), 0
        with counts.open("ab") as lines:
            while True:
                now = time.time()
                while start + number * each_s <= now:
                    node = names[number % len(names)]
                    data = encode(self.usage(node, number % len(names), now))
                    envelope = self.envelope(node, USAGE_MEASURED, data)
                    subject = subjects.usage(CLUSTER, node)
                    await link.publish(subject, data, headers=envelope.headers())
                    sent.messages += 1
                    sent.late_s = max(sent.late_s, time.time() - start - number * each_s)
                    number += 1
                if now - sent.at >= 1:
                    lines.write(msgspec.json.encode(sent) + b"\n")
                    lines.flush()
                    sent = Sent(now)
                await asyncio.sleep(max(start + number * each_s - time.time(), 0.001))

    def usage(self, node: str, number: int, now: float) -> NodeUsage:
        """What the agent of the node of this number measured in the last interval. Two pods keep
        the first card of some nodes busy; nowhere is a card that rests."""
        pods = self._layout.nodes[node]
        on = Counter(pod.card for pod in pods)
        crowded = 0 if not number % CONTENDED_EACH else None
        return NodeUsage(
            node=node, vendor=VENDOR, at=now, interval_s=INTERVAL_S,
            containers=tuple(
                _use(node, pod, now, on[pod.card], waits=pod.card == crowded) for pod in pods
            ),
            cards=tuple(
                CardLoad(
                    card=card.id, memory_used_bytes=5 << 30, cores_percent=60, crowded_percent=0
                )
                for card in cards_of(node)
            ),
        )  # fmt: skip

    def envelope(self, node: str, kind: str, data: bytes) -> Envelope:
        """The signed envelope of the node's next message."""
        self._sequence += 1
        plain = Envelope(
            id=f"{node}-{self._sequence}", source=f"/tessera/agent/{node}.{VENDOR}", type=kind,
            time=datetime.now(UTC).isoformat(), epoch=self._epoch, sequence=self._sequence,
        )  # fmt: skip
        return replace(plain, signature=SPEAKER.sign(plain.order, data))


def _use(node: str, pod: PlacedPod, now: float, sharers: int, *, waits: bool) -> ContainerUse:
    use = CardUse(
        card=f"{node}-{pod.card}", memory_bytes=3 << 30, memory_limit_bytes=5 << 30,
        buffer_bytes=3 << 30, cores_percent=(100 if waits else 60) / sharers,
        cores_limit_percent=100, throttled_percent=80 if waits else 0, launches=4000,
        processes=1, last_active=now, memory_mean_bytes=3 << 30, memory_peak_bytes=3 << 30,
        cores_peak_percent=(100 if waits else 70) / sharers, idle_percent=0,
    )  # fmt: skip
    return ContainerUse(
        namespace=pod.namespace, pod=pod.name, uid=pod.uid, container="c", cards=(use,)
    )


async def run(url: str, layout: Path, counts: Path) -> None:
    """Publish until cancelled."""
    async with open_bus(BusSettings(url=url, cluster=CLUSTER), "agents", "0") as bus:
        agents = Agents(read_layout(layout))
        await bus.connection_generation(0)
        await agents.introduce(bus)
        await agents.publish(bus, counts)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
