"""What of Koordinator's ElasticQuotas is written back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tessera_core.gang_scheduling.view import QueueDemand
from tessera_core.gang_status.elastic_quotas import REQUEST, RUNTIME, StatusQuota, quota_patch
from tessera_core.gangs.queue_objects import QueueReader
from tessera_core.gangs.queues import KOORDINATOR_QUOTA, QueueDimension, QueueSpec
from tessera_core.registry.registry import load
from tessera_schema.kube import Pod
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gangs.setting import a_queue

READER = QueueReader(load())
CARDS, CORES, MEMORY = (QueueDimension("nvidia", each) for each in ("cards", "cores", "memory"))
CPU = QueueDimension("", "cpu")
GPUS = {"nvidia.com/gpu": 8}
MIB = 2**20
LABEL = "quota.scheduling.koordinator.sh/"


def a_quota(
    most: Mapping[str, Any],
    *,
    name: str = "team",
    used: Any = None,
    notes: Any = None,
    labels: Any = None,
) -> StatusQuota:
    written = {
        "metadata": {
            "name": name, "namespace": "default", "resourceVersion": "7",
            "annotations": notes or {}, "labels": labels or {},
        },
        "spec": {"max": dict(most)}, "status": {"used": used or {}},
    }  # fmt: skip
    return msgspec.convert(written, StatusQuota)


def demand(used: float = 2, requested: float = 5, entitled: float = 4) -> QueueDemand:
    return QueueDemand(
        used={CARDS: used, MEMORY: 3 * MIB + 1, CPU: 4000}, requested={CARDS: requested},
        entitled={CARDS: entitled, MEMORY: 10 * MIB - 1},
    )  # fmt: skip


def patched(quota: StatusQuota, about: QueueDemand | None = None) -> dict[str, Any]:
    patch = quota_patch(quota, about or demand(), READER)
    return dict(msgspec.json.decode(patch)) if patch else {}


def test_the_numbers_are_in_the_names_of_the_quota() -> None:
    quota = a_quota({"nvidia.com/gpu": 8, "koordinator.sh/gpu-memory": "16Gi"})
    assert patched(quota) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {
                REQUEST: '{"koordinator.sh/gpu-memory":"0","nvidia.com/gpu":"5"}',
                RUNTIME: f'{{"koordinator.sh/gpu-memory":"{10 * MIB - 1}","nvidia.com/gpu":"4"}}',
            },
        },
        "status": {"used": {"koordinator.sh/gpu-memory": str(3 * MIB + 1), "nvidia.com/gpu": "2"}},
    }


def test_what_is_used_is_rounded_up_and_what_is_left_to_the_quota_down() -> None:
    patch = patched(a_quota({"nvidia.com/gpumem": 8192}))
    assert patch["status"]["used"] == {"nvidia.com/gpumem": "4"}
    assert patch["metadata"]["annotations"][RUNTIME] == '{"nvidia.com/gpumem":"9"}'


def test_cards_alone_are_written_and_what_stands_still_is_taken_out() -> None:
    quota = a_quota({"cpu": 9, **GPUS}, used={"cpu": "4", "nvidia.com/gpu": "2"})
    assert patched(quota)["status"] == {"used": {"cpu": None}}


def test_nothing_is_written_where_nothing_differs() -> None:
    notes = {REQUEST: '{"nvidia.com/gpu":5}', RUNTIME: '{"nvidia.com/gpu": "4"}'}
    assert patched(a_quota(GPUS, used={"nvidia.com/gpu": 2}, notes=notes)) == {}


def test_an_annotation_that_cannot_be_read_is_written_again() -> None:
    notes = {REQUEST: "five", RUNTIME: '{"nvidia.com/gpu": "4"}'}
    patch = patched(a_quota(GPUS, used={"nvidia.com/gpu": 2}, notes=notes))
    assert patch["metadata"]["annotations"] == {REQUEST: '{"nvidia.com/gpu":"5"}'}


def test_built_in_quotas_are_left_alone_and_a_tree_of_its_own_has_no_runtime() -> None:
    assert patched(a_quota(GPUS, name="koordinator-root-quota")) == {}
    patch = patched(a_quota(GPUS, labels={LABEL + "tree-id": "t"}))
    assert set(patch["metadata"]["annotations"]) == {REQUEST}


# -- the numbers themselves


def quota(name: str, least: int, most: int, parent: str = "", lends: str = "true") -> QueueSpec:
    labels = {
        LABEL + "allow-lent-resource": lends,
        **({LABEL + "parent": parent} if parent else {}),
    }
    return a_queue(
        name, KOORDINATOR_QUOTA, metadata={"namespace": "x", "labels": labels},
        spec={"min": {"nvidia.com/gpu": least}, "max": {"nvidia.com/gpu": most}},
    )  # fmt: skip


def in_quota(name: str, of: str) -> Pod:
    return a_pod(a_container({"nvidia.com/gpu": 1}), name=name, labels={LABEL + "name": of})


def test_what_waits_is_requested_and_a_quota_may_have_what_others_leave() -> None:
    """8 cards: `a` waits for 5, which is 2 beyond its cap, `b` does not lend its 3."""
    queues = [quota("org", 0, 8), quota("a", 2, 3, "org"), quota("b", 3, 8, "org", lends="false")]
    cluster = GangCluster({"n1": 8}, queues=queues)
    for n in range(5):
        cluster.queues.put_pod(in_quota(f"p{n}", "a"))
    found = cluster.queues.demands(KOORDINATOR_QUOTA)
    assert {name: each.requested.get(CARDS) for name, each in found.items()} == {
        "a": 5, "b": 3, "org": 6,
    }  # fmt: skip
    assert {name: each.entitled[CARDS] for name, each in found.items()} == {
        "a": 3, "b": 3, "org": 6,
    }  # fmt: skip
    assert all(not each.used.get(CARDS) for each in found.values())


def test_a_parent_uses_what_its_children_use() -> None:
    cluster = GangCluster({"n1": 4}, queues=[quota("org", 0, 8), quota("a", 2, 3, "org")])
    pods = [in_quota(f"p{n}", "a") for n in range(2)]
    for pod in pods:
        cluster.queues.put_pod(pod)
    cluster.create(*pods)
    cluster.run()
    found = cluster.queues.demands(KOORDINATOR_QUOTA)
    assert found["a"].used[CARDS] == found["org"].used[CARDS] == 2
    assert found["a"].requested[CARDS] == 2
