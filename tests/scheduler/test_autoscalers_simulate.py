"""An autoscaler sends whole nodes that do not exist: the answer is where the pod would have room,
and nothing is reserved, recorded or published."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tessera_runtime.kube import paths
from tessera_scheduler.scheduler import Scheduler
from tests.scheduler.fake_cluster import FakeCluster, leading

GPU = "nvidia.com/gpu"
CARD = "GPU-{},10,{},100,NVIDIA-A10,0,true,{},hami-core:"


def a_template(name: str, *mib: int) -> dict[str, Any]:
    """A node as a node group describes it: HAMi's register lists its cards."""
    register = "".join(CARD.format(f"{name}-{i}", size, i) for i, size in enumerate(mib))
    return {
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": register}},
        "status": {"allocatable": {GPU: str(10 * len(mib))}},
    }


def a_pod(name: str, mib: int, cards: int = 1) -> dict[str, Any]:
    limits = {GPU: str(cards), "nvidia.com/gpumem": str(mib)} if cards else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }


def simulated(scheduler: Scheduler, pod: dict[str, Any] | None, *nodes: Any) -> dict[str, Any]:
    body = {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None}
    found: dict[str, Any] = msgspec.json.decode(
        scheduler.extender.filter(msgspec.json.encode(body))
    )
    return found


@pytest.mark.looptime
async def test_templates_with_room_are_answered_as_they_were_sent() -> None:
    cluster = FakeCluster()
    small, large, none = a_template("small", 8000), a_template("large", 24000, 24000), {
        "metadata": {"name": "none"}
    }  # fmt: skip
    async with leading(cluster) as scheduler:
        answer = simulated(scheduler, a_pod("a", 16000), small, large, none)
        assert answer["Nodes"]["items"] == [large]
        assert answer["Error"] == ""
        assert answer["FailedNodes"] == {
            "small": "CardInsufficientMemory", "none": "NodeHasNoCards",
        }  # fmt: skip
        two = simulated(scheduler, a_pod("b", 8000, cards=2), small, large)
        assert two["Nodes"]["items"] == [large]
        assert simulated(scheduler, a_pod("c", 1, cards=0), none)["Nodes"]["items"] == [none]
        assert list(scheduler.ledger.entries()) == []
        assert scheduler.decisions.record("a", scheduler.ledger.fleet) is None
        assert "small" not in scheduler.ledger.fleet.rows
    assert not [p for _, p in cluster.kube.calls if p.startswith(paths.NODES + "/small")]


@pytest.mark.looptime
async def test_running_pods_take_no_room_of_a_template_and_quotas_hold() -> None:
    cluster = FakeCluster()
    cluster.make(
        "/api/v1/namespaces/default/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "9000"}}},
    )
    template = a_template("t", 16000)
    async with leading(cluster) as scheduler:
        for name in ("a", "b"):  # each by itself on a new node
            assert simulated(scheduler, a_pod(name, 9000), template)["Nodes"]["items"] == [template]
        refused = simulated(scheduler, a_pod("c", 9001), template)
        assert refused["FailedNodes"] == {"t": "ResourceQuotaNotFit"}


@pytest.mark.looptime
async def test_nonsense_is_answered() -> None:
    async with leading(FakeCluster()) as scheduler:
        assert simulated(scheduler, None, a_template("t", 1))["Error"].startswith("Pod: missing")
        with pytest.raises(msgspec.DecodeError):
            simulated(scheduler, a_pod("a", 1), {"metadata": {"name": 5}})
        wrong = a_pod("a", 1)
        wrong["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "-1"
        answer = simulated(scheduler, wrong, a_template("t", 16000))
        assert answer["Nodes"] is None
        assert set(answer["FailedNodes"]) == {"t"}
