"""Names that look like accelerators and that no dialect owns are never passed over in silence."""

from __future__ import annotations

import pytest

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.foreign_resources import MOST_NAMES, foreign_resource, foreign_resources
from tessera_core.registry.registry import load
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan

REGISTRY = load(installed=True)
LIMIT = "spec.containers[0].resources.limits"


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("nvidia.com/gpus", "no dialect owns nvidia.com/gpus; did you mean nvidia.com/gpu?"),
        ("nvidia.com/GPU", "no dialect owns nvidia.com/GPU; did you mean nvidia.com/gpu?"),
        ("nvida.com/gpumem", "no dialect owns nvida.com/gpumem; did you mean nvidia.com/gpumem?"),
        ("volcano.sh/vgpu_number",
         "no dialect owns volcano.sh/vgpu_number; did you mean volcano.sh/vgpu-number?"),
        ("tencent.com/vcuda-memroy",
         "no dialect owns tencent.com/vcuda-memroy; did you mean tencent.com/vcuda-memory?"),
        ("iluvatar.ai/BI-V200-vgpu",
         "no dialect owns iluvatar.ai/BI-V200-vgpu; did you mean iluvatar.ai/BI-V100-vgpu?"),
    ],
)  # fmt: skip
def test_the_nearest_known_name_is_named(name: str, reported: str) -> None:
    assert foreign_resource(REGISTRY, name) == reported


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("nvidia.com/mig-1g.10gb", "NVIDIA's device plugin (MIG, strategy mixed)"),
        ("aliyun.com/gpu-mem", "Alibaba's gpushare"),
        ("iluvatar.com/gpu", "Iluvatar's device plugin of whole cards"),
        ("amd.com/gpu", "AMD's device plugin"),
        ("huawei.com/Ascend910B", "Huawei's Ascend device plugin"),
    ],
)
def test_of_another_systems_name_it_is_said_whose_it_is(name: str, owner: str) -> None:
    reported = f"{name} belongs to {owner}, which Tessera does not serve"
    assert foreign_resource(REGISTRY, name) == reported


def test_another_systems_name_may_be_nearly_a_known_one() -> None:
    assert foreign_resource(REGISTRY, "mthreads.com/gpu") == (
        "mthreads.com/gpu belongs to Moore Threads' device plugin of whole cards, which Tessera "
        "does not serve; did you mean mthreads.com/vgpu?"
    )


def test_below_a_known_domain_the_known_names_are_listed() -> None:
    assert foreign_resource(REGISTRY, "mthreads.com/cores") == (
        "no dialect owns mthreads.com/cores; known below mthreads.com/ are "
        "mthreads.com/sgpu-core, mthreads.com/sgpu-memory, mthreads.com/vgpu"
    )


@pytest.mark.parametrize(
    "name",
    ["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu", "koordinator.sh/gpu.shared", "rdma/hca",
     "example.com/dongle", "kubernetes.io/batch-cpu", "smarter-devices/fuse"],
)  # fmt: skip
def test_of_what_is_known_and_of_what_is_no_accelerator_nothing_is_said(name: str) -> None:
    assert foreign_resource(REGISTRY, name) is None


def test_names_follow_the_configuration() -> None:
    renamed = load({"hami": {"count": "acme.com/gpu"}, "mthreads": {"enabled": False}})
    assert foreign_resource(renamed, "acme.com/gpus") == (
        "no dialect owns acme.com/gpus; did you mean acme.com/gpu?"
    )
    assert foreign_resource(renamed, "mthreads.com/vgpu") is None  # known, though switched off


def test_a_pod_is_warned_field_by_field() -> None:
    pod = a_pod(
        a_container({"nvidia.com/gpus": 1, "cpu": 2}),
        a_container({"nvidia.com/gpus": 1}, {"aliyun.com/gpu-mem": "3"}),
        a_container({"amd.com/gpu": 0}),
    )
    assert foreign_resources(REGISTRY, pod) == (
        f"{LIMIT}[nvidia.com/gpus]: no dialect owns nvidia.com/gpus; did you mean nvidia.com/gpu?",
        "spec.containers[1].resources.requests[aliyun.com/gpu-mem]: aliyun.com/gpu-mem belongs to "
        "Alibaba's gpushare, which Tessera does not serve",
    )


def test_a_pod_that_requests_by_such_a_name_alone_is_not_ignored_in_silence() -> None:
    (outcome,) = plan([a_pod(a_container({"nvidia.com/gpus": 1}))], [a_node()])
    assert outcome.verdict is Verdict.IGNORED
    assert outcome.message.endswith("did you mean nvidia.com/gpu?")
    (plain,) = plan([a_pod(a_container({"cpu": 1}))], [a_node()])
    assert plain.message == "asks for no accelerator"


def test_next_to_a_known_name_it_is_a_warning_at_creation() -> None:
    pod = a_pod(a_container({"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}))
    admission = admit(REGISTRY, pod)
    assert isinstance(admission, AdmittedPod)
    (warning,) = admission.warnings
    assert warning.startswith(f"{LIMIT}[nvidia.com/mig-1g.10gb]: nvidia.com/mig-1g.10gb belongs")


def test_of_a_pod_with_many_such_names_some_are_examined() -> None:
    names = {f"nvidia.com/gpu{i:03}": 1 for i in range(1000)}
    assert len(foreign_resources(REGISTRY, a_pod(a_container(names)))) == MOST_NAMES
