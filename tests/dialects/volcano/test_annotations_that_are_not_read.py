"""A user who writes an annotation about cards that is not read is warned."""

from __future__ import annotations

import pytest

from tessera_schema.kube import Container
from tessera_testing.builders import a_pod
from tests.dialects.volcano.setting import accepted, memory, number, vgpu

OF_VGPU = (
    "volcano.sh/vgpu-mode",
    "volcano.sh/vgpu-use-gpuuuid",
    "volcano.sh/vgpu-nouse-gpuuuid",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
)
OF_HAMI = {
    "nvidia.com/use-gpuuuid": "volcano.sh/vgpu-use-gpuuuid",
    "nvidia.com/nouse-gpuuuid": "volcano.sh/vgpu-nouse-gpuuuid",
    "nvidia.com/vgpu-mode": "volcano.sh/vgpu-mode",
}


@pytest.mark.parametrize("container", [memory(1), number(1)], ids=["memory", "number"])
@pytest.mark.parametrize("key", [*OF_VGPU, *OF_HAMI])
def test_gpushare_does_not_choose_among_cards(container: Container, key: str) -> None:
    (reported,) = accepted(a_pod(container, annotations={key: "GPU-1"})).warnings
    assert reported.startswith(f"metadata.annotations[{key}]: GPU-1: is not read")
    assert "vgpu-number" in reported


@pytest.mark.parametrize(("key", "own"), list(OF_HAMI.items()))
def test_vgpu_reads_its_own_keys_and_not_those_of_hami(key: str, own: str) -> None:
    answer = accepted(a_pod(vgpu(1), annotations={key: "GPU-1"}))
    assert [w for w in answer.warnings if key in w and f"write {own}" in w] == list(answer.warnings)
    (container,) = answer.containers
    assert container.requests[0].ids == ()


def test_what_is_read_is_not_reported() -> None:
    notes = {"volcano.sh/vgpu-mode": "hami-core", "nvidia.com/use-gputype": "P4"}
    assert accepted(a_pod(vgpu(1), annotations=notes)).warnings == ()
    assert accepted(a_pod(vgpu(0), annotations=OF_HAMI)).containers == ()
    assert accepted(a_pod(memory(1))).warnings == ()
