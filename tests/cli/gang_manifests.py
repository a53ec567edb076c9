"""Manifests of gangs and queues, and what `tessera place` says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.cluster import bound, pod, text
from tests.cli.conftest import Ran, Tessera

EXAMPLES = Path(__file__).parents[2] / "examples/gangs"
GROUP = "scheduling.k8s.io/group-name"
KOORD = "gang.scheduling.koordinator.sh/"
CARD = {"nvidia.com/gpu": 1}


def member(name: str, gang: str, limits: dict[str, Any] | None = None, **spec: Any) -> Any:
    """A pod of a Volcano gang; it asks for a whole card unless `limits` says else."""
    made = pod(name, CARD if limits is None else limits, annotations={GROUP: gang})
    made["spec"].update(spec)
    return made


def members(gang: str, count: int, **more: Any) -> list[Any]:
    return [member(f"{gang}{n}", gang, **more) for n in range(1, count + 1)]


def koord(name: str, gang: str, *, bundle: str = "", **keys: str) -> Any:
    """A pod of a Koordinator gang of two that has no object."""
    notes = {KOORD + "name": gang, KOORD + "min-available": "2"}
    if bundle:
        notes[KOORD + "groups"] = json.dumps([f"default/{each}" for each in bundle])
    return pod(name, CARD, annotations={**notes, **keys})


def group(name: str, api: str = "scheduling.volcano.sh/v1beta1", **spec: Any) -> Any:
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def queue(name: str, state: str = "Open", **spec: Any) -> Any:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
        "spec": spec, "status": {"state": state},
    }  # fmt: skip


def holder(name: str, card: int, cards_node: str = "n1") -> Any:
    """A running pod that has a whole card."""
    return bound(name, f"GPU-{cards_node}-{card},NVIDIA,16384,100:;", on=cards_node)


def planned(tessera: Tessera, *objects: Any) -> Ran:
    return tessera("place", "-f", "-", "-o", "json", stdin=text(*objects))


def placed(ran: Ran) -> set[str]:
    return {name for name, verdict in ran.verdicts.items() if verdict == "placed"}


def one_gang(ran: Ran) -> dict[str, Any]:
    (gang,) = ran.gangs.values()
    return gang
