"""What is written on a placed pod, and what its containers are given."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import pytest

from tessera_core.dialect_kit.hami_format import DeviceListEntry, encode_lists
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD
from tessera_core.registry.registry import load
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import NOW_NS
from tests.dialects.hami.setting import ALLOCATED, Gpu, a_gpu_node, needs, planned

CACHE = "CUDA_DEVICE_MEMORY_SHARED_CACHE"


def env_of(outcome: PlanOutcome, container: str = "c0") -> dict[str, str]:
    return dict(outcome.injections[container].env)


def test_the_binding_carries_hamis_annotations() -> None:
    """ENC-29 and what every HAMi pod carries."""
    outcome = planned(a_pod(needs({"gpu": 1, "mem": 2000, "core": 1})), Gpu("nvidia-device-0"))
    seconds = str(NOW_NS // 10**9)
    notes = {k: v for k, v in outcome.annotations.items() if k.startswith("hami.io/")}
    assert notes == {
        "hami.io/vgpu-devices-to-allocate": "nvidia-device-0,NVIDIA,2000,1:;",
        "hami.io/vgpu-devices-allocated": "nvidia-device-0,NVIDIA,2000,1:;",
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": seconds,
    }


def test_containers_without_cards_keep_their_place_in_the_list() -> None:
    pod = a_pod(
        a_container(), needs({"gpu": 2, "mem": 10, "core": 20}), init=(needs({"gpu": 1, "mem": 5}),)
    )
    text = planned(pod, "a", "b").annotations[ALLOCATED]
    assert text == encode_lists(
        [
            [DeviceListEntry("b", "NVIDIA", 5, 0)],
            [],
            [DeviceListEntry("b", "NVIDIA", 10, 20), DeviceListEntry("a", "NVIDIA", 10, 20)],
        ]
    )


def test_what_was_written_is_read_back_as_what_was_granted() -> None:
    pod = a_pod(
        a_container(), needs({"gpu": 2, "mem": 10, "core": 100}), needs({"gpu": 1, "mem": 1})
    )
    outcome = planned(pod, "a", "b", "c")
    hami = load().dialects["hami"]
    written = a_pod(*pod.spec.containers, annotations={ALLOCATED: outcome.annotations[ALLOCATED]})
    cards = hami.inventory(a_gpu_node("a", "b", "c"), ())[0].cards
    held = hami.recorded(written, cards)
    assert held is not None
    assert outcome.grant is not None
    assert held.shares == outcome.grant.shares


def test_result_keys_on_a_new_pod_are_stripped() -> None:
    forged = {ALLOCATED: "other,NVIDIA,1,1:;", "hami.io/vgpu-node": "elsewhere"}
    outcome = planned(a_pod(needs({"gpu": 1, "mem": 1}), annotations=forged), "a")
    assert outcome.annotations[ALLOCATED] == "a,NVIDIA,1,0:;"
    assert any("removed" in w for w in outcome.warnings)


def test_a_container_is_given_its_cards_and_limits() -> None:
    """ALC-04, as far as the node's answer goes."""
    env = env_of(planned(a_pod(needs({"gpu": 1, "mem": 3000, "core": 50})), "GPU-03f69c50"))
    cache = env.pop(CACHE)
    assert env == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-03f69c50",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "50",
    }
    assert cache.startswith("/usr/local/vgpu/")
    assert cache.endswith(".cache")


def test_several_cards_have_a_limit_each_in_the_order_of_selection() -> None:
    env = env_of(planned(a_pod(needs({"gpu": 2, "pct": 50})), Gpu("a", mib=100), Gpu("b", mib=300)))
    assert env["NVIDIA_VISIBLE_DEVICES"] == "b,a"
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "150m"
    assert env["CUDA_DEVICE_MEMORY_LIMIT_1"] == "50m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == "0"


def test_a_usage_file_is_named_by_pod_and_container() -> None:
    pod = a_pod(*(needs({"gpu": 1, "mem": 1}) for _ in range(40)))
    outcome = planned(pod, *(Gpu(f"g{n}") for n in range(40)))
    for n in range(40):
        name = blake2b(f"{pod.metadata.uid}/c{n}".encode(), digest_size=16).hexdigest()
        assert env_of(outcome, f"c{n}")[CACHE] == f"/usr/local/vgpu/{name}.cache"


def test_every_container_has_its_own_usage_file_and_keeps_it() -> None:
    pod = a_pod(needs({"gpu": 1, "mem": 1}), needs({"gpu": 1, "mem": 1}))
    first, again = planned(pod, "a"), planned(pod, "a")
    assert env_of(first, "c0")[CACHE] != env_of(first, "c1")[CACHE]
    assert env_of(first, "c0")[CACHE] == env_of(again, "c0")[CACHE]


def test_the_hook_is_preloaded_read_only() -> None:
    given = planned(a_pod(needs({"gpu": 1})), "a").injections["c0"]
    assert {m.destination for m in given.mounts} == {HOOK_LIBRARY, PRELOAD}
    assert all(m.read_only for m in given.mounts)
    assert not given.devices


def test_containers_without_cards_are_given_nothing() -> None:
    outcome = planned(a_pod(a_container(name="plain"), needs({"gpu": 1})), "a")
    assert "plain" not in outcome.injections
    assert load().vendors["nvidia"].deny == {"NVIDIA_VISIBLE_DEVICES": "void"}


def test_a_limit_is_never_0_which_would_be_none() -> None:
    env = env_of(planned(a_pod(needs({"gpu": 1, "pct": 1})), Gpu("a", mib=50)))
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "1m"


@pytest.mark.parametrize(
    ("options", "own", "want"),
    [
        ({"device_memory_scaling": 1.5}, {}, {"CUDA_OVERSUBSCRIBE": "true"}),
        ({"device_memory_scaling": 1}, {}, {"CUDA_OVERSUBSCRIBE": None}),
        (
            {"lib_cuda_log_level": "3"},
            {},
            {"LIBCUDA_LOG_LEVEL": "3", "TESSERA_LOG_FILE": "stderr"},
        ),
        (
            {"lib_cuda_log_level": "3"},
            {"LIBCUDA_LOG_LEVEL": "1"},
            {"LIBCUDA_LOG_LEVEL": None, "TESSERA_LOG_FILE": "stderr"},
        ),
        (
            {"lib_cuda_log_level": "3"},
            {"TESSERA_LOG_FILE": "/var/log/hook"},
            {"LIBCUDA_LOG_LEVEL": "3", "TESSERA_LOG_FILE": None},
        ),
        ({}, {}, {"LIBCUDA_LOG_LEVEL": None, "TESSERA_LOG_FILE": None}),
        ({"disable_core_limit": True}, {}, {"GPU_CORE_UTILIZATION_POLICY": "disable"}),
        (
            {"disable_core_limit": True},
            {"GPU_CORE_UTILIZATION_POLICY": "force"},
            {"GPU_CORE_UTILIZATION_POLICY": None},
        ),
        ({}, {"CUDA_DISABLE_CONTROL": "true"}, {"CUDA_DISABLE_CONTROL": "false"}),
    ],
)
def test_options_and_the_containers_own_choices_are_followed(
    options: Mapping[str, Any], own: Mapping[str, str], want: Mapping[str, str | None]
) -> None:
    outcome = planned(a_pod(needs({"gpu": 1}, env=own)), "a", config={"hami": options})
    env = env_of(outcome)
    assert {name: env.get(name) for name in want} == want
