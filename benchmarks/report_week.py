"""Writes a recording of a made-up week, as `tessera report --record` would have written it.

    python benchmarks/report_week.py [--owners 40] [--seed 1] > week.jsonl
    tessera report --from week.jsonl

How it is made up; the same seed gives the same week:

| what | how it is spread |
| --- | --- |
| owners | four of ten Deployments, two StatefulSets, two CronJobs (a run of two hours each night), two bare pods, in eight namespaces; 1 to 8 pods each |
| what they ask for | HAMi's, Volcano's, Koordinator's and GPU Manager's names in turn; an eighth, a quarter or a half of a card of 80 GiB, cores as much or none |
| GPU time | of each owner as Alibaba published it of PAI (`benchmarks.workloads_use`): median 1.5 % of a card, mean 10.5 %; by the hour uniform from 0 to twice that, in bursts of ten times the mean |
| memory | an owner's peak is Beta(2, 5) of what was granted, mean 29 %; a pod reaches 70 to 100 % of it, in one hour of its life, and otherwise half to all of that |
| throttled | of what is used above the granted cores |
| what is missing | a tenth of the owners run without the hook (`no-hook`); one node's agent is away for six hours |

And one owner is as users describe them: `ml/serve`, 12 pods that hold 480 GiB and peak at 61.
"""  # noqa: E501  (a table)

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec import Struct

from benchmarks.workloads_use import pai_percent
from tessera_core.utilization.recording import (
    HolderPod,
    RecordedShare,
    RecordingHeader,
    RecordingLine,
    UseDigest,
    WrittenContainer,
    encode_line,
)
from tessera_schema.kube import Quantity

BEGAN: Final = 1_790_000_000.0
HOURS: Final = 168
HOUR_S: Final = 3600.0
GIB: Final = 1 << 30
CARD_GIB: Final = 80
NODES: Final = 8
NAMESPACES: Final = 8
KINDS: Final = (*["Deployment"] * 4, *["StatefulSet"] * 2, *["CronJob"] * 2, *["Pod"] * 2)
PARTS: Final = (8, 4, 2)
AGENT_AWAY: Final = range(60, 66)
"""Hours in which the agent of the first node is away."""
SERVE_GIB: Final = 40
SERVE_PEAK_GIB: Final = 61 / 12
NOTE: Final = "made up by benchmarks/report_week.py: nobody's cluster"


class MadeOwner(Struct, frozen=True, kw_only=True):
    """Pods that are alike."""

    namespace: str
    kind: str
    name: str
    pods: int
    limits: dict[str, Quantity]
    granted_bytes: int
    cores: float
    """Percent of a card; 0 = none."""
    use: float
    """Percent of a card, in the mean."""
    peak_bytes: int
    hooked: bool = True
    even: bool = False
    """All pods reach the peak."""


def week(owners: int, seed: int) -> Iterator[RecordingLine]:
    """The recording's lines."""
    rng = random.Random(seed)
    yield RecordingHeader(cluster="made-up", period_s=HOUR_S, note=NOTE)
    for owner in (_serve(), *_owners(owners, rng)):
        for number in range(owner.pods):
            yield from _pod(owner, number, rng)


def limits_of(dialect: int, gib: int, cores: int) -> dict[str, Quantity]:
    """The same share in one of four dialects."""
    match dialect % 4:
        case 0:
            found = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": f"{gib * 1024}"}
            return {**found, "nvidia.com/gpucores": f"{cores}"} if cores else {**found}
        case 1:
            found = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": f"{gib * 1024}"}
            return {**found, "volcano.sh/vgpu-cores": f"{cores}"} if cores else {**found}
        case 2:
            return {"koordinator.sh/gpu-core": f"{cores or 100 * gib // CARD_GIB}",
                    "koordinator.sh/gpu-memory": f"{gib}Gi"}  # fmt: skip
        case _:
            return {"tencent.com/vcuda-core": f"{cores or 100 * gib // CARD_GIB}",
                    "tencent.com/vcuda-memory": f"{gib * 4}"}  # fmt: skip


def _serve() -> MadeOwner:
    return MadeOwner(
        namespace="ml", kind="Deployment", name="serve", pods=12,
        limits=limits_of(0, SERVE_GIB, 20), granted_bytes=SERVE_GIB * GIB, cores=20, use=4,
        peak_bytes=int(SERVE_PEAK_GIB * GIB), even=True,
    )  # fmt: skip


def _owners(count: int, rng: random.Random) -> Iterator[MadeOwner]:
    uses = pai_percent((np.arange(count) + 0.5) / count).tolist()
    rng.shuffle(uses)
    for number in range(count):
        kind, gib = KINDS[number % len(KINDS)], CARD_GIB // rng.choice(PARTS)
        dialect = number // len(KINDS) + number
        cores = 100 * gib // CARD_GIB if dialect % 4 > 1 or rng.random() < 0.5 else 0
        yield MadeOwner(
            namespace=f"team-{number % NAMESPACES}", kind=kind, name=f"app-{number}",
            pods=1 if kind == "Pod" else 7 if kind == "CronJob" else rng.randint(1, 8),
            limits=limits_of(dialect, gib, cores), granted_bytes=gib * GIB, cores=cores,
            use=uses[number], peak_bytes=int(rng.betavariate(2, 5) * gib * GIB),
            hooked=number % 10 != 9,
        )  # fmt: skip


def _pod(owner: MadeOwner, number: int, rng: random.Random) -> Iterator[RecordingLine]:
    name = owner.name if owner.kind == "Pod" else f"{owner.name}-{number}"
    node = rng.randrange(NODES)
    hours = range(24 * number, 24 * number + 2) if owner.kind == "CronJob" else range(HOURS)
    yield HolderPod(
        namespace=owner.namespace, name=name, uid=f"uid-{owner.namespace}-{name}",
        node=f"node-{node}", owner_kind="" if owner.kind == "Pod" else owner.kind,
        owner="" if owner.kind == "Pod" else owner.name, started=BEGAN + hours[0] * HOUR_S,
        containers=(WrittenContainer(name="main", limits=owner.limits),),
        shares=(
            RecordedShare(
                container="main", card=card_of(name, node), memory_bytes=owner.granted_bytes,
                resizable=True,
            ),
        ),
    )  # fmt: skip
    peak = owner.peak_bytes * (1.0 if owner.even else rng.uniform(0.7, 1.0))
    highest = rng.choice(hours)
    for hour in hours:
        away = node == 0 and hour in AGENT_AWAY
        yield _digest(owner, name, node, hour, 0 if away else HOUR_S,
                      peak * (1.0 if hour == highest else rng.uniform(0.5, 1.0)), rng)  # fmt: skip


def _digest(
    owner: MadeOwner, pod: str, node: int, hour: int, measured_s: float, memory: float,
    rng: random.Random,
) -> UseDigest:  # fmt: skip
    use = min(owner.use * rng.uniform(0, 2), 100.0)
    above = max(use - owner.cores, 0) if owner.cores else 0.0
    gpu_s = (use - above) / 100 * measured_s
    busy = min(use / min(max(owner.use * 10, 1.0), 100.0), 1.0)
    return UseDigest(
        until=BEGAN + (hour + 1) * HOUR_S, period_s=HOUR_S, namespace=owner.namespace, pod=pod,
        container="main", card=card_of(pod, node), model="A100-SXM4-80GB",
        part=max(owner.granted_bytes / (CARD_GIB * GIB), owner.cores / 100),
        granted_bytes=owner.granted_bytes, held_s=HOUR_S, measured_s=measured_s, gpu_s=gpu_s,
        idle_s=measured_s * (1 - busy), throttled_s=measured_s * min(above / 100, 1),
        byte_s=memory * 0.8 * measured_s, peak_bytes=int(memory) if measured_s else 0,
        gaps=() if owner.hooked else ("no-hook",),
    )  # fmt: skip


def card_of(pod: str, node: int) -> str:
    """The card of a pod: the same in every process, which `hash` is not."""
    return f"GPU-{node}-{sum(map(ord, pod)) % 8}"


def main() -> None:
    """Write the week to standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--owners", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for line in week(options.owners, options.seed):
        sys.stdout.buffer.write(encode_line(line))


if __name__ == "__main__":
    main()
