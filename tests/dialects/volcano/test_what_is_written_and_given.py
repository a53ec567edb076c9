"""Annotations of the Binding and the environment of containers (F3, G10, G11, J9, 4.5)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.injections import Injection
from tessera_schema.kube import Pod
from tessera_testing.builders import a_card, a_container, a_pod
from tests.dialects.volcano.setting import made, memory, number, vgpu

NOW_NS = 1_593_764_466_550_835_304
CARDS = {f"GPU-{i}": a_card(f"GPU-{i}", i, mib=11178, vendor="nvidia") for i in range(4)}


def a_share(position: int, index: int, mib: int = 0, cores: float = 0, **more: Any) -> Share:
    return Share(
        container=f"c{position}",
        position=position,
        vendor="nvidia",
        dialect="volcano",
        card=f"GPU-{index}",
        index=index,
        memory_bytes=mib * MIB,
        cores_percent=cores,
        **more,
    )


def placed(pod: Pod, *shares: Share) -> Placed:
    return Placed(pod=pod, node="n1", shares=shares, cards=CARDS, now_ns=NOW_NS)


def written(pod: Pod, *shares: Share, **options: Any) -> Mapping[str, str]:
    return made(**options).annotate(placed(pod, *shares))


def given(pod: Pod, *shares: Share, container: int = 0, **options: Any) -> Injection:
    return made(**options).inject(placed(pod, *shares), pod.spec.containers[container])


def test_the_binding_carries_index_and_time_in_nanoseconds() -> None:
    # F3, with the seed's values
    assert written(a_pod(memory(1024)), a_share(0, 0, 1024)) == {
        "volcano.sh/gpu-index": "0",
        "volcano.sh/predicate-time": "1593764466550835304",
    }


def test_several_cards_are_listed_once_each_without_spaces() -> None:
    shares = [a_share(0, i, exclusive=True) for i in (0, 1, 3)] + [a_share(1, 1, exclusive=True)]
    pod = a_pod(number(3), number(1))
    assert written(pod, *shares)["volcano.sh/gpu-index"] == "0,1,3"


def test_vgpu_writes_its_six_keys_with_times_in_seconds() -> None:
    assert written(a_pod(vgpu(1, 100, 30)), a_share(0, 1, 100, 30)) == {
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": "1593764466",
        "volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,100,30:",
        "volcano.sh/devices-to-allocate": "GPU-1,NVIDIA,100,30:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1593764466",
    }


def test_containers_without_a_request_have_no_segment() -> None:
    # J9
    pod = a_pod(vgpu(1, 100), a_container(), vgpu(1, 200))
    shares = a_share(0, 1, 100), a_share(2, 1, 200)
    assert written(pod, *shares)["volcano.sh/vgpu-ids-new"] == (
        "GPU-1,NVIDIA,100,0:;GPU-1,NVIDIA,200,0:"
    )


def test_cards_of_one_container_are_listed_in_the_order_of_choice() -> None:
    pod = a_pod(vgpu(2, 100))
    shares = a_share(0, 3, 100), a_share(0, 1, 100)
    assert written(pod, *shares)["volcano.sh/vgpu-ids-new"] == (
        "GPU-3,NVIDIA,100,0:GPU-1,NVIDIA,100,0:"
    )


def test_vgpu_memory_is_written_in_blocks_of_the_factor() -> None:
    text = written(a_pod(vgpu(1, 10)), a_share(0, 0, 100), vgpu_memory_factor=10)
    assert text["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,10,0:"


def test_every_key_that_is_written_is_protected_from_users() -> None:
    keys = {*written(a_pod(memory(1)), a_share(0, 0, 1)), *written(a_pod(vgpu()), a_share(0, 0))}
    assert keys <= set(made().result_keys)
    assert "volcano.sh/gpu-assigned" in made().result_keys


def test_a_shared_card_is_given_as_the_seed_shows() -> None:
    assert given(a_pod(memory(1024)), a_share(0, 0, 1024)).env == {
        "NVIDIA_VISIBLE_DEVICES": "0",
        "VOLCANO_GPU_ALLOCATED": "1024",
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
    }


@pytest.mark.parametrize(("container", "allocated"), [(0, "512"), (1, "1024")])
def test_both_containers_of_a_pod_get_their_part(container: int, allocated: str) -> None:
    # G10: upstream's second container fails
    pod = a_pod(memory(512), memory(1024))
    env = given(pod, a_share(0, 2, 512), a_share(1, 2, 1024), container=container).env
    assert env["NVIDIA_VISIBLE_DEVICES"] == "2"
    assert env["VOLCANO_GPU_ALLOCATED"] == allocated


def test_blocks_are_reported_in_mib() -> None:
    # G11
    env = given(a_pod(memory(100)), a_share(0, 0, 1000), gpu_memory_factor=10).env
    assert env["VOLCANO_GPU_ALLOCATED"] == "1000"
    assert env["VOLCANO_GPU_MEMORY_TOTAL"] == "11178"


def test_whole_cards_are_reported_by_number() -> None:
    shares = [a_share(0, i, 11178, 100, exclusive=True) for i in (0, 3)]
    assert given(a_pod(number(2)), *shares).env == {
        "NVIDIA_VISIBLE_DEVICES": "0,3",
        "VOLCANO_GPU_ALLOCATED": "2",
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
    }


def test_containers_with_whole_cards_see_their_own_only() -> None:
    pod = a_pod(number(1), number(2))
    shares = [a_share(0, 0, exclusive=True)] + [a_share(1, i, exclusive=True) for i in (1, 2)]
    assert given(pod, *shares, container=1).env["NVIDIA_VISIBLE_DEVICES"] == "1,2"


def test_vgpu_limits_are_reported_card_by_card() -> None:
    env = dict(given(a_pod(vgpu(2, 100, 30)), a_share(0, 3, 100, 30), a_share(0, 1, 100, 30)).env)
    cache = env.pop("CUDA_DEVICE_MEMORY_SHARED_CACHE")
    assert env == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-3,GPU-1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "100m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "100m",
        "CUDA_DEVICE_SM_LIMIT": "30",
    }
    name = cache.rpartition("/")[2].removesuffix(".cache")
    assert uuid.UUID(name).version == 4


def test_the_cache_is_the_same_for_one_container_and_no_other() -> None:
    pod = a_pod(vgpu(), vgpu())
    shares = a_share(0, 0), a_share(1, 0)
    key = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
    first = given(pod, *shares).env[key]
    assert given(pod, *shares).env[key] == first
    assert given(pod, *shares, container=1).env[key] != first


def test_scaled_and_unlimited_cores_are_reported() -> None:
    pod, share = a_pod(vgpu()), a_share(0, 0)
    assert given(pod, share, core_scaling=2).env["CUDA_OVERSUBSCRIBE"] == "true"
    env = given(pod, share, disable_core_limit=True).env
    assert env["GPU_CORE_UTILIZATION_POLICY"] == "disable"
    assert not {"CUDA_OVERSUBSCRIBE", "GPU_CORE_UTILIZATION_POLICY"} & given(pod, share).env.keys()


def test_scaled_cores_are_the_cards_own_where_tesseras_agent_is() -> None:
    scaled = load({"volcano": {"core_scaling": 2}}).card_settings("nvidia")
    assert scaled.core_scaling == 2
    unscaled, hamis = load(), load({"hami": {"device_core_scaling": 3}})
    assert unscaled.card_settings("nvidia").core_scaling == 1
    assert hamis.card_settings("nvidia").core_scaling == 3


def test_containers_without_shares_are_given_nothing() -> None:
    assert given(a_pod(memory(1), a_container()), a_share(0, 0, 1), container=1) == Injection()
    assert given(a_pod(vgpu(), a_container()), a_share(0, 0, 1), container=1) == Injection()
    assert written(a_pod(memory(1))) == {}


@pytest.mark.parametrize("container", [memory(1), number(1), vgpu(1, 1, 1)])
def test_no_library_is_mounted_next_to_the_common_hook(container: Any) -> None:
    assert given(a_pod(container), a_share(0, 0, 1)).mounts == ()
