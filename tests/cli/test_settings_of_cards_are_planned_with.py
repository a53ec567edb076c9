"""`tessera place` with the ConfigMap of settings: as if the agents had read it."""

import json
from collections.abc import Mapping
from typing import Any

from tessera_schema.cards import MIB, Card
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tests.cli.conftest import Tessera

CARDS = tuple(
    Card(id=f"GPU-{i}", index=i, vendor="nvidia", model="NVIDIA-A10", memory_bytes=16384 * MIB)
    for i in range(2)
)
NODE = {
    "apiVersion": "v1", "kind": "Node",
    "status": {"capacity": {"cpu": "8", "pods": "110", "memory": "64Gi"}},
    "metadata": {
        "name": "gpu-1",
        "annotations": {
            "cards.tessera.dev/nvidia": encode_node_cards(NodeCardsAnnotation(cards=CARDS))
        },
    },
}  # fmt: skip
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"},
    "spec": {
        "containers": [
            {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpumem": "12000"}}}
        ]
    },
}  # fmt: skip


def a_pod(name: str, mib: str, *, guaranteed: bool = False) -> dict[str, Any]:
    limits = {"nvidia.com/gpumem": mib}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "annotations": {"tessera.dev/class": "guaranteed"} if guaranteed else {},
        },
        "spec": {"containers": [{"name": "m", "image": "i", "resources": {"limits": limits}}]},
    }  # fmt: skip


def settings(text: str, **more: str) -> dict[str, object]:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"settings.yaml": text, **more},
        "metadata": {"name": "tessera-node-settings", "namespace": "tessera-system"},
    }  # fmt: skip


def dumped(*objects: Mapping[str, object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})


def test_a_hidden_card_takes_no_pod_and_is_named_so(tessera: Tessera) -> None:
    hidden = settings("nodes: [{hidden: {models: [a10]}}]")
    ran = tessera("place", "--why", "-f", "-", stdin=dumped(NODE, POD, hidden))
    assert ran.status == 2
    assert "CardHidden" in ran.out
    assert "hidden by settings of its node" in ran.out
    assert tessera("place", "-f", "-", stdin=dumped(NODE, POD)).status == 0


def test_scaled_memory_counts_and_the_physical_size_is_listed(tessera: Tessera) -> None:
    half = settings("nodes: [{names: ['gpu-*'], memory_scaling: 0.5, slots: 3}]")
    ran = tessera("place", "-f", "-", stdin=dumped(NODE, POD, half))
    assert (ran.status, "CardInsufficientMemory" in ran.out) == (2, True)
    listed = json.loads(tessera("place", "-f", "-", "-o", "json", stdin=dumped(NODE, half)).out)
    (card, _) = listed["nodes"][0]["cards"]
    assert (card["memory_mib"], card["physical_mib"], card["slots"]) == (8192, 16384, 3)


def test_more_memory_than_a_card_has_is_planned_with(tessera: Tessera) -> None:
    half_more = settings("nodes: [{memory_scaling: 1.5}]")
    pods = [a_pod(f"job-{i}", "8000") for i in range(6)]
    assert tessera("place", "-f", "-", stdin=dumped(NODE, *pods)).status == 2
    ran = tessera("place", "--cards", "-f", "-", stdin=dumped(NODE, *pods, half_more))
    assert ran.status == 0
    assert "0/24576 MiB" in ran.out
    assert "has 16384 MiB" in ran.out
    placed = tessera("place", "-o", "json", "-f", "-", stdin=dumped(NODE, *pods, half_more))
    assert [pod["cards"][0]["memory_mib"] for pod in json.loads(placed.out)["pods"]] == [8000] * 6


def test_a_guaranteed_pod_costs_more_and_learns_why_it_waits(tessera: Tessera) -> None:
    half_more = settings("nodes: [{memory_scaling: 1.5}]")
    whole = [a_pod(f"sure-{i}", "9000", guaranteed=True) for i in range(3)]
    ran = tessera("place", "--why", "-f", "-", stdin=dumped(NODE, *whole, half_more))
    assert ran.status == 2
    said = " ".join(ran.out.split())
    assert "asks 13500 MiB of a card, the freest of these has 11076 MiB of 24576 MiB" in said
    assert "9000 MiB that are guaranteed to lie on it count so much more" in said


def test_a_class_that_does_not_exist_is_refused(tessera: Tessera) -> None:
    odd = a_pod("odd", "1000")
    odd["metadata"]["annotations"] = {"tessera.dev/class": "precious"}
    ran = tessera("place", "-f", "-", stdin=dumped(NODE, odd))
    assert ran.status == 2
    assert "tessera.dev/class" in ran.out
    assert "guaranteed, burstable or best-effort" in " ".join(ran.out.split())


def test_settings_that_make_no_sense_stop_the_command(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", stdin=dumped(NODE, POD, settings("nodes: [{slots: 0}]")))
    assert ran.status == 1
    assert "settings.yaml: nodes[0].slots: 0: write int >= 1" in ran.err


def test_what_has_no_effect_is_said(tessera: Tessera) -> None:
    ran = tessera("place", "-f", "-", stdin=dumped(NODE, POD, settings("", other="x")))
    assert "other: nothing reads this" in ran.err
