"""What HAMi's webhook makes of a manifest, and what can never run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import ContainerChange, Rejected
from tessera_schema.kube import Pod, Quantity
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    CORE,
    GPU,
    MEM,
    NUMA_BIND,
    PCT,
    WEIGHTS,
    a_gpu_node,
    accepted,
    admitted,
    long,
    needs,
    rejected,
)

Amounts = Mapping[str, Quantity]


def after(pod: Pod, **options: Any) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Limits, requests and added environment of the pod's one container."""
    change = accepted(pod, **options).changes.get("c0", ContainerChange())
    before = pod.spec.containers[0].resources
    limits = {k: str(v) for k, v in before.limits.items()} | dict(change.limits)
    requests = {k: str(v) for k, v in before.requests.items()} | dict(change.requests)
    return limits, requests, dict(change.env)


@pytest.mark.parametrize(
    ("limits", "requests", "want"),
    [
        pytest.param({"gpu": 1}, {}, {"gpu": 1, "core": 100}, id="ADM-N01"),
        pytest.param({"core": 1}, {}, {"gpu": 1, "core": 1}, id="ADM-N02"),
        pytest.param({"mem": 1}, {}, {"gpu": 1, "mem": 1}, id="ADM-N03"),
        pytest.param({"pct": 1}, {}, {"gpu": 1, "pct": 1}, id="ADM-N04"),
        pytest.param({"gpu": 1, "pct": 0}, {}, {"gpu": 1, "pct": 0}, id="ADM-N06"),
        pytest.param({}, {"gpu": 1, "pct": 100}, {"gpu": 1, "pct": 100, "core": 100}, id="ADM-N09"),
        pytest.param({"gpu": 1, "pct": 50}, {}, {"gpu": 1, "pct": 50}, id="ADM-N10"),
        pytest.param({"gpu": 1, "core": 70}, {}, {"gpu": 1, "core": 70}, id="ADM-N11"),
        pytest.param({}, {"gpu": 1, "core": 55}, {"gpu": 1, "core": 55}, id="ADM-N12"),
        pytest.param({"pct": 100}, {}, {"gpu": 1, "pct": 100, "core": 100}, id="whole by percent"),
        pytest.param({"gpu": 2, "mem": 0}, {}, {"gpu": 2, "mem": 0}, id="memory of 0"),
        pytest.param({"gpu": "1k"}, {}, {"gpu": "1k", "core": 100}, id="1k"),
    ],
)
def test_limits_are_completed(limits: Amounts, requests: Amounts, want: Amounts) -> None:
    got, _, _ = after(a_pod(needs(limits, requests)))
    assert got == {name: str(amount) for name, amount in long(want).items()}


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({"gpu": 1}, {}),
        ({"gpu": 1, "mem": 3000, "core": 30}, {}),
        ({}, {"gpu": 1, "core": 55, "priority": 1}),
        ({"gpu": 2, "mem": 1000}, {"gpu": 1, "mem": 500}),
    ],
)
def test_requests_equal_limits_as_the_api_server_demands(
    limits: Amounts, requests: Amounts
) -> None:
    """ADM-N12 and the default cores: HAMi writes limits alone, and such pods are refused."""
    got_limits, got_requests, _ = after(a_pod(needs(limits, requests)))
    assert got_limits == got_requests


def test_a_priority_becomes_a_variable() -> None:
    """ADM-N15."""
    _, _, env = after(a_pod(needs({"gpu": 1, "priority": 5})))
    assert env == {"CUDA_TASK_PRIORITY": "5"}


def test_the_priority_resource_beats_the_containers_own_variable() -> None:
    pod = a_pod(needs({"gpu": 1, "priority": 5}, env={"CUDA_TASK_PRIORITY": "0"}))
    assert after(pod)[2] == {"CUDA_TASK_PRIORITY": "5"}


def test_a_priority_alone_requests_no_card() -> None:
    answer = accepted(a_pod(needs({"priority": 0})))
    assert not answer.containers
    assert answer.changes["c0"].env == {"CUDA_TASK_PRIORITY": "0"}


@pytest.mark.parametrize(
    ("policy", "own", "env"),
    [
        pytest.param("force", {}, {"GPU_CORE_UTILIZATION_POLICY": "force"}, id="ADM-N16"),
        pytest.param("default", {}, {}, id="default is the library's own"),
        pytest.param("", {}, {}, id="not configured"),
        pytest.param(
            "force", {"GPU_CORE_UTILIZATION_POLICY": "disable"}, {}, id="the container's own stays"
        ),
    ],
)
def test_the_core_policy_becomes_a_variable(
    policy: str, own: Mapping[str, str], env: Mapping[str, str]
) -> None:
    assert after(a_pod(needs({"gpu": 1}, env=own)), gpu_core_policy=policy)[2] == env


def test_the_core_policy_is_not_set_where_no_card_is_requested() -> None:
    pod = a_pod(needs({"gpu": 1}, name="gpu"), a_container(name="plain"))
    assert "plain" not in accepted(pod, gpu_core_policy="force").changes


@pytest.mark.parametrize(
    ("limits", "has", "want"),
    [
        pytest.param({"gpu": 1}, None, "nvidia", id="ADM-N17"),
        pytest.param({"gpu": 1}, "kata", "", id="the pod's own stays"),
        pytest.param({"gpu": 0}, None, "", id="asks for nothing"),
    ],
)
def test_the_runtime_class_is_set_where_the_pod_has_none(
    limits: Amounts, has: str | None, want: str
) -> None:
    pod = a_pod(needs(limits), runtime_class_name=has)
    assert accepted(pod, runtime_class_name="nvidia").runtime_class == want


def test_cards_are_hidden_from_containers_that_request_none() -> None:
    pod = a_pod(needs({"gpu": 1}, name="gpu"), a_container(name="plain"))
    changes = accepted(pod, overwrite_env=True).changes
    assert changes["plain"].env == {"NVIDIA_VISIBLE_DEVICES": "none"}
    assert "NVIDIA_VISIBLE_DEVICES" not in changes["gpu"].env


def test_init_containers_are_completed_too() -> None:
    pod = a_pod(needs({"gpu": 1, "mem": 1}), init=(needs({"core": 5}),))
    assert accepted(pod).changes["init0"].limits == {GPU: "1"}


def test_a_count_of_0_requests_nothing_and_changes_nothing() -> None:
    """PRB-19; HAMi adds gpucores: 100 there."""
    answer = accepted(a_pod(needs({"gpu": 0}, {"gpu": 0})))
    assert not answer.containers
    assert not answer.changes


def test_amounts_next_to_a_count_of_0_are_reported() -> None:
    (warning,) = accepted(a_pod(needs({"gpu": 0, "mem": 100}))).warnings
    assert warning == (
        f"spec.containers[0].resources.limits[{MEM}]: not used: {GPU} asks for 0 cards"
    )


def test_a_pod_without_containers_requests_nothing() -> None:
    """WH-04: the API server refuses it by itself."""
    (outcome,) = plan([a_pod()], [a_gpu_node("a")])
    assert outcome.verdict == "ignored"


@pytest.mark.parametrize(
    ("limits", "options", "field", "remedy"),
    [
        ({"gpu": 1, "pct": 101}, {}, PCT, "write at most 100"),
        ({"gpu": 1, "pct": -1}, {}, PCT, "write 0 or more"),
        ({"gpu": -1}, {}, GPU, "write 0 or more"),
        ({"gpu": "1.5"}, {}, GPU, "write a whole number"),
        ({"gpu": "500m"}, {}, GPU, "write a whole number"),
        ({"gpu": "one"}, {}, GPU, "is not a quantity"),
        ({"gpu": 1, "mem": "16Gi"}, {}, MEM, "For 16 GiB write 16384"),
        ({"gpu": 1, "mem": 2**31}, {}, MEM, "Write at most 4194304; if bytes were meant, 2048."),
        ({"gpu": 1, "mem": 2**30}, {"memory_factor": 2}, MEM, "if bytes were meant, 512"),
        ({"gpu": 2**31}, {}, GPU, "write at most"),
        ({"gpu": 1, "core": -5}, {}, CORE, "write 0 or more"),
        ({"gpu": 1, "core": "1e30"}, {}, CORE, "does not fit"),
        ({"mem": 100}, {"default_gpu_num": 0}, MEM, "add nvidia.com/gpu: 1"),
        ({"core": 100}, {"default_gpu_num": 0}, CORE, "add nvidia.com/gpu: 1"),
        ({"gpu": 1, "priority": -1}, {}, "nvidia.com/priority", "write 0 or more"),
    ],
)
def test_amounts_that_make_no_sense_are_refused(
    limits: Amounts, options: Mapping[str, Any], field: str, remedy: str
) -> None:
    answer = rejected(a_pod(needs(limits)), **options)
    assert answer.field == f"spec.containers[0].resources.limits[{field}]"
    assert answer.value == str(long(limits)[field])
    assert remedy in answer.remedy


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        (NUMA_BIND, "yes", "write true or false"),
        (WEIGHTS, "slot=1", "slot, core and memory once each"),
        ("nvidia.com/use-gpuuuid", "a,b", "nvidia.com/nouse-gpuuuid denies all of it"),
        ("nvidia.com/use-gputype", "a100", "nvidia.com/nouse-gputype denies all of it"),
    ],
)
def test_annotations_that_make_no_sense_are_refused(key: str, value: str, remedy: str) -> None:
    notes = {"nvidia.com/nouse-gpuuuid": "b,a,c", "nvidia.com/nouse-gputype": "A100", key: value}
    answer = rejected(a_pod(needs({"gpu": 1}), annotations=notes))
    assert (answer.field, answer.value) == (f"metadata.annotations[{key}]", value)
    assert remedy in answer.remedy


def test_annotations_of_a_pod_that_requests_nothing_are_not_evaluated() -> None:
    assert not accepted(a_pod(needs({"gpu": 0}), annotations={WEIGHTS: "x"})).containers


@pytest.mark.parametrize(
    ("limits", "notes", "env", "words"),
    [
        ({"gpu": 1, "core": 120}, {}, {}, "120 counts as 100"),
        ({"gpu": 1, "mem": 1, "pct": 5}, {}, {}, "not used: nvidia.com/gpumem counts"),
        ({"gpu": 1}, {}, {"CUDA_DISABLE_CONTROL": "true"}, "CUDA_DISABLE_CONTROL=true: not used"),
        ({"gpu": 1}, {}, {"NVIDIA_VISIBLE_DEVICES": "all"}, "NVIDIA_VISIBLE_DEVICES=all: not used"),
        ({"gpu": 1}, {"nvidia.com/vgpu-mode": "mig"}, {}, "cards in MIG mode are left alone"),
        ({"gpu": 2}, {"nvidia.com/use-gpuuuid": "a"}, {}, "1 cards are allowed and 2 asked"),
        ({"gpu": 1}, {"hami.io/gpu-scheduler-policy": "binpak"}, {}, "binpak: no such policy"),
        ({"gpu": 1}, {"hami.io/node-scheduler-policy": "Spread"}, {}, "Spread: no such policy"),
    ],
)
def test_what_has_no_effect_is_reported(
    limits: Amounts, notes: Mapping[str, str], env: Mapping[str, str], words: str
) -> None:
    (warning,) = accepted(a_pod(needs(limits, env=env), annotations=notes)).warnings
    assert words in warning


def test_control_that_is_not_switched_off_is_no_event() -> None:
    pod = a_pod(needs({"gpu": 1}, env={"CUDA_DISABLE_CONTROL": "false"}))
    assert not accepted(pod).warnings


def test_other_resource_names_can_be_configured() -> None:
    names = {"count": "x.com/cards", "memory": "x.com/mem"}
    answer = accepted(a_pod(a_container({"x.com/cards": 1, "x.com/mem": 5, GPU: 3})), **names)
    assert [c.requests[0].count for c in answer.containers] == [1]
    assert answer.changes["c0"].limits == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": "nvidia.com/gpu"}, "five different names"),
        ({"memory_factor": 0}, "memory_factor 0"),
        ({"default_cores": 101}, "default_cores 101"),
        ({"gpu_core_policy": "on"}, "gpu_core_policy on"),
        ({"node_scheduler_policy": "pack"}, "node_scheduler_policy pack"),
        ({"gpu_scheduler_policy": "numa,pack"}, "gpu_scheduler_policy numa,pack"),
        ({"typo": 1}, "typo"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(
    options: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        admitted(a_pod(), **options)


QUANTITIES = st.none() | st.integers(-1, 130) | st.sampled_from(["1k", "16Gi", "x", "0.5", "100"])


@given(
    st.fixed_dictionaries(dict.fromkeys(("gpu", "mem", "pct", "core", "priority"), QUANTITIES)),
    st.fixed_dictionaries(dict.fromkeys(("gpu", "mem", "core"), QUANTITIES)),
    st.sampled_from([{}, {"gpu_core_policy": "force", "overwrite_env": True}]),
)
def test_an_admitted_pod_is_admitted_again_without_changes(
    limits: dict[str, Quantity | None],
    requests: dict[str, Quantity | None],
    options: Mapping[str, Any],
) -> None:
    pod = a_pod(
        needs(
            {k: v for k, v in limits.items() if v is not None},
            {k: v for k, v in requests.items() if v is not None},
        ),
        a_container(),
    )
    first = admitted(pod, **options)
    if isinstance(first, Rejected):
        return
    changed = replace(
        pod,
        spec=replace(
            pod.spec,
            containers=tuple(
                a_container(
                    {**c.resources.limits, **first.changes.get(c.name, ContainerChange()).limits},
                    {
                        **c.resources.requests,
                        **first.changes.get(c.name, ContainerChange()).requests,
                    },
                    name=c.name,
                    env=first.changes.get(c.name, ContainerChange()).env,
                )
                for c in pod.spec.containers
            ),
        ),
    )
    again = accepted(changed, **options)
    assert not again.changes
    assert again.containers == first.containers
