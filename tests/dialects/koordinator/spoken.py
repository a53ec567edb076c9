"""Koordinator's manifests in short: `a_koord_pod("sh=1 core=50")`, `devices(a_device(0))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tessera_core.dialects.koordinator import Options, dialect
from tessera_schema.grants import Share
from tessera_schema.kube import Container, Custom, ObjectMeta, Pod
from tessera_testing.builders import a_container, a_pod

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
LABEL = "koordinator.sh/gpu-isolation-provider"
HALF = "sh=1 core=50 ratio=50"
NAMES = {
    "nv": "nvidia.com/gpu",
    "gpu": "koordinator.sh/gpu",
    "sh": "koordinator.sh/gpu.shared",
    "core": "koordinator.sh/gpu-core",
    "mem": "koordinator.sh/gpu-memory",
    "ratio": "koordinator.sh/gpu-memory-ratio",
}
KOORDINATOR = dialect(Options())
UUIDS = (
    "GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d",
    "GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2",
)


def amounts(text: str) -> dict[str, str]:
    """`core=50 mem=8Gi` -> resource names and quantities."""
    pairs = (pair.split("=", 1) for pair in text.split())
    return {NAMES.get(short, short): quantity for short, quantity in pairs}


def needs(text: str, **facts: Any) -> Container:
    return a_container(amounts(text), amounts(text), **facts)


def a_koord_pod(*texts: str, name: str = "p", isolation: str = "", **facts: Any) -> Pod:
    """A pod of koord-scheduler with one container for each text."""
    labels = {LABEL: isolation} if isolation else {}
    return a_pod(
        *(needs(text) for text in texts), name=name, labels=labels, scheduler="koord-scheduler",
        **facts,
    )  # fmt: skip


def a_device(
    minor: int,
    memory: str = "24Gi",
    *,
    switch: str | None = None,
    numa: int = 0,
    **facts: Any,
) -> dict[str, Any]:
    """One healthy GPU of a Device object; `switch` gives it a topology."""
    topology = {"socketID": -1, "nodeID": numa, "pcieID": switch, "busID": f"0000:{minor:02x}:00.0"}
    return {
        "type": "gpu",
        "minor": minor,
        "health": True,
        "resources": {
            "koordinator.sh/gpu-core": "100",
            "koordinator.sh/gpu-memory": memory,
            "koordinator.sh/gpu-memory-ratio": "100",
        },
        **({"topology": topology} if switch is not None else {}),
        **facts,
    }


def devices(*entries: object, node: str = "n1", labels: Mapping[str, str] | None = None) -> Custom:
    """The Device object of a node."""
    meta = ObjectMeta(name=node, labels=dict(labels or {}))
    return Custom(kind="Device", metadata=meta, spec={"devices": list(entries)})


def flat(count: int, memory: str, first: int = 0) -> Custom:
    """Cards without topology."""
    return devices(*(a_device(i, memory) for i in range(first, first + count)))


def pairs_of_eight(memory: str) -> Custom:
    """Eight cards, a switch for every two, a NUMA node for every four."""
    return devices(*(a_device(i, memory, switch=str(i // 2), numa=i // 4) for i in range(8)))


def shares(*held: tuple[int, int, float], container: str = "c0") -> tuple[Share, ...]:
    """(index, bytes, cores) -> one share each, on cards called card-0, card-1, ..."""
    return tuple(
        Share(
            container=container, position=0, vendor="nvidia", dialect="koordinator",
            card=f"card-{i}", index=i, memory_bytes=memory, cores_percent=cores,
        )
        for i, memory, cores in held
    )  # fmt: skip


def bound(minors: Sequence[int], ratio: int = 100, *, node: str = "n1", name: str = "old") -> Pod:
    """A pod that Koordinator placed: so much of each card."""
    entries = ",".join(
        f'{{"minor":{m},"resources":{{"koordinator.sh/gpu-memory-ratio":"{ratio}"}}}}'
        for m in minors
    )
    text = f'{{"gpu":[{entries}]}}'
    asked = f"sh={len(minors)} ratio={ratio * len(minors)}"
    return a_koord_pod(asked, name=name, annotations={ALLOCATED: text}, node=node)
