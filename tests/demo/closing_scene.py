"""A play as it ends, for tests of what is drawn of it, and the captures of its closing screen.

python -m tests.demo.closing_scene --write
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tessera_cli.top.bars import BLOCKS
from tessera_core.occupancy.rows import CardRow, MeasuredShare, NodeRow, ShareRow
from tessera_demo.observations import Observations, ObservedUse
from tessera_demo.promises import Evidence, Inside, Promise
from tessera_demo.scenario import REFUSED, WAITS, name_of, read_scenario
from tessera_demo.screens.closing import ClosingFacts, closing
from tessera_demo.screens.pod_table import pod_rows
from tessera_embedded.collector import Collected
from tessera_schema.cards import MIB, Card
from tessera_schema.endpoints.visibility import Meta, PodExplanation
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant

WIDTHS: Final = (140, 80, 60)
CAPTURES: Final = Path(__file__).parent / "closing"
_CARDS: Final = {
    "gpu-1": (6, 24), "gpu-2": (2, 16), "gpu-5": (3, 16), "iluvatar-1": (2, 32),
    "mthreads-1": (2, 48),
}  # fmt: skip
"""Node -> how many cards of how many GiB."""
_GRANTED: Final[Mapping[str, tuple[str, Sequence[int], str, int, float]]] = {
    "iluvatar/poddemo": ("iluvatar-1", [1], "iluvatar", 16384, 50),
    "volcano/gpu-pod1": ("gpu-1", [0], "volcano", 1024, 0),
    "volcano/gpu-pod2": ("gpu-1", [0], "volcano", 1024, 0),
    "koordinator/pod-example": ("gpu-1", [1], "koordinator", 12288, 50),
    "mthreads/gpushare-pod-default": ("mthreads-1", [1], "mthreads", 16384, 50),
    "gpumanager/vcuda": ("gpu-2", [0], "gpumanager", 7680, 50),
    "gpumanager-two-cards/vcuda": ("gpu-1", [2, 3], "gpumanager", 24576, 100),
    "hami/serving": ("gpu-1", [5], "hami", 3000, 30),
    "aliyun/gpushare": ("gpu-5", [0], "aliyun", 13312, 30),
    "kai/gpu-sharing": ("gpu-5", [1], "kai", 13107, 0),
    "replicas/replica-of-a-quarter": ("gpu-5", [2], "replicas", 4096, 25),
}
"""Pod -> node, indexes, dialect, MiB and percent of each card."""
_WORDS: Final = {
    "hami/too-large-for-now": "no card of this cluster is that large (largest: 24576 MiB, NVIDIA "
    "A10): ask for at most nvidia.com/gpumem: 24576",
    "small-team/beyond-quota": "ResourceQuota gpu (limits.nvidia.com/gpumem) allows 4000 MiB of "
    "memory, 0 are used and 6000 asked",
}
_REFUSED: Final = (
    "admission webhook denied the request: spec.containers[0].resources.limits[tencent.com/"
    "vcuda-core]: 150: write a multiple of 100 for whole cards, such as 100 or 200, or less than "
    "100 for a part of one card."
)
_SPANS: Final = (
    ("scheduler.admit", 0, 0.8), ("scheduler.validate", 4, 0.2), ("scheduler.filter", 7, 1.0),
    ("scheduler.bind", 9, 17.3), ("agent.prepare", 33, 2.8), ("agent.start", 48, 0.2),
    ("agent.first_usage", 993, 0.2),
)  # fmt: skip


def a_grant(name: str) -> Grant:
    """What the pod holds."""
    node, indexes, dialect, mib, cores = _GRANTED[name]
    namespace, _, short = name.partition("/")
    shares = tuple(
        Share(
            container="main", position=0, vendor="acme", dialect=dialect, card=f"{node}-{i}",
            index=i, memory_bytes=mib * MIB, cores_percent=cores,
        )
        for i in indexes
    )  # fmt: skip
    return Grant(uid=f"uid-{name}", namespace=namespace, name=short, node=node, shares=shares)


def an_evidence() -> Evidence:
    """All pods of the demo's own scene, at its end."""
    seen, scene, inside = Observations(), read_scenario(), {}
    for pod in scene.pods:
        name = name_of(pod)
        if name in WAITS | REFUSED:
            continue
        grant = a_grant(name)
        whole = sum(share.memory_mib for share in grant.shares)
        cores = sum(share.cores_percent for share in grant.shares)
        seen.pods[name] = _running(pod, grant)
        seen.measured[grant.uid, "main"] = ObservedUse(whole / 2, (cores or 50, cores or 50))
        if name.partition("/")[0] not in ("iluvatar", "mthreads"):
            inside[grant.uid, "main"] = Inside(lines=[{"event": "card", "total_mib": whole}])
    seen.refused = dict.fromkeys(REFUSED, _REFUSED)
    explained = {
        name: PodExplanation(
            metadata=Meta(name=name, namespace=""), verdict="waiting", message="", advice=words
        )
        for name, words in _WORDS.items()
    }
    return Evidence(
        scene=scene, seen=seen, explained=explained, hooked={"acme"}, inside=inside,
        traced="hami/serving", trace=a_trace(),
    )  # fmt: skip


def a_trace() -> list[Collected]:
    """Of one pod."""
    return [
        Collected(
            trace="t", id=name, parent="", name=f"tessera.{name}",
            service=f"tessera-{name.partition('.')[0]}", process=1, start_ns=int(at * 1e6),
            end_ns=int((at + took) * 1e6), attributes={},
        )
        for name, at, took in _SPANS
    ]  # fmt: skip


def nodes() -> list[NodeRow]:
    """The cards, with the shares of all pods on them."""
    return [
        NodeRow(name=node, cards=tuple(_card(node, i, gib) for i in range(count)), measured=True)
        for node, (count, gib) in _CARDS.items()
    ]


def facts(*failed: Promise) -> ClosingFacts:
    """At the end of a play in which these checks failed."""
    kept = [
        Promise("lending grows", "it grows", kept=True, brief="a neighbour rested: 46 → 75 %"),
        Promise("resize live", "it is resized", kept=True, brief="resized live 3000 → 5000 MiB"),
        Promise(
            "plan by-hand", "a plan moves", kept=True,
            brief="a plan moved a pod for train-1: 3 card-seconds are lost, 3296 won within 3600 s",
        ),
    ]  # fmt: skip
    evidence = an_evidence()
    return ClosingFacts(
        promises=[*kept, *failed], took_s=47.3, nodes=nodes(), pods=pod_rows(evidence),
        traced=evidence.traced, trace=evidence.trace,
        next=["make demo ARGS=--keep", "make demo ARGS=--checks", "make place"],
    )  # fmt: skip


def captured(width: int) -> str:
    """The closing screen as text."""
    return "".join(f"{line.plain}\n" for line in closing(facts(), width, BLOCKS))


def _running(pod: Mapping[str, Any], grant: Grant) -> dict[str, Any]:
    notes = {**pod["metadata"].get("annotations", {}), GRANT_KEY: encode_grant(grant)}
    state = {"name": "main", "state": {"running": {}}}
    return {
        "metadata": {**pod["metadata"], "uid": grant.uid, "annotations": notes},
        "status": {"phase": "Running", "containerStatuses": [state]},
    }


def _card(node: str, index: int, gib: int) -> CardRow:
    card = Card(
        id=f"{node}-{index}", index=index, vendor="acme", model="Acme One",
        memory_bytes=gib * 1024 * MIB,
    )  # fmt: skip
    shares = [
        _share(grant, share)
        for grant in map(a_grant, _GRANTED)
        for share in grant.shares
        if share.card == card.id
    ]
    return CardRow(node=node, card=card, shares=tuple(shares))


def _share(grant: Grant, share: Share) -> ShareRow:
    measured = MeasuredShare(memory_bytes=share.memory_bytes // 2)
    return ShareRow(
        namespace=grant.namespace, name=grant.name, uid=grant.uid, node=grant.node,
        card=share.card, index=share.index, dialects=(share.dialect,),
        memory_bytes=share.memory_bytes, cores_percent=share.cores_percent, slots=1,
        exclusive=False, measured=measured,
    )  # fmt: skip


if __name__ == "__main__" and "--write" in sys.argv:
    for columns in WIDTHS:
        (CAPTURES / f"{columns}.txt").write_text(captured(columns))
