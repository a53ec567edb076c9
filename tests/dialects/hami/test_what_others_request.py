"""What stands around HAMi's scheduler: calls, regions of its library, quota objects, handshakes of
its plugin, and names of schedulers."""

from __future__ import annotations

from pathlib import Path
from struct import pack_into
from typing import Any

import msgspec
import pytest

from tessera_agent.usage.hami_core import region_of
from tessera_core.explain.decision_log import DecisionLog
from tessera_core.hook.hami_core_region import CACHE_ENV, MAGIC, read_region
from tessera_core.inventory.merge import cards_of
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.placer import Placer
from tessera_core.quota.objects import ResourceQuota, ResourceQuotaSpec
from tessera_core.registry.registry import load
from tessera_core.scheduling.filter import Filter
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_scheduler.cache.quotas import QuotaCache
from tessera_schema.cards import MIB
from tessera_schema.endpoints.extender import decode_args
from tessera_schema.injections import Mount
from tessera_schema.kube import ObjectMeta
from tessera_testing.builders import a_node
from tests.webhook.setting import a_manifest, admitted

FOLDER = "/usr/local/vgpu"


def test_a_filter_call_without_a_pod_is_answered_with_an_error() -> None:
    """FLT-01."""
    args = decode_args(b'{"Pod":null,"NodeNames":["node1"]}')
    ledger = Ledger()
    answer = Filter(load(), ledger, Placer(ledger.fleet), DecisionLog()).answer(args, 0, 0)
    assert msgspec.json.decode(answer.body)["Error"]


OFFSETS = {
    "num": 56, "uuids": 64, "limit": 1600, "smLimit": 1728, "procs": 1856,
    "lastKernelTime": 2_008_912,
}  # fmt: skip


def test_the_region_is_read_where_its_fields_are() -> None:
    """MON-07, for the fields that are read."""
    data = bytearray(2_008_952)
    pack_into("<iII", data, 0, MAGIC, 1, 1)
    pack_into("<Q", data, OFFSETS["num"], 2)
    data[OFFSETS["uuids"] + 96 : OFFSETS["uuids"] + 101] = b"GPU-b"
    pack_into("<2Q", data, OFFSETS["limit"], 5, 6)
    pack_into("<2Q", data, OFFSETS["smLimit"], 30, 40)
    pack_into("<i", data, OFFSETS["procs"], 7)
    pack_into("<i", data, OFFSETS["procs"] + 1928, 1)
    pack_into("<Q", data, OFFSETS["lastKernelTime"], 1_700_000_000)
    region = read_region(bytes(data))
    assert region.version == 1
    assert [card.uuid for card in region.cards] == ["", "GPU-b"]
    assert [card.limit_bytes for card in region.cards] == [5, 6]
    assert [card.cores_limit_percent for card in region.cards] == [30, 40]
    assert region.pids == (7,)
    assert region.last_kernel == 1_700_000_000


@pytest.mark.parametrize(
    ("file", "expected"), [("x.cache", "x.cache"), ("notes.txt", None), ("debug.cache.bak", None)]
)
def test_only_a_cache_file_is_a_region(tmp_path: Path, file: str, expected: str | None) -> None:
    """MON-05."""
    pod = PodSandbox(id="s", name="p", uid="u", namespace="ns")
    info = ContainerInfo(
        id="c", sandbox_id="s", name="main", env={CACHE_ENV: f"{FOLDER}/{file}"},
        mounts=(Mount(destination=FOLDER, source=str(tmp_path / "u_main"), read_only=False),),
    )  # fmt: skip
    found = region_of(pod, info)
    assert (found.file if found is not None else None) == expected


def a_quota(name: str, **hard: Any) -> bytes:
    quota = ResourceQuota(
        metadata=ObjectMeta(name=name, namespace="team"), spec=ResourceQuotaSpec(hard=hard)
    )
    return msgspec.json.encode(quota)


def test_an_object_that_limits_no_cards_takes_no_limit_with_it() -> None:
    """QUO-06."""
    ledger = Ledger()
    limits = QuotaCache(load(), ledger)
    own = a_quota("ours", **{"limits.nvidia.com/gpumem": 100})
    other = a_quota("other", **{"requests.nvidia.com/gpumem": 7, "0123456nvidia.com/gpumem": 7})
    for raw in (own, other):
        limits.on_update(limits.read_resource_quota(raw))
    limits.on_delete(limits.read_resource_quota(other))
    (limit,) = ledger.allowance("team").limits
    assert limit.memory_bytes == 100 * MIB


REGISTER = "hami.io/node-nvidia-register"
HANDSHAKE = "hami.io/node-handshake"
LONG_AGO = "Requesting_2024-01-02 00:00:00"


def healthy(register: str, handshake: str, allocatable: int | None) -> list[bool]:
    amounts = {} if allocatable is None else {"nvidia.com/gpu": str(allocatable)}
    node = a_node("n1", capacity=amounts, annotations={REGISTER: register, HANDSHAKE: handshake})
    return [card.healthy for card in cards_of(load(), node, {})[0]]


ONE, TWO = "g0,10,8192,100,P4,0,true:", "g0,10,8192,100,P4,0,true:g1,10,8192,100,P4,0,true:"


@pytest.mark.parametrize(
    ("register", "handshake", "allocatable", "expected"),
    [
        pytest.param(ONE, "Requesting", None, [True], id="HLT-02"),
        pytest.param(ONE, LONG_AGO, 8, [True], id="HLT-04"),
        pytest.param(TWO, LONG_AGO, 4, [True, True], id="HLT-05"),
        pytest.param(ONE, LONG_AGO, 4, [True], id="HLT-06"),
        pytest.param(ONE, LONG_AGO, 0, [False], id="HLT-07"),
        pytest.param(ONE, "", 4, [True], id="HLT-08"),
    ],
)
def test_cards_are_as_healthy_as_hamis_scheduler_would_say(
    register: str, handshake: str, allocatable: int | None, expected: list[bool]
) -> None:
    """Whether the register is read again, which is the rows' second value, is no question here: it
    is read with every change of the node, handshakes or not."""
    assert healthy(register, handshake, allocatable) == expected


@pytest.mark.parametrize("name", ["", "default-scheduler"])
def test_a_pod_without_a_scheduler_of_its_own_is_given_one_that_places_cards(name: str) -> None:
    """WH-05: it is called tessera-scheduler; hami-scheduler stays where a manifest names it."""
    pod = a_manifest({"nvidia.com/gpu": "1"}, schedulerName=name)
    assert admitted(pod)["spec"]["schedulerName"] == "tessera-scheduler"
    others = a_manifest({"nvidia.com/gpu": "1"}, schedulerName="hami-scheduler")
    assert admitted(others)["spec"]["schedulerName"] == "hami-scheduler"
