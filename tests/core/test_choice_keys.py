"""An annotation that is nearly a key by which cards are chosen is reported."""

from __future__ import annotations

import pytest

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.choice_keys import MOST_LOOKED_AT
from tessera_core.registry.registry import load
from tessera_schema.kube import Quantity
from tessera_testing.builders import a_container, a_pod

REGISTRY = load()
HAMI: dict[str, Quantity] = {"nvidia.com/gpu": 1}
MTHREADS: dict[str, Quantity] = {"mthreads.com/vgpu": 1}


def reported(limits: dict[str, Quantity], *keys: str) -> list[str]:
    pod = a_pod(a_container(limits), annotations=dict.fromkeys(keys, "GPU-1"))
    admission = admit(REGISTRY, pod)
    assert isinstance(admission, AdmittedPod)
    return [w for w in admission.warnings if "nobody reads it" in w]


@pytest.mark.parametrize(
    ("limits", "key", "meant"),
    [
        (HAMI, "nvidia.com/use-gpuuid", "nvidia.com/use-gpuuuid"),
        (HAMI, "nvidia.com/use-gputypes", "nvidia.com/use-gputype"),
        (HAMI, "hami.io/gpu-scheduler-polcy", "hami.io/gpu-scheduler-policy"),
        (MTHREADS, "mthreads.com/use-gpuuuid", "mthreads.ai/use-gpuuuid"),
    ],
)
def test_the_key_that_was_meant_is_named(limits: dict[str, Quantity], key: str, meant: str) -> None:
    assert reported(limits, key) == [f"metadata.annotations[{key}]: nobody reads it; write {meant}"]


@pytest.mark.parametrize(
    "key",
    ["nvidia.com/nouse-gpuuuid", "nvidia.com/anything-else", "team.example/use-this", "note",
     "volcano.sh/vgpu-mode"],
)  # fmt: skip
def test_keys_that_are_read_or_are_other_peoples_are_not(key: str) -> None:
    assert reported(HAMI, key) == []


def test_a_pod_with_many_annotations_costs_no_more() -> None:
    keys = [f"nvidia.com/use-gpuuid{chr(97 + i % 26)}{'' if i < 26 else 'x'}" for i in range(52)]
    assert len(reported(HAMI, *keys)) <= MOST_LOOKED_AT
